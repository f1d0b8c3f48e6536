import { assert, describe } from "@effect/vitest"
import * as ToolPolicy from "@turnstep/core/ToolPolicy"
import * as Agent from "@turnstep/runtime/Agent"
import * as ToolCall from "@turnstep/runtime/ToolCall"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Sound from "../../fixtures/Sound.ts"
import type { It } from "../../fixtures/Stores.ts"
import * as World from "../../fixtures/World.ts"

const { calls, script, text } = StrictProvider

const parameters = Schema.Struct({ act: Schema.String })
const named = <const Name extends string>(name: Name, effects: ToolPolicy.EffectClass) =>
  Tool.make(name, { parameters, success: Schema.String, failure: Schema.String }).annotate(ToolPolicy.Effects, effects)

const thrice = Schedule.recurs(2)
const soon = Duration.millis(30)

const kit = Toolkit.make(
  named("parallel", "pure"),
  named("exclusive", "once").annotate(ToolPolicy.Exclusive, "one"),
  named("per_act", "once").annotate(ToolPolicy.Exclusive, (params) => JSON.stringify(params)),
  named("picky", "once").annotate(ToolPolicy.Exclusive, (params) =>
    (params as { readonly act: string }).act.toLowerCase()
  ),
  named("retried", "idempotent").annotate(ToolPolicy.Retry, thrice),
  named("retried_pure", "pure").annotate(ToolPolicy.Retry, thrice),
  named("not_retried", "once").annotate(ToolPolicy.Retry, thrice),
  named("stubborn", "once").annotate(ToolPolicy.Timeout, soon),
  named("patient", "once"),
  named("tells", "pure")
)

const Fussy = Toolkit.make(named("looks", "pure").annotate(ToolPolicy.Retry, thrice))

type Act = (act: string) => Effect.Effect<string, string>

/** A session whose model makes these calls at once; every tool does what `does` says. */
const worldOf = Effect.fnUntraced(function* (
  does: Readonly<Partial<Record<keyof typeof kit.tools, Act>>>,
  ...made: ReadonlyArray<readonly [keyof typeof kit.tools, string]>
) {
  const handler = (name: keyof typeof kit.tools) => (params: typeof parameters.Type) =>
    does[name]?.(params.act) ?? Effect.succeed(params.act)
  const world = yield* World.make({
    respond: script([calls(made.map(([name, act]) => ({ name, arguments: { act } }))), text("done"), text("again")]),
    agents: [Agent.make("a", { instructions: "i", toolkit: kit })],
    services: kit.toLayer({
      parallel: handler("parallel"),
      exclusive: handler("exclusive"),
      per_act: handler("per_act"),
      picky: handler("picky"),
      retried: handler("retried"),
      retried_pure: handler("retried_pure"),
      not_retried: handler("not_retried"),
      stubborn: handler("stubborn"),
      patient: handler("patient"),
      tells: handler("tells")
    })
  })
  return { ...world, session: yield* world.sessions.open() }
})

const attempts = (events: Effect.Success<ReturnType<typeof World.events>>) =>
  World.dataOf(events, "call.started").map(({ attempt }) => attempt)

