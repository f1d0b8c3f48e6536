/**
 * Looking into a spill by lines, without ever holding more of it than a few blocks.
 *
 * Owns: finding and cutting of lines. Does not own: the content (`core/SpillStore`), patterns (`tools/TextPattern`).
 *
 * - Q1. Line numbers are those of the whole spill; a search counts a line once, as `grep -n` does.
 * - Q2. A line longer than 1 MiB is looked at in pieces: a match across two pieces is not seen.
 */
import type { SessionId } from "@turnstep/core/Ids"
import * as SpillStore from "@turnstep/core/SpillStore"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { Match, Matches } from "../tools/TextPattern.ts"

/** What a search is told. */
export interface Search {
  /** The first line that is looked at, counted from 1. */
  readonly startLine: number
  /** Matches that are kept; all are counted. */
  readonly keep: number
  /** Whether any line among these bytes can match; spares decoding them. */
  readonly possible: (bytes: Uint8Array) => boolean
  /** Matching lines of a text, keeping so many of them; `undefined` when the pattern takes too long. */
  readonly find: (text: string, keep: number) => Matches | undefined
}

/** What a search found; `isStopped`: the pattern took too long at line `stoppedAt`. */
export interface Found extends Matches {
  readonly stoppedAt: number | undefined
}

/** Searches a spill line by line (Q1, Q2). */
export const search = Effect.fnUntraced(function* (
  store: SpillStore.Service,
  sessionId: SessionId,
  kept: SpillStore.Kept,
  { find, keep, possible, startLine }: Search
) {
  const first: Array<Match> = []
  let count = 0
  let stoppedAt: number | undefined
  /** The line the last piece ended in, if it goes on and has matched already: it counts once. */
  let matched: number | undefined
  yield* Stream.runForEachWhile(pieces(store, sessionId, kept, startLine), ({ bytes, line }) =>
    Effect.sync(() => {
      if (!possible(bytes)) {
        if (bytes.includes(newline)) matched = undefined
        return true
      }
      const text = decoder.decode(bytes)
      const found = find(text, Math.max(1, keep - first.length))
      if (found === undefined) {
        stoppedAt = line
        return false
      }
      const again = matched === line && found.first[0]?.line === 1 ? 1 : 0
      count += found.count - again
      for (const match of found.first.slice(again, again + keep - first.length)) {
        first.push({ line: line + match.line - 1, text: match.text })
      }
      const goesOn = !text.includes("\n")
      matched = goesOn && (found.count > 0 || matched === line) ? line : undefined
      return true
    })
  )
  return { count, first, stoppedAt } satisfies Found
})

/** Lines of a spill from a place on: as many as fit into so many characters. */
export interface Lines {
  readonly text: string
  /** The last line given; the one before `startLine` when there is none. */
  readonly endLine: number
}

/** Reads lines from `startLine` up to `endLine`, both included, until `room` characters are full. */
export const lines = (
  store: SpillStore.Service,
  sessionId: SessionId,
  kept: SpillStore.Kept,
  { endLine, room, startLine }: { readonly startLine: number; readonly endLine: number; readonly room: number }
) =>
  Effect.gen(function* () {
    const taken: Array<string> = []
    let length = 0
    let last = startLine - 1
    yield* Stream.runForEachWhile(pieces(store, sessionId, kept, startLine), ({ bytes, line }) =>
      Effect.sync(() => {
        const text = decoder.decode(bytes)
        let number = line
        for (let from = 0; from < text.length;) {
          const end = text.indexOf("\n", from)
          const to = end < 0 ? text.length : end + 1
          if (number > endLine || length + (to - from) > room) {
            // A single line longer than the room is the only one that is cut.
            if (taken.length === 0) {
              taken.push(`${text.slice(from, from + room)}… [line cut]`)
              last = number
            }
            return false
          }
          taken.push(text.slice(from, to))
          length += to - from
          last = number
          from = to
          if (end >= 0) number++
        }
        return true
      })
    )
    return { text: taken.join("").replace(/\n$/, ""), endLine: last } satisfies Lines
  })

/** Bytes that begin with line number `line` (or inside it, Q2) and ends with a line's end, where lines are not too long. */
interface Piece {
  readonly line: number
  readonly bytes: Uint8Array
}

/** The spill from a line on, by whole lines, so that no character is cut where a block ends. */
const pieces = (
  store: SpillStore.Service,
  sessionId: SessionId,
  kept: SpillStore.Kept,
  startLine: number
): Stream.Stream<Piece, SpillStore.SpillNotFound> => {
  const from = blockOf(kept, startLine)
  let index = from
  let line = (kept.marks[from] ?? 0) + 1
  let rest: Uint8Array = Buffer.alloc(0)
  const piece = (bytes: Uint8Array): Piece => {
    const before = line
    // What is left of the block has no end of line, so the next piece begins in the line the block ends in.
    line = (kept.marks[index] ?? kept.lines - 1) + 1
    if (before >= startLine) return { line: before, bytes }
    return { line: startLine, bytes: bytes.subarray(afterLines(bytes, startLine - before)) }
  }
  let space = Buffer.alloc(0)
  /** In the same space each time: a piece is looked at before the next one is made. */
  const joined = (head: Uint8Array, tail: Uint8Array): Uint8Array => {
    const length = head.length + tail.length
    if (space.length < length) space = Buffer.allocUnsafe(length * 2)
    space.set(head)
    space.set(tail, head.length)
    return space.subarray(0, length)
  }
  const cut = (block: Uint8Array): ReadonlyArray<Piece> => {
    index++
    const end = block.lastIndexOf(newline) + 1
    const isLong = end === 0 && rest.length + block.length >= longestLine
    if (end === 0 && !isLong) {
      rest = Buffer.concat([rest, block])
      return []
    }
    const whole = joined(rest, isLong ? block : block.subarray(0, end))
    rest = isLong ? Buffer.alloc(0) : block.subarray(end)
    return [piece(whole)]
  }
  const range = { start: from * SpillStore.blockSize, end: kept.bytes }
  return store.read(sessionId, kept.id, range).pipe(
    Stream.flatMap((block) => Stream.fromIterable(cut(block))),
    Stream.concat(Stream.suspend(() => (rest.length === 0 ? Stream.empty : Stream.make(piece(rest))))),
    Stream.filter(({ bytes }) => bytes.length > 0)
  )
}

/** The last block that begins before the end of the line before `line`. */
const blockOf = ({ marks }: SpillStore.Kept, line: number): number => {
  let low = 0
  let high = marks.length - 1
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    if ((marks[middle] ?? 0) <= line - 2) low = middle
    else high = middle - 1
  }
  return low
}

/** The place behind so many ends of line. */
const afterLines = (bytes: Uint8Array, lines: number): number => {
  let at = 0
  for (let n = 0; n < lines; n++) {
    const end = bytes.indexOf(newline, at)
    if (end < 0) return bytes.length
    at = end + 1
  }
  return at
}

const newline = 0x0a

/** Bytes of a line that are looked at together (Q2). */
const longestLine = 1024 * 1024

const decoder = new TextDecoder()
