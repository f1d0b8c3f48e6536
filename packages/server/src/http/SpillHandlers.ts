/**
 * Downloading large outputs, whole or in part.
 *
 * Owns: ranges and conditions of a request (RFC 9110 §13, §14). Does not own: the store (`core/SpillStore`).
 *
 * - P1. A spill never changes: its entity tag is its digest, and it is strong.
 * - P2. Bytes are what a tool gave, of any kind: they are sent to be saved, never to be shown as a page.
 * - P3. One range is served; a request for several, or in another unit, gets the whole.
 * - P4. A reader who takes nothing for half a minute is hung up on (`Outflow`), and only so many read at once (`Streams`).
 */
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import * as SpillStore from "@turnstep/core/SpillStore"
import { Sessions } from "@turnstep/runtime/Session"
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Stream from "effect/Stream"
import type { ServerResponse } from "node:http"
import { Api } from "../api/Api.ts"
import * as ApiError from "../api/ApiError.ts"
import * as Problem from "./Problem.ts"
import { Streams } from "./Streams.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "spills",
  Effect.fnUntraced(function* (handlers) {
    const sessions = yield* Sessions
    const store = yield* SpillStore.SpillStore
    const streams = yield* Streams
    return handlers.handleAll({
      read: Effect.fn("SpillHandlers.read")(function* ({ headers, params, request }) {
        const { id } = yield* Problem.refusing(sessions.get(params.session))
        if (store === undefined) return yield* refuse(SpillStore.notFound(params.spill))
        const kept = yield* Effect.catchTag(store.find(id, params.spill), "SpillNotFound", refuse)
        const tag = `"${kept.id}"`
        const always = { etag: tag, "accept-ranges": "bytes", "cache-control": "private, immutable" }
        if (matches(headers["if-none-match"], tag)) return HttpServerResponse.empty({ status: 304, headers: always })
        const isSame = headers["if-range"] === undefined || headers["if-range"] === tag
        const range = isSame ? rangeOf(headers.range, kept.bytes) : undefined
        if (range === "unsatisfiable") {
          const detail = `The spill has ${kept.bytes} bytes, and ${headers.range ?? ""} is none of them.`
          const error = ApiError.make("range-not-satisfiable", Problem.instanceOf(request), detail)
          return Problem.response(error, { ...always, "content-range": `bytes */${kept.bytes}` })
        }
        const { end, start } = range ?? { start: 0, end: kept.bytes }
        const write = yield* streams.download
        const response = NodeHttpServerRequest.toServerResponse(request) as ServerResponse
        const written = Stream.runForEach(store.read(id, kept.id, { start, end }), (bytes) => write(response, bytes))
        return HttpServerResponse.stream(Stream.fromEffectDrain(written), {
          status: range === undefined ? 200 : 206,
          contentType: "application/octet-stream",
          contentLength: end - start,
          headers: {
            ...always,
            "content-disposition": `attachment; filename="${kept.id}.txt"`,
            ...(range === undefined ? {} : { "content-range": `bytes ${start}-${end - 1}/${kept.bytes}` })
          }
        })
      })
    })
  })
)

const refuse = ({ message }: SpillStore.SpillNotFound) => Problem.refuse("spill-not-found", message)

/** Whether one of the tags of `If-None-Match` is this one; it compares weakly. */
const matches = (header: string | undefined, tag: string): boolean =>
  header !== undefined &&
  (header.trim() === "*" || header.split(",").some((each) => each.trim().replace(/^W\//, "") === tag))

/** The bytes a `Range` means; `undefined` for the whole (P3). */
const rangeOf = (header: string | undefined, bytes: number): SpillStore.Range | "unsatisfiable" | undefined => {
  const found = /^bytes=\s*(\d{0,15})-(\d{0,15})\s*$/i.exec(header ?? "")
  if (found === null) return undefined
  const [, first = "", last = ""] = found
  if (first === "" && last === "") return undefined
  if (first === "") {
    const length = Math.min(Number(last), bytes)
    return length === 0 ? "unsatisfiable" : { start: bytes - length, end: bytes }
  }
  const start = Number(first)
  if (last !== "" && Number(last) < start) return undefined
  return start >= bytes ? "unsatisfiable" : { start, end: last === "" ? bytes : Math.min(bytes, Number(last) + 1) }
}