export const suite = (it: It): void => {
  describe("Running calls", () => {
    it.effect("runs calls of one key one after the other in the order of the response, and others beside them", () =>
      Effect.gen(function* () {
        const log: Array<string> = []
        const both = yield* Deferred.make<void>()
        let inside = 0
        const exclusive: Act = (act) =>
          Effect.gen(function* () {
            assert.strictEqual(++inside, 1, "one at a time")
            log.push(act)
            // Ends only when a call of another kind has been started beside it.
            yield* Deferred.await(both)
            yield* Effect.yieldNow
            inside--
            return act
          })
        const { session } = yield* worldOf(
          { exclusive, parallel: (act) => Effect.as(Deferred.succeed(both, undefined), act) },
          ["exclusive", "a"],
          ["exclusive", "b"],
          ["exclusive", "c"],
          ["parallel", "d"]
        )
        yield* session.run("go")
        assert.deepStrictEqual(log, ["a", "b", "c"])
      })
    )

    it.effect("takes the key from the arguments where the policy says so", () =>
      Effect.gen(function* () {
        const isThere = { a: yield* Deferred.make<void>(), b: yield* Deferred.make<void>() }
        // Each waits for the other: with one key for both they would never end.
        const per_act: Act = (act) => {
          const [mine, other] = act === "a" ? [isThere.a, isThere.b] : [isThere.b, isThere.a]
          return Deferred.succeed(mine, undefined).pipe(Effect.andThen(Deferred.await(other)), Effect.as(act))
        }
        const { session } = yield* worldOf({ per_act }, ["per_act", "a"], ["per_act", "b"])
        assert.deepStrictEqual(World.brief(yield* session.run("go")), ["Answered", "done", 2])
      })
    )

    it.effect("answers a call whose arguments the key of its tool cannot be taken from, and the one beside it", () =>
      Effect.gen(function* () {
        const { session } = yield* worldOf({}, ["picky", 7 as unknown as string], ["picky", "fine"])
        assert.deepStrictEqual(World.brief(yield* session.run("go")), ["Answered", "done", 2])
        assert.sameDeepMembers(
          World.dataOf(yield* World.events(session), "call.completed").map(({ isFailure }) => isFailure),
          [true, false]
        )
      })
    )

    it.effect("runs a failed call again as its policy says, and records every attempt before it starts", () =>
      Effect.gen(function* () {
        for (const name of ["retried", "retried_pure"] as const) {
          const recorded: Array<number> = []
          let runs = 0
          const { provider, session } = yield* worldOf(
            {
              [name]: () =>
                Effect.gen(function* () {
                  runs++
                  recorded.push(attempts(yield* World.events(session)).length)
                  return runs < 3 ? yield* Effect.fail("not yet") : `at attempt ${runs}`
                })
            },
            [name, "x"]
          )
          yield* session.run("go")
          const events = yield* World.events(session)
          assert.deepStrictEqual(attempts(events), [1, 2, 3])
          assert.deepStrictEqual(recorded.slice(1), [2, 3])
          assert.deepStrictEqual(
            World.dataOf(events, "call.completed").map(({ output }) => output),
            ["at attempt 3"]
          )
          assert.isEmpty(yield* Sound.complaints(session, provider))
        }
      })
    )

    it.effect("does not run a call again whose arguments do not fit", () =>
      Effect.gen(function* () {
        const world = yield* World.make({
          respond: script([calls([{ name: "looks", arguments: { act: 1 } }]), text("done")]),
          agents: [Agent.make("a", { instructions: "i", toolkit: Fussy })],
          services: Fussy.toLayer({ looks: ({ act }) => Effect.succeed(act) })
        })
        const session = yield* world.sessions.open()
        yield* session.run("go")
        assert.deepStrictEqual(attempts(yield* World.events(session)), [1])
      })
    )

    it.effect("answers with the last failure when the schedule ends", () =>
      Effect.gen(function* () {
        let runs = 0
        const { session } = yield* worldOf({ retried: () => Effect.suspend(() => Effect.fail(`no ${++runs}`)) }, [
          "retried",
          "x"
        ])
        yield* session.run("go")
        const events = yield* World.events(session)
        assert.deepStrictEqual(attempts(events), [1, 2, 3])
        assert.deepStrictEqual(
          World.dataOf(events, "call.completed").map(({ output }) => output),
          ["no 3"]
        )
      })
    )

    it.effect("never runs a tool again that must run once, whatever its annotation asks for", () =>
      Effect.gen(function* () {
        let runs = 0
        const { session } = yield* worldOf({ not_retried: () => Effect.suspend(() => Effect.fail(`no ${++runs}`)) }, [
          "not_retried",
          "x"
        ])
        yield* session.run("go")
        assert.deepStrictEqual(attempts(yield* World.events(session)), [1])
        assert.strictEqual(runs, 1)
      })
    )

    it.effect("records when a tool ended that did not stop, and gives its call no second answer", () =>
      Effect.gen(function* () {
        const go = yield* Deferred.make<void>()
        let paid = 0
        const { provider, session } = yield* worldOf(
          {
            stubborn: (act) =>
              Deferred.await(go).pipe(
                Effect.andThen(Effect.sync(() => `${act} ${++paid} time`)),
                Effect.uninterruptible
              )
          },
          ["stubborn", "paid"],
          ["parallel", "ok"]
        )
        assert.deepStrictEqual(World.brief(yield* session.run("go")), ["Answered", "done", 2])
        yield* Deferred.succeed(go, undefined)
        const late = yield* World.until(session, (event) => event.type === "call.late")
        assert.isTrue(late.type === "call.late" && late.data.callId === "cal_1_1_0" && late.data.ms > 2000)
        assert.strictEqual(paid, 1)
        const events = yield* World.events(session)
        assert.deepStrictEqual(
          World.dataOf(events, "call.receipt").map(({ outcome }) => outcome),
          ["outcome-unknown"]
        )
        assert.lengthOf(World.dataOf(events, "call.completed"), 1)
        assert.isEmpty(yield* Sound.complaints(session, provider))
        // The session goes on, from the receipt.
        yield* session.send("and now?", { delivery: "start" })
        yield* World.ended(session, 2)
      })
    )

    it.effect("does not wait for a tool that does not stop when its Turn is cancelled", () =>
      Effect.gen(function* () {
        const isPaying = yield* Deferred.make<void>()
        const { session } = yield* worldOf(
          {
            patient: () => Effect.uninterruptible(Effect.andThen(Deferred.succeed(isPaying, undefined), Effect.never))
          },
          ["patient", "paid"]
        )
        const { turnId } = yield* session.send("go")
        yield* Deferred.await(isPaying)
        yield* session.cancel(turnId ?? "")
        yield* World.ended(session, 1)
        const receipts = World.dataOf(yield* World.events(session), "call.receipt")
        assert.deepStrictEqual(
          receipts.map(({ outcome }) => outcome),
          ["outcome-unknown"]
        )
      })
    )

    it.effect("gives a long call one result, whatever it told before and whatever answered meanwhile", () =>
      Effect.gen(function* () {
        const isFast = yield* Deferred.make<void>()
        const { provider, session } = yield* worldOf(
          {
            tells: (act) =>
              ToolCall.progress("in progress").pipe(
                Effect.andThen(Deferred.await(isFast)),
                Effect.andThen(ToolCall.progress("in progress")),
                Effect.as(`${act} is done`)
              ),
            parallel: (act) => Effect.as(Deferred.succeed(isFast, undefined), act)
          },
          ["tells", "long"],
          ["parallel", "fast"]
        )
        yield* session.run("go")
        const told = (provider.requests[1]?.messages ?? []).flatMap(({ content, role }) =>
          role === "tool" ? [content] : []
        )
        assert.deepStrictEqual(told, ["long is done", "fast"])
        assert.lengthOf(World.dataOf(yield* World.events(session), "call.completed"), 2)
        assert.isEmpty(yield* Sound.complaints(session, provider))
      })
    )

    it.effect("starts no further attempt in a Turn that has been told to stop", () =>
      Effect.gen(function* () {
        const isRunning = yield* Deferred.make<void>()
        let runs = 0
        const { session } = yield* worldOf(
          {
            retried: () =>
              Effect.suspend(() => {
                runs++
                // Fails when it is told to stop: what fails for that reason is not tried again.
                return Effect.andThen(Deferred.succeed(isRunning, undefined), Effect.never)
              }).pipe(Effect.onInterrupt(() => Effect.void))
          },
          ["retried", "x"]
        )
        const { turnId } = yield* session.send("go")
        yield* Deferred.await(isRunning)
        yield* session.cancel(turnId ?? "")
        yield* World.ended(session, 1)
        assert.strictEqual(runs, 1)
        assert.deepStrictEqual(attempts(yield* World.events(session)), [1])
      })
    )

    it.effect("shows what a handler tells of its progress, and no more of a flood than can be read", () =>
      Effect.gen(function* () {
        const { session } = yield* worldOf(
          {
            tells: (act) =>
              Effect.as(
                Effect.forEach(
                  Array.from({ length: 20_000 }, (_, done) => done),
                  (done) => ToolCall.progress({ done }),
                  { discard: true }
                ),
                act
              )
          },
          ["tells", "x"]
        )
        const watching = yield* session.watch(0).pipe(
          Stream.takeUntil((seen) => seen._tag === "Event" && seen.event.type === "turn.completed"),
          Stream.runCollect,
          Effect.forkChild({ startImmediately: true })
        )
        yield* session.run("go")
        const shown = (yield* Fiber.join(watching)).flatMap((seen) =>
          seen._tag === "Ephemeral" && seen.ephemeral.type === "call.progress" ? [seen.ephemeral] : []
        )
        assert.deepStrictEqual(shown[0], { type: "call.progress", callId: "cal_1_1_0" as never, progress: { done: 0 } })
        assert.isBelow(shown.length, 200)
      })
    )

    it.effect("shows no progress that is larger than a watcher's queue can be expected to hold", () =>
      Effect.gen(function* () {
        const tells: Act = (act) =>
          Effect.gen(function* () {
            yield* ToolCall.progress({ log: "x".repeat(100_000) })
            yield* Effect.sleep("150 millis")
            yield* ToolCall.progress({ log: "short" })
            return act
          })
        const { session } = yield* worldOf({ tells }, ["tells", "x"])
        const watching = yield* session.watch(0).pipe(
          Stream.takeUntil((seen) => seen._tag === "Event" && seen.event.type === "turn.completed"),
          Stream.runCollect,
          Effect.forkChild({ startImmediately: true })
        )
        yield* session.run("go")
        const shown = (yield* Fiber.join(watching)).flatMap((seen) =>
          seen._tag === "Ephemeral" && seen.ephemeral.type === "call.progress" ? [seen.ephemeral.progress] : []
        )
        assert.deepStrictEqual(shown, [{ log: "short" }])
      })
    )
  })
}
