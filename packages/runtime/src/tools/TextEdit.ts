/**
 * Replacing one text in a file's text by another. Pure; runs in a task process (`WriteTask`).
 *
 * Owns: where the text is, what becomes of line ends, and the words when it is not there. Does not own: writing.
 *
 * - X1. The text is looked for as `read_files` shows the file: LF and CRLF are one line end, and a byte order mark is not shown.
 * - X2. Every byte outside the change stays as it is, in a file of mixed line ends too: what `old` and `new` have in common at
 *   their beginnings and ends is not part of the change.
 * - X3. A new line end is written like that of the line the change is in; the only line of a file gets LF.
 * - X4. Time and memory are linear in the file and the texts, for every text.
 */
import { linesOf } from "./TextPattern.ts"

/** Replaces the only place of `old` in a text (X1 to X4). */
export const replace = (
  text: string,
  old: string,
  next: string
): { readonly text: string } | { readonly refused: string } => {
  if (!old.isWellFormed() || !next.isWellFormed())
    return { refused: "`old` and `new` must be whole Unicode characters." }
  const start = text.startsWith(mark) ? 1 : 0
  const shown = normalised(text.slice(start))
  const from = normalised(withoutMark(old, start))
  const to = normalised(withoutMark(next, start))
  if (from === "") return { refused: "`old` is empty: give the text to replace." }
  const at = indexOf(shown, from, 0)
  if (at < 0) return { refused: mismatch(shown, from) }
  if (indexOf(shown, from, at + 1) >= 0) {
    return { refused: "`old` is in the file more than once. Give more of the lines around the place." }
  }
  const head = commonHead(from, to)
  const tail = commonTail(from, to, head)
  const [first, last] = placesOf(text, start, at + head, at + from.length - tail)
  const end = lineEndAt(text, first)
  const middle = to.slice(head, to.length - tail).replaceAll("\n", end)
  return { text: text.slice(0, first) + middle + text.slice(last) }
}

/** The line end that all lines of a text have that have one; undefined if there are several kinds, or none. */
export const lineEndOf = (text: string): "\n" | "\r\n" | undefined => {
  const all = count(text, "\n")
  const crlf = count(text, "\r\n")
  return all === 0 || (crlf > 0 && crlf < all) ? undefined : crlf > 0 ? "\r\n" : "\n"
}

/** The byte order mark. */
export const mark = "\ufeff"

const normalised = (text: string): string => text.replaceAll("\r\n", "\n")

const withoutMark = (text: string, start: number): string =>
  start === 1 && text.startsWith(mark) ? text.slice(1) : text

const count = (text: string, part: string): number => {
  let found = 0
  for (let at = text.indexOf(part); at >= 0; at = text.indexOf(part, at + part.length)) found++
  return found
}

/** The engine's own search is fast, but takes time in the product of both lengths for some texts (X4). */
const longestQuickSearch = 64

/** The first place of `part` at or after `from`, or -1. Knuth, Morris and Pratt's search for long parts. */
const indexOf = (text: string, part: string, from: number): number => {
  if (part.length <= longestQuickSearch) return text.indexOf(part, from)
  const borders = new Int32Array(part.length)
  for (let index = 1, border = 0; index < part.length; index++) {
    while (border > 0 && part.charCodeAt(index) !== part.charCodeAt(border)) border = borders[border - 1] ?? 0
    if (part.charCodeAt(index) === part.charCodeAt(border)) border++
    borders[index] = border
  }
  for (let index = from, matched = 0; index < text.length; index++) {
    while (matched > 0 && text.charCodeAt(index) !== part.charCodeAt(matched)) matched = borders[matched - 1] ?? 0
    if (text.charCodeAt(index) === part.charCodeAt(matched)) matched++
    if (matched === part.length) return index - part.length + 1
  }
  return -1
}

const commonHead = (a: string, b: string): number => {
  const most = Math.min(a.length, b.length)
  let length = 0
  while (length < most && a.charCodeAt(length) === b.charCodeAt(length)) length++
  return length
}

const commonTail = (a: string, b: string, head: number): number => {
  const most = Math.min(a.length, b.length) - head
  let length = 0
  while (length < most && a.charCodeAt(a.length - 1 - length) === b.charCodeAt(b.length - 1 - length)) length++
  return length
}

/** Two places of the shown text as places of the file's text, which begins at `start`. */
const placesOf = (text: string, start: number, first: number, last: number): readonly [number, number] => {
  let passed = 0
  let at = text.indexOf("\r\n", start)
  /** Each CRLF that ends before the place is one character longer in the file. */
  const placeOf = (shown: number): number => {
    while (at >= 0 && at - start - passed < shown) {
      passed++
      at = text.indexOf("\r\n", at + 2)
    }
    return start + shown + passed
  }
  const begin = placeOf(first)
  return [begin, placeOf(last)]
}

/** The line end of the line that a place is in; of the line before, if it has none (X3). */
const lineEndAt = (text: string, place: number): string => {
  const next = text.indexOf("\n", place)
  const end = next >= 0 ? next : text.lastIndexOf("\n", place)
  return end > 0 && text[end - 1] === "\r" ? "\r\n" : "\n"
}

/** Says what keeps `old` from being found: the line of it that differs, or that it differs in white space only. */
const mismatch = (shown: string, old: string): string => {
  const lines = linesOf(shown)
  const wanted = linesOf(old)
  const near = closest(lines, wanted)
  if (near === undefined) {
    return "`old` is not in the file, and neither is a line like its first one. Read the file again: it must fit to the last space."
  }
  const { index, line } = near
  const has = lines[line]
  const wants = quoted(wanted[index] ?? "")
  const found = has === undefined ? "the file ends there" : `the file has ${quoted(has)}`
  const kind = has !== undefined && squeezed(has) === squeezed(wanted[index] ?? "") ? " in white space" : ""
  return `\`old\` is not in the file. It differs${kind} at line ${line + 1}: ${found}, \`old\` has ${wants}.`
}

/** The first line that differs at the place where most lines of `old` fit in their order, of the places where one does. */
const closest = (
  lines: ReadonlyArray<string>,
  wanted: ReadonlyArray<string>
): { readonly line: number; readonly index: number } | undefined => {
  const first = wanted.findIndex((line) => line.trim() !== "")
  if (first < 0) return undefined
  const anchor = squeezed(wanted[first] ?? "")
  let best: { readonly line: number; readonly index: number } | undefined
  // A text that repeats itself has many places that nearly fit; comparing all of them would take the product (X4).
  let work = lines.length + wanted.length
  for (let at = 0; at < lines.length && work > 0; at++) {
    if (!(squeezed(lines[at] ?? "") === anchor || (first === 0 && (lines[at] ?? "").endsWith(wanted[0] ?? ""))))
      continue
    let index = first
    const fits = () => {
      const line = lines[at - first + index]
      const want = wanted[index]
      // The first and the last line of `old` may be parts of lines.
      if (line === undefined || want === undefined) return false
      return (
        line === want || (index === 0 && line.endsWith(want)) || (index === wanted.length - 1 && line.startsWith(want))
      )
    }
    while (index < wanted.length && fits()) {
      index++
      work--
    }
    if (best === undefined || index > best.index) best = { line: at - first + index, index }
  }
  return best === undefined || best.index >= wanted.length ? undefined : best
}

const squeezed = (line: string): string => line.trim().replaceAll(/\s+/g, " ")

const longestQuote = 120

const quoted = (line: string): string =>
  JSON.stringify(line.length > longestQuote ? `${line.slice(0, longestQuote).toWellFormed()}…` : line)
