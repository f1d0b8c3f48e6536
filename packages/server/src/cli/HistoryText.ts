/**
 * The texts of histories in a stream of bytes: one document, or one history a line (JSONL).
 *
 * Owns: which of the two it is, and the lines. Does not own: what a text means (`HistoryDocument`).
 *
 * - X1. Of JSONL never more than a line and a chunk is held; of one document all of it, up to `mostCharacters`.
 * - X2. It is JSONL if its first two lines with anything on them are JSON each, or if the second one is a history by itself.
 * - X3. The texts are those of the input to the last character; only a byte-order mark and
 *   the line feeds between lines of JSONL are gone.
 */
import { find } from "./HistoryDocument.ts"

/** One text; `line` counts from 1, and is absent for the one document. */
export interface Piece {
  readonly text: string
  readonly line?: number
}

/** Characters a single history may have. The engine cannot hold a text of twice this length. */
export const mostCharacters = 256 * 1024 * 1024

/** A history is too long to be held. */
export class TooLong extends Error {}

/** The bytes are not UTF-8. */
export class NotUtf8 extends Error {}

/** Takes chunks of bytes, gives texts as soon as they are complete. It throws `TooLong` and `NotUtf8`. */
export interface Splitter {
  readonly push: (chunk: Uint8Array) => ReadonlyArray<Piece>
  readonly end: () => ReadonlyArray<Piece>
}

export const make = (): Splitter => {
  const decoder = new TextDecoder("utf-8", { fatal: true })
  /** Lines of what may be one document; `undefined` once it is JSONL. */
  let held: Array<string> | undefined = []
  let first: Piece | undefined
  let isDocument = false
  let size = 0
  let line = 0
  let rest = ""

  const take = (text: string): ReadonlyArray<Piece> => {
    line++
    const isBlank = text.trim() === ""
    if (held === undefined) return isBlank ? [] : [{ text, line }]
    held.push(text)
    if (isDocument || isBlank) return []
    if (first === undefined) {
      first = { text, line }
      return []
    }
    if (!isFirstOfLines(first.text, text)) {
      isDocument = true
      return []
    }
    held = undefined
    return [first, { text, line }]
  }

  const decode = (chunk?: Uint8Array): string => {
    try {
      return decoder.decode(chunk, { stream: chunk !== undefined })
    } catch {
      throw new NotUtf8()
    }
  }

  return {
    push: (chunk) => {
      const [head = "", ...lines] = decode(chunk).split("\n")
      size = held === undefined ? rest.length + head.length : size + chunk.length
      if (size > mostCharacters) throw new TooLong()
      rest += head
      const pieces: Array<Piece> = []
      for (const next of lines) {
        pieces.push(...take(rest))
        rest = next
      }
      return pieces
    },
    end: () => {
      rest += decode()
      const pieces = take(rest)
      return held === undefined ? pieces : [{ text: held.join("\n") }]
    }
  }
}

/** X2 */
const isFirstOfLines = (first: string, second: string): boolean => {
  const value = parsed(second)
  if (value === undefined) return false
  return parsed(first) !== undefined || (first.trim().length > 1 && find(second, value) !== undefined)
}

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
