/**
 * The calls of one batch, each with the one answer it gets.
 *
 * Owns: which calls still need an answer, and what answers them when the Turn ends. Does not own: what a tool returns
 * (`ToolRun`) or where answers are kept (`Journal`).
 *
 * - L1. Every opened call gets exactly one answer; a second one is a bug and is refused.
 * - L2. The same function settles what is left for the living (the Turn's finalizer) and for the dead (the next owner).
 */
import type { Json } from "./Canonical.ts"
import type { CallId } from "./Ids.ts"
import * as Receipt from "./Receipt.ts"
import type { EffectClass } from "./ToolPolicy.ts"
import * as Transcript from "./Transcript.ts"
import type { DataOf, Fact } from "./TurnEvent.ts"

/** A registered call. `attempt` is 0 until it is started. */
export interface Call {
  readonly callId: CallId
  readonly wireId: string
  readonly name: string
  readonly params: Json
  readonly effects: EffectClass
  attempt: number
  answer: Transcript.Answer | undefined
}

/** The calls of the current batch in the order of the response. Owned and changed by `SessionState` alone. */
export interface Ledger {
  readonly calls: Array<Call>
}

export const empty = (): Ledger => ({ calls: [] })

/** Registers a call (L1). */
export const open = (ledger: Ledger, data: DataOf<"call.requested">): void => {
  ledger.calls.push({
    callId: data.callId,
    wireId: data.wireId,
    name: data.name,
    params: data.params,
    effects: data.effects,
    attempt: 0,
    answer: undefined
  })
}

/** The call, if it is open; `undefined` means it is answered or was never opened (L1). */
export const openCall = (ledger: Ledger, callId: CallId): Call | undefined =>
  ledger.calls.find((call) => call.callId === callId && call.answer === undefined)

/** Calls that have no answer yet. */
export const openCalls = (ledger: Ledger): ReadonlyArray<Call> =>
  ledger.calls.filter((call) => call.answer === undefined)

export const isSettled = (ledger: Ledger): boolean => ledger.calls.every((call) => call.answer !== undefined)

/** The answers in the order of the calls; only meaningful when the ledger is settled. */
export const answers = (ledger: Ledger): ReadonlyArray<Transcript.Answer> =>
  ledger.calls.flatMap((call) => (call.answer === undefined ? [] : [call.answer]))

/** The receipts for every call still open (L2). */
export const receipts = (
  ledger: Ledger,
  cause: Receipt.Cause
): ReadonlyArray<Extract<Fact, { readonly type: "call.receipt" }>> =>
  openCalls(ledger).map((call) => receipt(call, cause))

/** The receipt of one call that will get no result of its own. */
export const receipt = (call: Call, cause: Receipt.Cause): Extract<Fact, { readonly type: "call.receipt" }> => {
  const outcome = Receipt.outcomeOf({ isStarted: call.attempt > 0, effects: call.effects }, cause)
  return {
    type: "call.receipt",
    data: { callId: call.callId, outcome, text: Receipt.textFor(call.name, outcome) }
  }
}

/**
 * What the next owner does with the calls a dead one left open (mechanism C3): a call that was never started is started,
 * one that may run again runs again under the same key, any other gets a receipt that says its outcome is unknown.
 */
export const recovery = (ledger: Ledger): ReadonlyArray<Fact> =>
  openCalls(ledger).map((call): Fact => {
    const mayRun = call.attempt === 0 || call.effects === "pure" || call.effects === "idempotent"
    return mayRun
      ? { type: "call.started", data: { callId: call.callId, attempt: call.attempt + 1 } }
      : receipt(call, "lost")
  })
