/**
 * A language model behind the OpenAI Chat Completions wire.
 *
 * Speaks to OpenAI and to the many servers that copy its wire. Requests always
 * stream; `generateText` collects the same stream.
 *
 * Owns: the endpoint, the key, and what is encoded once for all calls. Does not
 * own: one call (`ChatCall`), retries, time-outs, or the validity of the history.
 *
 * - O1. A tool call is told only after a whole response; half a stream fails with
 *   a retryable `NetworkError`.
 * - O2. Interrupting the stream's fiber destroys the socket at once.
 * - O3. The API key is in no error and no log.
 */
import * as ChatFile from "@turnstep/core/history/codecs/ChatFile"
import type * as ChatOpaque from "@turnstep/core/history/codecs/ChatOpaque"
import type { Profile } from "@turnstep/core/history/Contract"
import * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Model from "effect/ai/Model"
import * as OpenAiStructuredOutput from "effect/ai/OpenAiStructuredOutput"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { constVoid } from "effect/Function"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import * as CallSpan from "./CallSpan.ts"
import * as ChatCall from "./openai/ChatCall.ts"
import * as ChatMessage from "./openai/ChatMessage.ts"
import * as ChatPart from "./openai/ChatPart.ts"
import * as ChatRequest from "./openai/ChatRequest.ts"
import * as Concessions from "./openai/Concessions.ts"
import * as Exchange from "./openai/Exchange.ts"
import * as OwnedCalls from "./OwnedCalls.ts"
import * as ProviderRefusal from "./ProviderRefusal.ts"
import { Wire } from "./Wire.ts"

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
  /**
   * What goes back of the reasoning, the signatures and the like that the model issued with its answers. Default `as-issued`:
   * each field under its own name, to the model that issued it. Field names are for servers that demand the field on every
   * answer (DeepSeek, Kimi: `reasoning_content`); `none` is for servers that refuse what they issue.
   */
  readonly reasoning?: ChatOpaque.Policy | undefined
  /** Does the server tell a finish reason with every whole answer? Default false: after `[DONE]` without one it is `unknown`. */
  readonly tellsFinish?: boolean | undefined
  /** Whose rules the messages must keep on top of the format's own; none by default. */
  readonly profile?: Profile | ReadonlyArray<Profile> | undefined
  /** How long the provider may be silent, before its answer or within it; then the request fails and may be retried. Default five minutes. */
  readonly idleTimeout?: Duration.Input | undefined
}

/** The model and its wire; its connections are closed with the scope. */
const make = Effect.fn("OpenAiChat.make")(function* (
  options: Options
): Effect.fn.Return<Context.Context<LanguageModel.LanguageModel>, never, Scope.Scope> {
  const provider = options.provider ?? "openai"
  const policy = isThinkingOff(options) ? "none" : (options.reasoning ?? "as-issued")
  const issuer = `${provider}/${options.model}`
  const concessions = Concessions.make({ policy, issuer })
  const source = { issuer, tellsFinish: options.tellsFinish ?? false }
  const messages = ChatMessage.encoder(() => concessions.current().recipient)
  const key = options.apiKey === undefined ? undefined : Redacted.value(options.apiKey).trim()
  const endpoint = completionsUrl(options.baseUrl)
  const idleMillis = Duration.toMillis(Duration.fromInputUnsafe(options.idleTimeout ?? Duration.minutes(5)))
  const post = endpoint && (yield* Exchange.make({ url: endpoint, headers: headersOf(options, key), idleMillis }))
  const encode = ChatRequest.encoder(options, messages, concessions)
  const scrub = ProviderRefusal.scrubber(key)
  const url = endpoint === undefined ? scrub(options.baseUrl) : endpoint.origin + endpoint.pathname

  const start: OwnedCalls.Provider<ChatPart.ChatPart>["start"] = (request, now, tell) => {
    const fail = (reason: AiError.AiErrorReason) =>
      tell([], { error: AiError.make({ module: "OpenAiChat", method: "streamText", reason }) })
    if (post === undefined) {
      fail(ChatCall.networkError({ url, scrub }, "InvalidUrlError", "the base URL is not an http(s) URL"))
      return constVoid
    }
    try {
      const connection = { post, url, scrub, hasKey: key !== undefined, source, concessions }
      return ChatCall.start(
        connection,
        () => encode(request),
        now,
        (parts, ending) => {
          if (ending?.error !== undefined) {
            if (parts.length > 0) tell(parts)
            return fail(ending.error)
          }
          const finish = parts.at(-1)
          if (finish?.type === "finish") CallSpan.annotate(request, provider, options.model, finish)
          const { refused } = concessions.current()
          if (ending !== undefined && refused.size > 0) request.span.attribute(leftOut, [...refused])
          tell(parts, ending && { error: undefined })
        }
      )
    } catch (cause) {
      // a value that is not JSON, a tool or a schema the wire cannot say, a header that HTTP forbids
      fail(
        AiError.isAiErrorReason(cause)
          ? cause
          : ChatCall.networkError({ url, scrub }, "EncodeError", cause instanceof Error ? cause.message : String(cause))
      )
      return constVoid
    }
  }

  const codecTransformer = OpenAiStructuredOutput.toCodecOpenAI
  const model = yield* OwnedCalls.make({ start, decode: ChatPart.decode, codecTransformer })
  const contract = {
    ...(options.profile === undefined ? undefined : { profile: options.profile }),
    // The gate judges what leaves by whether the field is demanded.
    ...(policy === "as-issued" ? undefined : { thinking: policy !== "none" })
  }
  return Context.make(LanguageModel.LanguageModel, model).pipe(
    Context.add(Wire, { format: "openai-chat", contract, write: messages.write, uncarried: ChatFile.uncarried })
  )
})

/** The model as a layer. */
export const layer = (
  options: Options
): Layer.Layer<LanguageModel.LanguageModel | Model.ProviderName | Model.ModelName> =>
  Model.make(options.provider ?? "openai", options.model, Layer.effectContext(make(options)))

/** Names the fields that the server has refused, and that were left out. */
const leftOut = "turnstep.request.left_out"

/** DeepSeek, Kimi and Zhipu switch thinking off by a field of the body; nothing is issued or demanded then. */
const isThinkingOff = ({ settings }: Options): boolean => {
  const thinking = settings?.["thinking"]
  return typeof thinking === "object" && thinking !== null && Reflect.get(thinking, "type") === "disabled"
}

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
