/**
 * What a provider's refusal means, in the words of `effect/ai`.
 *
 * Owns: the table from status, code and text to a reason of `AiError`. Does not
 * own: how the refusal was fetched, or whether the call is repeated.
 *
 * - P1. The API key is in no error: not in a description, a body or a header.
 * - P2. Retryable are rate limits, provider trouble and transport; nothing else. An empty account is no rate limit, whatever
 *   the status.
 * - P3. The provider's own words reach the reader, bounded and without keys.
 */
import * as AiError from "effect/ai/AiError"
import * as ContentRefusal from "./ContentRefusal.ts"
import * as Duration from "effect/Duration"
import * as ContextWindow from "./ContextWindow.ts"
import * as RefusalBody from "./RefusalBody.ts"
import * as RetryAfter from "./RetryAfter.ts"

/** A refusal as it came over the wire. */
export interface ProviderRefusal {
  /** HTTP status; `undefined` for an error told inside a stream that had begun well. */
  readonly status: number | undefined
  /** Response headers, lower-case names. */
  readonly headers: Readonly<Record<string, string>>
  /** The body as it came, or the error object told in the stream. */
  readonly body: unknown
}

/** What the reader of a refusal knows. */
export interface Context {
  /** Milliseconds since the epoch, for dates in `retry-after`. */
  readonly now: number
  /** Removes secrets from a text (P1). */
  readonly scrub: (text: string) => string
  readonly hasKey: boolean
}

/** The reason for a refusal. */
export const toReason = (refusal: ProviderRefusal, context: Context): AiError.AiErrorReason => {
  const details = RefusalBody.read(refusal.body)
  const status = refusal.status ?? statusOf(details.names)
  const scrub = (text: string) => withoutKeys(context.scrub(text)).toWellFormed()
  const text = scrub(details.message ?? details.text)
  const description = text === "" ? `HTTP ${status}` : text.slice(0, longest)
  const http =
    refusal.status === undefined
      ? undefined
      : {
          response: { status: refusal.status, headers: shownHeaders(refusal.headers, scrub) },
          body: scrub(details.text).slice(0, 8_000)
        }
  const shared = http === undefined ? { description } : { description, http }
  const spoken = { ...(http === undefined ? undefined : { http }), metadata: { [told]: { description } } }
  const { names } = details
  const retryAfter =
    RetryAfter.fromHeaders(refusal.headers, context.now) ??
    (details.retryMillis === undefined ? undefined : Duration.millis(details.retryMillis))

  if ([undefined, ...names].some((code) => ContextWindow.isExceeded({ status, code, text }))) {
    return new AiError.InvalidRequestError({ ...shared, constraint: ContextWindow.constraint })
  }
  if (isQuota(status, names, text, retryAfter !== undefined)) return new AiError.QuotaExhaustedError(spoken)
  if (names.some((name) => policyCodes.has(name.toLowerCase()))) return new AiError.ContentPolicyError(shared)
  const content = ContentRefusal.kindOf({ status, codes: names, text })
  if (content !== undefined) {
    return new AiError.InvalidRequestError({ ...shared, constraint: ContentRefusal.constraintOf(content) })
  }
  if (status === 401) {
    const isExpired = /expired/i.test(`${names.join(" ")} ${text}`)
    const kind = !context.hasKey ? "MissingKey" : isExpired ? "ExpiredKey" : "InvalidKey"
    return new AiError.AuthenticationError({ ...shared, kind })
  }
  if (status === 403) return new AiError.AuthenticationError({ ...shared, kind: "InsufficientPermissions" })
  if (status === 429) {
    return new AiError.RateLimitError({ ...spoken, ...(retryAfter === undefined ? undefined : { retryAfter }) })
  }
  // 408 and 409 are a provider's own time-out and lock: the same request may pass a moment later
  if (status >= 500 || status === 408 || status === 409) return new AiError.InternalProviderError(shared)
  if (status >= 400) {
    return new AiError.InvalidRequestError({
      ...shared,
      ...(details.param === undefined ? undefined : { parameter: details.param })
    })
  }
  return new AiError.UnknownError(shared) // a redirect, or a status no provider sends
}

