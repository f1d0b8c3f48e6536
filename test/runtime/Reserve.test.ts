/** The reserve of a Turn whose time is over, on a clock that the test turns. */
import { assert, layer } from "@effect/vitest"
import * as MemoryStore from "@turnstep/core/MemoryStore"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"
import * as Tools from "../fixtures/Tools.ts"
import * as World from "../fixtures/World.ts"

const { text } = StrictProvider

layer(MemoryStore.layer)("A Turn whose time is over", (it) => {
  it.effect("gives the model a minute for the hand-back, and writes it itself after that", () =>
    Effect.gen(function* () {
      const [first, second] = yield* Effect.all([Tools.gate, Tools.gate])
      const world = yield* World.withTools({
        respond: ({ index }) => text([index === 0 ? first.pass : second.pass, "never"]),
        policy: { maxDuration: Duration.minutes(5) }
      })
      const run = yield* Effect.forkChild(world.session.run("go"), { startImmediately: true })
      yield* first.reached
      yield* TestClock.adjust("5 minutes")
      yield* second.reached
      assert.isUndefined(run.pollUnsafe())
      yield* TestClock.adjust("59 seconds")
      assert.isUndefined(run.pollUnsafe())
      yield* TestClock.adjust("1 second")
      const outcome = yield* Fiber.join(run)
      assert.deepInclude(outcome, { _tag: "BudgetSpent", limit: "time" })
      assert.match(
        outcome._tag === "BudgetSpent" ? outcome.text : "",
        /The time of this turn is spent; the work is not/
      )
    })
  )
})
