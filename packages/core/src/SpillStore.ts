/**
 * Where outputs of tools are kept that are too large for the log and for the model (mechanism E2).
 *
 * Owns: the port, its form in memory, and what is known of a spill. Does not own: which outputs are spilled and what is told
 * of them (`runtime/ToolCall`), or files (`runtime/spill/SpillFiles`).
 *
 * - S1. A spill is named by the SHA-256 of its bytes: the same output has the same name, and no name comes from outside.
 * - S2. A spill belongs to the session it was written for; no other session finds it.
 * - S3. It is there whole or not at all: `write` ends when every byte can be read.
 * - S4. Content is streamed in and out; a store on disk never holds more than a few blocks in memory.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { createHash } from "node:crypto"
import type { SessionId } from "./Ids.ts"
import { SpillId } from "./Ids.ts"

/** Outputs of more bytes than this are spilled: 1 MiB. */
export const threshold = 1024 * 1024

/** Bytes that are shown of each end of a spill. */
export const edgeBytes = 4096

/** Content is read in blocks of this many bytes, at multiples of it: 64 KiB. Larger ones leave more garbage than is worth. */
export const blockSize = 64 * 1024

/** Content is scanned in blocks of this many bytes: 1 MiB, always in the same place, so that no garbage is left at all. */
export const scanSize = 16 * blockSize

/** A spill as the log tells of it. `lines`: ends of line, and one more when the last line has none. */
export const Spill = Schema.Struct({ id: SpillId, bytes: Schema.Int, lines: Schema.Int })
export type Spill = typeof Spill.Type

/** A spill that is there. `marks`: for each block, the ends of line before it. */
export interface Kept extends Spill {
  readonly marks: ArrayLike<number>
}

/** The output cannot be kept. `message` is written for the model and for people, and names no path. */
export class SpillRefused extends Schema.TaggedError<SpillRefused>()("SpillRefused", {
  reason: Schema.Literals(["quota", "disk-full", "unavailable"]),
  message: Schema.String
}) {}

/** There is no such spill in the session: it never was, or its time is over. */
export class SpillNotFound extends Schema.TaggedError<SpillNotFound>()("SpillNotFound", {
  spill: Schema.String,
  message: Schema.String
}) {}

/** Bytes from `start` up to `end`, which is not included. */
export interface Range {
  readonly start: number
  readonly end: number
}

export interface Service {
  /** Keeps a content (S1, S3). What fails or is interrupted leaves nothing behind. */
  readonly write: <E>(
    sessionId: SessionId,
    content: Stream.Stream<Uint8Array, E>
  ) => Effect.Effect<Spill, SpillRefused | E>
  /** What is known of a spill of the session; `spill` comes from a model or a client and may be anything (S2). */
  readonly find: (sessionId: SessionId, spill: string) => Effect.Effect<Kept, SpillNotFound>
  /** Its bytes, or those of a range that lies inside it, in pieces that end where blocks end. */
  readonly read: (sessionId: SessionId, spill: SpillId, range?: Range) => Stream.Stream<Uint8Array, SpillNotFound>
  /**
   * Shows the bytes from `start` on, in blocks of `scanSize`, until `look` gives false. A block is only there until `look`
   * ends.
   */
  readonly scan: <E>(
    sessionId: SessionId,
    spill: SpillId,
    start: number,
    look: (block: Uint8Array) => Effect.Effect<boolean, E>
  ) => Effect.Effect<void, SpillNotFound | E>
}

/** The store of the runtime; without one, nothing is spilled. */
export const SpillStore = Context.Reference<Service | undefined>("core/SpillStore", { defaultValue: () => undefined })

/** Whether a text could be the name of a spill; nothing else is looked for. */
export const isSpillId = Schema.is(SpillId)

export const notFound = (spill: string): SpillNotFound =>
  new SpillNotFound({
    spill: spill.slice(0, 80),
    message: `This session has no spill ${spill.slice(0, 80)}. Its time may be over.`
  })

/** Says that a quota is spent. */
export const quotaSpent = (whose: "session" | "store", bytes: number): SpillRefused =>
  new SpillRefused({
    reason: "quota",
    message: `There is no room to keep it: large outputs of this ${whose} may have ${bytes} bytes together.`
  })

