import { assert, layer } from "@effect/vitest"
import { Claim } from "@turnstep/core/Claim"
import { Doorbell } from "@turnstep/core/Doorbell"
import type { SessionId } from "@turnstep/core/Ids"
import { Journal } from "@turnstep/core/Journal"
import * as MemoryStore from "@turnstep/core/MemoryStore"
import * as Drivers from "@turnstep/runtime/Drivers"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as PubSub from "effect/PubSub"
import * as References from "effect/References"
import * as Stream from "effect/Stream"
import * as Tracer from "effect/Tracer"
import { TestClock } from "effect/testing"
import * as Stores from "../fixtures/Stores.ts"
import * as Tools from "../fixtures/Tools.ts"
import * as World from "../fixtures/World.ts"

const { calls, script, text } = StrictProvider

/** What an application keeps in the context of a request. */
const Tenant = Context.Reference<string>("test/Tenant", { defaultValue: () => "nobody" })
class Request extends Context.Service<Request, string>()("test/Request") {}

layer(MemoryStore.layer, Stores.live)("Drivers", (it) => {
  it.effect("run as many Turns at once as there are workers, and the others after them", () =>
    Effect.gen(function* () {
      const gate = yield* Tools.gate
      const world = yield* World.withTools({
        respond: ({ index }) => (index === 1 ? text([gate.pass, "long"]) : text("short"))
      })
      const held = yield* world.sessions.open()
      yield* held.run("zero")
      const other = yield* world.sessions.open()
      yield* world.session.send("one")
      yield* gate.reached
      yield* other.send("two")
      yield* held.send("three")
      // Long enough for a Turn to begin.
      yield* Effect.repeat(Effect.yieldNow, { times: 1000 })
      assert.lengthOf(world.provider.requests, 2)
      yield* gate.open
      yield* World.ended(other, 1)
      yield* World.ended(held, 2)
      assert.lengthOf(world.provider.requests, 4)
    }).pipe(Effect.provideService(Drivers.Workers, 1))
  )

  it.effect("run nothing without workers: what is admitted waits for a process that has some", () =>
    Effect.gen(function* () {
      const admitting = yield* Effect.provideService(
        World.withTools({ respond: script([text("done")]) }),
        Drivers.Workers,
        0
      )
      assert.strictEqual((yield* admitting.session.send("go")).effect, "started")
      assert.deepStrictEqual(
        (yield* World.events(admitting.session)).map(({ type }) => type),
        ["session.created", "inbox.admitted"]
      )
      const running = yield* admitting.start
      yield* World.ended(yield* running.sessions.get(admitting.session.id), 1)
    })
  )

  it.effect("see nothing of the context of whoever sent the message, and link the Turn to its trace", () =>
    Effect.gen(function* () {
      const seen: Array<unknown> = []
      const spans: Array<Tracer.Span> = []
      const tracer = Tracer.make({
        span: (options) => {
          const span = new Tracer.NativeSpan(options)
          if (options.name === "Turn.run") spans.push(span)
          return span
        }
      })
      const world = yield* Effect.provideService(
        World.withTools({
          respond: ({ index }) => (index % 2 === 0 ? calls([Tools.call("look", `at ${index}`)]) : text("done"))
        }),
        Tracer.Tracer,
        tracer
      )
      for (const index of [0, 2]) {
        world.tools.on(
          `at ${index}`,
          Effect.gen(function* () {
            const logged = yield* References.CurrentLogAnnotations
            seen.push([yield* Tenant, Option.isSome(yield* Effect.serviceOption(Request)), logged["request"]])
            return "seen"
          })
        )
      }
      const senders: Array<string> = []
      for (const request of ["first", "second"]) {
        yield* Effect.currentSpan.pipe(
          Effect.tap((span) => Effect.sync(() => senders.push(span.traceId))),
          Effect.andThen(world.session.run("go")),
          Effect.withSpan(request, { root: true }),
          Effect.annotateLogs("request", request),
          Effect.provideService(Tenant, request),
          Effect.provideService(Request, request),
          Effect.provideService(Tracer.Tracer, tracer)
        )
      }
      assert.deepStrictEqual(seen, [
        ["nobody", false, undefined],
        ["nobody", false, undefined]
      ])
      assert.deepStrictEqual(
        spans.map(({ links, traceId }) => [links.map(({ span }) => span.traceId), senders.includes(traceId)]),
        senders.map((sender) => [[sender], false])
      )
    })
  )

  it.effect("claim no more sessions than they have workers for, however long a claim takes", () =>
    Effect.gen(function* () {
      const gate = yield* Tools.gate
      const admitting = yield* Effect.provideService(
        World.withTools({ respond: () => text([gate.pass, "done"]) }),
        Drivers.Workers,
        0
      )
      const sessions = yield* Effect.forEach([1, 2, 3], () => admitting.sessions.open())
      yield* Effect.forEach(sessions, (session) => session.send("go"))
      const { acquire, release } = yield* Claim
      let claims = 0
      const slow = Claim.of({
        acquire: (id) => Effect.suspend(() => (claims++, Effect.andThen(Effect.yieldNow, acquire(id)))),
        release
      })
      const store = Context.make(Journal, yield* Journal).pipe(Context.add(Claim, slow))
      const running = yield* Effect.provideService(admitting.startOn(store), Drivers.Workers, 1)
      yield* gate.reached
      assert.strictEqual(claims, 1)
      yield* gate.open
      yield* Effect.forEach(sessions, ({ id }) =>
        Effect.flatMap(running.sessions.get(id), (session) => World.ended(session, 1))
      )
    })
  )

  it.effect("look for no other sessions when a Turn ends that kept none waiting", () =>
    Effect.gen(function* () {
      let sweeps = 0
      const world = yield* World.withTools({
        respond: () => text("done"),
        around: (journal) => ({
          ...journal,
          unattended: (...page) => Effect.suspend(() => (sweeps++, journal.unattended(...page)))
        })
      })
      for (let turn = 0; turn < 20; turn++) yield* world.session.run("go")
      // One at the start, and what the clock brings.
      assert.isBelow(sweeps, 5)
    })
  )

  it.effect("let go of a session that waits for a worker here while another process has one", () =>
    Effect.gen(function* () {
      const doors = yield* PubSub.unbounded<SessionId>()
      const doorbell: Doorbell = {
        ring: (id) => Effect.asVoid(PubSub.publish(doors, id)),
        rings: Stream.fromPubSub(doors)
      }
      const gate = yield* Tools.gate
      const world = yield* World.withTools({
        respond: ({ index }) => (index === 1 ? text([gate.pass, "long"]) : text("short"))
      }).pipe(Effect.provideService(Doorbell, doorbell), Effect.provideService(Drivers.Workers, 1))
      yield* world.session.run("held from now on")
      const other = yield* world.sessions.open()
      yield* other.send("go")
      yield* gate.reached
      const there = yield* Effect.provideService(world.start, Doorbell, doorbell)
      yield* world.session.send("again")
      yield* World.ended(yield* there.sessions.get(world.session.id), 2)
      yield* gate.open
      yield* World.ended(other, 1)
    })
  )

  it.effect("ring once for a session that finds no worker, though they hear their own doorbell", () =>
    Effect.gen(function* () {
      const doors = yield* PubSub.unbounded<SessionId>()
      const rung: Array<SessionId> = []
      const doorbell: Doorbell = {
        ring: (id) => Effect.suspend(() => (rung.push(id), Effect.asVoid(PubSub.publish(doors, id)))),
        rings: Stream.fromPubSub(doors)
      }
      const gate = yield* Tools.gate
      const world = yield* World.withTools({ respond: () => text([gate.pass, "done"]) }).pipe(
        Effect.provideService(Doorbell, doorbell)
      )
      const others = yield* Effect.forEach([1, 2], () => world.sessions.open())
      yield* world.session.send("one")
      yield* gate.reached
      yield* Effect.forEach(others, (other) => other.send("another"))
      // Long enough for who hears a ring to ring again, many times over.
      yield* Effect.repeat(Effect.yieldNow, { times: 1000 })
      assert.deepStrictEqual(
        rung,
        others.map(({ id }) => id)
      )
      yield* gate.open
      yield* Effect.forEach(others, (other) => World.ended(other, 1))
    }).pipe(Effect.provideService(Drivers.Workers, 1))
  )

  it.effect("leave sessions alone whose agent they do not know", () =>
    Effect.gen(function* () {
      const admitting = yield* Effect.provideService(
        World.withTools({ respond: script([text("done")]) }),
        Drivers.Workers,
        0
      )
      yield* admitting.session.send("go")
      // Another world has another agent. It sweeps at its start.
      const stranger = yield* World.withTools({ respond: script([text("mine")]) })
      yield* stranger.session.run("mine")
      assert.deepStrictEqual(
        (yield* World.events(admitting.session)).map(({ type }) => type),
        ["session.created", "inbox.admitted"]
      )
      const running = yield* admitting.start
      yield* World.ended(yield* running.sessions.get(admitting.session.id), 1)
    })
  )

  it.effect(
    "ring and hang up when a message is admitted to an agent they do not know: who knows it answers at once",
    () =>
      Effect.gen(function* () {
        const doors = yield* PubSub.unbounded<SessionId>()
        const doorbell: Doorbell = {
          ring: (id) => Effect.asVoid(PubSub.publish(doors, id)),
          rings: Stream.fromPubSub(doors)
        }
        const { acquire, release } = yield* Claim
        const claimed: Array<string> = []
        const watched = Claim.of({ acquire: (id) => Effect.suspend(() => (claimed.push(id), acquire(id))), release })
        const knowing = yield* Effect.provideService(
          World.withTools({ respond: script([text("done")]) }),
          Doorbell,
          doorbell
        )
        const old = yield* World.withTools({ respond: script([]) }).pipe(
          Effect.provideService(Claim, watched),
          Effect.provideService(Doorbell, doorbell)
        )
        const here = yield* old.sessions.get(knowing.session.id)
        yield* here.send("go")
        assert.strictEqual((yield* World.ended(here, 1)).type, "turn.completed")
        assert.isEmpty(claimed)
      })
  )

  it.effect("let a running call come to its end when the process is told to stop, and begin nothing after it", () =>
    Effect.gen(function* () {
      const gate = yield* Tools.gate
      const world = yield* World.withTools({ respond: script([calls([Tools.call("pay", "once")]), text("done")]) })
      world.tools.on("once", Effect.as(gate.pass, "paid"))
      yield* world.session.send("go")
      yield* gate.reached
      const stopping = yield* Effect.forkChild(world.stop, { startImmediately: true })
      yield* gate.open
      yield* Fiber.join(stopping)
      const types = (yield* world.journal.read(world.session.id, { after: 0 })).map(({ type }) => type)
      assert.deepStrictEqual(types.slice(-3), ["call.completed", "step.completed", "step.started"])
      assert.lengthOf(world.provider.requests, 1)
    }).pipe(Effect.provideService(Drivers.Drain, Duration.seconds(20)))
  )

  it.effect("wait no longer than the drain for a call that does not end", () =>
    Effect.gen(function* () {
      const reached = yield* Deferred.make<void>()
      const world = yield* World.withTools({ respond: script([calls([Tools.call("look", "long")])]) })
      world.tools.on("long", Effect.andThen(Deferred.succeed(reached, undefined), Effect.never))
      yield* world.session.send("go")
      yield* Deferred.await(reached)
      yield* world.stop
      assert.notInclude(
        (yield* world.journal.read(world.session.id, { after: 0 })).map(({ type }) => type),
        "call.completed"
      )
    }).pipe(Effect.provideService(Drivers.Drain, Duration.millis(20)))
  )
})

