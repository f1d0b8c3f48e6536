import { assert, describe } from "@effect/vitest"
import type { Journal } from "@turnstep/core/Journal"
import type { TurnEvent } from "@turnstep/core/TurnEvent"
import * as RequestGate from "@turnstep/runtime/RequestGate"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import type { It } from "../../fixtures/Stores.ts"
import * as Tools from "../../fixtures/Tools.ts"
import * as World from "../../fixtures/World.ts"

const { calls, script, text } = StrictProvider

/** A journal that, once told to, no longer tells of the calls: their message stands there without a result. */
const forgetful = () => {
  let isOn = false
  const forget = (event: TurnEvent): TurnEvent =>
    event.type.startsWith("call.")
      ? { type: "session.status", data: { status: "running" }, seq: event.seq, at: event.at }
      : event
  return {
    turnOn: () => {
      isOn = true
    },
    around: (journal: Journal["Service"]): Journal["Service"] => ({
      ...journal,
      read: (sessionId, page) =>
        Effect.map(journal.read(sessionId, page), (events) => (isOn ? events.map(forget) : events))
    })
  }
}

const countOf = Effect.map(
  Metric.value(Metric.withAttributes(RequestGate.findings, { code: "DANGLING_CALL", format: "openai-chat" })),
  ({ count }) => Number(count)
)

export const suite = (it: It): void => {
  describe("RequestGate", () => {
    it.effect("repairs a transcript that lost its results, says so, and the provider takes it", () =>
      Effect.gen(function* () {
        const journal = forgetful()
        const world = yield* World.withTools({
          respond: script([
            calls([Tools.call("look", "a")]),
            text("one"),
            calls([Tools.call("look", "b")]),
            text("two")
          ]),
          around: journal.around,
          isPoisoned: true
        })
        yield* world.session.run("first")
        yield* world.stop
        journal.turnOn()
        const before = yield* countOf
        const next = yield* world.start
        const session = yield* Effect.orDie(next.sessions.get(world.session.id))
        assert.deepStrictEqual(World.brief(yield* session.run("second")), ["Answered", "two", 2])

        assert.isEmpty(world.provider.refusals)
        const sent = world.provider.requests[2]?.messages ?? []
        assert.deepStrictEqual(
          sent.map(({ role }) => role),
          ["system", "user", "assistant", "tool", "assistant", "user"]
        )
        assert.match(String(sent[3]?.content), /^\[synthetic: interrupted\].*unknown/)
        const found: ReadonlyArray<unknown> = World.dataOf(
          yield* world.journal.read(session.id, { after: 0 }),
          "transcript.repaired"
        )
        assert.deepStrictEqual(found, [
          {
            turnId: "trn_2",
            step: 1,
            findings: [{ code: "DANGLING_CALL", at: "/2/tool_calls/0" }],
            changes: [{ code: "DANGLING_CALL", at: "/2/tool_calls/0", action: "synthesise" }]
          }
        ])
        assert.strictEqual((yield* countOf) - before, 1)
        assert.strictEqual(world.logged.filter((line) => line.includes("request gate: 1 findings")).length, 1)
      })
    )

    it.effect("has nothing to say about Turns with unknown tools, cut answers and a hand-back", () =>
      Effect.gen(function* () {
        const world = yield* World.withTools({
          respond: script([
            calls([Tools.call("look", "a"), { name: "nowhere", arguments: {} }]),
            calls([Tools.call("look", "c")], { finish: "length" }),
            text("handed back")
          ]),
          policy: { maxSteps: 2 }
        })
        assert.deepStrictEqual(World.brief(yield* world.session.run("go")), ["BudgetSpent", "handed back", 2])
        assert.isEmpty(World.dataOf(yield* World.events(world.session), "transcript.repaired"))
      })
    )
  })
}
