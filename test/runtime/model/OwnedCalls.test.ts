import { assert, describe, it } from "@effect/vitest"
import * as OpenAiChat from "@turnstep/runtime/model/OpenAiChat"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Telemetry from "effect/ai/Telemetry"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as Tracer from "effect/Tracer"
import { declared, parts, toolkit } from "../../fixtures/modelCalls.ts"

/** The same request on the way every caller may take: the tools are an effect, so effect's own code resolves them. */
const generalParts = (prompt: string, toolChoice?: LanguageModel.ToolChoice<"read" | "add">) =>
  LanguageModel.streamText({
    prompt,
    toolkit: Effect.succeed(declared),
    disableToolCallResolution: true,
    toolCallValidation: "deferred",
    ...(toolChoice === undefined ? undefined : { toolChoice })
  }).pipe(Stream.runCollect)

const replies: ReadonlyArray<readonly [string, StrictProvider.Answer]> = [
  ["text and reasoning", StrictProvider.text(["a", "b"], { reasoning: ["c", "d"] })],
  [
    "calls, an undeclared one and a broken one",
    StrictProvider.calls([
      { name: "read", arguments: { path: "x" } },
      { name: "add", arguments: '{"a":' },
      { name: "nobody", arguments: { deep: [null, { a: 1 }] } }
    ])
  ],
  [
    "every count of tokens",
    StrictProvider.text("a", {
      finish: "length",
      usage: {
        prompt_tokens: 5,
        completion_tokens: 4,
        prompt_tokens_details: { cached_tokens: 2 },
        completion_tokens_details: { reasoning_tokens: 1 }
      }
    })
  ],
  ["no counts", StrictProvider.text("a", { usage: null })],
  ["nothing", {}]
]

/** Collects the spans of an effect. */
const spansOf = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const spans: Array<Tracer.Span> = []
    const tracer = Tracer.make({
      span: (options) => {
        const span = new Tracer.NativeSpan(options)
        spans.push(span)
        return span
      }
    })
    yield* Effect.withTracer(effect, tracer)
    return spans
      .filter((span) => span.name.startsWith("LanguageModel"))
      .map(({ attributes, kind, name, status }) => ({ name, kind, status: status._tag, attributes: [...attributes] }))
  })

describe("OwnedCalls", () => {
  for (const [what, reply] of replies) {
    it.live(`tells the same parts as effect's own way: ${what}`, () =>
      Effect.gen(function* () {
        const provider = yield* StrictProvider.make({ respond: () => reply })
        const model = yield* Layer.build(provider.layer)
        const quick = yield* Effect.provide(parts("x"), model)
        const general = yield* Effect.provide(generalParts("x"), model)
        assert.deepStrictEqual(withoutIds(quick), withoutIds(general))
        assert.deepStrictEqual(quick.map(keysOf), general.map(keysOf))
        assert.deepStrictEqual(
          quick.map((part) => part.type === "finish" && part.usage.constructor),
          general.map((part) => part.type === "finish" && part.usage.constructor)
        )
      })
    )
  }

  it.live("writes the same span as effect's own way, ended with the stream", () =>
    Effect.gen(function* () {
      const provider = yield* StrictProvider.make({ respond: () => StrictProvider.text("ok") })
      const model = yield* Layer.build(provider.layer)
      const quick = yield* spansOf(Effect.provide(parts("x", { tool: "add" }), model))
      const general = yield* spansOf(Effect.provide(generalParts("x", { tool: "add" }), model))
      assert.deepStrictEqual(quick, general)
      assert.strictEqual(quick[0]?.status, "Ended")
      assert.strictEqual(new Map(quick[0]?.attributes).get("gen_ai.request.model"), "strict")
    })
  )

  it.live("hands the whole response to a span transformer", () =>
    Effect.gen(function* () {
      const provider = yield* StrictProvider.make({ respond: () => StrictProvider.text("ok") })
      const seen: Array<string> = []
      const transformer: Telemetry.SpanTransformer = ({ response }) => {
        seen.push(...response.map((part) => part.type))
      }
      yield* parts("x").pipe(
        Effect.provide(provider.layer),
        Effect.provideService(Telemetry.CurrentSpanTransformer, transformer)
      )
      assert.deepStrictEqual(seen, ["response-metadata", "text-start", "text-delta", "text-end", "finish"])
    })
  )

  it.live("leaves resolution to effect for a caller who wants it", () =>
    Effect.gen(function* () {
      const provider = yield* StrictProvider.make({
        respond: () => StrictProvider.calls([{ name: "add", arguments: { a: 1, b: 2 } }])
      })
      const handlers = toolkit.toLayer({ read: () => Effect.succeed(""), add: ({ a, b }) => Effect.succeed(a + b) })
      const seen = yield* LanguageModel.streamText({ prompt: "x", toolkit }).pipe(
        Stream.runCollect,
        Effect.provide([provider.layer, handlers])
      )
      assert.deepStrictEqual(
        seen.flatMap((part) => (part.type === "tool-result" ? [part.result] : [])),
        [3]
      )
    })
  )

  it.live("leaves validation to effect for a caller who wants it", () =>
    Effect.gen(function* () {
      const provider = yield* StrictProvider.make({ respond: () => StrictProvider.calls([{ name: "nobody" }]) })
      const error = yield* LanguageModel.streamText({
        prompt: "x",
        toolkit: declared,
        disableToolCallResolution: true
      }).pipe(Stream.runCollect, Effect.provide(provider.layer), Effect.flip)
      assert.strictEqual(error.reason._tag, "InvalidOutputError")
    })
  )

  it.live("asks anew each time a stream is run", () =>
    Effect.gen(function* () {
      const provider = yield* StrictProvider.make({ respond: ({ index }) => StrictProvider.text(`${index}`) })
      const layer = OpenAiChat.layer({ baseUrl: provider.baseUrl, model: "m" })
      const answers = yield* Effect.gen(function* () {
        const model = yield* LanguageModel.LanguageModel
        const stream = model.streamText({
          prompt: "x",
          toolkit: declared,
          disableToolCallResolution: true,
          toolCallValidation: "deferred"
        })
        return yield* Effect.all([Stream.runCollect(stream), Stream.runCollect(stream)])
      }).pipe(Effect.provide(layer))
      assert.lengthOf(answers, 2)
      assert.lengthOf(provider.requests, 2)
    })
  )
})

/** Ids of the server differ from request to request. */
const withoutIds = (parts: ReadonlyArray<object>): unknown =>
  JSON.parse(JSON.stringify(parts).replaceAll(/strict-\d|call_\d/g, "same"))

const keysOf = (part: object): ReadonlyArray<string> =>
  Object.entries(part)
    .filter(([, value]) => value !== undefined)
    .map(([key]) => key)
    .toSorted()
