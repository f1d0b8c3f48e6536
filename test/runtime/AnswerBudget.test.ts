/** Every answer ends: in size, in progress and in time, whatever the model. */
import type { LanguageModelV4, LanguageModelV4StreamPart } from "@ai-sdk/provider"
import { assert, describe, it } from "@effect/vitest"
import * as Agent from "@turnstep/runtime/Agent"
import { AnswerLimits } from "@turnstep/runtime/AnswerBudget"
import * as AiSdk from "@turnstep/runtime/model/AiSdk"
import * as OpenAiChat from "@turnstep/runtime/model/OpenAiChat"
import * as Runtime from "@turnstep/runtime/Runtime"
import { Sessions } from "@turnstep/runtime/Session"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as LanguageModel from "effect/ai/LanguageModel"
import type * as Response from "effect/ai/Response"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"

type Part = Response.StreamPartEncoded
type Parts = Stream.Stream<Part>

/** A model as an application brings it, that tells these parts and counts how often it is asked. */
const own = (parts: () => Parts) => {
  const asked = { count: 0 }
  const layer = Layer.effect(
    LanguageModel.LanguageModel,
    LanguageModel.make({
      generateText: () => Effect.die("only streams are asked for"),
      streamText: () =>
        Stream.suspend(() => {
          asked.count++
          return parts()
        })
    })
  )
  return { asked, layer }
}

/** How a Turn of this model ends: the code of its failure, or its finish reason. */
const ended = (model: Layer.Layer<LanguageModel.LanguageModel>) => {
  const agent = Agent.make("a", { instructions: "Talk." })
  return Effect.gen(function* () {
    const session = yield* Effect.flatMap(Sessions, ({ open }) => open())
    return yield* Effect.match(session.run("go"), {
      onSuccess: (outcome) => (outcome._tag === "Answered" ? outcome.finishReason : outcome._tag),
      onFailure: (error) => (error._tag === "TurnFailed" ? error.error.code : error._tag)
    })
  }).pipe(Effect.provide(Runtime.layerMemory([agent]).pipe(Layer.provide(model))), Effect.orDie)
}

const usage = { inputTokens: {}, outputTokens: {} }
const finish: Part = { type: "finish", reason: "stop", usage }
const piece = "x".repeat(64 * 1024)
const endless = (...parts: ReadonlyArray<Part>): Parts =>
  Stream.flatMap(Stream.fromEffectRepeat(Effect.yieldNow), () => Stream.fromIterable(parts))

const tooMuch: ReadonlyArray<readonly [string, () => Parts]> = [
  ["text", () => endless({ type: "text-delta", id: "t", delta: piece })],
  ["reasoning", () => endless({ type: "reasoning-delta", id: "r", delta: piece })],
  [
    "arguments that never end",
    () =>
      Stream.concat(
        Stream.make<[Part]>({ type: "tool-params-start", id: "c", name: "x", providerExecuted: false }),
        endless({ type: "tool-params-delta", id: "c", delta: piece })
      )
  ],
  ["metadata", () => endless({ type: "reasoning-end", id: "r", metadata: { some: { signature: piece } } })],
  [
    "one call with large arguments",
    () =>
      Stream.make<[Part, Part]>({ type: "tool-call", id: "c", name: "x", params: { all: piece.repeat(65) } }, finish)
  ],
  [
    "blocks",
    () => Stream.fromIterable(Array.from({ length: 6_001 }, (_, n): Part => ({ type: "text-start", id: `t${n}` })))
  ],
  [
    "calls",
    () =>
      Stream.fromIterable([
        ...Array.from({ length: 6_001 }, (_, n): Part => ({ type: "tool-call", id: `c${n}`, name: "x", params: {} })),
        finish
      ])
  ]
]

