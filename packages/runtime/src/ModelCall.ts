/**
 * One request to the model, retried while that makes sense, until a whole response is there.
 *
 * Owns: the split between what is tried again and what ends the Turn, the collecting of a response, the deltas shown on
 * the way. Does not own: what the response leads to (`Step`).
 *
 * - M1. A response is whole or nothing: half a stream never yields a call.
 * - M2. Only failures the provider calls passing are tried again, a bounded number of times; a refusal is never re-sent.
 * - M3. Nothing is shown before `ready`: what a reader sees of a step comes after the step's own record.
 * - M4. No request leaves but through the gate (`RequestGate`).
 */
import * as Accept from "@turnstep/core/Accept"
import * as Canonical from "@turnstep/core/Canonical"
import type * as Gate from "@turnstep/core/history/RequestGate"
import type { Failure } from "@turnstep/core/TurnEvent"
import type * as AiError from "effect/ai/AiError"
import type * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import type * as Tool from "effect/ai/Tool"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as ContentRefusal from "./model/ContentRefusal.ts"
import * as ProviderRefusal from "./model/ProviderRefusal.ts"
import * as RequestGate from "./RequestGate.ts"
import type { TurnConfig } from "./TurnConfig.ts"

/** The model could not answer: provider trouble that did not pass, or a refusal. `code` is stable, `message` for people. */
export class ModelFailed extends Schema.TaggedError<ModelFailed>()("ModelFailed", {
  code: Schema.String,
  message: Schema.String,
  /** The kind of content that was refused, when the refusal is about content. */
  content: Schema.optionalKey(Schema.Literals(["image", "audio", "video", "any"]))
}) {}

/** How often and how long a passing failure is tried again. A `Retry-After` of the provider is waited for, up to `longest`. */
export interface RetryPolicy {
  readonly attempts: number
  readonly base: Duration.Duration
  readonly longest: Duration.Duration
}

/** Four attempts; half a second doubled each time, 80-120 %; the provider's own wait up to a minute. */
export const Retry = Context.Reference<RetryPolicy>("runtime/ModelCall/Retry", {
  defaultValue: () => ({ attempts: 4, base: Duration.millis(500), longest: Duration.minutes(1) })
})

export interface Request<E> {
  readonly config: TurnConfig
  /** The history; the same array from request to request. */
  readonly window: ReadonlyArray<Prompt.Message>
  /** A message of it as this request alone has it. */
  readonly shown: Gate.Request["shown"]
  /** What this request alone says behind it. */
  readonly question: ReadonlyArray<Prompt.Message>
  readonly toolChoice: "auto" | "none"
  /** Completes when what came before this request is recorded (M3). */
  readonly ready: Effect.Effect<void, E>
  readonly onDelta: (channel: "text" | "reasoning", offset: number, delta: string) => void
  /** The request would have been refused, and leaves repaired. */
  readonly onRepaired: (evidence: RequestGate.Evidence) => Effect.Effect<void, E>
  /** What was shown of the response is void: the request is made again. */
  readonly onReset: (reason: string) => void
}

/** Asks the model (M1, M2). */
export const request = <E>(options: Request<E>) =>
  // Where the span is made is known: capturing a stack for every request would cost more than the span.
  Effect.withSpan(attempts(options), "ModelCall.request", { captureStackTrace: false })

const attempts = Effect.fnUntraced(function* <E>(options: Request<E>) {
  const retry = yield* Retry
  const { config, question, shown, window } = options
  const prompt = yield* RequestGate.pass(
    config.wire,
    { lead: [config.system], window, tail: question, shown },
    options.onRepaired
  ) // M4
  for (let attempt = 1; ; attempt++) {
    const collector = makeCollector()
    const outcome = yield* Effect.result(once(options, prompt, collector))
    if (outcome._tag === "Success") return outcome.success
    const error = outcome.failure
    if (!isAiError(error)) return yield* Effect.fail(error)
    const wait = error.retryAfter
    const isHopeless = !error.isRetryable || (wait !== undefined && Duration.isGreaterThan(wait, retry.longest))
    if (isHopeless || attempt >= retry.attempts) return yield* failedBy(error)
    if (collector.hasShown()) options.onReset(failureOf(error).code)
    yield* Effect.logWarning(`model request failed (attempt ${attempt} of ${retry.attempts}): ${error.message}`)
    yield* Effect.sleep(wait ?? Duration.times(retry.base, 2 ** (attempt - 1) * (0.8 + 0.4 * (yield* Random.next))))
  }
})

const once = Effect.fnUntraced(function* <E>(options: Request<E>, prompt: Prompt.Prompt, collector: Collector) {
  const started = yield* Clock.currentTimeMillis
  const { config } = options
  let isReady = false
  const parts = config.model.streamText({
    prompt,
    toolkit: config.advertised,
    toolChoice: options.toolChoice,
    disableToolCallResolution: true,
    toolCallValidation: "deferred"
    // With resolution off nothing of the tools is run or needed here.
  }) as Stream.Stream<StreamPart, AiError.AiError>
  yield* Stream.runForEachArray(parts, (arrived) => {
    if (isReady) return Effect.sync(() => collector.push(arrived, options.onDelta))
    return Effect.map(options.ready, () => {
      isReady = true
      collector.push(arrived, options.onDelta)
    })
  })
  if (!isReady) yield* options.ready
  return yield* collector.response((yield* Clock.currentTimeMillis) - started)
})

