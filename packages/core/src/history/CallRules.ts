/**
 * What is wrong with the calls and results of a history (rules O1-O4, O8, R1-R5, A1-A7, G1, V2-V4).
 *
 * Owns: the findings about pairing, ids and places. Does not own: the matching (`Pairing`) or the mending (`CallRepair`).
 *
 * - C1. A suspended call is not touched: whoever answers it knows it by its id and arguments. What is wrong with it is
 *   reported with the choice to answer it first.
 */
import type { Rules, Severity } from "./Contract.ts"
import type { Answer, Batch, Call, CallForm, Draft, Fault, History, Place, Result, Wait } from "./Format.ts"
import { step } from "./Json.ts"
import { valueAt } from "./Pairing.ts"

/** The faults of all calls and results. */
export const callFaults = (history: History): ReadonlyArray<Fault> => {
  const form = history.format.calls
  if (form === undefined) return []
  const faults: Array<Fault> = []
  history.pairing.batches.forEach((batch, index) => {
    for (let slot = 0; slot < batch.calls.length; slot++) lookAtCall(history, form, index, slot, faults)
    lookAtResults(history, form, batch, faults)
  })
  for (const result of history.pairing.orphans) {
    faults.push(fault("ORPHAN_RESULT", "error", form.resultList, result, "", "answers no call in front of it"))
  }
  return faults
}

/** Why a call has no result, and whether it is suspended; `undefined` if it has one or needs none. */
export const waitOf = (
  history: Draft,
  index: number,
  slot: number
): (Wait & { readonly isSuspended: boolean }) | undefined => {
  const { batches, isLive } = history.pairing
  const batch = batches[index]!
  const call = batch.calls[slot]!
  if (batch.answers[slot] !== undefined || call.isExempt || batch.copies.has(slot)) return undefined
  const wait = history.format.calls?.wait?.(call, history) ?? dangling
  const isLast = isLive && index === batches.length - 1
  return { ...wait, isSuspended: isLast && wait.canWait && history.context.turn !== "terminated" }
}

/** What is wrong with a call id by itself. */
export const idFault = (rules: Rules, id: string | undefined): Severity | undefined => {
  const rule = rules.callId
  if (rule === undefined) return undefined
  if (id === undefined || id.trim() === "") return "error"
  if (rule.pattern?.test(id) === false || (rule.max !== undefined && id.length > rule.max)) return "error"
  return rule.portableMax !== undefined && id.length > rule.portableMax ? "portability" : undefined
}

/** The first result that leaves the order of the calls, where the provider asks for that order. */
export const firstOutOfOrder = (rules: Rules, batch: Batch): Result | undefined => {
  if (rules.resultOrder === undefined) return undefined
  const given = batch.answers.flatMap((answer) => (answer?.where === "adjacent" ? [answer.result] : []))
  const placed = given.toSorted((a, b) => a.message - b.message || a.slot - b.slot)
  return placed.find((result, index) => result !== given[index])
}

/** Whether an answer must be moved for its batch to be complete and in its place. */
export const isMisplaced = (rules: Rules, batch: Batch, slot: number): boolean => {
  const answer = batch.answers[slot]
  if (answer === undefined) return false
  return answer.where !== "adjacent" || (rules.resultsFirst === true && answer.result.isLate)
}

const dangling: Wait = { code: "DANGLING_CALL", canWait: true }

const fault = (
  code: Fault["code"],
  severity: Severity,
  list: string | undefined,
  place: Place,
  path: string,
  message: string
): Fault => ({
  code,
  severity,
  index: place.message,
  path: (list === undefined || place.slot < 0 ? "" : step(list) + step(place.slot)) + path,
  message
})

