/**
 * Writing to readers who may be slow, or may never read.
 *
 * Owns: how much waits for them, how long, and who is hung up on. Does not own: what is written (`Streams`, `SpillHandlers`).
 *
 * - O1. Node is given small slices: what waits for a reader is in the text that is being written, once.
 * - O2. A reader who takes nothing for half a minute is hung up on.
 * - O3. What waits for all readers of the server has one bound. Beyond it the readers who have taken nothing for the longest
 *   are hung up on: they go on from their last event, and one who reads is never the one who waits longest. One reader alone
 *   is waited for, however large its text: it would meet the same text again.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { ServerResponse } from "node:http"

/** How long a reader may take nothing of what was written to it (O2). */
export const patience = Duration.seconds(30)

/** Bytes that are given to Node at once (O1). */
const slice = 64 * 1024

/** Bytes that may wait for all readers together (O3). */
const most = 16 * 1024 * 1024

export interface Outflow {
  /** Writes a text, and waits while the reader is slow. What is interrupted leaves no half of a text behind. */
  readonly text: (response: ServerResponse, text: string | Buffer) => Effect.Effect<void>
  /** Writes a block of a download, and waits while the reader is slow. */
  readonly bytes: (response: ServerResponse, bytes: Uint8Array) => Effect.Effect<void>
}

/** The outflow of a server; `budget`: bytes that may wait for all of its readers. */
export const make = (budget = most): Outflow => {
  /** Readers that take nothing, the longest wait first, and the bytes that wait for each. */
  const stalled = new Map<ServerResponse, number>()
  let waiting = 0
  const leave = (response: ServerResponse): void => {
    waiting -= stalled.get(response) ?? 0
    stalled.delete(response)
  }
  const wait = (response: ServerResponse, bytes: number): void => {
    leave(response)
    stalled.set(response, bytes)
    waiting += bytes
    for (const [longest] of stalled) {
      if (waiting <= budget || stalled.size === 1) return
      leave(longest)
      longest.destroy()
    }
  }
  const drained = (response: ServerResponse, rest: number): Effect.Effect<void> =>
    Effect.suspend(() => {
      wait(response, response.writableLength + rest)
      return Effect.ensuring(
        drain(response),
        Effect.sync(() => leave(response))
      )
    })
  const bytes = (response: ServerResponse, block: Uint8Array): Effect.Effect<void> =>
    Effect.suspend(() => (response.write(block) ? Effect.void : drained(response, 0)))
  const long = (response: ServerResponse, whole: Buffer): Effect.Effect<void> => {
    let given = 0
    const next = Effect.suspend(() => {
      const piece = whole.subarray(given, given + slice)
      given += piece.length
      return response.write(piece) ? Effect.void : drained(response, whole.length - given)
    })
    const isGiven = () => given >= whole.length
    return Effect.repeat(next, { until: isGiven }).pipe(
      Effect.onInterrupt(() =>
        Effect.sync(() => {
          if (!isGiven() && !response.destroyed) response.write(whole.subarray(given))
        })
      )
    )
  }
  return {
    bytes,
    text: (response, text) =>
      Effect.suspend(() => {
        if (typeof text !== "string") return long(response, text)
        if (text.length > slice) return long(response, Buffer.from(text))
        return response.write(text) ? Effect.void : drained(response, 0)
      })
  }
}

/**
 * Waits until the connection takes more, and hangs up when that takes too long (O2). A connection that is lost ends the
 * request, and with it this wait.
 */
const drain = (response: ServerResponse): Effect.Effect<void> =>
  Effect.callback<void>((resume) => {
    if (!response.writableNeedDrain) return resume(Effect.void)
    const go = () => resume(Effect.void)
    response.once("drain", go)
    return Effect.sync(() => response.off("drain", go))
  }).pipe(
    Effect.timeoutOrElse({
      duration: patience,
      orElse: () =>
        Effect.andThen(
          Effect.sync(() => response.destroy()),
          Effect.never
        )
    })
  )
