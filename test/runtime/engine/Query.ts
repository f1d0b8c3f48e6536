import { assert, describe } from "@effect/vitest"
import type { TurnEvent } from "@turnstep/core/TurnEvent"
import * as ToolPolicy from "@turnstep/core/ToolPolicy"
import * as Agent from "@turnstep/runtime/Agent"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Sound from "../../fixtures/Sound.ts"
import type { It } from "../../fixtures/Stores.ts"
import * as Tools from "../../fixtures/Tools.ts"
import * as World from "../../fixtures/World.ts"

const { calls, script, text } = StrictProvider

/** A world whose only tool places an order, and waits at the gate of its act before it says so; `query` is asked for lost orders. */
const ordering = Effect.fnUntraced(function* (acts: ReadonlyArray<string>, query: ToolPolicy.Query) {
  const Order = Tool.make("order", { parameters: Schema.Struct({ act: Schema.String }), success: Schema.String })
    .annotate(ToolPolicy.Effects, "queryable")
    .annotate(ToolPolicy.Timeout, Duration.millis(300))
    .annotate(ToolPolicy.Query, query)
  const toolkit = Toolkit.make(Order)
  const started: Array<string | undefined> = []
  const reached = yield* Tools.gate
  const world = yield* World.make({
    agents: [Agent.make("shop", { instructions: "Order.", toolkit })],
    services: toolkit.toLayer({
      order: (_, { toolCallId }: { readonly toolCallId?: string | undefined }) =>
        Effect.suspend(() => {
          started.push(toolCallId)
          return started.length < acts.length ? Effect.never : Effect.as(reached.pass, "late")
        })
    }),
    respond: script([calls(acts.map((act) => ({ name: "order", arguments: { act } }))), text("done")])
  })
  const session = yield* Effect.orDie(world.sessions.open())
  yield* session.send("go")
  yield* reached.reached
  yield* world.stop
  return { ...world, session, started }
})

const receipts = (events: ReadonlyArray<TurnEvent>) =>
  World.dataOf(events, "call.receipt").map(({ outcome }) => outcome)

export const suite = (it: It): void => {
  describe("A lost call of a tool that can be asked", () => {
    it.effect("gets the result its tool tells, and is not run again", () =>
      Effect.gen(function* () {
        const asked: Array<ToolPolicy.LostCall> = []
        const { provider, session, start, started } = yield* ordering(["tea"], (call) =>
          Effect.sync(() => {
            asked.push(call)
            return Option.some("order 7, placed")
          })
        )
        const next = yield* (yield* start).sessions.get(session.id)
        yield* World.ended(next, 1)
        const events = yield* World.events(next)
        assert.deepStrictEqual(
          World.dataOf(events, "call.completed").map(({ isFailure, output }) => [isFailure, output]),
          [[false, "order 7, placed"]]
        )
        assert.isEmpty(receipts(events))
        assert.lengthOf(World.dataOf(events, "call.started"), 1)
        assert.lengthOf(started, 1)
        assert.deepStrictEqual(asked, [{ params: { act: "tea" }, callKey: started[0] ?? "" }])
        assert.isEmpty(yield* Sound.complaints(next, provider))
      })
    )

    it.effect("gets its receipt when that cannot be told, whatever the query does instead", () =>
      Effect.gen(function* () {
        const answers: Readonly<Record<string, () => Effect.Effect<Option.Option<string>, string>>> = {
          nothing: () => Effect.succeedNone,
          failure: () => Effect.fail("no connection"),
          defect: () => Effect.die(new Error("a bug")),
          silence: () => Effect.never,
          thrown: () => {
            throw new Error("a bug")
          },
          known: () => Effect.succeedSome("placed")
        }
        const { provider, session, start, started } = yield* ordering(
          Object.keys(answers),
          ({ params }) => answers[(params as { readonly act: string }).act]?.() ?? Effect.succeedNone
        )
        const next = yield* (yield* start).sessions.get(session.id)
        yield* World.ended(next, 1)
        assert.deepStrictEqual(World.answers(yield* World.events(next)), {
          nothing: "outcome-unknown",
          failure: "outcome-unknown",
          defect: "outcome-unknown",
          silence: "outcome-unknown",
          thrown: "outcome-unknown",
          known: "ok"
        })
        assert.lengthOf(started, Object.keys(answers).length)
        assert.isEmpty(yield* Sound.complaints(next, provider))
      })
    )

    it.effect("gets its receipt when the Turn is cancelled while its tool is asked", () =>
      Effect.gen(function* () {
        const asked = yield* Tools.gate
        const { session, start } = yield* ordering(["tea"], () => Effect.as(asked.pass, Option.some("late")))
        const next = yield* (yield* start).sessions.get(session.id)
        yield* asked.reached
        yield* next.cancel("trn_1", "enough")
        assert.strictEqual((yield* World.ended(next, 1)).type, "turn.cancelled")
        assert.deepStrictEqual(receipts(yield* World.events(next)), ["outcome-unknown"])
      })
    )
  })
}