describe("an answer of an application's own model", () => {
  for (const [what, parts] of tooMuch) {
    it.live(`is stopped when it has too much of this: ${what}`, () =>
      Effect.gen(function* () {
        const model = own(parts)
        assert.strictEqual(yield* ended(model.layer), "answer-too-large")
        assert.strictEqual(model.asked.count, 1)
      })
    )
  }

  it.live("may be as large as the limit says", () =>
    Effect.gen(function* () {
      const parts = () => Stream.make<[Part, Part]>({ type: "text-delta", id: "t", delta: "x".repeat(100) }, finish)
      assert.strictEqual(yield* ended(own(parts).layer), "stop")
      const limits = { bytes: 99, parts: 10, silence: Duration.minutes(1), longest: Duration.minutes(1) }
      const limited = Layer.merge(own(parts).layer, Layer.succeed(AnswerLimits, limits))
      assert.strictEqual(yield* ended(limited), "answer-too-large")
    })
  )

  const quiet: ReadonlyArray<readonly [string, () => Parts]> = [
    ["tells nothing", () => Stream.never],
    [
      "tells only that it lives",
      () => Stream.map(Stream.tick("1 second"), (): Part => ({ type: "text-delta", id: "t", delta: "" }))
    ],
    [
      "stops in the middle",
      () => Stream.concat(Stream.make<[Part]>({ type: "text-delta", id: "t", delta: "so" }), Stream.never)
    ]
  ]
  for (const [what, parts] of quiet) {
    it.effect(`has stalled when it ${what}, and is asked for again a bounded number of times`, () =>
      Effect.gen(function* () {
        const model = own(parts)
        const end = yield* Effect.forkChild(ended(model.layer), { startImmediately: true })
        yield* TestClock.adjust("9 minutes")
        assert.strictEqual(model.asked.count, 1)
        yield* TestClock.adjust("2 minutes")
        assert.strictEqual(model.asked.count, 2)
        yield* TestClock.adjust("40 minutes")
        assert.strictEqual(yield* Fiber.join(end), "model-stalled")
        assert.strictEqual(model.asked.count, 4)
      })
    )
  }

  it.effect("is not waited for longer than an hour, however it goes on", () =>
    Effect.gen(function* () {
      const model = own(() =>
        Stream.map(Stream.tick("1 minute"), (): Part => ({ type: "text-delta", id: "t", delta: "x" }))
      )
      const end = yield* Effect.forkChild(ended(model.layer), { startImmediately: true })
      yield* TestClock.adjust("59 minutes")
      assert.isUndefined(end.pollUnsafe())
      yield* TestClock.adjust("2 minutes")
      assert.strictEqual(yield* Fiber.join(end), "answer-too-long")
      assert.strictEqual(model.asked.count, 1)
    })
  )
})

describe("an answer over the OpenAI Chat wire", () => {
  const chunk = (delta: object) => `data: ${JSON.stringify({ choices: [{ index: 0, delta }] })}\n\n`
  const floods: ReadonlyArray<readonly [string, ReadonlyArray<string>]> = [
    ["text", Array.from({ length: 80 }, () => chunk({ content: piece }))],
    ["one line that does not end", ["data: ", ...Array.from({ length: 140 }, () => piece)]],
    ["a document that does not end", ["{", ...Array.from({ length: 140 }, () => piece)]],
    [
      "arguments of a call without a name",
      Array.from({ length: 140 }, () => chunk({ tool_calls: [{ index: 0, function: { arguments: piece } }] }))
    ],
    [
      "calls without arguments",
      Array.from({ length: 6_100 }, (_, index) =>
        chunk({ tool_calls: [{ index, id: `c${index}`, function: { name: "x" } }] })
      )
    ],
    [
      "reasoning details",
      Array.from({ length: 140 }, () => chunk({ reasoning_details: [{ type: "reasoning.encrypted", data: piece }] }))
    ]
  ]
  for (const [what, raw] of floods) {
    it.live(`is stopped when it has too much of this: ${what}`, () =>
      Effect.gen(function* () {
        const provider = yield* StrictProvider.make({ respond: () => ({ raw: [...raw, Effect.never] }) })
        assert.strictEqual(yield* ended(provider.layer), "answer-too-large")
        assert.lengthOf(provider.requests, 1)
        yield* provider.requests[0]?.aborted ?? Effect.void
      })
    )
  }

  it.live("has stalled when nothing but signs of life come", () =>
    Effect.gen(function* () {
      const life = Effect.delay(Effect.void, "5 millis")
      const raw = Array.from({ length: 200 }, () => [": keep-alive\n\n", life]).flat()
      const provider = yield* StrictProvider.make({
        respond: ({ index }) => (index === 0 ? { raw: [...raw, Effect.never] } : StrictProvider.text("fine"))
      })
      const limits = { bytes: 1e6, parts: 10, silence: Duration.millis(100), longest: Duration.minutes(1) }
      const model = Layer.merge(provider.layer, Layer.succeed(AnswerLimits, limits))
      assert.strictEqual(yield* ended(model), "stop")
      assert.lengthOf(provider.requests, 2)
      yield* provider.requests[0]?.aborted ?? Effect.void
    })
  )

  it.live("says that it was cut", () =>
    Effect.gen(function* () {
      for (const reason of ["length", "content_filter"]) {
        const provider = yield* StrictProvider.make({ respond: () => StrictProvider.text("half", { finish: reason }) })
        assert.strictEqual(yield* ended(provider.layer), reason.replace("_", "-"))
      }
      const raw = [chunk({ content: "half" }), "data: [DONE]\n\n"]
      const lax = yield* StrictProvider.make({ respond: () => ({ raw }) })
      assert.strictEqual(yield* ended(lax.layer), "unknown")
      const strict = yield* StrictProvider.make({
        respond: ({ index }) => (index === 0 ? { raw } : StrictProvider.text("whole"))
      })
      const { baseUrl } = strict
      assert.strictEqual(yield* ended(OpenAiChat.layer({ baseUrl, model: "m", tellsFinish: true })), "stop")
      assert.lengthOf(strict.requests, 2)
    })
  )
})

