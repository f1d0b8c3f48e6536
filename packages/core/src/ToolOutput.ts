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
  // Asked in the whole text: a window around the cut could begin inside a cluster and see boundaries that are none.
  const clusters = graphemes.segment(text)
  const head = text.slice(0, boundaryBefore(clusters, Math.floor(text.length * limits.head * scale)))
  const tail = text.slice(boundaryAfter(clusters, text.length - Math.floor(text.length * limits.tail * scale)))
  const omitted = text.length - head.length - tail.length
  const note = `\n[… ${omitted} of ${text.length} characters left out; the full output is stored with the call …]\n`
  return { text: (head + note + tail).slice(0, Math.max(limits.cap, 0)), omitted }
}

/** The note with two 16-digit counts fits in this many code units (O2). */
const NOTE_ROOM = 128

const graphemes = new Intl.Segmenter(undefined, { granularity: "grapheme" })

/** The last cluster boundary at or before `index` (O1). */
const boundaryBefore = (text: Intl.Segments, index: number): number => text.containing(index)?.index ?? index

/** The first cluster boundary at or after `index` (O1). */
const boundaryAfter = (text: Intl.Segments, index: number): number => {
  const cluster = text.containing(index)
  return cluster === undefined || cluster.index === index ? index : cluster.index + cluster.segment.length
}
