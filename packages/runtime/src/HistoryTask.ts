/**
 * Work on whole message histories, for a task process when they are large (`HistoryWork`).
 *
 * Owns: the form in which histories go there and come back. Does not own: the work (`core/history`).
 */
import type { SessionId } from "@turnstep/core/Ids"
import type { Context, Finding, FormatName } from "@turnstep/core/history/Contract"
import { detect } from "@turnstep/core/history/Detect"
import * as Export from "@turnstep/core/history/Export"
import * as Import from "@turnstep/core/history/Import"
import { repair as repairHistory } from "@turnstep/core/history/Repair"
import { verify as verifyHistory } from "@turnstep/core/history/Verify"
import * as SessionState from "@turnstep/core/SessionState"
import type { TurnEvent } from "@turnstep/core/TurnEvent"
import * as FactText from "./sql/FactText.ts"

/** A value, or its JSON text: text crosses to another process at a fraction of the price. */
export type Given<A> = { readonly value: A } | { readonly text: string }

export interface CheckInput {
  readonly messages: Given<ReadonlyArray<unknown>>
  /** Recognised when it is left out. */
  readonly format: FormatName | undefined
  readonly context: Context | undefined
}

/** The messages could be written in several formats. */
export interface Unclear {
  readonly candidates: ReadonlyArray<FormatName>
}

export interface Verified {
  readonly format: FormatName
  readonly findings: ReadonlyArray<Finding>
  /** Findings beyond those. */
  readonly omitted: number
}

/** Tells what is wrong with a history, at most so many findings. */
export const verify = ({ most, ...input }: CheckInput & { readonly most: number }): Verified | Unclear => {
  const messages = valueOf(input.messages)
  const format = formatOf(input.format, messages)
  if (typeof format !== "string") return format
  const findings = verifyHistory(format, messages, input.context)
  return { format, findings: findings.slice(0, most), omitted: Math.max(0, findings.length - most) }
}

/** Mends a history: the JSON text of the format and of what `Repair.repair` gives. */
export const repair = (input: CheckInput): { readonly json: string } | Unclear => {
  const messages = valueOf(input.messages)
  const format = formatOf(input.format, messages)
  if (typeof format !== "string") return format
  return { json: JSON.stringify({ format, ...repairHistory(format, messages, input.context) }) }
}

/** A history that was read, with the digest it is known by. */
export interface ReadHistory extends Import.Imported {
  readonly digest: string
}

/** Bytes on record of a message at most: a large one has an event of its own (`SessionHistory`), which has some more. */
export const maxMessage = FactText.mostBytes - 1024

/** Reads a history for a session; `largest` are the bytes on record of a message that is too large to be recorded. */
export const read = (
  given: Given<Import.History>
): ReadHistory | Unclear | { readonly emptyFormat: FormatName } | { readonly largest: number } => {
  const found = Import.read(valueOf(given))
  if (!("_tag" in found)) {
    const largest = found.messages.reduce(
      (most, message) => Math.max(most, Buffer.byteLength(JSON.stringify(message))),
      0
    )
    return largest > maxMessage ? { largest } : { ...found, digest: Import.digestOf(found) }
  }
  return found._tag === "HistoryEmpty" ? { emptyFormat: found.format } : { candidates: found.candidates }
}

export interface WriteInput {
  readonly sessionId: SessionId
  readonly events: ReadonlyArray<TurnEvent>
  readonly format: FormatName
  readonly context?: Context | undefined
}

/** Writes the messages of a session in a format: what came in and what its Turns added, without the agent's instructions. */
export const write = ({ context, events, format, sessionId }: WriteInput): Export.Exported =>
  Export.write(format, SessionState.fold(sessionId, events).window, context)

const valueOf = <A>(given: Given<A>): A => ("text" in given ? (JSON.parse(given.text) as A) : given.value)

const formatOf = (format: FormatName | undefined, messages: ReadonlyArray<unknown>): FormatName | Unclear => {
  if (format !== undefined) return format
  const found = detect(messages)
  return found._tag === "Detected" ? found.format : { candidates: found.candidates }
}
