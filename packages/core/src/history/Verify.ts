/**
 * Tells what a provider would refuse in a message history.
 *
 * Owns: the order of the checks. Does not own: the rules (`Contract`, `CallRules`, `PartRules`, `Order`, `formats/`).
 *
 * - V1. Pure and linear in the length of the history.
 * - V2. It never throws, whatever the messages are.
 */
import type { Context, Finding, FormatName } from "./Contract.ts"
import { callFaults } from "./CallRules.ts"
import type { Fault, History } from "./Format.ts"
import { formats } from "./Formats.ts"
import { make } from "./History.ts"
import { step } from "./Json.ts"
import { partFaults } from "./PartRules.ts"
import { sequenceFaults } from "./Sequence.ts"
import { unicodeFaults } from "./Unicode.ts"

/** The findings, in the order of the messages. */
export const verify = (
  format: FormatName,
  messages: ReadonlyArray<unknown>,
  context: Context = {}
): ReadonlyArray<Finding> => faultsOf(make(formats[format], messages, context)).map(finding)

/** The findings that forbid to send a request: the provider's refusals, and calls that still wait for their result. */
export const refusals = (findings: ReadonlyArray<Finding>): ReadonlyArray<Finding> =>
  findings.filter((found) => found.severity === "error" || found.code === "SUSPENDED_CALL")

/** The faults of a history, in the order of the messages. */
export const faultsOf = (history: History): ReadonlyArray<Fault> =>
  [...unicodeFaults(history), ...callFaults(history), ...partFaults(history), ...sequenceFaults(history)].toSorted(
    (a, b) => a.index - b.index
  )

/** A fault as the outside sees it. */
export const finding = ({ choices, code, index, message, path, severity }: Fault): Finding => ({
  code,
  at: step(index) + path,
  severity,
  message,
  ...(choices === undefined ? {} : { choices })
})
