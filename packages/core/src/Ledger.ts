/**
 * The calls of one batch, each with the one answer it gets.
 *
 * Owns: which calls still need an answer, and what answers them when the Turn ends. Does not own: what an answer is (`Call`) or where answers are kept (`Journal`).
 *
 * - L1. Every opened call gets exactly one answer; a second one is a bug and is refused.
 * - L2. The same function settles what is left for the living (the Turn's finalizer) and for the dead (the next owner).
 */
import type * as Breaker from "./Breaker.ts"
import * as Call from "./Call.ts"
import type { CallId } from "./Ids.ts"
import type * as Receipt from "./Receipt.ts"
import * as Start from "./Start.ts"
import * as ToolOutput from "./ToolOutput.ts"
import { mayRunAgain } from "./ToolPolicy.ts"
import type * as Transcript from "./Transcript.ts"
import type { DataOf, Fact } from "./TurnEvent.ts"

/** The calls of the current batch in the order of the response. Owned and changed by `SessionState` alone. */
export interface Ledger {
  readonly calls: Array<Call.Call>
  readonly byId: Map<CallId, Call.Call>
  /** How many of the calls are open. */
  open: number
  /** What the runtime tells the model beside the results. */
  note: string | undefined
}

export const empty = (): Ledger => ({ calls: [], byId: new Map(), open: 0, note: undefined })

/** Registers a call (L1). */
export const open = (ledger: Ledger, data: DataOf<"call.requested">): void => {
  const call: Call.Call = {
    callId: data.callId,
    wireId: data.wireId,
    name: data.name,
    params: data.params,
    argsDigest: data.argsDigest,
    effects: data.effects,
    domain: data.domain ?? "server",
    state: "registered",
    attempt: 0,
    answer: undefined
  }
  ledger.calls.push(call)
  ledger.byId.set(call.callId, call)
  ledger.open++
}

/** Counts a start of an open call. */
export const start = (call: Call.Call, attempt: number): void => {
  call.attempt = attempt
  call.state = "started"
}

/** Whether a call of the batch has ever been started. */
export const hasStarted = ({ calls }: Ledger): boolean => calls.some(({ attempt }) => attempt > 0)

/** Strikes an open call off (L1). */
export const close = (ledger: Ledger, call: Call.Call, answer: Call.Answer): void => {
  call.answer = answer
  call.state = call.state === "started" ? "answered" : "refused"
  ledger.open--
}

/** The call, if it is open; `undefined` means it is answered or was never opened (L1). */
export const openCall = (ledger: Ledger, callId: CallId): Call.Call | undefined => {
  const call = ledger.byId.get(callId)
  return call !== undefined && isOpen(call) ? call : undefined
}

/** Calls that have no answer yet. */
export const openCalls = (ledger: Ledger): ReadonlyArray<Call.Call> => ledger.calls.filter(isOpen)

/** Whether a call has no answer yet. */
const isOpen = ({ state }: Call.Call): boolean => state === "registered" || state === "started"

export const isSettled = (ledger: Ledger): boolean => ledger.open === 0

/** The calls with the answers they have, and those that facts which are not recorded yet give them. */
export const answered = (
  ledger: Ledger,
  unrecorded: ReadonlyArray<Fact>
): ReadonlyArray<Call.Call & { answer: Call.Answer }> => {
  const facts = new Map(unrecorded.filter(Call.isAnswering).map((fact) => [fact.data.callId, fact]))
  return ledger.calls.flatMap((call) => {
    const fact = facts.get(call.callId)
    const answer = call.answer ?? (fact === undefined ? undefined : Call.answerOf(call, fact))
    return answer === undefined ? [] : [{ ...call, answer }]
  })
}

/** The round that answered calls are to the `Breaker`. */
export const round = (calls: ReadonlyArray<Call.Call & { answer: Call.Answer }>): ReadonlyArray<Breaker.Answered> =>
  calls.map(({ answer: { isFailure, output, resultDigest }, argsDigest, domain, effects, name, state }) => ({
    name,
    argsDigest,
    effects,
    domain,
    refusal: state === "refused" ? ToolOutput.toText(output) : undefined,
    isFailure,
    result: output,
    digest: resultDigest
  }))

/**
 * The answers in the order of the calls, as the model reads them; only meaningful when the ledger is settled. A note stands
 * under the last result: the one place for words beside results that every provider takes.
 */
export const answers = ({ calls, note }: Ledger): ReadonlyArray<Transcript.Answer> => {
  const given = calls.flatMap(({ answer }) => (answer === undefined ? [] : [answer]))
  const last = given.at(-1)
  if (note === undefined || last === undefined) return given
  return [...given.slice(0, -1), { ...last, result: `${ToolOutput.toText(last.result)}\n\n${note}` }]
}

/** What a tool gave, kept for a call whose answer could not be written. The wire id tells the call from one of another response. */
export interface Kept {
  readonly callId: CallId
  readonly wireId: string
  readonly facts: ReadonlyArray<Fact>
}

/** Keeps results of the calls of a ledger, call by call. */
export const keep = (ledger: Ledger, results: ReadonlyArray<Fact>): ReadonlyArray<Kept> =>
  ledger.calls.flatMap(({ callId, wireId }) => {
    const facts = results.filter(({ data }) => "callId" in data && data.callId === callId)
    return facts.some(Call.isAnswering) ? [{ callId, wireId, facts }] : []
  })

/** Of what was kept, what still answers an open call. */
export const awaited = (ledger: Ledger, kept: ReadonlyArray<Kept>): ReadonlyArray<Kept> =>
  kept.filter(({ callId, wireId }) => openCall(ledger, callId)?.wireId === wireId)

/** The receipts for every call still open (L2). */
export const receipts = (
  ledger: Ledger,
  cause: Receipt.Cause
): ReadonlyArray<Extract<Fact, { readonly type: "call.receipt" }>> =>
  openCalls(ledger).map((call) => Call.receipt(call, cause))

/**
 * What the next owner does with the calls a dead one left open (mechanism C3): a call that may run again runs again under the
 * same key, one that can be asked for is left open until it was, any other that was started gets a receipt that says its
 * outcome is unknown. What was never started stays registered: it starts when its turn comes (`Start`), unless `refusalOf`
 * says in words why it must not run, by the tools as they are now.
 */
export const recovery = (
  ledger: Ledger,
  refusalOf: (call: Call.Call) => string | undefined,
  toAsk: ReadonlySet<CallId> = new Set()
): ReadonlyArray<Fact> =>
  openCalls(ledger).flatMap((call): ReadonlyArray<Fact> => {
    const { attempt, callId, effects, state } = call
    if (toAsk.has(callId)) return []
    const refusal = refusalOf(call)
    if (state === "registered") return refusal === undefined ? [] : [Start.refused(callId, refusal)]
    return mayRunAgain(effects) && refusal === undefined
      ? [{ type: "call.started", data: { callId, attempt: attempt + 1 } }]
      : [Call.receipt(call, "lost")]
  })

/** The calls that a dead owner started and whose tools can tell what became of them. */
export const askable = (ledger: Ledger, canTell: (tool: string) => boolean): ReadonlySet<CallId> =>
  new Set(
    openCalls(ledger).flatMap(({ callId, effects, name, state }) =>
      state === "started" && effects === "queryable" && canTell(name) ? [callId] : []
    )
  )
