/**
 * A language model that is quick for callers who run tool calls themselves.
 *
 * A caller who switches resolution off and defers validation wants the parts as
 * the provider told them. For that caller `LanguageModel.make` would still check
 * every part against the schemas of all tools, which costs as much as the rest of
 * a call; here parts known to be right are handed over as they are. All other
 * callers get what `LanguageModel.make` makes.
 *
 * - W1. Parts, span and telemetry are the same on both ways.
 * - W2. On the quick way nothing of the tools is run: approvals in the prompt are the caller's.
 */
import type * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import * as Telemetry from "effect/ai/Telemetry"
import type * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Handoff from "./Handoff.ts"
import * as ResponseContent from "./ResponseContent.ts"

/** A provider as it is written for both ways. */
export interface Provider<Part extends Response.StreamPartEncoded> {
  /** Starts a call and gives what stops it; `tell` hears of the parts and, once, of the ending. */
  readonly start: (
    request: LanguageModel.ProviderOptions,
    now: () => number,
    tell: Handoff.Sink<Part, AiError.AiError>["put"]
  ) => () => void
  /** Decodes a part as the schemas would (W1). */
  readonly decode: (part: Part) => Decoded
  readonly codecTransformer?: LanguageModel.CodecTransformer | undefined
}

type Decoded = Response.StreamPart<Record<string, Tool.Any>, "deferred">

type Options = LanguageModel.GenerateTextOptions<Record<string, Tool.Any>>

/** The model of a provider. */
export const make = Effect.fnUntraced(function* <Part extends Response.StreamPartEncoded>(provider: Provider<Part>) {
  const checked = (request: LanguageModel.ProviderOptions): Stream.Stream<Part, AiError.AiError> =>
    Handoff.stream((sink) =>
      Effect.clockWith((clock) =>
        Effect.sync(() => provider.start(request, () => clock.currentTimeMillisUnsafe(), sink.put))
      )
    )
  const model = yield* LanguageModel.make({
    streamText: checked,
    generateText: (request) => Effect.map(Stream.runCollect(checked(request)), ResponseContent.fromStream),
    ...(provider.codecTransformer === undefined ? undefined : { codecTransformer: provider.codecTransformer })
  })
  const outer = Option.getOrUndefined(yield* Effect.serviceOption(Telemetry.CurrentSpanTransformer))
  // the interface has an overload for each form of a toolkit; one function serves them all
  const general = model.streamText as (options: Options) => Stream.Stream<Decoded, AiError.AiError>
  const streamText = (options: Options) => (isOwned(options) ? quick(provider, options, outer) : general(options))
  return LanguageModel.LanguageModel.of({
    ...model,
    streamText: streamText as LanguageModel.LanguageModel["streamText"]
  })
})

/** The caller runs tools itself, and the tools are at hand. */
interface OwnedOptions extends Options {
  readonly toolkit?: Toolkit.WithHandler<Record<string, Tool.Any>> | undefined
}

const isOwned = (options: Options): options is OwnedOptions =>
  options.disableToolCallResolution === true &&
  options.toolCallValidation === "deferred" &&
  !Effect.isEffect(options.toolkit)

const quick = <Part extends Response.StreamPartEncoded>(
  provider: Provider<Part>,
  options: OwnedOptions,
  outer: Telemetry.SpanTransformer | undefined
): Stream.Stream<Decoded, AiError.AiError> =>
  Handoff.stream(
    Effect.fnUntraced(function* (sink: Handoff.Sink<Decoded, AiError.AiError>, scope: Scope.Scope) {
      const span = yield* Scope.provide(Effect.makeSpanScoped("LanguageModel.streamText", { kind: "client" }), scope)
      const request = requestOf(options, span)
      const transform = Option.getOrElse(yield* Effect.serviceOption(Telemetry.CurrentSpanTransformer), () => outer)
      const seen: Array<Decoded> | undefined = transform === undefined ? undefined : []
      const clock = yield* Effect.clockWith(Effect.succeed)
      const stop = provider.start(
        request,
        () => clock.currentTimeMillisUnsafe(),
        (parts, ending) => {
          const decoded = parts.map(provider.decode)
          seen?.push(...decoded)
          sink.put(decoded, ending)
        }
      )
      return () => {
        stop()
        if (seen !== undefined) transform?.({ ...request, response: seen })
      }
    })
  )

const requestOf = (
  options: OwnedOptions,
  span: LanguageModel.ProviderOptions["span"]
): LanguageModel.ProviderOptions => {
  const toolChoice: LanguageModel.ToolChoice<string> = options.toolChoice ?? "auto"
  const all = options.toolkit === undefined ? [] : Object.values(options.toolkit.tools)
  const tools =
    typeof toolChoice === "object" && "oneOf" in toolChoice
      ? all.filter((tool) => toolChoice.oneOf.includes(tool.name))
      : all
  span.attribute("gen_ai.output.type", "text")
  span.attribute("effect.ai.tool_choice", typeof toolChoice === "string" ? toolChoice : JSON.stringify(toolChoice))
  span.attribute("effect.ai.concurrency", options.concurrency ?? "unbounded")
  return {
    prompt: Prompt.make(options.prompt),
    tools,
    toolChoice: tools.length === 0 ? "none" : toolChoice,
    responseFormat: { type: "text" },
    span,
    previousResponseId: undefined,
    incrementalPrompt: undefined,
    toolCallValidation: "deferred"
  }
}