/** What follows from the bytes of a content as they pass (S1). */
export interface Meter {
  readonly add: (bytes: Uint8Array) => void
  readonly end: () => Kept
}

export const meter = (): Meter => {
  const hash = createHash("sha256")
  const marks: Array<number> = [0]
  let bytes = 0
  let ends = 0
  let last = newline
  return {
    add: (piece) => {
      hash.update(piece)
      for (let from = 0; from < piece.length;) {
        const to = Math.min(piece.length, from + blockSize - (bytes % blockSize))
        ends += endsOfLine(piece, from, to)
        bytes += to - from
        if (bytes % blockSize === 0) marks.push(ends)
        from = to
      }
      last = piece.at(-1) ?? last
    },
    end: () => {
      if (bytes > 0 && bytes % blockSize === 0) marks.pop()
      const id = SpillId.make(hash.digest("hex"))
      return { id, bytes, lines: ends + (last === newline ? 0 : 1), marks }
    }
  }
}

const newline = 0x0a

/** Ends of line among the bytes from `from` up to `to`. */
export const endsOfLine = (bytes: Uint8Array, from: number, to: number): number => {
  let count = 0
  for (let index = from; index < to; index++) if (bytes[index] === newline) count++
  return count
}

/** A store in memory for tests and for runtimes that keep nothing else either; `quota` in bytes, 64 MiB by default. */
export const layerMemory = (options?: { readonly quota?: number | undefined }): Layer.Layer<never> =>
  Layer.sync(SpillStore, () => makeMemory(options))

/** The same, to be handed on. */
export const makeMemory = (options?: { readonly quota?: number | undefined }): Service => {
  const quota = options?.quota ?? 64 * threshold
  const sessions = new Map<SessionId, Map<string, Held>>()
  let used = 0
  const held = (sessionId: SessionId, spill: string): Effect.Effect<Held, SpillNotFound> => {
    const found = sessions.get(sessionId)?.get(spill)
    return found === undefined ? Effect.fail(notFound(spill)) : Effect.succeed(found)
  }
  return {
    write: (sessionId, content) =>
      Effect.suspend(() => {
        const measured = meter()
        const pieces: Array<Uint8Array> = []
        let size = 0
        const grown = Stream.runForEach(content, (piece) => {
          size += piece.length
          used += piece.length
          if (used > quota) return Effect.fail(quotaSpent("store", quota))
          measured.add(piece)
          pieces.push(piece)
          return Effect.void
        })
        const released = Effect.onError(grown, () => Effect.sync(() => void (used -= size)))
        return Effect.map(released, () => {
          const kept = measured.end()
          const spills = sessions.get(sessionId) ?? new Map<string, Held>()
          sessions.set(sessionId, spills)
          if (spills.has(kept.id)) used -= size
          else spills.set(kept.id, { kept, content: Buffer.concat(pieces) })
          return { id: kept.id, bytes: kept.bytes, lines: kept.lines }
        })
      }),
    find: (sessionId, spill) => Effect.map(held(sessionId, spill), ({ kept }) => kept),
    read: (sessionId, spill, range) =>
      Stream.unwrap(
        Effect.map(held(sessionId, spill), ({ content }) => {
          const { end, start } = range ?? { start: 0, end: content.length }
          return Stream.fromIterable(blocks({ start, end: Math.min(end, content.length) })).pipe(
            Stream.map((block) => content.subarray(block.start, block.end))
          )
        })
      ),
    scan: (sessionId, spill, start, look) =>
      Effect.gen(function* () {
        const { content } = yield* held(sessionId, spill)
        for (let from = start; from < content.length; from += scanSize) {
          if (!(yield* look(content.subarray(from, from + scanSize)))) return
        }
      })
  }
}

interface Held {
  readonly kept: Kept
  readonly content: Uint8Array
}

/** A range in pieces that end where blocks end. */
export const blocks = function* ({ end, start }: Range): Generator<Range> {
  for (let from = start; from < end;) {
    const to = Math.min(end, from + blockSize - (from % blockSize))
    yield { start: from, end: to }
    from = to
  }
}