describe("an answer over the bridge to the AI SDK", () => {
  const played = (
    answers: ReadonlyArray<() => AsyncIterable<LanguageModelV4StreamPart> | ReadonlyArray<LanguageModelV4StreamPart>>
  ) => {
    const prompts: Array<ReadonlyArray<unknown>> = []
    const model: LanguageModelV4 = {
      specificationVersion: "v4",
      provider: "played",
      modelId: "m",
      supportedUrls: {},
      doGenerate: () => Promise.reject(new Error("only streams are asked for")),
      doStream: ({ prompt }) => {
        prompts.push(prompt)
        return Promise.resolve({ stream: ReadableStream.from(answers[prompts.length - 1]?.() ?? []) })
      }
    }
    return { prompts, layer: AiSdk.layer(model) }
  }
  const tokens = {
    inputTokens: { total: 10, noCache: 4, cacheRead: 6, cacheWrite: 1 },
    outputTokens: { total: 3, text: 1, reasoning: 2 }
  }
  const done = (unified: "stop" | "interrupted"): LanguageModelV4StreamPart => ({
    type: "finish",
    usage: tokens,
    finishReason: { unified, raw: unified === "stop" ? "end_turn" : "pause_turn" }
  })
  const said = (delta: string): ReadonlyArray<LanguageModelV4StreamPart> => [
    { type: "text-start", id: "0" },
    { type: "text-delta", id: "0", delta },
    { type: "text-end", id: "0" }
  ]

  it.live("is stopped when it has no end", () =>
    Effect.gen(function* () {
      async function* flood(): AsyncIterable<LanguageModelV4StreamPart> {
        for (;;) yield* said(piece)
      }
      assert.strictEqual(yield* ended(played([flood]).layer), "answer-too-large")
    })
  )

  it.live("goes on when it was paused, and keeps what the provider has run", () =>
    Effect.gen(function* () {
      const search = { toolCallId: "srv_1", toolName: "web_search" }
      const { layer, prompts } = played([
        () => [
          ...said("I search. "),
          { type: "tool-call", ...search, input: '{"query":"x"}', providerExecuted: true },
          { type: "tool-result", ...search, result: [{ url: "https://example.test" }] },
          done("interrupted")
        ],
        () => [...said("It is so."), done("stop")]
      ])
      const searching = Tool.providerDefined({
        id: "played.web_search",
        customName: "web_search",
        providerName: "web_search",
        args: Schema.Struct({}),
        parameters: Schema.Struct({ query: Schema.String }),
        success: Schema.Array(Schema.Struct({ url: Schema.String }))
      })
      const toolkit = Toolkit.make(searching({}))
      const agent = Agent.make("a", { instructions: "Talk.", toolkit })
      yield* Effect.gen(function* () {
        const session = yield* Effect.flatMap(Sessions, ({ open }) => open())
        const outcome = yield* session.run("go")
        assert.strictEqual(outcome._tag === "Answered" && outcome.text, "I search. It is so.")
        assert.strictEqual(outcome._tag === "Answered" && outcome.finishReason, "stop")
        assert.deepStrictEqual(outcome._tag === "Answered" && outcome.usage, {
          inputTokens: 20,
          outputTokens: 6,
          cachedInputTokens: 12,
          cacheWriteTokens: 2,
          reasoningTokens: 4
        })
        const added = (yield* session.events({ after: 0 })).flatMap((event) =>
          event.type === "message.added" && event.data.role === "assistant" ? [event.data.parts] : []
        )
        assert.deepInclude(added[0]?.[1], {
          options: {
            turnstep: {
              providerExecuted: {
                name: "web_search",
                params: { query: "x" },
                result: [{ url: "https://example.test" }]
              }
            }
          }
        })
      }).pipe(Effect.provide(Runtime.layerMemory([agent]).pipe(Layer.provide(layer))))
      assert.lengthOf(prompts, 2)
      const last = prompts[1]?.at(-1) as {
        readonly role: string
        readonly content: ReadonlyArray<{ readonly type: string }>
      }
      assert.strictEqual(last.role, "assistant")
      assert.deepStrictEqual(
        last.content.map(({ type }) => type),
        ["text", "tool-call", "tool-result"]
      )
    })
  )
})
