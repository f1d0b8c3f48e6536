/**
 * Pages of a log, read for the watchers of a runtime.
 *
 * Owns: how much is read at once, for one watcher and for all. Does not own: what a watcher does with a page (`Watch`).
 *
 * - R1. A few pages are read at a time, however many watchers come at once: a page may hold an event of mebibytes.
 * - R2. Watchers who wait for the same page share it, if nothing can come into it any more.
 */
import type { SessionId } from "@turnstep/core/Ids"
import { bytesOf, type Journal } from "@turnstep/core/Journal"
import type { TurnEvent } from "@turnstep/core/TurnEvent"
import * as Effect from "effect/Effect"
import * as Semaphore from "effect/Semaphore"

/** Events of a page at most, and the bytes after which no further event is read. */
export const mostEvents = 500
export const pageBytes = 256 * 1024

/** Pages that are read at once (R1). */
const atOnce = 4

export interface PageReads {
  /** Reads `limit` events after a sequence number, or as many as a page has bytes for. */
  readonly read: (sessionId: SessionId, after: number, limit: number) => Effect.Effect<ReadonlyArray<TurnEvent>>
}

/** Page reads of one journal. */
export const make = (journal: Journal["Service"]): PageReads => {
  const permits = Semaphore.makeUnsafe(atOnce)
  /** Pages that are waited for. */
  const awaited = new Map<string, { waiting: number; events: ReadonlyArray<TurnEvent> | undefined }>()
  return {
    read: (sessionId, after, limit) =>
      Effect.suspend(() => {
        const key = `${sessionId}/${after}/${limit}`
        const page = awaited.get(key) ?? { waiting: 0, events: undefined }
        awaited.set(key, page)
        page.waiting++
        const read = Effect.tap(journal.read(sessionId, { after, limit, bytes: pageBytes }), (events) =>
          Effect.sync(() => void (page.events = isFull(events, limit) ? events : undefined))
        )
        const readOnce = Effect.suspend(() => (page.events === undefined ? read : Effect.succeed(page.events)))
        const leave = Effect.sync(() => {
          if (--page.waiting === 0) awaited.delete(key)
        })
        return Effect.ensuring(permits.withPermits(1)(readOnce), leave)
      })
  }
}

/**
 * Whether a page has ended for its events or its bytes, and not with the log. Half of the bytes are enough: what was read may be
 * shorter than its record.
 */
export const isFull = (events: ReadonlyArray<TurnEvent>, limit: number): boolean => {
  let bytes = 0
  return events.length === limit || events.some(({ data }) => (bytes += bytesOf(data)) >= pageBytes / 2)
}
