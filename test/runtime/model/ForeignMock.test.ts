import { createAnthropic } from "@ai-sdk/anthropic"
import { LLMock } from "@copilotkit/aimock"
import { assert, describe, it } from "@effect/vitest"
import * as AiSdk from "@turnstep/runtime/model/AiSdk"
import * as OpenAiChat from "@turnstep/runtime/model/OpenAiChat"
import type * as LanguageModel from "effect/ai/LanguageModel"
import * as Prompt from "effect/ai/Prompt"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { answered, callsOf, finishOf, type Part, parts, partsAndError, textOf } from "../../fixtures/modelCalls.ts"

const key = "sk-mock-0123456789"

/** A mock server that we did not write; it is the same for both wires. */
const mockServer = Effect.acquireRelease(
  Effect.promise(() => LLMock.create({ port: 0, host: "127.0.0.1", chunkSize: 4, auth: { apiKeys: [key] } })),
  (mock) => Effect.promise(() => mock.stop())
)

type Wire = (mock: LLMock, apiKey?: string) => Layer.Layer<LanguageModel.LanguageModel>

const openAi: Wire = (mock, apiKey = key) =>
  OpenAiChat.layer({ baseUrl: `${mock.url}/v1`, model: "gpt-4o", apiKey: Redacted.make(apiKey) })

const anthropic: Wire = (mock, apiKey = key) =>
  AiSdk.layer(createAnthropic({ baseURL: `${mock.url}/v1`, apiKey })("claude-sonnet-4-5"), {
    apiKey: Redacted.make(apiKey)
  })

const wires: ReadonlyArray<readonly [string, Wire]> = [
  ["OpenAiChat", openAi],
  ["AiSdk over Anthropic", anthropic]
]

for (const [name, wire] of wires) {
  describe(`${name} against a foreign mock server`, () => {
    it.live("plays a turn of two parallel calls and a final text", () =>
      Effect.gen(function* () {
        const mock = yield* mockServer
        mock.on(
          { userMessage: "sum it up", hasToolResult: false },
          {
            content: "I look into it.",
            toolCalls: [
              { name: "read", arguments: '{"path":"a.txt"}' },
              { name: "add", arguments: '{"a":1,"b":2}' }
            ]
          }
        )
        mock.on(
          { userMessage: "sum it up", hasToolResult: true },
          {
            content: "All done, it is three.",
            usage: { prompt_tokens: 30, completion_tokens: 7, input_tokens: 30, output_tokens: 7 }
          }
        )
        const history = [...Prompt.make([{ role: "user", content: "sum it up" }]).content]
        const steps: Array<ReadonlyArray<Part>> = []
        yield* Effect.gen(function* () {
          for (;;) {
            const step = yield* parts(Prompt.fromMessages(history))
            steps.push(step)
            if (callsOf(step).length === 0) return
            history.push(...answered(step, (tool) => (tool === "add" ? 3 : "file text")))
          }
        }).pipe(Effect.provide(wire(mock)))
        assert.lengthOf(steps, 2)
        const [first = [], second = []] = steps
        assert.strictEqual(textOf(first), "I look into it.")
        assert.isAbove(first.filter((part) => part.type === "text-delta").length, 1)
        assert.deepStrictEqual(
          callsOf(first).map(({ name, params }) => ({ name, params })),
          [
            { name: "read", params: { path: "a.txt" } },
            { name: "add", params: { a: 1, b: 2 } }
          ]
        )
        assert.strictEqual(finishOf(first)?.reason, "tool-calls")
        assert.isAbove(first.filter((part) => part.type === "tool-params-delta").length, 2)
        assert.strictEqual(textOf(second), "All done, it is three.")
        assert.strictEqual(finishOf(second)?.reason, "stop")
        assert.strictEqual(finishOf(second)?.usage.outputTokens.total, 7)
      })
    )

    it.live("classifies a wrong key, a rate limit with its waiting time, and trouble inside", () =>
      Effect.gen(function* () {
        const mock = yield* mockServer
        const ask = (apiKey?: string) =>
          Effect.map(Effect.provide(partsAndError("hi"), wire(mock, apiKey)), ({ error }) => error)
        const wrong = yield* ask("sk-wrong-0123456789")
        assert.strictEqual(wrong.reason._tag, "AuthenticationError")
        assert.isFalse(wrong.isRetryable)
        assert.notInclude(JSON.stringify(wrong), "sk-wrong-0123456789")
        mock.nextRequestError(429, { message: "slow down", type: "rate_limit_error" })
        const limited = yield* ask()
        assert.strictEqual(limited.reason._tag, "RateLimitError")
        assert.isTrue(limited.isRetryable)
        assert.isAbove(limited.retryAfter === undefined ? 0 : Duration.toMillis(limited.retryAfter), 0)
        mock.nextRequestError(500, { message: "internal trouble", type: "api_error" })
        const broken = yield* ask()
        assert.strictEqual(broken.reason._tag, "InternalProviderError")
        assert.isTrue(broken.isRetryable)
        mock.nextRequestError(400, { message: "prompt is too long: 210000 tokens > 200000 maximum" })
        const { reason } = yield* ask()
        assert.strictEqual(reason._tag === "InvalidRequestError" && reason.constraint, "context_window")
      })
    )

    it.live("tells no call when the connection breaks in mid-stream", () =>
      Effect.gen(function* () {
        const mock = yield* mockServer
        mock.on(
          { userMessage: "break" },
          { content: "I look into it.", toolCalls: [{ name: "read", arguments: '{"path":"a.txt"}' }] },
          { truncateAfterChunks: 6, latency: 5 }
        )
        const { error, seen } = yield* Effect.provide(partsAndError("break"), wire(mock))
        assert.lengthOf(callsOf(seen), 0)
        assert.isUndefined(finishOf(seen))
        assert.isAbove(textOf(seen).length, 0)
        assert.strictEqual(error.reason._tag, "NetworkError")
        assert.isTrue(error.isRetryable)
      })
    )
  })
}
