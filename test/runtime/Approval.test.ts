import { assert, it } from "@effect/vitest"
import * as Ids from "@turnstep/core/Ids"
import * as ToolPolicy from "@turnstep/core/ToolPolicy"
import * as Approval from "@turnstep/runtime/Approval"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { TestClock } from "effect/testing"

it.effect("The rules of one response hold up the Turn for half a minute at most, however many calls there are", () =>
  Effect.gen(function* () {
    const policies = new Map([["pay", { ...ToolPolicy.unknownTool, needsApproval: () => Effect.never }]])
    const calls = Array.from({ length: 400 }, (_, index) => ({
      callId: Ids.callId(1, 1, index),
      name: "pay",
      params: {}
    }))
    const config = { context: Context.empty(), policies }
    const judging = yield* Effect.forkChild(Approval.free(config, Ids.SessionId.make("ses_1"), calls, []))
    for (let second = 0; second < 31; second++) yield* TestClock.adjust("1 second")
    yield* Effect.repeat(Effect.yieldNow, { times: 2000 })
    assert.isDefined(judging.pollUnsafe())
    assert.strictEqual((yield* Fiber.join(judging)).size, 0)
  })
)