/** What the provider itself says of an error, if its message does not hold it. */
export const wordsOf = (reason: AiError.AiErrorReason): string | undefined => {
  if (reason._tag !== "RateLimitError" && reason._tag !== "QuotaExhaustedError") return undefined
  const words = reason.metadata[told]
  const description = typeof words === "object" && words !== null ? Reflect.get(words, "description") : undefined
  return typeof description === "string" ? description : undefined
}

/** Key of the metadata that holds the provider's words: these errors have no description of their own. */
const told = "turnstep"

/** Characters of a provider's words that are kept. */
const longest = 2_000

/** A scrubber for the given secret; one too short to be a key is left alone. */
export const scrubber =
  (secret: string | undefined): ((text: string) => string) =>
  (text) =>
    secret === undefined || secret.length < 8 ? text : text.replaceAll(secret, "<redacted>")

/** Keys of others, such as a gateway's own, in the forms providers give them. */
const withoutKeys = (text: string): string =>
  text
    .replace(/\b(?:sk|pk|rk|gsk|xai|hf|nvapi|key)[-_][\w-]{16,}/g, "<redacted>")
    .replace(/\bAIza[\w-]{30,}/g, "<redacted>")
    .replace(/\b(Bearer\s+)[\w.~+/=-]{16,}/gi, "$1<redacted>")

/** The account has nothing left: waiting and asking again helps nobody. */
const isQuota = (status: number, names: ReadonlyArray<string>, text: string, isWaitTold: boolean): boolean => {
  if (status === 402 || names.some((name) => quotaCodes.has(name.toLowerCase()))) return true
  if (status === 401 || status >= 500) return false
  if (spent.some((sentence) => sentence.test(text))) return true
  // Gemini says this of a limit per minute as well, with the time to wait.
  return /exceeded your current quota/i.test(text) && !isWaitTold && !/retry in|per (?:minute|second|day)/i.test(text)
}

const quotaCodes: ReadonlySet<string> = new Set([
  "insufficient_quota", // OpenAI
  "billing_hard_limit_reached",
  "billing_not_active",
  "insufficient_credits",
  "exceeded_current_quota_error", // Moonshot
  "insufficient_balance",
  "insufficient_user_quota", // new-api
  "arrearage", // DashScope
  "payment_required",
  "1113" // Zhipu
])

const spent: ReadonlyArray<RegExp> = [
  /insufficient (?:account )?(?:balance|credits?|funds|quota)/i, // DeepSeek, Moonshot, Zhipu, OpenRouter
  /credit balance is too low/i, // Anthropic
  /out of credits|not enough credits|no credits left|requires? more credits|used all (?:available |its )?credits/i, // OpenRouter, xAI
  /please (?:recharge|top up|add (?:more )?(?:credits|funds))/i,
  /(?:spend(?:ing)?|billing|budget|credit) (?:hard )?limit (?:has been |was )?(?:reached|exceeded)/i,
  /monthly spending limit|key limit exceeded/i, // xAI, OpenRouter
  /account is (?:suspended|in arrears|overdue|not active)|in good standing/i, // Moonshot, DashScope
  /余额不足|已欠费/ // Zhipu, DashScope
]

const policyCodes: ReadonlySet<string> = new Set([
  "content_filter",
  "content_policy_violation",
  "responsible_ai_policy_violation",
  "responsibleaipolicyviolation", // Azure, inside
  "data_inspection_failed", // DashScope
  "1301" // Zhipu
])

/** Headers worth keeping: cookies and the like are not. */
const shownHeaders = (
  headers: Readonly<Record<string, string>>,
  scrub: (text: string) => string
): Record<string, string> =>
  Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) => (telling.test(name) ? [[name, scrub(value)]] : []))
  )

const telling =
  /^(?:retry-after|date$|content-type$|server$|cf-ray$|x-request-id|request-id|(?:x-|anthropic-)?ratelimit-)/

/** The status that an error told inside a stream would have had. */
const statusOf = (names: ReadonlyArray<string>): number => {
  const code = names.map(Number).find((code) => Number.isInteger(code) && code >= 400 && code < 600)
  if (code !== undefined) return code
  const all = names.join(" ")
  if (/rate_?limit|too_many_requests|resource_exhausted/i.test(all)) return 429
  if (/authentication|invalid_api_key/i.test(all)) return 401
  if (/permission/i.test(all)) return 403
  if (/invalid_request|bad_request|not_found|invalid_argument/i.test(all)) return 400
  return 500 // told after the response had begun: the provider broke
}