// The clock stands still: nothing of this is the doing of the sweep that comes every two seconds.
layer(MemoryStore.layer)("A worker that is free", (it) => {
  it.effect("takes up what has waited for it, at once", () =>
    Effect.gen(function* () {
      const gate = yield* Tools.gate
      const world = yield* World.withTools({
        respond: ({ index }) => (index === 1 ? text([gate.pass, "long"]) : text("short"))
      })
      yield* world.session.run("zero")
      yield* Effect.repeat(Effect.yieldNow, { times: 1000 }) // Whatever was to be looked for at the start has been.
      const others = yield* Effect.forEach([1, 2], () => world.sessions.open())
      yield* world.session.send("one")
      yield* gate.reached
      yield* Effect.forEach(others, (other) => other.send("another"))
      yield* gate.open
      yield* Effect.forEach(others, (other) => World.ended(other, 1))
    }).pipe(Effect.provideService(Drivers.Workers, 1))
  )
})

layer(MemoryStore.layer)("A session whose driver died", (it) => {
  it.effect("is taken up as soon as any other once it has been driven again", () =>
    Effect.gen(function* () {
      let isBroken = false
      const world = yield* World.withTools({
        respond: () => text("done"),
        around: (journal) => ({
          ...journal,
          read: (id, page) => (isBroken && page.after === 0 ? Effect.die("broken") : journal.read(id, page))
        })
      })
      const fail = Effect.gen(function* () {
        const before = world.logged.length
        isBroken = true
        yield* world.session.send("go")
        yield* Effect.repeat(Effect.yieldNow, { until: () => world.logged.length > before })
        isBroken = false
      })
      yield* fail
      yield* TestClock.adjust("2 seconds")
      yield* World.ended(world.session, 1)
      yield* TestClock.adjust("40 seconds") // It is idle, and let go of.
      yield* fail
      yield* TestClock.adjust("2 seconds")
      yield* World.ended(world.session, 2)
    })
  )
})
