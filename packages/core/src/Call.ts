/**
 * One tool call of the model, and the one answer it gets.
 *
 * Owns: what is known of a call, and what its answer is. Does not own: which calls are open (`Ledger`), or how one runs (`ToolRun`).
 */
import type { Json } from "./Canonical.ts"
import type { CallId } from "./Ids.ts"
import * as Receipt from "./Receipt.ts"
import type { Domain, EffectClass } from "./ToolPolicy.ts"
import type * as Transcript from "./Transcript.ts"
import type { Fact } from "./TurnEvent.ts"

/**
 * How far a call has come.
 *
 * - `registered`: it is recorded and waits for its start
 * - `started`: its tool may be running; `Call.attempt` says for which time
 * - `refused`: it was answered without being started
 * - `answered`: it was started and has its answer
 */
export type State = "registered" | "started" | "refused" | "answered"

/** A call of the open step. `attempt` counts its starts. */
export interface Call {
  readonly callId: CallId
  readonly wireId: string
  readonly name: string
  readonly params: Json
  readonly argsDigest: string
  readonly effects: EffectClass
  readonly domain: Domain
  state: State
  attempt: number
  answer: Answer | undefined
}

/** The answer of a call. `outcome` is for people who ask what was done. */
export interface Answer extends Transcript.Answer {
  readonly outcome: "ok" | "failed" | "unknown"
  /** What the tool gave, of which `result` may show a part. */
  readonly output: Json
  /** Code units of the output that `result` leaves out. */
  readonly omitted: number
  /** Of what results are compared by, when that is not the output. */
  readonly resultDigest: string | undefined
}

/** A fact that answers a call. */
export type Answering = Extract<Fact, { readonly type: "call.completed" | "call.receipt" }>

export const isAnswering = (fact: Fact): fact is Answering =>
  fact.type === "call.completed" || fact.type === "call.receipt"

/** The answer that a fact gives a call. */
export const answerOf = ({ name, wireId }: Call, fact: Answering): Answer => {
  if (fact.type === "call.receipt") {
    const { outcome, text } = fact.data
    return {
      wireId,
      name,
      isFailure: true,
      result: text,
      outcome: outcome === "outcome-unknown" ? "unknown" : "failed",
      output: text,
      omitted: 0,
      resultDigest: undefined
    }
  }
  const { isFailure, modelView, output, resultDigest } = fact.data
  return {
    wireId,
    name,
    isFailure,
    result: modelView === undefined ? output : modelView.text,
    outcome: isFailure ? "failed" : "ok",
    output,
    omitted: modelView?.omitted ?? 0,
    resultDigest
  }
}

/** The receipt of one open call that will get no result of its own. */
export const receipt = (
  call: Pick<Call, "callId" | "name" | "effects" | "state">,
  cause: Receipt.Cause
): Extract<Fact, { readonly type: "call.receipt" }> => {
  const outcome = Receipt.outcomeOf({ isStarted: call.state === "started", effects: call.effects }, cause)
  return {
    type: "call.receipt",
    data: { callId: call.callId, outcome, text: Receipt.textFor(call.name, outcome) }
  }
}
