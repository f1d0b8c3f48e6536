/**
 * From the messages of a session to a history in any of the formats.
 *
 * Owns: the report. Does not own: the forms (`codecs/`), the rules (`Repair`).
 *
 * - E1. What comes out is clean in its format: `verify` finds nothing but calls that still wait for their result.
 * - E2. What the format cannot carry is named in `lost`; its pointers count the messages of the session.
 */
import type * as Prompt from "effect/ai/Prompt"
import * as Schema from "effect/Schema"
import type { Lost } from "./Codec.ts"
import { codecs } from "./Codecs.ts"
import { Change, type Context, FormatName } from "./Contract.ts"
import { step } from "./Json.ts"
import { repair } from "./Repair.ts"

export const Exported = Schema.Struct({
  format: FormatName,
  messages: Schema.Array(Schema.Unknown),
  /** What had to be changed for the rules of the format. */
  changes: Schema.Array(Change),
  lost: Schema.Array(Schema.Struct({ at: Schema.String, note: Schema.String, content: Schema.Unknown }))
})
export type Exported = typeof Exported.Type

/** Writes a history (E1, E2); pure, and linear in its length. */
export const write = (format: FormatName, messages: ReadonlyArray<Prompt.Message>, context: Context = {}): Exported => {
  const lost: Array<Lost> = []
  const written = codecs[format].write(messages, (index) => (note, content) => {
    lost.push({ at: step(index), note, content })
  })
  const clean = repair(format, written, { purpose: "archive", ...context })
  return { format, messages: clean.messages, changes: clean.changes, lost }
}
