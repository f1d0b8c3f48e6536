/**
 * What a provider's refusal means, in the words of `effect/ai`.
 *
 * Owns: the table from status, code and text to a reason of `AiError`. Does not
 * own: how the refusal was fetched, or whether the call is repeated.
 *
 * - P1. The API key is in no error: not in a description, a body or a header.
 * - P2. Retryable are rate limits, provider trouble and transport; nothing else.
 */
import * as AiError from "effect/ai/AiError"
import * as ContextWindow from "./ContextWindow.ts"
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
  const details = read(refusal.body)
  const status = refusal.status ?? statusOf(details)
  const text = context.scrub(details.message ?? details.text).toWellFormed()
  const description = text === "" ? `HTTP ${status}` : text.slice(0, 2_000)
  const http =
    refusal.status === undefined
      ? undefined
      : {
          response: { status: refusal.status, headers: shownHeaders(refusal.headers, context.scrub) },
          body: context.scrub(details.text).toWellFormed().slice(0, 8_000)
        }
  const shared = http === undefined ? { description } : { description, http }
  const code = [details.code, details.type].find((code) => code !== undefined && code !== "")
  const names = [details.code, details.type].filter((name) => name !== undefined)

  if ([undefined, ...names].some((code) => ContextWindow.isExceeded({ status, code, text }))) {
    return new AiError.InvalidRequestError({ ...shared, constraint: ContextWindow.constraint })
  }
  if (status === 402 || names.some((name) => quotaCodes.has(name))) {
    return new AiError.QuotaExhaustedError(http === undefined ? {} : { http })
  }
  if (names.some((name) => policyCodes.has(name))) return new AiError.ContentPolicyError(shared)
  if (status === 401) {
    const kind = !context.hasKey ? "MissingKey" : /expired/i.test(`${code} ${text}`) ? "ExpiredKey" : "InvalidKey"
    return new AiError.AuthenticationError({ ...shared, kind })
  }
  if (status === 403) return new AiError.AuthenticationError({ ...shared, kind: "InsufficientPermissions" })
  if (status === 429) {
    const retryAfter = RetryAfter.fromHeaders(refusal.headers, context.now)
    return new AiError.RateLimitError({
      ...(http === undefined ? undefined : { http }),
      ...(retryAfter === undefined ? undefined : { retryAfter })
    })
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

/** A scrubber for the given secret; one too short to be a key is left alone. */
export const scrubber =
  (secret: string | undefined): ((text: string) => string) =>
  (text) =>
    secret === undefined || secret.length < 8 ? text : text.replaceAll(secret, "<redacted>")

interface Details {
  readonly text: string
  readonly message?: string
  readonly code?: string
  readonly type?: string
  readonly param?: string
}

const quotaCodes: ReadonlySet<string> = new Set([
  "insufficient_quota",
  "billing_hard_limit_reached",
  "billing_not_active",
  "insufficient_credits"
])

const policyCodes: ReadonlySet<string> = new Set([
  "content_filter",
  "content_policy_violation",
  "responsible_ai_policy_violation"
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

const statusOf = (details: Details): number => {
  const code = Number(details.code)
  if (Number.isInteger(code) && code >= 400 && code < 600) return code
  const name = `${details.code ?? ""} ${details.type ?? ""}`
  if (/rate_?limit|too_many_requests/i.test(name)) return 429
  if (/authentication|invalid_api_key/i.test(name)) return 401
  if (/permission/i.test(name)) return 403
  if (/invalid_request|bad_request|not_found/i.test(name)) return 400
  return 500 // told after the response had begun: the provider broke
}

/** The forms in which providers put a message, a code and a type into a body. */
const read = (body: unknown): Details => {
  const value = typeof body === "string" ? parse(body) : body
  const text = typeof body === "string" ? body : (JSON.stringify(body) ?? "")
  const first = Array.isArray(value) ? value[0] : value
  if (typeof first === "string") return { text, message: first }
  if (typeof first !== "object" || first === null) return { text }
  const inner: unknown = Reflect.get(first, "error")
  if (typeof inner === "string") return { text, message: inner, ...named(first) }
  const fields = typeof inner === "object" && inner !== null ? inner : first
  const message = [Reflect.get(fields, "message"), Reflect.get(fields, "detail")].find(
    (candidate) => typeof candidate === "string"
  )
  return { text, ...(message === undefined ? undefined : { message }), ...named(fields) }
}

const named = (fields: object): Pick<Details, "code" | "type" | "param"> => {
  const code: unknown = Reflect.get(fields, "code")
  const type: unknown = Reflect.get(fields, "type") ?? Reflect.get(fields, "status")
  const param: unknown = Reflect.get(fields, "param")
  return {
    ...(typeof code === "string" || typeof code === "number" ? { code: String(code) } : undefined),
    ...(typeof type === "string" ? { type } : undefined),
    ...(typeof param === "string" ? { param } : undefined)
  }
}

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
