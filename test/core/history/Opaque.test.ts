import { assert, describe, it } from "@effect/vitest"
import * as Export from "../../../packages/core/src/history/Export.ts"
import * as Import from "../../../packages/core/src/history/Import.ts"
import type { FormatName } from "../../../packages/core/src/history/Contract.ts"
import { pastMessage } from "../../../packages/core/src/Transcript.ts"

/** What a provider issues with its answers, under words in capitals. */
const issued: { readonly [K in FormatName]: ReadonlyArray<unknown> } = {
  "openai-chat": [
    { role: "user", content: "q" },
    {
      role: "assistant",
      content: null,
      reasoning_content: "THINK",
      tool_calls: [
        {
          id: "c1",
          type: "function",
          function: { name: "f", arguments: "{}" },
          extra_content: { google: { thought_signature: "SIGC" } }
        }
      ]
    },
    { role: "tool", tool_call_id: "c1", content: "r" },
    {
      role: "assistant",
      content: "done",
      reasoning_details: [{ type: "reasoning.text", text: "T2", signature: "SIG2" }],
      reasoning: "T2"
    },
    { role: "user", content: "n" }
  ],
  "openai-responses": [
    { role: "user", content: "q" },
    { type: "reasoning", id: "rs_1", summary: [{ type: "summary_text", text: "SUM" }], encrypted_content: "ENC" },
    { type: "function_call", id: "fc_1", call_id: "c1", name: "f", arguments: "{}" },
    { type: "function_call_output", call_id: "c1", output: "r" },
    { type: "reasoning", summary: [], encrypted_content: "ENC2" },
    { type: "message", id: "msg_1", role: "assistant", content: [{ type: "output_text", text: "a" }] }
  ],
  anthropic: [
    { role: "user", content: "q" },
    {
      role: "assistant",
      content: [
        { type: "thinking", thinking: "THINK", signature: "SIG" },
        { type: "redacted_thinking", data: "RED" },
        { type: "tool_use", id: "c1", name: "f", input: {} }
      ]
    },
    { role: "user", content: [{ type: "tool_result", tool_use_id: "c1", content: "r" }] }
  ],
  gemini: [
    { role: "user", parts: [{ text: "q" }] },
    {
      role: "model",
      parts: [
        { text: "THINK", thought: true },
        { functionCall: { name: "f", args: {} }, thoughtSignature: "SIGC" }
      ]
    },
    { role: "user", parts: [{ functionResponse: { name: "f", response: { output: "r" } } }] },
    {
      role: "model",
      parts: [
        { text: "a", thoughtSignature: "SIGT" },
        { text: "", thoughtSignature: "SIGE" }
      ]
    },
    { role: "user", parts: [{ text: "x" }] }
  ],
  "ai-sdk-model": [
    { role: "user", content: "q" },
    {
      role: "assistant",
      content: [
        { type: "reasoning", text: "THINK", providerOptions: { anthropic: { signature: "SIG" } } },
        {
          type: "tool-call",
          toolCallId: "c1",
          toolName: "f",
          input: {},
          providerOptions: { google: { thoughtSignature: "SIGC" } }
        }
      ]
    },
    {
      role: "tool",
      content: [{ type: "tool-result", toolCallId: "c1", toolName: "f", output: { type: "text", value: "r" } }]
    }
  ],
  "ai-sdk-ui": [
    { id: "1", role: "user", parts: [{ type: "text", text: "q" }] },
    {
      id: "2",
      role: "assistant",
      parts: [
        { type: "reasoning", text: "THINK", providerMetadata: { anthropic: { signature: "SIG" } } },
        {
          type: "tool-f",
          toolCallId: "c1",
          input: {},
          state: "output-available",
          output: "r",
          callProviderMetadata: { google: { thoughtSignature: "SIGC" } }
        },
        { type: "text", text: "a", providerMetadata: { google: { thoughtSignature: "SIGT" } } }
      ]
    }
  ]
}

const wordsOf = (value: unknown) => new Set(JSON.stringify(value).match(/\b(?:SIG\w*|THINK|T2|SUM|ENC2?|RED)\b/g))

describe("reasoning and signatures", () => {
  for (const [format, messages] of Object.entries(issued) as ReadonlyArray<[FormatName, ReadonlyArray<unknown>]>) {
    it(`come out of a session as they came in: ${format}`, () => {
      const read = Import.read({ format, messages })
      if ("_tag" in read) return assert.fail(read.message)
      assert.isEmpty(read.report.lost)
      const exported = Export.write(format, read.messages.map(pastMessage))
      assert.isEmpty(exported.lost)
      assert.deepStrictEqual(wordsOf(exported.messages), wordsOf(messages))
    })
  }
})
