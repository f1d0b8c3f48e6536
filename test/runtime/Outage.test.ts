/** Storage that fails for a moment: no driver goes deaf, and no result is lost. */
import { assert, layer } from "@effect/vitest"
import { Claim } from "@turnstep/core/Claim"
import * as MemoryStore from "@turnstep/core/MemoryStore"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Deferred from "effect/Deferred"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { TestClock } from "effect/testing"
import * as Sound from "../fixtures/Sound.ts"
import * as Stores from "../fixtures/Stores.ts"
import * as Tools from "../fixtures/Tools.ts"
import * as World from "../fixtures/World.ts"

const { calls, script, text } = StrictProvider

/** A world whose storage fails when the test says so. */
const failing = Effect.fnUntraced(function* (respond: StrictProvider.Respond) {
  const away = { reads: false, writes: false, refused: 0 }
  const world = yield* World.withTools({
    respond,
    around: (journal) => ({
      ...journal,
      read: (id, page) => Effect.suspend(() => (away.reads ? Effect.die(new Error("away")) : journal.read(id, page))),
      append: (write) =>
        Effect.suspend(() => {
          if (!away.writes) return journal.append(write)
          away.refused++
          return Effect.die(new Error("away"))
        })
    })
  })
  return { ...world, away }
})

layer(MemoryStore.layer, Stores.live)("A driver whose read failed", (it) => {
  it.effect("obeys a cancel as soon as it can read again", () =>
    Effect.gen(function* () {
      const reached = yield* Deferred.make<void>()
      const world = yield* failing(script([calls([Tools.call("look", "long")])]))
      world.tools.on("long", Effect.andThen(Deferred.succeed(reached, undefined), Effect.never))
      yield* world.session.send("go")
      yield* Deferred.await(reached)
      world.away.reads = true
      yield* world.session.cancel("trn_1")
      yield* Effect.repeat(Effect.sleep("5 millis"), {
        until: () => world.logged.some((line) => line.includes("could not be read"))
      })
      world.away.reads = false
      assert.strictEqual((yield* World.ended(world.session, 1)).type, "turn.cancelled")
      assert.isEmpty(yield* Sound.complaints(world.session, world.provider, world.tools))
    })
  )

  it.effect("answers a message to its idle session as soon as it can read again", () =>
    Effect.gen(function* () {
      const world = yield* failing(() => text("done"))
      yield* world.session.run("go")
      world.away.reads = true
      yield* world.session.send("again")
      yield* Effect.repeat(Effect.sleep("5 millis"), {
        until: () => world.logged.some((line) => line.includes("could not be read"))
      })
      world.away.reads = false
      yield* World.ended(world.session, 2)
    })
  )
})

// The clock stands still: nothing of this is the doing of time.
layer(MemoryStore.layer)("A session that is held and idle", (it) => {
  it.effect("answers a message at once", () =>
    Effect.gen(function* () {
      const world = yield* World.withTools({ respond: () => text("done") })
      yield* world.session.run("one")
      assert.strictEqual((yield* world.session.run("two"))._tag, "Answered")
    })
  )

  it.effect("is held until a tool that was left behind in it has ended", () =>
    Effect.gen(function* () {
      const gate = yield* Tools.gate
      const world = yield* World.withTools({ respond: script([calls([Tools.call("pay", "slow")])]) })
      world.tools.on("slow", Effect.uninterruptible(Effect.as(gate.pass, "paid")))
      yield* world.session.send("go")
      yield* gate.reached
      yield* world.session.cancel("trn_1")
      const ended = yield* Effect.forkChild(World.ended(world.session, 1))
      yield* Effect.repeat(
        Effect.andThen(TestClock.adjust("1 second"), Effect.repeat(Effect.yieldNow, { times: 50 })),
        {
          until: () => ended.pollUnsafe() !== undefined
        }
      )
      for (let seconds = 0; seconds < 90; seconds++) {
        yield* TestClock.adjust("1 second")
        yield* Effect.repeat(Effect.yieldNow, { times: 20 })
      }
      yield* gate.open
      assert.strictEqual((yield* World.until(world.session, ({ type }) => type === "call.late")).type, "call.late")
    })
  )

  it.effect("is read page by page when it is taken up", () =>
    Effect.gen(function* () {
      const pages: Array<number | undefined> = []
      const world = yield* World.withTools({
        respond: ({ index }) => (index < 60 ? calls([Tools.call("look", `${index}`)]) : text("done")),
        policy: { maxSteps: 100 },
        around: (journal) => ({
          ...journal,
          read: (id, page) => {
            pages.push(page.limit)
            return journal.read(id, page)
          }
        })
      })
      yield* world.session.run("go")
      yield* world.stop
      pages.length = 0
      const next = yield* (yield* world.start).sessions.get(world.session.id)
      assert.strictEqual((yield* next.run("more"))._tag, "Answered")
      assert.notInclude(pages.slice(0, 2), undefined)
      assert.isAbove(pages.length, 2)
    })
  )
})