const lookAtCall = (history: History, form: CallForm, index: number, slot: number, faults: Array<Fault>) => {
  const { pairing, rules } = history
  const batch = pairing.batches[index]!
  const call = batch.calls[slot]!
  const wait = waitOf(history, index, slot)
  const deferred = wait?.isSuspended === true ? ({ choices: ["answer-call"] } as const) : undefined // C1
  const wrongId = call.isExempt ? undefined : idFault(rules, call.id)
  if (wrongId !== undefined && !batch.copies.has(slot)) {
    const path = form.idPath(valueAt(history.messages, form.callList, call) ?? {}, false)
    const says = call.id === undefined ? "call has no id" : "call id is not one the provider takes"
    faults.push({ ...fault("ID_INVALID", wrongId, form.callList, call, path, says), ...deferred })
  }
  const repeat = batch.repeats.get(slot)
  if (repeat !== undefined && !call.isExempt) {
    const isAnswered = wait === undefined || wait.isSuspended
    const severity = repeat === "batch" || !isAnswered ? "error" : rules.recurringCallId
    const says = batch.copies.has(slot) ? "is a copy of an earlier call" : "has the id of an earlier call"
    faults.push({ ...fault("DUPLICATE_CALL_ID", severity, form.callList, call, "", says), ...deferred })
  }
  if (wait?.isSuspended === true) {
    faults.push(fault("SUSPENDED_CALL", "info", form.callList, call, "", "waits for its result; not sendable yet"))
  } else if (wait !== undefined) {
    const found = fault(wait.code, "error", form.callList, call, "", waits[wait.code] ?? "has no result")
    const isHopeless = form.answer(call, wait, history) === undefined
    faults.push(isHopeless ? { ...found, choices: ["answer-call", "flatten-tools"] } : found)
  }
}

const waits: { readonly [code: string]: string } = {
  DANGLING_CALL: "has no result",
  DENIED_WITHOUT_RESULT: "was denied and has no result",
  PENDING_APPROVAL: "was passed over while it waited for approval"
}

const lookAtResults = (history: History, form: CallForm, batch: Batch, faults: Array<Fault>) => {
  const { rules } = history
  batch.answers.forEach((answer, slot) => {
    if (answer !== undefined) lookAtResult(history, form, batch.calls[slot]!, answer, faults)
  })
  if (batch.answers.some(isSplit)) {
    const says = "holds results that belong into the message in front of it"
    for (const message of new Set(batch.answers.filter(isSplit).map(({ result }) => result.message))) {
      faults.push(fault("RESULT_SPLIT", rules.split ?? "error", undefined, { message, slot: -1 }, "", says))
    }
  }
  const misordered = firstOutOfOrder(rules, batch)
  if (misordered !== undefined) {
    const says = "results are not in the order of the calls"
    faults.push(fault("RESULT_ORDER", rules.resultOrder ?? "error", form.resultList, misordered, "", says))
  }
  for (const result of batch.extras) {
    faults.push(fault("DUPLICATE_RESULT", "error", form.resultList, result, "", "answers a call that is answered"))
  }
}

const isSplit = (answer: Answer | undefined): answer is Answer => answer?.where === "split"

const lookAtResult = (
  history: History,
  form: CallForm,
  call: Call,
  { result, where }: Answer,
  faults: Array<Fault>
) => {
  const { messages, rules } = history
  const list = form.resultList
  if (where === "apart") {
    faults.push(fault("RESULT_NOT_ADJACENT", rules.apart, list, result, "", "stands apart from its call"))
  } else if (where === "adjacent" && rules.resultsFirst === true && result.isLate) {
    faults.push(fault("RESULT_NOT_FIRST", "error", list, result, "", "stands behind other content of its message"))
  }
  if (form.misnamed?.is(result, call) === true) {
    faults.push(
      fault("NAME_INVALID", "error", list, result, form.misnamed.path, "result names another tool than its call")
    )
  }
  if (form.answers?.(result, call) === false) {
    faults.push(fault("DANGLING_CALL", "error", form.callList, call, "", "is answered by a result of another kind"))
  }
  if (result.id === undefined && rules.callId !== undefined && idFault(rules, call.id) === undefined) {
    const path = form.idPath(valueAt(messages, list, result) ?? {}, true)
    faults.push(fault("ID_INVALID", "error", list, result, path, "result names no call"))
  }
}
