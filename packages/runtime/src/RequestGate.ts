/**
 * The gate in front of every model (mechanism C4): what leaves keeps the contract of the model's provider.
 *
 * Owns: what is made of a finding: it is a defect of ours, so it is logged with its evidence, counted, told to who records
 * it, and the request goes out repaired. Does not own: the check and the repair (`core/history/RequestGate`).
 *
 * - G1. Evidence is codes and pointers, never content.
 * - G2. A finding is never the user's trouble: the request goes out in any case.
 */
import * as Gate from "@turnstep/core/history/RequestGate"
import type { DataOf } from "@turnstep/core/TurnEvent"
import * as Prompt from "effect/ai/Prompt"
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"

/** Findings in requests that were about to leave; by code. Anything but 0 is a defect of ours. */
export const findings = Metric.counter("turnstep_gate_findings", {
  description: "Contract violations found, and repaired, in requests that were about to leave",
  incremental: true
})

/** What was found and done. */
export type Evidence = Pick<DataOf<"transcript.repaired">, "findings" | "changes">

/** How much evidence is recorded of one request. */
const most = 50

/** The prompt to send for a request; `onRepaired` hears of findings, should there be any. */
export const pass = Effect.fnUntraced(function* <E>(
  wire: Gate.Wire,
  request: Gate.Request,
  onRepaired: (evidence: Evidence) => Effect.Effect<void, E>
) {
  const passed = gateOf(wire).pass(request)
  if (passed.findings.length > 0) yield* report(wire, passed, onRepaired)
  return Prompt.fromMessages(passed.messages)
})

const report = Effect.fnUntraced(function* <E>(
  wire: Gate.Wire,
  passed: Gate.Passed,
  onRepaired: (evidence: Evidence) => Effect.Effect<void, E>
) {
  const evidence: Evidence = {
    findings: passed.findings.slice(0, most).map(({ at, code }) => ({ code, at })),
    changes: passed.changes.slice(0, most).map(({ action, at, code }) => ({ code, at, action }))
  }
  yield* Effect.forEach(
    passed.findings,
    ({ code }) => Metric.update(Metric.withAttributes(findings, { code, format: wire.format }), 1),
    { discard: true }
  )
  yield* Effect.logError(
    `request gate: ${passed.findings.length} findings in a request that was about to leave`,
    evidence
  )
  yield* onRepaired(evidence)
})

/** A gate knows what has passed it: there is one for each wire. */
const gateOf = (wire: Gate.Wire): Gate.RequestGate => {
  const known = gates.get(wire)
  if (known !== undefined) return known
  const made = Gate.make(wire)
  gates.set(wire, made)
  return made
}

const gates = new WeakMap<Gate.Wire, Gate.RequestGate>()
