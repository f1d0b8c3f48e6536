/**
 * What a tool read at the user's, and what is left of it in the history: the proof that it was received (mechanism E3).
 *
 * The text of a file grows stale the moment it is read, is the user's and not the history's, and would be paid for again with
 * every request. So the history has its digest, size and path; the text lies in the spill store and is handed to the model
 * with the requests of the Turn that read it, as far as there is room. Later it can be looked into, or read anew.
 *
 * Owns: the proof, and which texts a request has. Does not own: the store (`SpillStore`), or the request.
 *
 * - D1. The history, the events and every later Turn have the proof alone, never the text.
 * - D2. The texts of a request keep within the step's allowance together, those read last first; the text read last of all is
 *   always there, cut to the allowance if it must be.
 * - D3. Of a text above the spill threshold the requests have the ends, as of any spill, and no more of it is ever in memory.
 */
import * as Prompt from "effect/ai/Prompt"
import * as Schema from "effect/Schema"
import { SpillId } from "./Ids.ts"
import * as SpillStore from "./SpillStore.ts"
import * as ToolOutput from "./ToolOutput.ts"

/** What the history has of a read. `digest` is the SHA-256 of the text's UTF-8, by which the store knows it as well. */
export const Proof = Schema.Struct({
  status: Schema.Literal("received"),
  path: Schema.String,
  digest: SpillId,
  bytes: Schema.Int,
  lines: Schema.Int
})
export type Proof = typeof Proof.Type

export const proof = (path: string, { bytes, id, lines }: SpillStore.Spill): Proof => ({
  status: "received",
  path,
  digest: id,
  bytes,
  lines
})

/** A read of the open Turn: the wire id of its call, and the text it received. */
export interface Read {
  readonly wireId: string
  readonly spillId: SpillId
  readonly bytes: number
}

/** Whether only the ends of a read are shown, because it is as large as what is kept for its size (D3). */
export const isLarge = ({ bytes }: Read): boolean => bytes > SpillStore.threshold

/** The reads whose texts the next request has (D2). `reads` in their order. */
export const shown = (
  reads: ReadonlyArray<Read>,
  allowance: number = ToolOutput.stepAllowance
): ReadonlyArray<Read> => {
  let left = allowance
  const kept: Array<Read> = []
  for (const read of reads.toReversed()) {
    left -= isLarge(read) ? 2 * SpillStore.edgeBytes : read.bytes
    if (left < 0 && kept.length > 0) break
    kept.push(read)
  }
  return kept.toReversed()
}

/** Shows a message with the texts of reads, by wire id, in place of their proofs. One without any is the same object. */
export const withTexts =
  (texts: ReadonlyMap<string, string>, allowance: number = ToolOutput.stepAllowance) =>
  (message: Prompt.Message): Prompt.Message => {
    if (message.role !== "tool" || !message.content.some((part) => part.type === "tool-result" && texts.has(part.id))) {
      return message
    }
    return Prompt.toolMessage({
      ...message,
      content: message.content.map((part) => {
        const text = part.type === "tool-result" ? texts.get(part.id) : undefined
        if (part.type !== "tool-result" || text === undefined) return part
        const { text: result } = ToolOutput.slim(text, "pure", { cap: allowance, head: 0.5, tail: 0.5 })
        return Prompt.toolResultPart({ ...part, result: `${result}${noteOf(part.result)}` })
      })
    })
  }

/** A note of the runtime under a proof stays under the text. */
const noteOf = (result: unknown): string => {
  const note = typeof result === "string" ? result.indexOf("\n\n[note") : -1
  return note < 0 ? "" : String(result).slice(note)
}
