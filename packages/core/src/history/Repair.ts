/**
 * Mends a message history so that its provider takes it.
 *
 * Owns: the order of the passes and the report. Does not own: the rules.
 *
 * - R1. Deterministic: no clock, no chance. A history without findings comes back as it is, untouched messages as the
 *   same objects.
 * - R2. Afterwards `verify` finds only what is suspended or needs a decision: `remaining`.
 * - R3. Repairing twice is repairing once.
 * - R4. Content that leaves the history is named in `changes`.
 * - R5. Reasoning and signatures come from the record or stay missing; nothing is made up but Google's documented sentinel.
 */
import type { Change, Code, Context, Finding, FormatName } from "./Contract.ts"
import { settleCalls } from "./CallRepair.ts"
import type { Fault, Format, History } from "./Format.ts"
import { formats } from "./Formats.ts"
import { make } from "./History.ts"
import { mendParts } from "./PartRules.ts"
import type { Rewritten } from "./Rewritten.ts"
import { andThen, changesOf, untouched } from "./Rewritten.ts"
import { mendSequence } from "./Sequence.ts"
import { mendUnicode } from "./Unicode.ts"
import { faultsOf, finding } from "./Verify.ts"

/** What a repair did, and what it left. */
export interface Repaired {
  readonly messages: ReadonlyArray<unknown>
  readonly changes: ReadonlyArray<Change>
  /** Findings that need a decision; each names the choices. */
  readonly remaining: ReadonlyArray<Finding>
}

/** Repairs a history by the rules of its format and context. */
export const repair = (format: FormatName, messages: ReadonlyArray<unknown>, context: Context = {}): Repaired => {
  const known = formats[format]
  let current = untouched(messages)
  let history = make(known, messages, context)
  let faults = faultsOf(history)
  for (let round = 0; round < maxRounds && faults.some(isMendable(context)); round++) {
    const next = pass(known, history, faults)
    if (next === undefined) break
    current = andThen(current, next)
    history = make(known, current.messages, context)
    faults = faultsOf(history)
  }
  const remaining = faults.filter((fault) => fault.severity !== "info").map(finding)
  return { messages: current.notes.length === 0 ? messages : current.messages, changes: changesOf(current), remaining }
}

// Each round mends all faults of its kind; a handful is the rule. The bound is a guard against our own mistakes.
const maxRounds = 100

const isMendable =
  (context: Context) =>
  (fault: Fault): boolean =>
    fault.severity !== "info" && (fault.choices === undefined || canFlatten(context, fault))

const canFlatten = (context: Context, fault: Fault): boolean =>
  context.flatten === true && fault.choices?.includes("flatten-tools") === true

/** The first kind of mending that finds something to do. */
const pass = (format: Format, history: History, faults: ReadonlyArray<Fault>): Rewritten | undefined =>
  mendUnicode(history) ??
  settleCalls(history, batchesToFlatten(history, faults)) ??
  mendParts(history) ??
  mendSequence(history)

/** The batches of rounds that cannot be sent as they are, if the owner chose to have them as text. */
const batchesToFlatten = (history: History, faults: ReadonlyArray<Fault>): ReadonlyMap<number, Code> => {
  const { context, entries, pairing } = history
  const flat = new Map<number, Code>()
  const concerned = faults.filter((fault) => canFlatten(context, fault))
  if (concerned.length === 0) return flat
  let round = 0
  const rounds = entries.map((entry) => (entry.role === "user" && entry.speaks ? ++round : round))
  const reasons = new Map(concerned.map((fault) => [rounds[fault.index], fault.code]))
  const always = concerned.find((fault) => fault.code === "TOOLS_UNDECLARED")?.code
  pairing.batches.forEach((batch, number) => {
    const reason = always ?? reasons.get(rounds[batch.first])
    const isOpen = batch.calls.some((call) => history.suspended.get(call.message)?.has(call.slot) === true)
    if (reason !== undefined && !isOpen) flat.set(number, reason)
  })
  return flat
}
