/**
 * The search of one piece of a spill, in a task process.
 */
import { OutOfTime } from "../offthread/TaskMessage.ts"
import * as TextPattern from "./TextPattern.ts"

export interface SearchInput {
  readonly pattern: string
  readonly options: TextPattern.PatternOptions
  /** Whole lines, in UTF-8. */
  readonly bytes: Uint8Array
  /** Matches that are kept; all are counted. */
  readonly keep: number
  /** The number of the first line. */
  readonly line: number
  /** What earlier pieces left of the search's patience, in milliseconds. */
  readonly left: number
}

/** The matching lines of a piece, counted from its first, and the patience that is left. */
export interface PieceFound {
  readonly matches: TextPattern.Matches
  readonly left: number
}

/** Searches a piece; throws `OutOfTime` for a pattern that backtracks too much. */
export const search = (input: SearchInput): PieceFound | TextPattern.PatternFault => {
  const pattern = TextPattern.compile(input.pattern, input.options)
  if ("fault" in pattern) return pattern
  const { bytes, keep, left, line } = input
  const text = decoder.decode(bytes)
  if (!pattern.backtracks) return { matches: TextPattern.search(pattern, text, keep), left }
  const patience = TextPattern.makePatience({ left })
  const matches = patience.search(text.length, () => TextPattern.search(pattern, text, keep))
  if (matches !== undefined) return { matches, left: patience.left() }
  throw new OutOfTime(
    `This regular expression backtracks too much from line ${line} on. Use a simpler one, or literal: true.`
  )
}

const decoder = new TextDecoder()
