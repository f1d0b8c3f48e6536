/**
 * Refusals and accidents as responses.
 *
 * Owns: which problem a failed request answers with. Does not own: the problems (`api/ApiError`).
 *
 * - P1. Only what was declared is told; anything else is logged under an id, and only the id is told.
 */
import { FactTooLarge, StorageUnavailable } from "@turnstep/core/TurnError"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as HttpApiError from "effect/http-api/HttpApiError"
import * as HttpServerError from "effect/http/HttpServerError"
import { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as SchemaIssue from "effect/SchemaIssue"
import * as ApiError from "../api/ApiError.ts"

/** The path of a request; its query may hold what nobody should read. */
export const instanceOf = (request: HttpServerRequest): string => {
  const end = request.url.search(/[?#]/)
  return end < 0 ? request.url : request.url.slice(0, end)
}

/** A problem as a response. */
export const response = (error: ApiError.ApiError, headers: Record<string, string> = {}) =>
  HttpServerResponse.text(JSON.stringify(error), {
    status: error.status,
    contentType: "application/problem+json",
    headers: { ...headersOf(error), ...headers }
  })

const headersOf = ({ status }: ApiError.ApiError): Record<string, string> => {
  if (status === 401) return { "www-authenticate": "Bearer" }
  return status === 503 ? { "retry-after": "1" } : {}
}

/** Turns the runtime's refusals into problems about the current request; `parts` points to the message it sends. */
export const refusing = <A, E extends ApiError.Refusal, R>(
  effect: Effect.Effect<A, E, R>,
  parts?: string
): Effect.Effect<A, ApiError.ApiError, R | HttpServerRequest> =>
  Effect.catch(effect, (refusal) =>
    Effect.flatMap(HttpServerRequest, (request) =>
      Effect.fail(ApiError.fromRefusal(refusal, instanceOf(request), parts))
    )
  )

/** Refuses the current request. */
export const refuse = (code: ApiError.Code, detail: string, errors?: ReadonlyArray<ApiError.Fault>) =>
  Effect.flatMap(HttpServerRequest, (request) => Effect.fail(ApiError.make(code, instanceOf(request), detail, errors)))

/** The problem of a request that does not decode. */
export const fromSchemaError = (error: HttpApiError.HttpApiSchemaError, instance: string): ApiError.ApiError => {
  const place = places[error.kind]
  const errors = formatIssues(error.cause.issue)
    .issues.slice(0, maxFaults)
    .map((issue) => ({
      pointer: [place, ...(issue.path ?? []).map(segmentOf)].map(escapeSegment).join(""),
      detail: issue.message
    }))
  const [first] = errors
  const detail = first === undefined ? "The request does not decode." : `${first.pointer}: ${first.detail}`
  return ApiError.make("invalid-request", instance, detail, errors)
}

/** Faults that a refusal names: a body may have a million. */
const maxFaults = 50

const places = {
  Params: "path",
  Headers: "headers",
  Query: "query",
  Payload: "body",
  Body: "response",
  ResponseHeaders: "response"
} as const

const formatIssues = SchemaIssue.makeFormatterStandardSchemaV1()

const segmentOf = (segment: PropertyKey | { readonly key: PropertyKey }): string =>
  String(typeof segment === "object" ? segment.key : segment)

const escapeSegment = (segment: string): string => `/${segment.replaceAll("~", "~0").replaceAll("/", "~1")}`

/** Whether the request itself is at fault for not decoding. */
export const isOfRequest = (error: HttpApiError.HttpApiSchemaError): boolean => places[error.kind] !== "response"

/** The problem of a request that failed in a way its endpoint did not declare (P1). */
export const fromCause = Effect.fnUntraced(function* (cause: Cause.Cause<unknown>, instance: string) {
  for (const reason of cause.reasons) {
    const problem = Cause.isInterruptReason(reason)
      ? undefined
      : known(Cause.isFailReason(reason) ? reason.error : reason.defect, instance)
    if (problem !== undefined) return problem
  }
  const random = yield* SecureRandom.SecureRandom
  const id = yield* random.uuidV7()
  yield* Effect.logError(`request failed [${id}]`, cause)
  return ApiError.make("internal", instance, `The request failed unexpectedly [${id}].`)
})

const known = (error: unknown, instance: string): ApiError.ApiError | undefined => {
  if (error instanceof ApiError.ApiError) return error
  if (HttpApiError.HttpApiSchemaError.is(error) && isOfRequest(error)) return fromSchemaError(error, instance)
  if (HttpServerError.isHttpServerError(error) && error.reason._tag === "RequestParseError") {
    return error.reason.reason === "BodyTooLarge"
      ? ApiError.make("too-large", instance, "The body is larger than this route takes.")
      : ApiError.make("invalid-request", instance, "The request could not be read to its end.")
  }
  if (error instanceof FactTooLarge) return ApiError.make("too-large", instance, error.message)
  if (error instanceof StorageUnavailable) return ApiError.make("storage-unavailable", instance, error.message)
  return undefined
}
