/**
 * A search pattern, applied line by line.
 *
 * Owns: what counts as a match, and that a search ends. Does not own: which
 * texts are searched (`Workspace`).
 *
 * - S1. A line counts once, however often it matches: the figures are those of `grep -n`.
 * - S2. A regular expression runs under a time limit, for a portion of the text and for all of it. JavaScript's engine
 *   backtracks, and one line of forty characters can keep it busy for hours; a fixed text cannot.
 * - S3. A search runs in a task process only (`offthread/OffThread`): this module imports nothing that a process would load long.
 */
import * as ToolOutput from "@turnstep/core/ToolOutput"
import * as vm from "node:vm"

export interface TextPattern {
  /** The place of the first match in a line, or -1. */
  readonly find: (line: string) => number
  /** False when no line of the text can match; spares splitting it. */
  readonly possible: (text: string) => boolean
  /** Whether a search needs a time limit (S2). */
  readonly backtracks: boolean
}

export interface PatternOptions {
  readonly literal?: boolean | undefined
  readonly caseSensitive?: boolean | undefined
}

/**
 * The text that every match contains, if that is known from the pattern and short: looking for a short text takes linear time
 * for any text, so it may be done outside a task process.
 */
export const shortText = (source: string, { caseSensitive, literal }: PatternOptions): string | undefined =>
  source.length <= longestShort && caseSensitive !== false && (literal === true || !metacharacters.test(source))
    ? source
    : undefined

/** Why a pattern cannot be used: the engine's own words. */
export interface PatternFault {
  readonly fault: string
}

/** Compiles a pattern. */
export const compile = (source: string, options?: PatternOptions): TextPattern | PatternFault => {
  const caseSensitive = options?.caseSensitive ?? true
  const fixed = options?.literal === true || !metacharacters.test(source)
  if (fixed && caseSensitive) {
    return {
      find: (line) => line.indexOf(source),
      possible: (text) => text.includes(source),
      backtracks: false
    }
  }
  try {
    const expression = new RegExp(fixed ? source.replace(everyMetacharacter, "\\$&") : source, caseSensitive ? "" : "i")
    return {
      find: (line) => line.search(expression),
      possible: fixed ? (text) => expression.test(text) : () => true,
      backtracks: !fixed
    }
  } catch (cause) {
    return { fault: cause instanceof Error ? cause.message : String(cause) }
  }
}

export interface Match {
  /** Counted from 1. */
  readonly line: number
  /** The line, cut around the match when it is long. */
  readonly text: string
}

export interface Matches {
  /** Matching lines in the whole text (S1). */
  readonly count: number
  /** The first of them. */
  readonly first: ReadonlyArray<Match>
}

/** Finds the matching lines of a text, keeping at most `keep` of them. */
export const search = (pattern: TextPattern, text: string, keep: number): Matches => {
  if (!pattern.possible(text)) return nothing
  const first: Array<Match> = []
  let count = 0
  const lines = linesOf(text)
  for (const [index, line] of lines.entries()) {
    const at = pattern.find(line)
    if (at < 0) continue
    count++
    if (first.length < keep) first.push({ line: index + 1, text: excerpt(line, at) })
  }
  return { count, first }
}

/** The lines of a text: an end of line at the very end opens no further line, and CR is no part of a line. */
export const linesOf = (text: string): ReadonlyArray<string> => {
  const lines = text.split(/\r?\n/)
  if (lines.at(-1) === "") lines.pop()
  return lines
}

/** Runs `work` for at most `millis` of real time; undefined when it was stopped, by the time or for want of room. */
export type TimeLimit = <A>(millis: number, work: () => A) => A | undefined

/**
 * A time limit for synchronous work (S2). Node's `vm` can stop a running regular
 * expression, even of code that was not compiled by it; nothing is sandboxed here.
 */
export const makeTimeLimit = (): TimeLimit => {
  const box: { work: () => void } = { work: () => {} }
  vm.createContext(box)
  const script = new vm.Script("work()")
  return <A>(millis: number, work: () => A) => {
    let out: A | undefined
    box.work = () => {
      out = work()
    }
    try {
      script.runInContext(box, { timeout: millis })
    } catch (cause) {
      if (isTimeout(cause) || isOverflow(cause)) return undefined
      throw cause
    } finally {
      box.work = () => {}
    }
    return out
  }
}

/** The time limits of one search (S2). */
export interface Patience {
  /** Searches a portion of so many characters; undefined when the pattern takes too long for it, or did so far. */
  readonly search: <A>(characters: number, work: () => A) => A | undefined
  /** Milliseconds that are left of what the portions so far were allowed. */
  readonly left: () => number
}

/** The milliseconds a search begins with. */
export const firstPatience = 2_000

/** Makes the time limits of a search that has so many milliseconds left; default `firstPatience`. */
export const makePatience = (options?: {
  readonly left?: number | undefined
  readonly limit?: TimeLimit | undefined
  readonly now?: (() => number) | undefined
}): Patience => {
  const { limit = makeTimeLimit(), now = () => performance.now() } = options ?? {}
  let left = options?.left ?? firstPatience
  return {
    search: (characters, work) => {
      left += (characters / (1024 * 1024)) * mebiMillis
      const started = now()
      const out = left < 1 ? undefined : limit(Math.min(portionMillis, Math.ceil(left)), work)
      left -= now() - started
      return out
    },
    left: () => left
  }
}

/** Milliseconds for a portion, and for each 2^20 characters on the whole: far more than an honest pattern needs. */
const portionMillis = 1_000
const mebiMillis = 100

const longestShort = 64

const metacharacters = /[\\^$.*+?()[\]{}|]/
const everyMetacharacter = new RegExp(metacharacters, "g")

const nothing: Matches = { count: 0, first: [] }

const maxText = 240
const before = 80

const excerpt = (line: string, at: number): string => {
  if (line.length <= maxText) return line
  const start = at + before < maxText ? 0 : at - before
  const end = start + maxText
  return `${start > 0 ? "…" : ""}${ToolOutput.part(line, start, end)}${end < line.length ? "…" : ""}`
}

// the error comes from another realm, so `instanceof Error` does not hold
const isTimeout = (cause: unknown): boolean =>
  typeof cause === "object" && cause !== null && "code" in cause && cause.code === "ERR_SCRIPT_EXECUTION_TIMEOUT"

/** The engine keeps its ways back on a stack of its own. */
const isOverflow = (cause: unknown): boolean => cause instanceof RangeError
