/**
 * What is checked of a body before its schema sees it, and what a request that does not decode is told.
 *
 * Owns: the media type, the size, the nesting and that it is JSON at all. Does not own: what it means (`api/Body`).
 *
 * - B1. A body is JSON in UTF-8, declared as JSON, not compressed, at most 64 levels deep, and not longer than its endpoint takes.
 * - B2. Depth and entries are counted on the text, before anything is built from it: what is small as text may be a hundred
 *   times as large in memory.
 * - B3. What a schema judges entry by entry has few entries: a million wrong ones would be a million faults to find.
 * - B4. A route without query parameters refuses them, as the others refuse those they do not know.
 */
import * as Context from "effect/Context"
import * as ByteSize from "effect/ByteSize"
import * as Effect from "effect/Effect"
import * as HttpApiError from "effect/http-api/HttpApiError"
import { MaxBodySize } from "effect/http/HttpIncomingMessage"
import { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import { isUtf8 } from "node:buffer"
import * as ApiError from "../api/ApiError.ts"
import { BodyLimit, Guard } from "../api/Guard.ts"
import * as Problem from "./Problem.ts"

/** Levels of arrays and objects a body may have (B1). */
export const maxDepth = 64

/** Entries that the arrays and objects of a body may have together. */
const maxEntries = 1_000_000

/** Entries that a body may have outside of the histories in it (B3). */
const maxJudged = 20_000

/** Members that are taken as JSON, and read by the readers of histories. */
const histories: ReadonlySet<string> = new Set(["import", "messages"])

/** Around every endpoint of the API. */
export const layer = Layer.succeed(
  Guard,
  Guard.of((handler, { endpoint }) =>
    Effect.flatMap(HttpServerRequest, (request) => {
      const instance = Problem.instanceOf(request)
      if (endpoint.query === undefined && hasQuery(request.url)) {
        return Effect.fail(ApiError.make("invalid-request", instance, "/query: This route takes no query parameters."))
      }
      const most = Context.get(endpoint.annotations, BodyLimit)
      const guarded = endpoint.payload.size === 0 ? handler : Effect.andThen(check(request, instance, most), handler)
      return guarded.pipe(
        Effect.provideService(MaxBodySize, ByteSize.bytes(most)),
        Effect.catchIf(isUndecoded, (error) => Effect.fail(Problem.fromSchemaError(error, instance)))
      )
    })
  )
)

/** Whether a target names query parameters (B4). */
const hasQuery = (url: string): boolean => /\?[^#]/.test(url)

const isUndecoded = <E>(error: E): error is E & HttpApiError.HttpApiSchemaError =>
  HttpApiError.HttpApiSchemaError.is(error) && Problem.isOfRequest(error)

/** Refuses a body that is not to be decoded (B1). */
const check = Effect.fnUntraced(function* (request: HttpServerRequest, instance: string, most: number) {
  const { headers } = request
  const length = Number(headers["content-length"] ?? 0)
  const declared = headers["content-type"]
  if (declared === undefined && length === 0 && headers["transfer-encoding"] === undefined) return
  const refuse = (code: ApiError.Code, detail: string) => Effect.fail(ApiError.make(code, instance, detail))
  const type = declared ?? ""
  if (!/^application\/json\s*(;|$)/i.test(type)) {
    return yield* refuse(
      "unsupported-media-type",
      `The content type is ${type === "" ? "missing" : "not application/json"}.`
    )
  }
  if ((headers["content-encoding"] ?? "identity") !== "identity") {
    return yield* refuse("unsupported-media-type", "The body is compressed; send it as it is.")
  }
  if (length > most) return yield* refuse("too-large", `The body has ${length} bytes, more than ${most}.`)
  // A decoder would put a mark in the place of what is not UTF-8, and nobody would know what had been sent.
  if (!isUtf8(yield* Effect.orDie(request.arrayBuffer))) return yield* refuse("invalid-json", "The body is not UTF-8.")
  const text = yield* Effect.orDie(request.text)
  if (text === "") return
  const { depth, entries } = shapeOf(text)
  if (depth > maxDepth) return yield* refuse("json-too-deep", `The body is nested more than ${maxDepth} levels deep.`)
  if (entries > maxEntries) {
    return yield* refuse("too-large", `The arrays and objects of the body have more than ${maxEntries} entries.`)
  }
  const read = parsed(text)
  if (read._tag === "Failure") return yield* refuse("invalid-json", read.failure)
  if (judgedEntries(read.success) > maxJudged) {
    return yield* refuse("too-large", `The body has more than ${maxJudged} entries, histories in it aside.`)
  }
})

/** Entries of a body outside of its histories, counted up to the limit (B3). */
const judgedEntries = (body: unknown): number => {
  let entries = 0
  const count = (value: unknown, isTop: boolean): void => {
    if (typeof value !== "object" || value === null) return
    for (const key in value) {
      if (++entries > maxJudged) return
      if (!isTop || !histories.has(key)) count((value as Record<string, unknown>)[key], false)
    }
  }
  count(body, true)
  return entries
}

/** The levels of brackets and the entries between them, outside strings (B2); counting stops beyond a limit. */
const shapeOf = (text: string): { readonly depth: number; readonly entries: number } => {
  let depth = 0
  let deepest = 0
  let entries = 0
  let isString = false
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index)
    if (isString) {
      if (unit === 0x5c) index++
      else if (unit === 0x22) isString = false
    } else if (unit === 0x22) isString = true
    else if (unit === 0x5b || unit === 0x7b) {
      if (++depth > deepest) deepest = depth
      if (deepest > maxDepth) break
    } else if (unit === 0x5d || unit === 0x7d) depth--
    else if (unit === 0x2c && ++entries > maxEntries) break
  }
  return { depth: deepest, entries }
}

/** The text as JSON, or why it is none. */
const parsed = (text: string): Result.Result<unknown, string> => {
  try {
    return Result.succeed(JSON.parse(text))
  } catch (error) {
    const place = /position (\d+)/.exec(error instanceof Error ? error.message : "")?.[1]
    return Result.fail(place === undefined ? "The body is not JSON." : `The body is not JSON: see character ${place}.`)
  }
}
