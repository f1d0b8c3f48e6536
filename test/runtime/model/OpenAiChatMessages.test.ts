import { assert, describe, it } from "@effect/vitest"
import * as OpenAiChat from "@turnstep/runtime/model/OpenAiChat"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import type * as Prompt from "effect/ai/Prompt"
import * as Effect from "effect/Effect"
import { parts } from "../../fixtures/modelCalls.ts"

const echo = () => StrictProvider.make({ respond: () => StrictProvider.text("ok") })

/** Messages as they arrived for a prompt. */
const wire = (prompt: Prompt.RawInput, options?: Partial<OpenAiChat.Options>) =>
  Effect.gen(function* () {
    const provider = yield* echo()
    const layer = OpenAiChat.layer({ baseUrl: provider.baseUrl, model: "m", ...options })
    yield* Effect.provide(parts(prompt), layer)
    return provider.requests[0]?.messages
  })

describe("OpenAiChat messages", () => {
  it.live("sends the system message, user text, calls and results in the wire's form", () =>
    Effect.gen(function* () {
      const messages = yield* wire([
        { role: "system", content: "be brief" },
        {
          role: "user",
          content: [
            { type: "text", text: "one" },
            { type: "text", text: "two" }
          ]
        },
        {
          role: "assistant",
          content: [
            { type: "reasoning", text: "secret thought" },
            { type: "text", text: "I look" },
            { type: "tool-call", id: "c1", name: "read", params: { path: "a" } }
          ]
        },
        { role: "tool", content: [{ type: "tool-result", id: "c1", name: "read", isFailure: false, result: "as is" }] },
        {
          role: "assistant",
          content: [
            { type: "tool-call", id: "c2", name: "add", params: { a: 1, b: 2 } },
            { type: "tool-call", id: "c3", name: "fs.read", params: "{broken" }
          ]
        },
        {
          role: "tool",
          content: [
            { type: "tool-result", id: "c2", name: "add", isFailure: false, result: { sum: 3 } },
            { type: "tool-result", id: "c3", name: "fs.read", isFailure: true, result: null }
          ]
        }
      ])
      assert.deepStrictEqual(messages, [
        { role: "system", content: "be brief" },
        { role: "user", content: "one\ntwo" },
        {
          role: "assistant",
          content: "I look",
          tool_calls: [{ id: "c1", type: "function", function: { name: "read", arguments: '{"path":"a"}' } }]
        },
        { role: "tool", tool_call_id: "c1", content: "as is" },
        {
          role: "assistant",
          content: null,
          tool_calls: [
            { id: "c2", type: "function", function: { name: "add", arguments: '{"a":1,"b":2}' } },
            {
              id: "c3",
              type: "function",
              function: { name: "fs_read", arguments: '{"invalid_arguments":"{broken"}' }
            }
          ]
        },
        { role: "tool", tool_call_id: "c2", content: '{"sum":3}' },
        { role: "tool", tool_call_id: "c3", content: "null" }
      ])
    })
  )

  it.live("leaves out a message with nothing to say, so that the history stays acceptable", () =>
    Effect.gen(function* () {
      const messages = yield* wire([
        { role: "user", content: "a" },
        { role: "assistant", content: [{ type: "reasoning", text: "only thought" }] },
        { role: "user", content: "b" }
      ])
      assert.deepStrictEqual(
        messages?.map((message) => message.content),
        ["a", "b"]
      )
    })
  )

  it.live("sends reasoning back to who issued it, under the name it came in, and to others only what they demand", () =>
    Effect.gen(function* () {
      const kept = {
        issuer: "openai/m",
        field: "reasoning",
        members: { reasoning_details: [{ type: "x", data: "y" }] }
      }
      const thought = (issuer: string) =>
        ({ type: "reasoning", text: "thought", options: { "openai-chat": { ...kept, issuer } } }) as const
      const history = (issuer: string): Prompt.RawInput => [
        { role: "user", content: "a" },
        {
          role: "assistant",
          content: [
            thought(issuer),
            {
              type: "tool-call",
              id: "c1",
              name: "read",
              params: {},
              options: { "openai-chat": { issuer, members: { extra_content: { google: { thought_signature: "s" } } } } }
            }
          ]
        },
        { role: "tool", content: [{ type: "tool-result", id: "c1", name: "read", isFailure: false, result: "x" }] },
        { role: "assistant", content: "said" },
        { role: "user", content: "b" }
      ]
      const call = { id: "c1", type: "function", function: { name: "read", arguments: "{}" } }
      const own = yield* wire(history("openai/m"))
      assert.deepStrictEqual<unknown>(own?.[1], {
        role: "assistant",
        content: null,
        tool_calls: [{ ...call, extra_content: { google: { thought_signature: "s" } } }],
        reasoning: "thought",
        reasoning_details: [{ type: "x", data: "y" }]
      })
      assert.deepStrictEqual(own?.[3], { role: "assistant", content: "said" })
      const foreign = yield* wire(history("other/m"))
      assert.deepStrictEqual<unknown>(foreign?.[1], { role: "assistant", content: null, tool_calls: [call] })
      const none = yield* wire(history("openai/m"), { reasoning: "none" })
      assert.deepStrictEqual<unknown>(none?.[1], foreign?.[1])
      const off = yield* wire(history("openai/m"), {
        reasoning: "reasoning_content",
        settings: { thinking: { type: "disabled" } }
      })
      assert.deepStrictEqual<unknown>(off?.[1], foreign?.[1])
      const demanded = yield* wire(history("other/m"), { reasoning: "reasoning_content" })
      assert.deepStrictEqual<unknown>(demanded?.[1], {
        role: "assistant",
        content: null,
        tool_calls: [call],
        reasoning_content: "thought"
      })
      assert.deepStrictEqual(demanded?.[3], { role: "assistant", content: "said", reasoning_content: "" })
    })
  )

  it.live("sends images as links and data URLs, and names what the wire cannot carry", () =>
    Effect.gen(function* () {
      const bytes = new Uint8Array([1, 2, 3])
      const messages = yield* wire([
        {
          role: "user",
          content: [
            { type: "text", text: "see" },
            { type: "file", mediaType: "image/png", data: new URL("https://example.test/a.png") },
            { type: "file", mediaType: "image/png", data: bytes },
            { type: "file", mediaType: "image/png", data: "AQID" },
            { type: "file", mediaType: "text/plain", data: new TextEncoder().encode("plain") },
            { type: "file", mediaType: "application/zip", fileName: "a.zip", data: bytes }
          ]
        },
        { role: "assistant", content: [{ type: "tool-call", id: "c1", name: "read", params: {} }] },
        {
          role: "tool",
          content: [
            {
              type: "tool-result",
              id: "c1",
              name: "read",
              isFailure: false,
              result: "raw",
              modelOutput: [
                { type: "text", text: "a picture" },
                { type: "file", mediaType: "image/png", data: bytes }
              ]
            }
          ]
        }
      ])
      assert.deepStrictEqual<unknown>(messages?.[0]?.content, [
        { type: "text", text: "see" },
        { type: "image_url", image_url: { url: "https://example.test/a.png" } },
        { type: "image_url", image_url: { url: "data:image/png;base64,AQID" } },
        { type: "image_url", image_url: { url: "data:image/png;base64,AQID" } },
        { type: "text", text: "plain" },
        { type: "text", text: "[application/zip a.zip omitted]" }
      ])
      assert.strictEqual(messages?.[2]?.content, "a picture\n[image/png omitted]")
    })
  )

  it.live("never sends a lone surrogate, wherever it stands", () =>
    Effect.gen(function* () {
      const provider = yield* echo()
      const half = "\uD83D"
      const prompt: Prompt.RawInput = [
        { role: "system", content: half },
        { role: "user", content: `ok 😀 ${half}` },
        {
          role: "assistant",
          content: [
            { type: "text", text: half },
            { type: "tool-call", id: "c1", name: "read", params: { path: half, [half]: "literal \\ud83d" } }
          ]
        },
        {
          role: "tool",
          content: [{ type: "tool-result", id: "c1", name: "read", isFailure: false, result: { deep: [half] } }]
        }
      ]
      yield* Effect.provide(parts(prompt), provider.layer)
      const messages = provider.requests[0]?.messages
      assert.strictEqual(messages?.[1]?.content, "ok 😀 \uFFFD")
      assert.strictEqual(
        messages?.[2]?.tool_calls?.[0]?.function.arguments,
        '{"path":"\uFFFD","\uFFFD":"literal \\\\ud83d"}'
      )
      assert.strictEqual(messages?.[3]?.content, '{"deep":["\uFFFD"]}')
    })
  )
})
