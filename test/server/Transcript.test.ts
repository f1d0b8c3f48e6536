import { assert, describe, it } from "@effect/vitest"
import * as Ids from "@turnstep/core/Ids"
import type { Fact } from "@turnstep/core/TurnEvent"
import { DurableEvent, type StreamEvent } from "@turnstep/server/api/EventEnvelope"
import * as Transcript from "@turnstep/server/cli/Transcript"
import * as Schema from "effect/Schema"
import * as Log from "../fixtures/Log.ts"

/** What is shown of facts, one after the other. */
const shown = (...facts: ReadonlyArray<Fact>): string => {
  const screen = Transcript.make()
  return facts.map((fact, index) => Transcript.render(screen, enveloped(fact, index + 1))).join("")
}

const decode = Schema.decodeUnknownSync(DurableEvent)

const enveloped = (fact: Fact, seq: number): StreamEvent =>
  decode({ ...fact, v: 1, seq, at: "2026-01-01T00:00:00.000Z", sessionId: Log.sessionId })

const itemId = Ids.itemId(2)

describe("What a terminal shows of a message that was not read", () => {
  for (const [what, data, words] of [
    ["whose sender took it back", { reason: "withdrawn", disposition: "returned" }, "was taken back unread"],
    ["that starts a Turn of its own", { reason: "turn-ended", disposition: "follow-up" }, "starts one of its own"],
    ["that is not kept", { reason: "turn-ended", disposition: "returned" }, "was not read; send it again"]
  ] as const) {
    it(`names one ${what}`, () => {
      assert.match(shown({ type: "inbox.returned", data: { itemId, ...data } }), new RegExp(`^↳ ${itemId} .*${words}`))
    })
  }
})

describe("What a terminal shows of an answer that was cut off", () => {
  const completed = (finishReason: string): Fact => ({
    type: "turn.completed",
    data: {
      turnId: Ids.turnId(1),
      steps: 1,
      usage: { inputTokens: 1, outputTokens: 1 },
      finishReason,
      messageId: Ids.assistantMessageId(1, 1)
    }
  })

  it("says why, and nothing of a whole one", () => {
    assert.include(shown(completed("length")), "the answer was cut off: length")
    assert.include(shown(completed("content-filter")), "content-filter")
    assert.strictEqual(shown(completed("stop")), "")
    assert.strictEqual(shown(completed("unknown")), "")
  })
})
