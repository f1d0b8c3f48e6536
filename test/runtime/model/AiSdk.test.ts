import { APICallError, type LanguageModelV4, type LanguageModelV4StreamPart } from "@ai-sdk/provider"
import { assert, describe, it } from "@effect/vitest"
import * as AiSdk from "@turnstep/runtime/model/AiSdk"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as util from "node:util"
import { callsOf, finishOf, parts, partsAndError, textOf } from "../../fixtures/modelCalls.ts"

type CallOptions = Parameters<LanguageModelV4["doStream"]>[0]

/** A provider package's model that plays parts and remembers how it was called. */
const played = (
  stream: (call: CallOptions) => ReadonlyArray<LanguageModelV4StreamPart> | ReadableStream<LanguageModelV4StreamPart>
) => {
  const calls: Array<CallOptions> = []
  const model: LanguageModelV4 = {
    specificationVersion: "v4",
    provider: "played",
    modelId: "m",
    supportedUrls: {},
    doGenerate: () => Promise.reject(new Error("only streams are asked for")),
    doStream: async (call) => {
      calls.push(call)
      const given = stream(call)
      return { stream: given instanceof ReadableStream ? given : ReadableStream.from(given) }
    }
  }
  return { model, calls }
}

const usage = {
  inputTokens: { total: 9, noCache: 5, cacheRead: 4, cacheWrite: undefined },
  outputTokens: { total: 3, text: 3, reasoning: undefined }
}

const finish = (
  unified: "stop" | "tool-calls" | "length" | "interrupted" | "other" | "error",
  raw: string | undefined = unified
): LanguageModelV4StreamPart => ({ type: "finish", usage, finishReason: { unified, raw } })

const toolCall: LanguageModelV4StreamPart = {
  type: "tool-call",
  toolCallId: "c1",
  toolName: "read",
  input: '{"path":"a"}'
}

const text = (delta: string): ReadonlyArray<LanguageModelV4StreamPart> => [
  { type: "text-start", id: "t" },
  { type: "text-delta", id: "t", delta },
  { type: "text-end", id: "t" }
]

/** The call options a prompt turns into. */
const called = (prompt: Prompt.RawInput) =>
  Effect.gen(function* () {
    const { calls, model } = played(() => [...text("ok"), finish("stop")])
    yield* Effect.provide(parts(prompt), AiSdk.layer(model))
    return calls[0]?.prompt
  })

const failing = (stream: ReadonlyArray<LanguageModelV4StreamPart>) =>
  Effect.provide(partsAndError("x"), AiSdk.layer(played(() => stream).model))

const rejected = (cause: unknown, options?: AiSdk.Options) => {
  const model: LanguageModelV4 = { ...played(() => []).model, doStream: () => Promise.reject(cause) }
  return Effect.map(Effect.provide(partsAndError("x"), AiSdk.layer(model, options)), ({ error }) => error)
}