layer(MemoryStore.layer, Stores.live)("A result whose write fails", (it) => {
  it.effect("is recorded by itself when storage takes it again at once", () =>
    Effect.gen(function* () {
      let failures = 0
      const world = yield* World.withTools({
        respond: script([calls([Tools.call("pay", "a")]), text("done")]),
        around: (journal) => ({
          ...journal,
          append: (write) =>
            Effect.suspend(() =>
              write.facts.some(({ type }) => type === "step.completed") && failures++ === 0
                ? Effect.die(new Error("away"))
                : journal.append(write)
            )
        })
      })
      yield* world.session.send("go")
      assert.strictEqual((yield* World.ended(world.session, 1)).type, "turn.completed")
      assert.deepStrictEqual(World.answers(yield* World.events(world.session)), { a: "ok" })
      assert.lengthOf(world.tools.started, 1)
    })
  )

  it.effect("is kept by the process until storage takes it", () =>
    Effect.gen(function* () {
      const gate = yield* Tools.gate
      const world = yield* failing(script([calls([Tools.call("pay", "a"), Tools.call("look", "b")]), text("done")]))
      world.tools.on("a", Effect.as(gate.pass, "paid"))
      yield* world.session.send("go")
      yield* gate.reached
      world.away.writes = true
      yield* gate.open
      yield* Effect.repeat(Effect.sleep("5 millis"), {
        until: () => world.logged.some((line) => line.includes("left alone"))
      })
      world.away.writes = false
      assert.strictEqual((yield* World.ended(world.session, 1)).type, "turn.completed")
      assert.deepStrictEqual(World.answers(yield* World.events(world.session)), { a: "ok", b: "ok" })
      assert.deepStrictEqual(Tools.startedActs(world.tools).toSorted(), ["a", "b"])
      assert.isEmpty(yield* Sound.complaints(world.session, world.provider, world.tools))
    })
  )

  it.effect("is kept when the Turn is told to stop meanwhile", () =>
    Effect.gen(function* () {
      const gate = yield* Tools.gate
      const world = yield* failing(script([calls([Tools.call("pay", "a"), Tools.call("pay", "b")])]))
      const written = yield* Deferred.make<void>()
      world.tools.on("a", Effect.as(gate.pass, "paid"))
      world.tools.on("b", Effect.andThen(Deferred.succeed(written, undefined), Effect.never))
      yield* world.session.send("go")
      yield* gate.reached
      yield* Deferred.await(written)
      world.away.writes = true
      yield* gate.open
      yield* Effect.repeat(Effect.sleep("5 millis"), {
        until: () => world.away.refused > 0
      })
      world.away.writes = false
      yield* world.session.cancel("trn_1")
      assert.strictEqual((yield* World.ended(world.session, 1)).type, "turn.cancelled")
      assert.deepStrictEqual(World.answers(yield* World.events(world.session)), { a: "ok", b: "outcome-unknown" })
    })
  )
})

// A process forgets a failed session after ten minutes where another one has taken it up; this outage is longer.
layer(MemoryStore.layer)("A result whose write fails in a long outage", (it) => {
  it.effect("is kept by the process until storage answers again", () =>
    Effect.gen(function* () {
      const gate = yield* Tools.gate
      let isAway = false
      const unlessAway = <A, E>(asked: Effect.Effect<A, E>) =>
        Effect.suspend(() => (isAway ? Effect.die(new Error("away")) : asked))
      const world = yield* World.withTools({
        respond: script([calls([Tools.call("pay", "a")]), text("done")]),
        around: (journal) => ({
          ...journal,
          read: (id, page) => unlessAway(journal.read(id, page)),
          append: (write) => unlessAway(journal.append(write)),
          unattended: (agents, limit) => unlessAway(journal.unattended(agents, limit))
        })
      })
      world.tools.on("a", Effect.as(gate.pass, "paid"))
      yield* world.session.send("go")
      yield* gate.reached
      isAway = true
      yield* gate.open
      const pass = (step: Duration.Input, times: number) =>
        Effect.repeat(
          Effect.gen(function* () {
            yield* TestClock.adjust(step)
            // A request to the provider is a real one.
            yield* Effect.promise(() => new Promise((resolve) => setImmediate(() => setImmediate(resolve))))
            yield* Effect.repeat(Effect.yieldNow, { times: 100 })
          }),
          { times }
        )
      yield* pass("2 seconds", 5)
      assert.isTrue(world.logged.some((line) => line.includes("left alone")))
      yield* pass("1 minute", 20)
      isAway = false
      yield* pass("2 seconds", 10)
      const events = yield* World.events(world.session)
      assert.deepStrictEqual(World.answers(events), { a: "ok" })
      assert.strictEqual(events.at(-2)?.type, "turn.completed")
      assert.lengthOf(world.tools.started, 1)
    })
  )
})

layer(MemoryStore.layer)("An owner whose lease has run out", (it) => {
  it.effect("asks no model, and lets go of the session", () =>
    Effect.gen(function* () {
      const gate = yield* Tools.gate
      let isCurrent = true
      const { acquire, release } = yield* Claim
      const lapsing = Claim.of({
        acquire: (id) => Effect.map(acquire(id), (held) => ({ ...held, isCurrent: Effect.sync(() => isCurrent) })),
        release
      })
      const admitting = yield* World.withTools({
        respond: script([calls([Tools.call("look", "a")]), text("done")])
      }).pipe(Effect.provideService(Claim, lapsing))
      admitting.tools.on("a", Effect.as(gate.pass, "seen"))
      yield* admitting.session.send("go")
      yield* gate.reached
      isCurrent = false
      yield* gate.open
      yield* Effect.repeat(Effect.yieldNow, { times: 1000 })
      assert.lengthOf(admitting.provider.requests, 1)
      isCurrent = true
      const ended = yield* Effect.forkChild(World.ended(admitting.session, 1))
      yield* TestClock.adjust("2 seconds")
      assert.strictEqual((yield* Fiber.join(ended)).type, "turn.completed")
      assert.lengthOf(admitting.provider.requests, 2)
    })
  )
})
