import { createAnthropic } from "@ai-sdk/anthropic"
import { createGoogle } from "@ai-sdk/google"
import { assert, describe, it } from "@effect/vitest"
import * as AiSdk from "@turnstep/runtime/model/AiSdk"
import * as ChatServer from "@turnstep/runtime/testing/ChatServer"
import * as Prompt from "effect/ai/Prompt"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Queue from "effect/Queue"
import { answered, callsOf, parts } from "../../fixtures/modelCalls.ts"

const envelope = { id: "x", model: "m", promptTokens: 0, includeUsage: false }

/** Answers each request with the next list of events and remembers the bodies. */
const server = Effect.fnUntraced(function* (replies: ReadonlyArray<ReadonlyArray<string | Effect.Effect<void>>>) {
  const { arrivals, port } = yield* ChatServer.make
  const bodies: Array<string> = []
  const seen: Array<ChatServer.Arrival> = []
  yield* Queue.take(arrivals).pipe(
    Effect.flatMap((arrival) => {
      seen.push(arrival)
      bodies.push(arrival.text)
      return ChatServer.reply(arrival.response, { raw: replies[bodies.length - 1] ?? [] }, envelope, true)
    }),
    Effect.forever,
    Effect.forkScoped
  )
  return { url: `http://127.0.0.1:${port}`, bodies, seen }
})

const event = (data: { readonly type: string; readonly [field: string]: unknown }): string =>
  `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`

const block = (index: number, content_block: object, ...deltas: ReadonlyArray<object>): ReadonlyArray<string> => [
  event({ type: "content_block_start", index, content_block }),
  ...deltas.map((delta) => event({ type: "content_block_delta", index, delta })),
  event({ type: "content_block_stop", index })
]

const anthropicReply = (stop_reason: string, ...blocks: ReadonlyArray<string>): ReadonlyArray<string> => [
  event({
    type: "message_start",
    message: {
      id: "msg_1",
      model: "claude",
      role: "assistant",
      content: [],
      usage: { input_tokens: 5, output_tokens: 1 }
    }
  }),
  ...blocks,
  event({ type: "message_delta", delta: { stop_reason, stop_sequence: null }, usage: { output_tokens: 9 } }),
  event({ type: "message_stop" })
]

/** Two steps: the model calls a tool, its answer goes back with the history. */
const twoSteps = Effect.gen(function* () {
  const history = [...Prompt.make([{ role: "user", content: "go" }]).content]
  const first = yield* parts(Prompt.fromMessages(history))
  history.push(...answered(first, () => "text of a"))
  yield* parts(Prompt.fromMessages(history))
  return callsOf(first)
})

describe("AiSdk signatures", () => {
  it.live("brings Anthropic's signature of a thinking block back in the next request", () =>
    Effect.gen(function* () {
      const { bodies, url } = yield* server([
        anthropicReply(
          "tool_use",
          ...block(
            0,
            { type: "thinking", thinking: "", signature: "" },
            { type: "thinking_delta", thinking: "let me " },
            { type: "thinking_delta", thinking: "see" },
            { type: "signature_delta", signature: "SIGNED" }
          ),
          ...block(
            1,
            { type: "tool_use", id: "toolu_1", name: "read", input: {} },
            { type: "input_json_delta", partial_json: '{"path":"a"}' }
          )
        ),
        anthropicReply("end_turn", ...block(0, { type: "text", text: "" }, { type: "text_delta", text: "done" }))
      ])
      const model = createAnthropic({ baseURL: `${url}/v1`, apiKey: "k" })("claude-sonnet-4-5")
      const settings = { providerOptions: { anthropic: { thinking: { type: "enabled", budgetTokens: 2000 } } } }
      const calls = yield* Effect.provide(twoSteps, AiSdk.layer(model, { settings }))
      assert.deepStrictEqual(calls, [{ id: "toolu_1", name: "read", params: { path: "a" } }])
      const { messages } = JSON.parse(bodies[1] ?? "{}")
      assert.deepStrictEqual(messages[1].content, [
        { type: "thinking", thinking: "let me see", signature: "SIGNED" },
        { type: "tool_use", id: "toolu_1", name: "read", input: { path: "a" } }
      ])
      assert.strictEqual(messages[2].content[0].tool_use_id, "toolu_1")
    })
  )

  it.live("brings Gemini's signature of a call back in the next request", () =>
    Effect.gen(function* () {
      const chunk = (parts: ReadonlyArray<object>, finishReason: string) =>
        `data: ${JSON.stringify({
          candidates: [{ content: { role: "model", parts }, finishReason, index: 0 }],
          usageMetadata: { promptTokenCount: 5, candidatesTokenCount: 3, totalTokenCount: 8 }
        })}\n\n`
      const call = { functionCall: { name: "read", args: { path: "a" } }, thoughtSignature: "U0lHTkVE" }
      const { bodies, url } = yield* server([[chunk([call], "STOP")], [chunk([{ text: "done" }], "STOP")]])
      const model = createGoogle({ baseURL: `${url}/v1beta`, apiKey: "k" })("gemini-3-pro-preview")
      const calls = yield* Effect.provide(twoSteps, AiSdk.layer(model))
      assert.deepStrictEqual(
        calls.map(({ name, params }) => ({ name, params })),
        [{ name: "read", params: { path: "a" } }]
      )
      const { contents } = JSON.parse(bodies[1] ?? "{}")
      assert.strictEqual(contents[1].parts[0].thoughtSignature, "U0lHTkVE")
      assert.deepStrictEqual(contents[1].parts[0].functionCall.args, { path: "a" })
      assert.strictEqual(contents[2].parts[0].functionResponse.name, "read")
    })
  )

  it.live("closes the provider's socket when the stream's fiber is interrupted", () =>
    Effect.gen(function* () {
      const reached = yield* Deferred.make<void>()
      const { seen, url } = yield* server([
        [
          event({
            type: "message_start",
            message: {
              id: "m",
              model: "c",
              role: "assistant",
              content: [],
              usage: { input_tokens: 1, output_tokens: 1 }
            }
          }),
          Effect.andThen(Deferred.succeed(reached, undefined), Effect.never)
        ]
      ])
      const model = createAnthropic({ baseURL: `${url}/v1`, apiKey: "k" })("claude-sonnet-4-5")
      const fiber = yield* Effect.forkChild(Effect.provide(parts("x"), AiSdk.layer(model)))
      yield* Deferred.await(reached)
      yield* Fiber.interrupt(fiber)
      const arrival = seen[0]
      yield* arrival === undefined ? Effect.die("no request") : Deferred.await(arrival.aborted)
    })
  )
})
