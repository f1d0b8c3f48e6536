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
import * as ToolOutput from "@turnstep/core/ToolOutput"
import * as Effect from "effect/Effect"
import type { Match, Matches } from "../tools/TextPattern.ts"

/** What a search is told. */
export interface Search {
  /** The first line that is looked at, counted from 1. */
  readonly startLine: number
  /** Matches that are kept; all are counted. */
  readonly keep: number
}

/** Searches a spill line by line (Q1, Q2); `find` gives the matching lines of a text of whole lines, keeping so many. */
export const search = Effect.fnUntraced(function* <E>(
  store: SpillStore.Service,
  sessionId: SessionId,
  kept: SpillStore.Kept,
  { keep, startLine }: Search,
  find: (bytes: Uint8Array, keep: number, line: number) => Effect.Effect<Matches, E>
) {
  const first: Array<Match> = []
  let count = 0
  /** The line the last piece ended in, if it goes on and has matched already: it counts once. */
  let matched: number | undefined
  yield* eachPiece(store, sessionId, kept, startLine, (line, bytes) =>
    Effect.map(find(bytes, Math.max(1, keep - first.length), line), (found) => {
      const again = matched === line && found.first[0]?.line === 1 ? 1 : 0
      count += found.count - again
      for (const match of found.first.slice(again, again + keep - first.length)) {
        first.push({ line: line + match.line - 1, text: match.text })
      }
      const goesOn = !bytes.includes(newline)
      matched = goesOn && (found.count > 0 || matched === line) ? line : undefined
      return true
    })
  )
  return { count, first } satisfies Matches
})

/** Lines of a spill from a place on: as many as fit into so many characters. */
export interface Lines {
  readonly text: string
  /** The last line given; the one before `startLine` when there is none. */
  readonly endLine: number
}

/** Reads lines from `startLine` up to `endLine`, both included, until `room` characters are full. */
export const lines = Effect.fnUntraced(function* (
  store: SpillStore.Service,
  sessionId: SessionId,
  kept: SpillStore.Kept,
  { endLine, room, startLine }: { readonly startLine: number; readonly endLine: number; readonly room: number }
) {
  const taken: Array<string> = []
  let length = 0
  let last = startLine - 1
  const take = (line: number, bytes: Uint8Array): boolean => {
    const text = decoder.decode(bytes)
    let number = line
    for (let from = 0; from < text.length;) {
      if (number > endLine) return false
      const end = text.indexOf("\n", from)
      const to = end < 0 ? text.length : end + 1
      if (length + (to - from) > room) {
        // A single line longer than the room is the only one that is cut.
        if (taken.length === 0) {
          taken.push(`${ToolOutput.part(text, from, from + room)}… [line cut]`)
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
  }
  yield* eachPiece(store, sessionId, kept, startLine, (line, bytes) => Effect.sync(() => take(line, bytes)))
  return { text: taken.join("").replace(/\n$/, ""), endLine: last } satisfies Lines
})

/**
 * Shows a spill from a line on by whole lines, so that no character is cut where a block ends: bytes that begin with line
 * number `line` (or inside it, Q2). They are only there while they are looked at.
 */
const eachPiece = Effect.fnUntraced(function* <E>(
  store: SpillStore.Service,
  sessionId: SessionId,
  kept: SpillStore.Kept,
  startLine: number,
  look: (line: number, bytes: Uint8Array) => Effect.Effect<boolean, E>
) {
  let index = blockOf(kept, startLine)
  let line = (kept.marks[index] ?? 0) + 1
  let rest: Uint8Array = Buffer.alloc(0)
  let isWanted = true
  const show = (bytes: Uint8Array): Effect.Effect<boolean, E> => {
    const before = line
    // What is left of the block has no end of line, so the next piece begins in the line the block ends in.
    line = (kept.marks[index] ?? kept.lines - 1) + 1
    if (before >= startLine) return look(before, bytes)
    const wanted = bytes.subarray(afterLines(bytes, startLine - before))
    return wanted.length === 0 ? Effect.succeed(true) : look(startLine, wanted)
  }
  let space = Buffer.alloc(0)
  /** In the same space each time. */
  const joined = (head: Uint8Array, tail: Uint8Array): Uint8Array => {
    if (head.length === 0) return tail
    const length = head.length + tail.length
    if (space.length < length) space = Buffer.allocUnsafe(length + longestLine)
    space.set(head)
    space.set(tail, head.length)
    return space.subarray(0, length)
  }
  yield* store.scan(sessionId, kept.id, index * SpillStore.blockSize, (block) => {
    index += Math.ceil(block.length / SpillStore.blockSize)
    const end = block.lastIndexOf(newline) + 1
    const isLong = end === 0 && rest.length + block.length >= longestLine
    if (end === 0 && !isLong) {
      rest = Buffer.concat([rest, block])
      return Effect.succeed(true)
    }
    const whole = joined(rest, isLong ? block : block.subarray(0, end))
    rest = isLong ? Buffer.alloc(0) : Buffer.from(block.subarray(end))
    return Effect.map(show(whole), (goesOn) => (isWanted = goesOn))
  })
  if (isWanted && rest.length > 0) yield* show(rest)
})

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
