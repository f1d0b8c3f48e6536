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

/** Where a reader wants a page to begin, and how many entries it may have. */
export interface Query {
  readonly limit?: number | undefined
  readonly after?: string | undefined
}

/** The entries after the one with the id `after`, as many as a page has by their sizes in bytes. */
export const of = Effect.fnUntraced(function* <Entry extends { readonly id: string }>(
  entries: ReadonlyArray<Entry>,
  query: Query,
  sizeOf: (entry: Entry) => number = bytesOf
) {
  const start = query.after === undefined ? 0 : entries.findIndex((entry) => entry.id === query.after) + 1
  if (query.after !== undefined && start === 0) return yield* noEntry(query.after)
  const most = start + (query.limit ?? pageLimit.usual)
  const data: Array<Entry> = []
  let size = 0
  for (const entry of entries.slice(start, most)) {
    size += sizeOf(entry)
    if (size > pageBytes && data.length > 0) break
    data.push(entry)
  }
  return { data, next: start + data.length < entries.length ? (data.at(-1)?.id ?? null) : null }
})
