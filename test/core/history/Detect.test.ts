import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { FormatName } from "../../../packages/core/src/history/Contract.ts"
import { detect } from "../../../packages/core/src/history/Detect.ts"
import { conversation, write } from "./Conversation.ts"

describe("detect", () => {
  it("never names a format the history is not written in", () => {
    fc.assert(
      fc.property(conversation, fc.constantFrom(...FormatName.literals), (conversation, format) => {
        const found = detect(write(format, conversation))
        if (found._tag === "Detected") assert.strictEqual(found.format, format)
        else assert.include(found.candidates, format)
      })
    )
  })

  it("knows a history with a call, whatever the format", () => {
    const step = { text: true, reasoning: false, hosted: false, calls: 1 }
    const history = { system: true, turns: [{ steps: [step], answer: true }], open: 0 }
    for (const format of FormatName.literals) {
      assert.deepStrictEqual(detect(write(format, history)), { _tag: "Detected", format })
    }
  })

  it("says which formats write plain texts alike", () => {
    assert.deepStrictEqual(detect([{ role: "user", content: "hi" }]), {
      _tag: "Ambiguous",
      candidates: ["openai-chat", "openai-responses", "anthropic", "ai-sdk-model"]
    })
    assert.deepStrictEqual(detect([]), { _tag: "Ambiguous", candidates: [...FormatName.literals] })
  })

  it("says so when a history mixes formats, most signs first", () => {
    const use = { role: "assistant", content: [{ type: "tool_use", id: "a", name: "x", input: {} }] }
    const tool = { role: "tool", tool_call_id: "a", content: "r" }
    assert.deepStrictEqual(detect([tool, use, tool]), { _tag: "Ambiguous", candidates: ["openai-chat", "anthropic"] })
  })
})
