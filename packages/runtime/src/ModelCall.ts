/**
 * One request to the model, retried while that makes sense, until a whole response is there.
 *
 * Owns: the split between what is tried again and what ends the Turn, and the limits of an answer. Does not own: how parts become
 * an answer (`ModelAnswer`), or what the answer leads to (`Step`).
 *
 * - M1. A response is whole or nothing: half a stream never yields a call.
 * - M2. Only failures the provider calls passing are tried again, a bounded number of times; a refusal is never re-sent.
 * - M3. Nothing is shown before `ready`: what a reader sees of a step comes after the step's own record.
 * - M4. No request leaves but through the gate (`RequestGate`). An answer that its provider has paused is asked for with itself at
 *   the end, as the provider wants it.
 * - M5. An answer ends: in size, in progress and in time, whatever the model (`AnswerBudget`). One that is too large is not asked for
 *   again.
 */
import * as Canonical from "@turnstep/core/Canonical"
import type * as Gate from "@turnstep/core/history/RequestGate"
import type { Failure } from "@turnstep/core/TurnEvent"
import type * as AiError from "effect/ai/AiError"
import * as Prompt from "effect/ai/Prompt"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as AnswerBudget from "./AnswerBudget.ts"
import * as AnswerSize from "./model/AnswerSize.ts"
import * as ContentRefusal from "./model/ContentRefusal.ts"
import * as ProviderRefusal from "./model/ProviderRefusal.ts"
import * as ModelAnswer from "./ModelAnswer.ts"
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
  readonly onDelta: ModelAnswer.OnDelta
  /** The request would have been refused, and leaves repaired. */
  readonly onRepaired: (evidence: RequestGate.Evidence) => Effect.Effect<void, E>
  /** What was shown of the response is void: the request is made again. */
  readonly onReset: (reason: string) => void
  /** The request has failed and is made again after a wait. */
  readonly onRetry: (retry: Retrying) => void
}

/** A request that is made again. */
export interface Retrying {
  /** The attempt that is next, of so many. */
  readonly attempt: number
  readonly attempts: number
  /** Why the one before it failed. */
  readonly reason: Failure
  /** Milliseconds until it is made. */
  readonly waitMs: number
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
    const answer = ModelAnswer.make()
    const outcome = yield* Effect.result(whole(options, prompt, answer))
    if (outcome._tag === "Success") return outcome.success
    const error = outcome.failure
    if (!isPassing(error)) {
      if (isAiError(error)) return yield* failedBy(error)
      return yield* Effect.fail(error)
    }
    const reason = failureOf(error)
    const told = isAiError(error) ? error.retryAfter : undefined
    const isTooLong = told !== undefined && Duration.isGreaterThan(told, retry.longest)
    if (isTooLong || attempt >= retry.attempts) return yield* new ModelFailed(reason)
    if (answer.hasShown()) options.onReset(reason.code)
    const wait = told ?? Duration.times(retry.base, 2 ** (attempt - 1) * (0.8 + 0.4 * (yield* Random.next)))
    const waitMs = Math.round(Duration.toMillis(wait))
    options.onRetry({ attempt: attempt + 1, attempts: retry.attempts, reason, waitMs })
    yield* Effect.logWarning(`model request failed (attempt ${attempt} of ${retry.attempts}): ${reason.message}`)
    yield* Effect.sleep(wait)
  }
})

/** An answer from its first part to its last, however often the provider pauses it. */
const whole = Effect.fnUntraced(function* <E>(
  options: Request<E>,
  prompt: Prompt.Prompt,
  answer: ModelAnswer.ModelAnswer
) {
  const limits = yield* AnswerBudget.AnswerLimits
  const clock = yield* Effect.clockWith(Effect.succeed)
  const startedAt = clock.currentTimeMillisUnsafe()
  const meter = AnswerBudget.meter(limits, startedAt)
  const asking = Effect.gen(function* () {
    let next = prompt
    for (let pauses = 0; ; pauses++) {
      yield* once(options, next, (parts) => {
        const spent = meter.take(parts, clock.currentTimeMillisUnsafe())
        if (spent !== undefined) return new ModelFailed({ code: AnswerSize.code, message: `${stopped} ${spent}.` }) // M5
        answer.push(parts, options.onDelta)
        return undefined
      })
      const failure = answer.failure()
      if (isAiError(failure)) return yield* failure
      if (!answer.isWhole() || failure !== undefined) {
        return yield* new ModelFailed({ code: "invalid-response", message: detailOf(failure) })
      }
      const paused = pauses < mostPauses ? answer.takePaused() : undefined
      if (paused === undefined) return answer.response(clock.currentTimeMillisUnsafe() - startedAt)
      next = Prompt.fromMessages([...prompt.content, paused])
    }
  })
  return yield* Effect.raceFirst(asking, watchdog(limits, meter, startedAt))
})

