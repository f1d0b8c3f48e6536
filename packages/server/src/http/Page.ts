/**
 * Cutting lists into pages, and what a reader accepts.
 */
import { bytesOf } from "@turnstep/core/Journal"
import * as Effect from "effect/Effect"
import { pageLimit } from "../api/Body.ts"
import * as Problem from "./Problem.ts"

/** Whether a reader asked for a stream of server-sent events. */
export const wantsStream = (accept: string | undefined): boolean =>
  accept !== undefined && accept.toLowerCase().includes("text/event-stream")

/** Refuses a page after what is not in the list: the first page once more would be read for ever. */
export const noEntry = (after: string) => {
  const detail = `The list has no entry ${after}.`
  return Problem.refuse("invalid-request", detail, [{ pointer: "/query/after", detail }])
}

/** Bytes of data that a page has at most, unless one entry has more. */
export const pageBytes = 1024 * 1024

/** The entries after the one with the id `after`, as many as a page has. */
export const of = Effect.fnUntraced(function* <Entry extends { readonly id: string }>(
  entries: ReadonlyArray<Entry>,
  query: { readonly limit?: number | undefined; readonly after?: string | undefined }
) {
  const limit = query.limit ?? pageLimit.usual
  const start = query.after === undefined ? 0 : entries.findIndex((entry) => entry.id === query.after) + 1
  if (query.after !== undefined && start === 0) return yield* noEntry(query.after)
  const most = Math.min(entries.length, start + limit)
  let end = start
  for (let size = 0; end < most; end++) {
    size += bytesOf(entries[end])
    if (size > pageBytes && end > start) break
  }
  const data = entries.slice(start, end)
  return { data, next: end < entries.length ? (data.at(-1)?.id ?? null) : null }
})
