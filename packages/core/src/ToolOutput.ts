/**
 * The model's view of tool results: what is too large keeps its head and its tail, the middle is named and left out, for one
 * result and for a batch together. The full result stays in the journal and in the events (mechanism E1).
 *
 * - O1. No code point and no grapheme cluster is ever cut.
 * - O2. A view never exceeds its cap, in UTF-16 code units; the views of a batch never exceed theirs together, unless there
 *   are so many that not even the notes have room.
 * - O3. A view of a view is that view.
 */
import type { Json } from "./Canonical.ts"
import type { CallId } from "./Ids.ts"
import type { EffectClass } from "./ToolPolicy.ts"

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

/**
 * What the model can do about a part that was left out: look into the record of the call, by its id, where it has the tools
 * for that. Running a tool with effects again is no way to see more of it.
 */
export const howToSee = (effects: EffectClass, callId?: CallId): string => {
  const look =
    callId === undefined ? "" : `spill_read and spill_grep, if you have them, look inside as spill ${callId}; `
  return effects === "pure"
    ? `${look === "" ? "to see more," : `${look}or`} call the tool again for a part of it`
    : `${look}what the tool did is done, so do not call it again only to see more`
}

/** Code units that the results of one step may have together, as the model reads them: 262,144, about 65,000 tokens. */
export const stepAllowance = 262_144

/**
 * Cuts an oversized text to head and tail. A text within the cap is returned unchanged. `effects` are those of the tool that
 * gave it, `callId` names the call whose record has all of it.
 */
export const slim = (text: string, effects: EffectClass, limits: Limits = defaultLimits, callId?: CallId): View => {
  if (text.length <= limits.cap) return { text, omitted: 0 }
  const how = howToSee(effects, callId)
  const room = Math.max(0, limits.cap - NOTE_ROOM - how.length)
  const wanted = text.length * (limits.head + limits.tail)
  const scale = wanted > room ? room / wanted : 1
  // Asked in the whole text: a window around the cut could begin inside a cluster and see boundaries that are none.
  const clusters = graphemes.segment(text)
  const head = text.slice(0, boundaryBefore(clusters, Math.floor(text.length * limits.head * scale)))
  const tail = text.slice(boundaryAfter(clusters, text.length - Math.floor(text.length * limits.tail * scale)))
  const omitted = text.length - head.length - tail.length
  const note = `\n[… ${omitted} of ${text.length} characters left out; the full output is stored with the call: ${how} …]\n`
  return { text: (head + note + tail).slice(0, Math.max(limits.cap, 0)), omitted }
}

/** The text between two places, without the clusters that would be cut there (O1). */
export const part = (text: string, start: number, end: number): string => {
  const clusters = graphemes.segment(text)
  return text.slice(boundaryAfter(clusters, start), boundaryBefore(clusters, end))
}

/** A result of a batch. `result` is what the model is to read of it, `output` all of it. */
export interface Result {
  readonly callId: CallId
  readonly result: Json
  readonly output: Json
  readonly omitted: number
  readonly effects: EffectClass
}

/**
 * The views that must be shorter so that a batch keeps within the step's allowance. The largest give first, down to one
 * size, whatever the single result was allowed: a step of many whole files floods the context as well as one large output.
 * A result that is alone has its own cap and no other.
 */
export const slimBatch = (
  results: ReadonlyArray<Result>,
  allowance: number = stepAllowance
): ReadonlyArray<View & { readonly callId: CallId }> => {
  const texts = results.map(({ result }) => toText(result))
  const sizes = texts.map(({ length }) => length)
  if (results.length < 2 || sizes.reduce((sum, size) => sum + size, 0) <= allowance) return []
  const cap = level(sizes, allowance)
  return results.flatMap(({ callId, effects, omitted, output, result }, index) => {
    const shown = texts[index] ?? ""
    if (shown.length <= cap) return []
    // From the whole output: what is cut out of a view would miss the view's own note.
    const whole = omitted > 0 ? toText(output) : shown
    const view = slim(whole.length > shown.length ? whole : shown, effects, { cap, head: 0.5, tail: 0.5 }, callId)
    return view.text === result ? [] : [{ callId, ...view }]
  })
}

/** The size down to which the largest must come so that all have room. */
const level = (sizes: ReadonlyArray<number>, allowance: number): number => {
  let left = allowance
  let count = sizes.length
  for (const size of sizes.toSorted((a, b) => a - b)) {
    if (size * count > left) break
    left -= size
    count--
  }
  return count === 0 ? allowance : Math.floor(left / count)
}

/** The note with two 16-digit counts fits in this many code units, without what it says of the rest (O2). */
const NOTE_ROOM = 128

const graphemes = new Intl.Segmenter(undefined, { granularity: "grapheme" })

/** The last cluster boundary at or before `index` (O1). */
const boundaryBefore = (text: Intl.Segments, index: number): number => text.containing(index)?.index ?? index

/** The first cluster boundary at or after `index` (O1). */
const boundaryAfter = (text: Intl.Segments, index: number): number => {
  const cluster = text.containing(index)
  return cluster === undefined || cluster.index === index ? index : cluster.index + cluster.segment.length
}