const stopped = "The answer of the model was stopped:"

/** How often an answer may be paused; the last pause stays its finish reason. */
const mostPauses = 20

/** Fails when the answer makes no progress, or takes too long (M5). */
const watchdog = Effect.fnUntraced(function* (
  limits: AnswerBudget.Limits,
  meter: AnswerBudget.Meter,
  startedAt: number
): Effect.fn.Return<never, ModelStalled | ModelFailed> {
  const silence = Duration.toMillis(limits.silence)
  const longest = Duration.toMillis(limits.longest)
  for (;;) {
    const now = yield* Clock.currentTimeMillis
    const left = startedAt + longest - now
    const quiet = meter.progressAt() + silence - now
    if (left <= 0) {
      const message = `${stopped} it was not whole after ${Duration.format(limits.longest)}.`
      return yield* new ModelFailed({ code: "answer-too-long", message })
    }
    if (quiet <= 0) return yield* new ModelStalled({ silence: limits.silence })
    yield* Effect.sleep(Math.min(left, quiet))
  }
})

/** The answer has made no progress, though its connection may be alive: it is asked for again. */
class ModelStalled extends Schema.TaggedError<ModelStalled>()("ModelStalled", { silence: Schema.Duration }) {
  override get message(): string {
    return `The model has stalled: nothing of its answer came for ${Duration.format(this.silence)}.`
  }
}

/** One request; `take` hears of its parts and says why they are too much. */
const once = Effect.fnUntraced(function* <E>(
  options: Request<E>,
  prompt: Prompt.Prompt,
  take: (parts: ReadonlyArray<AnswerBudget.StreamPart>) => ModelFailed | undefined
) {
  const { config } = options
  let isReady = false
  const parts = config.model.streamText({
    prompt,
    toolkit: config.advertised,
    toolChoice: options.toolChoice,
    disableToolCallResolution: true,
    toolCallValidation: "deferred"
    // With resolution off nothing of the tools is run or needed here.
  }) as Stream.Stream<AnswerBudget.StreamPart, AiError.AiError>
  const taken = (arrived: ReadonlyArray<AnswerBudget.StreamPart>) =>
    Effect.suspend(() => {
      const failed = take(arrived)
      return failed === undefined ? Effect.void : Effect.fail(failed)
    })
  yield* Stream.runForEachArray(parts, (arrived) => {
    if (isReady) return taken(arrived)
    return Effect.flatMap(options.ready, () => {
      isReady = true
      return taken(arrived)
    })
  })
  if (!isReady) yield* options.ready
})

const isAiError = (error: unknown): error is AiError.AiError =>
  typeof error === "object" && error !== null && "_tag" in error && error._tag === "AiError"

/** M2: a failure after which the request is made again. */
const isPassing = (error: unknown): error is AiError.AiError | ModelStalled =>
  error instanceof ModelStalled || (isAiError(error) && error.isRetryable)

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

/** The stable code of a failure, and its words. */
const failureOf = (error: AiError.AiError | ModelStalled): Failure => {
  if (!isAiError(error)) return { code: "model-stalled", message: error.message }
  const { reason } = error
  const words = ProviderRefusal.wordsOf(reason)
  const message = words === undefined ? reason.message : `${reason.message} The provider says: ${words}`
  return {
    code: AnswerSize.isTooLarge(reason) ? AnswerSize.code : (codes[reason._tag] ?? "provider-error"),
    message: reason._tag === "ContentPolicyError" ? `${message} ${withoutIt}` : message
  }
}

/** How to go on when a provider refuses what somebody wrote: nothing that was said is taken out of a history by itself. */
const withoutIt =
  "The text it refuses stays in the history, so later turns may be refused as well. To go on without it, export the session, " +
  "take the text out, and import the rest into a new session."

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
