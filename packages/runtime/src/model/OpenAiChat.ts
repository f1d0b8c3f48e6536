/**
 * A language model behind the OpenAI Chat Completions wire.
 *
 * Speaks to OpenAI and to the many servers that copy its wire. Requests always
 * stream; `generateText` collects the same stream.
 *
 * Owns: one request from prompt to parts and errors. Does not own: retries,
 * time-outs, or the validity of the history.
 *
 * - O1. A tool call is told only after a whole response; half a stream fails with
 *   a retryable `NetworkError`.
 * - O2. Interrupting the stream's fiber destroys the socket at once.
 * - O3. The API key is in no error and no log.
 */
import * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Model from "effect/ai/Model"
import * as OpenAiStructuredOutput from "effect/ai/OpenAiStructuredOutput"
import type * as Response from "effect/ai/Response"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { constVoid } from "effect/Function"
import * as Layer from "effect/Layer"
import * as Queue from "effect/Queue"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as CallSpan from "./CallSpan.ts"
import * as ChatDecoder from "./openai/ChatDecoder.ts"
import type * as ChatMessage from "./openai/ChatMessage.ts"
import * as ChatRequest from "./openai/ChatRequest.ts"
import * as Exchange from "./openai/Exchange.ts"
import * as SseDecoder from "./openai/SseDecoder.ts"
import * as ProviderRefusal from "./ProviderRefusal.ts"
import * as ResponseContent from "./ResponseContent.ts"

/** Where the model is and how to ask it. */
export interface Options {
  /** Everything before `/chat/completions`; a query string is kept. */
  readonly baseUrl: string
  readonly apiKey?: Redacted.Redacted | undefined
  readonly model: string
  /** Name shown in telemetry; default `openai`. */
  readonly provider?: string | undefined
  /** Further request headers. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Further fields of the request body, named as the provider names them (`temperature`, `max_tokens`, …). */
  readonly settings?: ChatRequest.Settings | undefined
  /** Field in which reasoning that led to calls is sent back; by default none is. DeepSeek's thinking mode demands it. */
  readonly reasoningField?: ChatMessage.ReasoningField | undefined
}

/** The model; its connections are closed with the scope. */
export const make = Effect.fn("OpenAiChat.make")(function* (
  options: Options
): Effect.fn.Return<LanguageModel.LanguageModel, never, Scope.Scope> {
  const key = options.apiKey === undefined ? undefined : Redacted.value(options.apiKey).trim()
  const url = completionsUrl(options.baseUrl)
  const post = url === undefined ? undefined : yield* Exchange.make({ url, headers: headersOf(options, key) })
  const encode = ChatRequest.encoder(options)
  const scrub = ProviderRefusal.scrubber(key)
  const where = { method: "POST", url: url === undefined ? scrub(options.baseUrl) : url.origin + url.pathname }

  const start = (
    request: LanguageModel.ProviderOptions,
    queue: Queue.Queue<Response.StreamPartEncoded, AiError.AiError | Cause.Done>,
    clock: Clock.Clock
  ): (() => void) => {
    const fail = (reason: AiError.AiErrorReason): void => {
      Queue.failCauseUnsafe(queue, Cause.fail(AiError.make({ module: "OpenAiChat", method: "streamText", reason })))
    }
    const networkError = (reason: AiError.NetworkError["reason"], description: string): void =>
      fail(new AiError.NetworkError({ ...where, reason, description: scrub(description) }))
    if (post === undefined) {
      networkError("InvalidUrlError", "the base URL is not an http(s) URL")
      return constVoid
    }
    const refuse = (refusal: ProviderRefusal.ProviderRefusal): void =>
      fail(
        ProviderRefusal.toReason(refusal, { now: clock.currentTimeMillisUnsafe(), scrub, hasKey: key !== undefined })
      )
    const blame = (fault: ChatDecoder.Fault): void => {
      switch (fault._tag) {
        case "CutShort":
          return networkError("TransportError", "the response ended without a finish reason")
        case "Garbled":
          return fail(
            new AiError.InternalProviderError({ description: `not JSON: ${scrub(fault.payload).slice(0, 200)}` })
          )
        case "Reported":
          return refuse({ status: undefined, headers: {}, body: fault.error })
      }
    }
    const frames = SseDecoder.make()
    const chunks = ChatDecoder.make()
    let running: Exchange.Running | undefined
    let isSettled = false

    /** Takes payloads; with `isLast` the response has nothing more to say. */
    const take = (payloads: ReadonlyArray<string>, isLast: boolean): void => {
      const parts: Array<Response.StreamPartEncoded> = []
      let fault: ChatDecoder.Fault | undefined
      for (let i = 0; i < payloads.length && fault === undefined; i++) fault = chunks.push(payloads[i] ?? "", parts)
      if (isLast && fault?._tag === "Garbled") fault = undefined // a piece of a chunk: `end` knows whether it is missed
      isSettled = isLast || fault !== undefined || chunks.isDone()
      if (isSettled) fault ??= chunks.end(parts)
      if (parts.length > 0) Queue.offerAllUnsafe(queue, parts)
      if (!isSettled) return
      if (fault !== undefined) blame(fault)
      else {
        const finish = parts.at(-1)
        if (finish?.type === "finish") CallSpan.annotate(request, options.provider ?? "openai", options.model, finish)
        Queue.endUnsafe(queue)
      }
    }

    try {
      running = post(encode(request), {
        onText: (text) => {
          if (!isSettled) take(frames.push(text), false)
        },
        onEnd: () => {
          if (isSettled) return
          const payload = frames.end()
          take(payload === undefined ? [] : [payload], true)
        },
        onRefused: refuse,
        onFailure: (description) => networkError("TransportError", description)
      })
    } catch (cause) {
      if (AiError.isAiErrorReason(cause)) fail(cause)
      else networkError("EncodeError", cause instanceof Error ? cause.message : String(cause))
    }
    return () => (isSettled ? running?.release() : running?.cancel())
  }

  const streamText = (request: LanguageModel.ProviderOptions) =>
    Stream.callback<Response.StreamPartEncoded, AiError.AiError>((queue) =>
      Clock.clockWith((clock) => {
        const stop = start(request, queue, clock)
        return Effect.addFinalizer(() => Effect.sync(stop)) // O2
      })
    )

  return yield* LanguageModel.make({
    streamText,
    generateText: (request) => Effect.map(Stream.runCollect(streamText(request)), ResponseContent.fromStream),
    codecTransformer: OpenAiStructuredOutput.toCodecOpenAI
  })
})

/** The model as a layer. */
export const layer = (
  options: Options
): Layer.Layer<LanguageModel.LanguageModel | Model.ProviderName | Model.ModelName> =>
  Model.make(options.provider ?? "openai", options.model, Layer.effect(LanguageModel.LanguageModel, make(options)))

const completionsUrl = (baseUrl: string): URL | undefined => {
  const url = URL.canParse(baseUrl) ? new URL(baseUrl) : undefined
  if (url === undefined || !/^https?:$/.test(url.protocol)) return undefined
  url.pathname = `${url.pathname.replace(/\/+$/, "")}/chat/completions`
  return url
}

const headersOf = (options: Options, key: string | undefined): Record<string, string> => ({
  "content-type": "application/json",
  accept: "text/event-stream, application/json",
  "user-agent": "turnstep",
  ...(key === undefined || key === "" ? undefined : { authorization: `Bearer ${key}` }),
  ...options.headers
})
