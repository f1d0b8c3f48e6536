/**
 * The words a repair writes where something is missing.
 *
 * Owns: the mark every such text carries, and how it is recognised. Does not own: where the texts are put.
 *
 * - S1. A text never claims more than the history shows: neither success nor failure of a call without a result.
 */

/** Every text of ours starts with this. */
export const mark = "[synthetic: "

/** Result of a call whose own result was never recorded (S1). */
export const outcomeUnknown =
  `${mark}interrupted] The outcome of this call is unknown: no result was recorded. ` +
  "It may have been started and may have had effects; check before you call it again."

/** Result that was recorded without its content (S1). */
export const noOutput = `${mark}no output] A result without content was recorded for this call, as after a denial. Its outcome is unknown.`

/** Denial of a call whose approval was passed over. */
export const superseded =
  `${mark}superseded] The conversation went on without a decision about this call; that counts as a denial. ` +
  "It was not executed."

/** Answer of the assistant that was cut off. */
export const interrupted = `${mark}interrupted] This answer was interrupted before anything was recorded.`

/** Assistant message that keeps the roles in order. */
export const continued = `${mark}continued] No answer was recorded here.`

/** User message that asks for the next answer. */
export const proceed = `${mark}continue] Please continue.`

/** User message in front of a history whose beginning is gone. */
export const omitted = `${mark}context omitted] Earlier messages are not part of this request.`

/** Announces content that a result could not carry. */
export const contentOf = (id: string): string => `${mark}image of ${id}] This belongs to the result of call ${id}.`

/** Stands in a result whose whole content was moved behind its batch. */
export const moved = `${mark}moved] The content of this result follows after the results of this batch.`

/** Stands in for an image no server can read. */
export const unreadableImage = `${mark}unreadable image] An image was removed here because its data cannot be read.`

/** Keeps a result whose call is gone, as text. */
export const orphan = (result: string): string => `${mark}result without its call] ${result}`

/** Keeps a call that stood where no call can stand, as text. */
export const strayCall = (name: string, args: string): string =>
  `${mark}call in a message of the user] ${name}(${args})`

/** Keeps one call and its result as text. */
export const flattened = (name: string, args: string, result: string): string =>
  `${mark}tool round as text] ${name}(${args}) -> ${result}`

/** Whether a result was written in place of a real one, by us or by a client known to do so. */
export const isSynthetic = (text: string): boolean =>
  text.startsWith(mark) || text.startsWith("[receipt: ") || (text.length < 200 && known.some((form) => form.test(text)))

// Placeholders other clients write for a result they do not have.
const known: ReadonlyArray<RegExp> = [
  /^aborted$/i,
  /^no result provided\.?$/i,
  /^\[?(no|missing) tool (result|response|output)/i,
  /^\[?tool (result|response|output) (is )?(missing|unavailable|not (found|available|recorded))/i,
  /^\[?(task|request|tool( use| call| execution)?) (was )?(interrupted|cancelled|canceled|aborted)/i,
  /^tool not executed/i
]
