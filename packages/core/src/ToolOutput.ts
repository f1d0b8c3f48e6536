/**
 * The model's view of a tool result: an oversized text keeps its head and its tail, the middle is named and left out.
 * The full result stays in the journal and in the events (mechanism E1).
 *
 * - O1. No code point and no grapheme cluster is ever cut.
 * - O2. A view never exceeds its cap, in UTF-16 code units.
 */

/** Limits of a view, in UTF-16 code units. `head` and `tail` are shares of the original. */
export interface Limits {
  readonly cap: number
  readonly head: number
  readonly tail: number
}

/** 32,768 code units at the most, of them a fifth of the original at each end. */
export const defaultLimits: Limits = { cap: 32_768, head: 0.2, tail: 0.2 }

/** A text for the model; `omitted` counts the code units left out of it. */
export interface View {
  readonly text: string
  readonly omitted: number
}

/** The text form of a result, as the model reads it: strings as they are, everything else as JSON. */
export const toText = (result: unknown): string =>
  typeof result === "string" ? result : (JSON.stringify(result) ?? "null")

/** Cuts an oversized text to head and tail. A text within the cap is returned unchanged. */
export const slim = (text: string, limits: Limits = defaultLimits): View => {
  if (text.length <= limits.cap) return { text, omitted: 0 }
  const room = Math.max(0, limits.cap - NOTE_ROOM)
  const scale = Math.min(1, room / (text.length * (limits.head + limits.tail)))
  const head = text.slice(0, boundaryBefore(text, Math.floor(text.length * limits.head * scale)))
  const tail = text.slice(boundaryAfter(text, text.length - Math.floor(text.length * limits.tail * scale)))
  const omitted = text.length - head.length - tail.length
  const note = `\n[… ${omitted} of ${text.length} characters left out; the full output is stored with the call …]\n`
  return { text: (head + note + tail).slice(0, Math.max(limits.cap, 0)), omitted }
}

/** The note with two 16-digit counts fits in this many code units (O2). */
const NOTE_ROOM = 128

/** How far from a wanted cut a cluster boundary is looked for: longer clusters (stacked marks) are cut between code points. */
const CLUSTER_REACH = 64

const graphemes = new Intl.Segmenter(undefined, { granularity: "grapheme" })

/** The last cluster boundary at or before `index` (O1). */
const boundaryBefore = (text: string, index: number): number => {
  if (index <= 0) return 0
  if (index >= text.length) return text.length
  const start = codePointBefore(text, Math.max(0, index - CLUSTER_REACH))
  let last = start
  for (const { index: at } of graphemes.segment(text.slice(start, index + CLUSTER_REACH))) {
    if (start + at > index) break
    last = start + at
  }
  return last > start ? last : codePointBefore(text, index)
}

/** The first cluster boundary at or after `index` (O1). */
const boundaryAfter = (text: string, index: number): number => {
  if (index <= 0) return 0
  if (index >= text.length) return text.length
  const start = codePointBefore(text, Math.max(0, index - CLUSTER_REACH))
  for (const { index: at } of graphemes.segment(text.slice(start, index + CLUSTER_REACH))) {
    if (start + at >= index) return start + at
  }
  const before = codePointBefore(text, index)
  return before === index ? index : index + 1
}

const codePointBefore = (text: string, index: number): number => {
  const unit = text.charCodeAt(index)
  const previous = text.charCodeAt(index - 1)
  return index > 0 && unit >= 0xdc00 && unit <= 0xdfff && previous >= 0xd800 && previous <= 0xdbff ? index - 1 : index
}