describe("AiSdk", () => {
  it.live("tells the parts of a response, and calls only with the finish", () =>
    Effect.gen(function* () {
      const { model } = played(() => [
        { type: "stream-start", warnings: [] },
        { type: "response-metadata", id: "r1", modelId: "m-1", timestamp: new Date(0) },
        { type: "reasoning-start", id: "r" },
        { type: "reasoning-delta", id: "r", delta: "hm" },
        { type: "reasoning-end", id: "r", providerMetadata: { anthropic: { signature: "sig", nothing: undefined } } },
        { type: "tool-input-start", id: "c1", toolName: "read" },
        { type: "tool-input-delta", id: "c1", delta: '{"path":"a"}' },
        { type: "tool-input-end", id: "c1" },
        { ...toolCall, providerMetadata: { google: { thoughtSignature: "ts" } } },
        { type: "ping" },
        ...text("Look"),
        finish("tool-calls", "tool_use")
      ])
      const seen = yield* Effect.provide(parts("x"), AiSdk.layer(model))
      assert.deepStrictEqual(
        seen.map((part) => part.type),
        [
          "response-metadata",
          "reasoning-start",
          "reasoning-delta",
          "reasoning-end",
          "tool-params-start",
          "tool-params-delta",
          "tool-params-end",
          "text-start",
          "text-delta",
          "text-end",
          "tool-call",
          "finish"
        ]
      )
      assert.deepStrictEqual(seen[3]?.metadata, { anthropic: { signature: "sig" } })
      assert.deepStrictEqual(seen[10]?.metadata, { google: { thoughtSignature: "ts" } })
      assert.deepStrictEqual(callsOf(seen), [{ id: "c1", name: "read", params: { path: "a" } }])
      assert.deepStrictEqual({ ...finishOf(seen)?.usage.inputTokens }, { total: 9, uncached: 5, cacheRead: 4 })
    })
  )

  it.live("never tells a call of half a response", () =>
    Effect.gen(function* () {
      const endings: ReadonlyArray<ReadonlyArray<LanguageModelV4StreamPart>> = [
        [toolCall],
        [toolCall, { type: "finish", usage, finishReason: { unified: "interrupted", raw: undefined } }],
        [toolCall, { type: "finish", usage, finishReason: { unified: "other", raw: undefined } }],
        [
          toolCall,
          { type: "error", error: Object.assign(new TypeError("terminated"), { cause: { code: "UND_ERR_SOCKET" } }) }
        ]
      ]
      for (const ending of endings) {
        const { error, seen } = yield* failing(ending)
        assert.lengthOf(callsOf(seen), 0)
        assert.strictEqual(error.reason._tag, "NetworkError")
        assert.isTrue(error.isRetryable)
      }
      const paused = yield* Effect.provide(
        parts("x"),
        AiSdk.layer(played(() => [finish("interrupted", "pause_turn")]).model)
      )
      assert.strictEqual(finishOf(paused)?.reason, "pause")
    })
  )

  it.live("keeps broken arguments as text and takes none as an empty object", () =>
    Effect.gen(function* () {
      const { model } = played(() => [
        { ...toolCall, input: "" },
        { ...toolCall, toolCallId: "c2", input: '{"path' },
        finish("length", "max_tokens")
      ])
      const seen = yield* Effect.provide(parts("x"), AiSdk.layer(model))
      assert.deepStrictEqual(
        callsOf(seen).map(({ params }) => params),
        [{}, '{"path']
      )
      assert.strictEqual(finishOf(seen)?.reason, "length")
    })
  )

  it.live("aborts the request when the stream's fiber is interrupted", () =>
    Effect.gen(function* () {
      const aborted = yield* Deferred.make<void>()
      const reading = yield* Deferred.make<void>()
      const { model } = played((call) => {
        call.abortSignal?.addEventListener("abort", () => Deferred.doneUnsafe(aborted, Effect.void))
        return new ReadableStream<LanguageModelV4StreamPart>({
          pull: () => void Deferred.doneUnsafe(reading, Effect.void)
        })
      })
      const fiber = yield* Effect.forkChild(Effect.provide(parts("x"), AiSdk.layer(model)))
      yield* Deferred.await(reading)
      yield* Fiber.interrupt(fiber)
      yield* Deferred.await(aborted)
    })
  )

  it.live("converts every kind of message, without lone surrogates, empty texts or illegal calls", () =>
    Effect.gen(function* () {
      const half = "\uD83D"
      const prompt = yield* called([
        { role: "system", content: `be brief${half}` },
        {
          role: "user",
          content: [
            { type: "text", text: "see" },
            { type: "file", mediaType: "image/png", fileName: "a.png", data: new Uint8Array([1]) },
            { type: "file", mediaType: "image/png", data: "data:image/png;base64,AQID" },
            { type: "file", mediaType: "image/png", data: new URL("https://example.test/a.png") }
          ]
        },
        {
          role: "assistant",
          content: [
            { type: "reasoning", text: "hm", options: { anthropic: { signature: "sig" } } },
            { type: "text", text: "" },
            {
              type: "tool-call",
              id: "c1",
              name: "fs.read",
              params: "{broken",
              options: { google: { thoughtSignature: "ts" } }
            }
          ]
        },
        {
          role: "tool",
          content: [{ type: "tool-result", id: "c1", name: "fs.read", isFailure: true, result: { deep: half } }]
        },
        { role: "assistant", content: [{ type: "text", text: "" }] },
        { role: "user", content: "go on" }
      ])
      assert.deepStrictEqual<unknown>(prompt, [
        { role: "system", content: "be brief\uFFFD" },
        {
          role: "user",
          content: [
            { type: "text", text: "see" },
            {
              type: "file",
              mediaType: "image/png",
              data: { type: "data", data: new Uint8Array([1]) },
              filename: "a.png"
            },
            { type: "file", mediaType: "image/png", data: { type: "data", data: "AQID" } },
            { type: "file", mediaType: "image/png", data: { type: "url", url: new URL("https://example.test/a.png") } }
          ]
        },
        {
          role: "assistant",
          content: [
            { type: "reasoning", text: "hm", providerOptions: { anthropic: { signature: "sig" } } },
            {
              type: "tool-call",
              toolCallId: "c1",
              toolName: "fs_read",
              input: { invalid_arguments: "{broken" },
              providerOptions: { google: { thoughtSignature: "ts" } }
            }
          ]
        },
        {
          role: "tool",
          content: [
            {
              type: "tool-result",
              toolCallId: "c1",
              toolName: "fs_read",
              output: { type: "error-json", value: { deep: "\uFFFD" } }
            }
          ]
        },
        { role: "user", content: [{ type: "text", text: "go on" }] }
      ])
    })
  )

  it.live("converts a message once and gives settings, tools and tool choice", () =>
    Effect.gen(function* () {
      const { calls, model } = played(() => [...text("ok"), finish("stop")])
      const prompt = Prompt.make("same object")
      yield* Effect.gen(function* () {
        yield* parts(prompt)
        yield* parts(prompt, { tool: "add" })
        yield* parts(prompt, "none")
        yield* parts(prompt, { mode: "required", oneOf: ["add"] })
        yield* LanguageModel.generateText({ prompt })
      }).pipe(Effect.provide(AiSdk.layer(model, { settings: { temperature: 0.2 } })))
      assert.isTrue(calls.every((call) => call.prompt[0] === calls[0]?.prompt[0] && call.temperature === 0.2))
      assert.deepStrictEqual<unknown>(
        calls.map((call) => call.toolChoice),
        [{ type: "auto" }, { type: "tool", toolName: "add" }, { type: "none" }, { type: "required" }, undefined]
      )
      assert.deepStrictEqual(
        calls.map((call) => call.tools?.map((tool) => tool.name)),
        [["read", "add"], ["read", "add"], ["read", "add"], ["add"], undefined]
      )
    })
  )

  it.live("collects the stream for generateText and generateObject", () =>
    Effect.gen(function* () {
      const { calls, model } = played((call) => [
        { type: "reasoning-start", id: "r" },
        { type: "reasoning-delta", id: "r", delta: "hm", providerMetadata: { p: { a: 1 } } },
        { type: "reasoning-end", id: "r", providerMetadata: { p: { signature: "s" } } },
        ...text(call.responseFormat?.type === "json" ? '{"n":4}' : "plain"),
        finish("stop")
      ])
      const { object, plain } = yield* Effect.gen(function* () {
        const plain = yield* LanguageModel.generateText({ prompt: "x" })
        const object = yield* LanguageModel.generateObject({ prompt: "x", schema: Schema.Struct({ n: Schema.Finite }) })
        return { plain, object }
      }).pipe(Effect.provide(AiSdk.layer(model)))
      assert.strictEqual(plain.text, "plain")
      assert.deepStrictEqual(plain.reasoning[0]?.metadata, { p: { a: 1, signature: "s" } })
      assert.deepStrictEqual(object.value, { n: 4 })
      assert.strictEqual(calls[1]?.responseFormat?.type, "json")
    })
  )

  it.live("passes tools that the provider defines, and their results", () =>
    Effect.gen(function* () {
      const Search = Tool.providerDefined({
        id: "played.search",
        customName: "Search",
        providerName: "search",
        parameters: Schema.Struct({ q: Schema.String }),
        success: Schema.String
      })(undefined)
      const { calls, model } = played(() => [
        { type: "tool-call", toolCallId: "s1", toolName: "Search", input: '{"q":"x"}', providerExecuted: true },
        { type: "tool-result", toolCallId: "s1", toolName: "Search", result: "found" },
        ...text("ok"),
        finish("stop")
      ])
      const response = yield* LanguageModel.generateText({
        prompt: "x",
        toolkit: { tools: { Search }, handle: () => Effect.die("never") },
        disableToolCallResolution: true,
        toolCallValidation: "deferred"
      }).pipe(Effect.provide(AiSdk.layer(model)))
      assert.deepStrictEqual<unknown>(calls[0]?.tools, [
        { type: "provider", id: "played.search", name: "search", args: {} }
      ])
      assert.deepStrictEqual(
        response.content.map((part) => part.type),
        ["tool-call", "tool-result", "text", "finish"]
      )
    })
  )

  it.live("gives errors their reasons and keeps the key out of them", () =>
    Effect.gen(function* () {
      const key = "sk-secret-0123456789"
      const refusal = (statusCode: number | undefined, responseBody: string, responseHeaders = {}) =>
        rejected(
          new APICallError({
            message: `failed with ${key}`,
            url: "https://example.test/v1?key=sk",
            requestBodyValues: {},
            ...(statusCode === undefined ? undefined : { statusCode }),
            responseHeaders,
            responseBody
          }),
          { apiKey: Redacted.make(key) }
        )
      const errors = {
        auth: yield* refusal(401, `bad key ${key}`),
        limit: yield* refusal(429, "{}", { "retry-after": "3" }),
        overflow: yield* refusal(
          400,
          '{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long"}}'
        ),
        reset: yield* refusal(undefined, ""),
        halfBody: yield* refusal(200, ""),
        told: (yield* failing([{ type: "error", error: { type: "overloaded_error", message: "Overloaded" } }])).error,
        broken: (yield* failing([finish("error", "MALFORMED_FUNCTION_CALL")])).error,
        bug: yield* rejected(new Error("what is this"))
      }
      assert.deepStrictEqual(
        Object.fromEntries(
          Object.entries(errors).map(([name, { isRetryable, reason }]) => [name, [reason._tag, isRetryable]])
        ),
        {
          auth: ["AuthenticationError", false],
          limit: ["RateLimitError", true],
          overflow: ["InvalidRequestError", false],
          reset: ["NetworkError", true],
          halfBody: ["NetworkError", true],
          told: ["InternalProviderError", true],
          broken: ["InternalProviderError", true],
          bug: ["UnknownError", false]
        }
      )
      assert.strictEqual(
        errors.overflow.reason._tag === "InvalidRequestError" && errors.overflow.reason.constraint,
        "context_window"
      )
      for (const error of Object.values(errors)) assert.notInclude(util.inspect(error, { depth: 20 }), key)
    })
  )

  it.live("tells text before a fault", () =>
    Effect.gen(function* () {
      const { error, seen } = yield* failing([...text("half"), { type: "error", error: "boom" }])
      assert.strictEqual(textOf(seen), "half")
      assert.include(error.message, "boom")
    })
  )
})