type StreamPart = Response.StreamPart<Record<string, Tool.Any>, "deferred">

/** The parts of a response as they arrive. */
interface Collector {
  readonly push: (parts: ReadonlyArray<StreamPart>, onDelta: Request<never>["onDelta"]) => void
  readonly hasShown: () => boolean
  readonly response: (ms: number) => Effect.Effect<Accept.Response, ModelFailed | AiError.AiError>
}

interface Spoken {
  readonly type: "text" | "reasoning"
  text: string
  options: Accept.ResponsePart["options"]
}

const makeCollector = (): Collector => {
  const parts: Array<Spoken | Extract<Accept.ResponsePart, { readonly type: "tool-call" }>> = []
  const open = new Map<string, Spoken>()
  const shown = { text: 0, reasoning: 0 }
  let finish: Response.FinishPart | undefined
  let failure: unknown
  const speak = (type: Spoken["type"], id: string): Spoken => {
    const key = `${type} ${id}`
    let spoken = open.get(key)
    if (spoken === undefined) {
      spoken = { type, text: "", options: undefined }
      open.set(key, spoken)
      parts.push(spoken)
    }
    return spoken
  }
  return {
    push: (incoming, onDelta) => {
      for (const part of incoming) {
        switch (part.type) {
          case "text-start":
          case "reasoning-start":
          case "text-end":
          case "reasoning-end": {
            const spoken = speak(part.type.startsWith("text") ? "text" : "reasoning", part.id)
            spoken.options = merge(spoken.options, part.metadata)
            break
          }
          case "text-delta":
          case "reasoning-delta": {
            const channel = part.type === "text-delta" ? "text" : "reasoning"
            const spoken = speak(channel, part.id)
            spoken.text += part.delta
            spoken.options = merge(spoken.options, part.metadata)
            onDelta(channel, shown[channel], part.delta)
            shown[channel] += part.delta.length
            break
          }
          case "tool-call": {
            const call = part as Response.ToolCallPart<string, unknown>
            if (call.providerExecuted) break
            const options = merge(undefined, call.metadata)
            parts.push({
              type: "tool-call",
              id: call.id,
              name: call.name,
              params: Canonical.toJson(call.params),
              ...(options === undefined ? {} : { options })
            })
            break
          }
          case "finish":
            finish = part
            break
          case "error":
            failure = part.error
            break
          default:
            break
        }
      }
    },
    hasShown: () => shown.text > 0 || shown.reasoning > 0,
    response: (ms) => {
      if (isAiError(failure)) return Effect.fail(failure)
      if (finish === undefined || failure !== undefined) {
        return Effect.fail(new ModelFailed({ code: "invalid-response", message: detailOf(failure) }))
      }
      return Effect.succeed({
        parts: parts.map((part) =>
          part.type === "tool-call" || part.options !== undefined
            ? (part as Accept.ResponsePart)
            : { type: part.type, text: part.text }
        ),
        finishReason: finish.reason,
        usage: {
          inputTokens: countOf(finish.usage.inputTokens.total),
          outputTokens: countOf(finish.usage.outputTokens.total)
        },
        ms
      })
    }
  }
}

/** Provider metadata that must come back with the part: kept only when there is any. */
const merge = (
  options: Accept.ResponsePart["options"],
  metadata: Response.ProviderMetadata
): Accept.ResponsePart["options"] => {
  const entries = Object.entries(metadata).filter(([, value]) => value !== null && value !== undefined)
  if (entries.length === 0) return options
  return { ...options, ...(Object.fromEntries(entries) as NonNullable<Accept.ResponsePart["options"]>) }
}

const isAiError = (error: unknown): error is AiError.AiError =>
  typeof error === "object" && error !== null && "_tag" in error && error._tag === "AiError"

const countOf = (tokens: number | undefined): number =>
  tokens === undefined || !Number.isFinite(tokens) ? 0 : Math.max(0, Math.trunc(tokens))

/** Why a response is not one, in words. */
const detailOf = (failure: unknown): string => {
  if (failure === undefined) return "the response ended without a finish reason"
  return failure instanceof Error ? failure.message : Canonical.stringify(failure)
}

const failedBy = (error: AiError.AiError): ModelFailed => {
  const content = ContentRefusal.refused(error)
  if (content === undefined) return new ModelFailed(failureOf(error))
  const { code, message } = failureOf(error)
  return new ModelFailed({ code, message: ContentRefusal.reasonOf(error) ?? message, content })
}

/** The stable code of a provider failure. */
const failureOf = ({ reason }: AiError.AiError): Failure => {
  const words = ProviderRefusal.wordsOf(reason)
  return {
    code: codes[reason._tag] ?? "provider-error",
    message: words === undefined ? reason.message : `${reason.message} The provider says: ${words}`
  }
}

const codes: { readonly [reason: string]: string } = {
  AuthenticationError: "authentication",
  RateLimitError: "rate-limited",
  QuotaExhaustedError: "quota-exhausted",
  ContentPolicyError: "content-policy",
  InvalidRequestError: "invalid-request",
  InternalProviderError: "provider-error",
  NetworkError: "network",
  InvalidOutputError: "invalid-response",
  InvalidResponseError: "invalid-response"
}
