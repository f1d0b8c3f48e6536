/**
 * The bodies of checking, mending, importing and exporting message histories.
 *
 * Owns: their schemas. Does not own: findings, changes and what a context can say (`core/history/Contract`).
 */
import { Change, Context, Finding, FormatName } from "@turnstep/core/history/Contract"
import * as Schema from "effect/Schema"

/** `POST /api/history/verify` and `POST /api/history/repair` */
export const CheckHistory = Schema.Struct({
  /** How the messages are written; recognised if it is left out. */
  format: Schema.optionalKey(FormatName),
  messages: Schema.Array(Schema.Json),
  /** What is known about the request the messages are for. */
  context: Schema.optionalKey(Context)
})

/** Findings an answer names at most. */
export const mostFindings = 1000

/** The findings, in the order of the messages. */
export const Verified = Schema.Struct({
  format: FormatName,
  findings: Schema.Array(Finding),
  /** How many more there are than an answer names. */
  omitted: Schema.optionalKey(Schema.Int)
})

export { Exported } from "@turnstep/core/history/Export"
export { ImportReport } from "@turnstep/core/history/Import"

/** The messages as their provider takes them, what was done, and what needs a decision. */
export const Repaired = Schema.Struct({
  format: FormatName,
  messages: Schema.Array(Schema.Unknown),
  changes: Schema.Array(Change),
  remaining: Schema.Array(Finding)
})
