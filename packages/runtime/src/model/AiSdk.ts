/**
 * A language model behind any provider package of the AI SDK.
 *
 * For wires of which we have none of our own. Requests always stream;
 * `generateText` collects the same stream.
 *
 * Owns: one request from prompt to parts and errors. Does not own: the wire (the
 * provider package), retries, time-outs, or the validity of the history.
 *
 * - A1. A tool call is told only with the provider's finish; half a stream fails
 *   with a retryable `NetworkError`.
 * - A2. Interrupting the stream's fiber aborts the request at once.
 * - A3. Provider metadata (signatures of thinking and calls) is kept on the parts
 *   and sent back from the prompt's options.
 * - A4. Parts are read no faster than they are taken: a provider without end does not fill the memory.
 */
import type * as Provider from "@ai-sdk/provider"
import type { Profile } from "@turnstep/core/history/Contract"
import * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Model from "effect/ai/Model"
import type * as Response from "effect/ai/Response"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Queue from "effect/Queue"
import * as Redacted from "effect/Redacted"
import * as Stream from "effect/Stream"
import * as CallFault from "./aisdk/CallFault.ts"
import * as CallOptions from "./aisdk/CallOptions.ts"
import * as PartReader from "./aisdk/PartReader.ts"
import * as PromptMessage from "./aisdk/PromptMessage.ts"
import * as CallSpan from "./CallSpan.ts"
import * as ProviderRefusal from "./ProviderRefusal.ts"
import * as ResponseContent from "./ResponseContent.ts"
import { Wire } from "./Wire.ts"

/** How to call the model. */
export interface Options {
  /** Options of the AI SDK for every call (`temperature`, `maxOutputTokens`, `providerOptions`, …). */
  readonly settings?: CallOptions.Settings | undefined
  /** The key the provider package was made with: it is removed from errors. */
  readonly apiKey?: Redacted.Redacted | undefined
  /** Whose rules the messages must keep on top of the SDK's own; none by default. */
  readonly profile?: Profile | ReadonlyArray<Profile> | undefined
  /** Name shown in telemetry; default the package's own. */
  readonly provider?: string | undefined
}

/** The model over a provider package's model, and its wire. */
const make = Effect.fn("AiSdk.make")(function* (
  model: Provider.LanguageModelV4,
  options: Options = {}
): Effect.fn.Return<Context.Context<LanguageModel.LanguageModel>> {
  const write = PromptMessage.writer()
  const convert = CallOptions.converter(options.settings ?? {}, write)
  const key = options.apiKey === undefined ? undefined : Redacted.value(options.apiKey).trim()
  const scrub = ProviderRefusal.scrubber(key)
  const fail = (reason: AiError.AiErrorReason) => AiError.make({ module: "AiSdk", method: "streamText", reason })
  const toError = (cause: unknown): Effect.Effect<never, AiError.AiError> =>
    Effect.flatMap(Clock.currentTimeMillis, (now) =>
      Effect.fail(fail(CallFault.toReason(cause, { now, scrub, hasKey: key !== "" })))
    )
  const blame = (fault: PartReader.Fault): Effect.Effect<never, AiError.AiError> => {
    switch (fault._tag) {
      case "CutShort":
        return Effect.fail(fail(CallFault.transport("the response ended without a finish reason")))
      case "Broken":
        return Effect.fail(
          fail(new AiError.InternalProviderError({ description: `the model stopped with '${fault.reason}'` }))
        )
      case "Told":
        return toError(fault.error)
    }
  }

  const run = Effect.fnUntraced(function* (
    request: LanguageModel.ProviderOptions,
    queue: Queue.Queue<Response.StreamPartEncoded, AiError.AiError | Cause.Done>
  ) {
    const signal = yield* Effect.abortSignal // A2
    const call = yield* Effect.try({ try: () => convert(request, signal), catch: encodeError }).pipe(
      Effect.mapError(fail)
    )
    const attempt = <A>(promise: () => PromiseLike<A>): Effect.Effect<A, AiError.AiError> =>
      Effect.catch(Effect.tryPromise({ try: promise, catch: (cause) => ({ cause }) }), ({ cause }) => toError(cause))
    const { stream } = yield* attempt(() => model.doStream(call))
    const source = stream.getReader()
    const parts = PartReader.make()
    for (;;) {
      const next = yield* attempt(() => source.read())
      if (next.done) break
      const out: Array<Response.StreamPartEncoded> = []
      const fault = parts.read(next.value, out)
      if (out.length > 0) yield* Queue.offerAll(queue, out) // A4
      if (fault !== undefined) return yield* blame(fault)
    }
    const finish = parts.finish()
    if (finish === undefined) return yield* blame({ _tag: "CutShort" }) // A1
    CallSpan.annotate(request, options.provider ?? model.provider, model.modelId, finish)
    yield* Queue.end(queue)
  })

  const streamText = (request: LanguageModel.ProviderOptions) =>
    Stream.callback<Response.StreamPartEncoded, AiError.AiError>((queue) => run(request, queue), { bufferSize: 64 })

  const made = yield* LanguageModel.make({
    streamText,
    generateText: (request) => Effect.map(Stream.runCollect(streamText(request)), ResponseContent.fromStream)
  })
  const contract = options.profile === undefined ? {} : { profile: options.profile }
  return Context.make(LanguageModel.LanguageModel, made).pipe(
    Context.add(Wire, { format: "ai-sdk-model", contract, write })
  )
})

/** The model as a layer. */
export const layer = (
  model: Provider.LanguageModelV4,
  options?: Options
): Layer.Layer<LanguageModel.LanguageModel | Model.ProviderName | Model.ModelName> =>
  Model.make(options?.provider ?? model.provider, model.modelId, Layer.effectContext(make(model, options)))

const encodeError = (cause: unknown): AiError.AiErrorReason =>
  AiError.isAiErrorReason(cause)
    ? cause
    : new AiError.NetworkError({ reason: "EncodeError", method: "POST", url: "", description: String(cause) })
