import { assert, describe, it } from "@effect/vitest"
import type { StreamPart } from "@turnstep/runtime/AnswerBudget"
import * as ModelAnswer from "@turnstep/runtime/ModelAnswer"
import * as Response from "effect/ai/Response"

const ignore = () => {}

describe("ModelAnswer", () => {
  it("joins what a provider wants back with a part where it comes in pieces: encrypted reasoning of OpenAI Responses", () => {
    const answer = ModelAnswer.make()
    const begun = { openai: { itemId: "rs_1", reasoningEncryptedContent: null } }
    const ended = { openai: { reasoningEncryptedContent: "ZW5j" }, other: { kept: true } }
    const parts: ReadonlyArray<StreamPart> = [
      Response.makePart("reasoning-start", { id: "r", metadata: begun }),
      Response.makePart("reasoning-end", { id: "r", metadata: ended }),
      Response.makePart("text-start", { id: "t", metadata: { openai: { itemId: "msg_1" } } }),
      Response.makePart("text-delta", { id: "t", delta: "a", metadata: {} }),
      Response.makePart("text-end", { id: "t", metadata: { google: null } })
    ]
    answer.push(parts, ignore)
    assert.deepStrictEqual<unknown>(answer.response(1).parts, [
      {
        type: "reasoning",
        text: "",
        options: { openai: { itemId: "rs_1", reasoningEncryptedContent: "ZW5j" }, other: { kept: true } }
      },
      { type: "text", text: "a", options: { openai: { itemId: "msg_1" } } }
    ])
  })
})
