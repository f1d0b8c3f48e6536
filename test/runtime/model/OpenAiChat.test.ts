import { assert, describe, it } from "@effect/vitest"
import * as OpenAiChat from "@turnstep/runtime/model/OpenAiChat"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Prompt from "effect/ai/Prompt"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { answered, callsOf, declared, finishOf, partsAndError, parts, textOf } from "../../fixtures/modelCalls.ts"

const echo = () => StrictProvider.make({ respond: () => StrictProvider.text("ok") })

describe("OpenAiChat", () => {
  it.live("tells a response in parts: metadata, reasoning, text, parameters, calls, finish", () =>
    Effect.gen(function* () {
      const provider = yield* StrictProvider.make({
        respond: () =>
          StrictProvider.calls([{ name: "read", arguments: ['{"path":', '"a"}'], id: "c1" }], {
            reasoning: ["th", "ink"],
            text: ["Let", " me"],
            usage: {
              prompt_tokens: 10,
              completion_tokens: 8,
              prompt_tokens_details: { cached_tokens: 4 },
              completion_tokens_details: { reasoning_tokens: 5 }
            }
          })
      })
      const seen = yield* Effect.provide(parts("go"), provider.layer)
      assert.deepStrictEqual(
        seen.map((part) => ("delta" in part ? `${part.type} ${part.id} ${part.delta}` : part.type)),
        [
          "response-metadata",
          "reasoning-start",
          "reasoning-delta reasoning-0 th",
          "reasoning-delta reasoning-0 ink",
          "reasoning-end",
          "text-start",
          "text-delta text-1 Let",
          "text-delta text-1  me",
          "text-end",
          "tool-params-start",
          'tool-params-delta c1 {"path":',
          'tool-params-delta c1 "a"}',
          "tool-params-end",
          "tool-call",
          "finish"
        ]
      )
      const finish = finishOf(seen)
      assert.strictEqual(finish?.reason, "tool-calls")
      assert.deepStrictEqual({ ...finish?.usage.inputTokens }, { total: 10, cacheRead: 4, uncached: 6 })
      assert.deepStrictEqual({ ...finish?.usage.outputTokens }, { total: 8, reasoning: 5, text: 3 })
    })
  )

  it.live("declares tools and maps every tool choice", () =>
    Effect.gen(function* () {
      const provider = yield* echo()
      yield* Effect.gen(function* () {
        yield* parts("x")
        yield* parts("x", "none")
        yield* parts("x", "required")
        yield* parts("x", { tool: "add" })
        yield* parts("x", { oneOf: ["add"] })
        yield* parts("x", { mode: "required", oneOf: ["add"] })
      }).pipe(Effect.provide(provider.layer))
      assert.deepStrictEqual(
        provider.requests.map((request) => request.body["tool_choice"]),
        [undefined, "none", "required", { type: "function", function: { name: "add" } }, undefined, "required"]
      )
      assert.deepStrictEqual(
        provider.requests.map((request) => request.toolNames),
        [["read", "add"], ["read", "add"], ["read", "add"], ["read", "add"], ["add"], ["add"]]
      )
      assert.deepStrictEqual<unknown>(provider.requests[0]?.body.tools?.[0]?.function, {
        name: "read",
        description: "Reads a file",
        parameters: {
          type: "object",
          properties: { path: { type: "string" } },
          required: ["path"],
          additionalProperties: true
        }
      })
    })
  )

  it.live("sends settings and headers, streams with usage, and declares no tools when there are none", () =>
    Effect.gen(function* () {
      const provider = yield* StrictProvider.make({
        respond: () => StrictProvider.text("ok"),
        apiKey: "sk-long-secret"
      })
      const layer = OpenAiChat.layer({
        baseUrl: `${provider.baseUrl}/?v=1`,
        model: "gpt-x",
        apiKey: Redacted.make(" sk-long-secret\n"),
        headers: { "x-title": "turnstep" },
        settings: { temperature: 0.5, stop: ["END"] }
      })
      const response = yield* Effect.provide(LanguageModel.generateText({ prompt: "hi" }), layer)
      assert.strictEqual(response.text, "ok")
      const request = provider.requests[0]
      assert.strictEqual(request?.headers["x-title"], "turnstep")
      assert.deepStrictEqual<unknown>(request?.body, {
        stream_options: { include_usage: true },
        temperature: 0.5,
        stop: ["END"],
        model: "gpt-x",
        stream: true,
        messages: [{ role: "user", content: "hi" }]
      })
    })
  )

  it.live("collects the stream for generateText and generateObject", () =>
    Effect.gen(function* () {
      const provider = yield* StrictProvider.make({
        respond: StrictProvider.script([
          StrictProvider.calls([{ name: "read", arguments: { path: "a" } }], { text: ["I ", "look"], reasoning: "hm" }),
          StrictProvider.text('{"n":4}')
        ])
      })
      const { object, text } = yield* Effect.gen(function* () {
        const text = yield* LanguageModel.generateText({
          prompt: "x",
          toolkit: declared,
          disableToolCallResolution: true,
          toolCallValidation: "deferred"
        })
        const object = yield* LanguageModel.generateObject({
          prompt: "x",
          objectName: "my count",
          schema: Schema.Struct({ n: Schema.Finite })
        })
        return { text, object }
      }).pipe(Effect.provide(provider.layer))
      assert.strictEqual(text.text, "I look")
      assert.strictEqual(text.reasoningText, "hm")
      assert.lengthOf(text.toolCalls, 1)
      assert.strictEqual(text.finishReason, "tool-calls")
      assert.deepStrictEqual(object.value, { n: 4 })
      assert.include(JSON.stringify(provider.requests[1]?.body["response_format"]), '"name":"my_count"')
    })
  )

  it.live("encodes a message once: the same message object is never read again", () =>
    Effect.gen(function* () {
      const provider = yield* echo()
      let reads = 0
      const message = Prompt.userMessage({ content: [Prompt.textPart({ text: "counted" })] })
      const watched = new Proxy(message, {
        get: (target, key, receiver) => {
          if (key === "content") reads++
          return Reflect.get(target, key, receiver)
        }
      })
      const steps = Effect.forEach([1, 2, 3], () => parts(Prompt.fromMessages([watched])), { discard: true })
      const before = reads
      yield* Effect.provide(steps, provider.layer)
      assert.strictEqual(reads - before, 1)
      assert.deepStrictEqual(
        provider.requests.map(({ messages }) => messages[0]?.content),
        ["counted", "counted", "counted"]
      )
    })
  )

  it.live("uses one connection for consecutive steps", () =>
    Effect.gen(function* () {
      const provider = yield* StrictProvider.make({
        respond: ({ messages }) =>
          messages.length > 6 ? StrictProvider.text("end") : StrictProvider.calls([{ name: "read" }])
      })
      const history = [...Prompt.make([{ role: "user", content: "go" }]).content]
      const turn = Effect.gen(function* () {
        for (;;) {
          const step = yield* parts(Prompt.fromMessages(history))
          if (callsOf(step).length === 0) return textOf(step)
          history.push(...answered(step, () => "x"))
        }
      })
      assert.strictEqual(yield* Effect.provide(turn, provider.layer), "end")
      assert.lengthOf(provider.requests, 4)
      assert.lengthOf(new Set(provider.requests.map((request) => request.clientPort)), 1)
    })
  )

  it.live("destroys the socket at once when the stream's fiber is interrupted", () =>
    Effect.gen(function* () {
      const reached = yield* Deferred.make<void>()
      const provider = yield* StrictProvider.make({
        respond: () => StrictProvider.text(["one", Effect.andThen(Deferred.succeed(reached, undefined), Effect.never)])
      })
      const model = yield* Layer.build(provider.layer) // outlives the fiber: closing it would close the socket too
      const fiber = yield* Effect.forkChild(Effect.provide(parts("x"), model))
      yield* Deferred.await(reached)
      yield* Fiber.interrupt(fiber)
      yield* provider.requests[0]?.aborted ?? Effect.die("no request")
    })
  )

  it.live("fails without a retry when the request cannot be written or the base URL is none", () =>
    Effect.gen(function* () {
      const provider = yield* echo()
      const circular: { self?: unknown } = {}
      circular.self = circular
      const { error } = yield* Effect.provide(
        partsAndError(
          Prompt.fromMessages([
            Prompt.assistantMessage({
              content: [Prompt.toolCallPart({ id: "a", name: "read", params: circular, providerExecuted: false })]
            })
          ])
        ),
        provider.layer
      )
      assert.strictEqual(error.reason._tag === "NetworkError" && error.reason.reason, "EncodeError")
      assert.isFalse(error.isRetryable)
      const wrong = OpenAiChat.layer({ baseUrl: "localhost:11434", model: "m" })
      const { error: invalid } = yield* Effect.provide(partsAndError("x"), wrong)
      assert.strictEqual(invalid.reason._tag === "NetworkError" && invalid.reason.reason, "InvalidUrlError")
      assert.isFalse(invalid.isRetryable)
      assert.lengthOf(provider.requests, 0)
    })
  )
})
