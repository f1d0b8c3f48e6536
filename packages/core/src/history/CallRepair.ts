/**
 * Puts calls and results in order: one pass over the message list per round.
 *
 * Owns: collapsing copies, renaming ids, moving, dropping and synthesising results, flattening rounds. Does not own:
 * the judgement of what is wrong (`CallRules`, `Pairing`), which it shares with `verify`.
 *
 * - R1. Untouched messages keep their identity.
 * - R2. A batch that needs repair gets its results again directly behind it, in the order of the calls; real results keep
 *   their content.
 * - R3. Whatever leaves the history is named in a change.
 */
import type { Action, Code } from "./Contract.ts"
import { firstOutOfOrder, idFault, isMisplaced, waitOf } from "./CallRules.ts"
import type { Batch, Call, CallForm, History, Place, Result } from "./Format.ts"
import { isObject, listOf, show, step, type JsonObject } from "./Json.ts"
import { minter } from "./NewId.ts"
import { valueAt } from "./Pairing.ts"
import type { Note, Rewritten } from "./Rewritten.ts"
import * as Synthetic from "./Synthetic.ts"

/**
 * Mends everything `callFaults` reports without choices; batches in `flatten` become marked text, for the given reason.
 * Returns `undefined` if there is nothing to do.
 */
export const settleCalls = (history: History, flatten: ReadonlyMap<number, Code>): Rewritten | undefined => {
  const form = history.format.calls
  if (form === undefined) return undefined
  const plan = planFor(history, form, flatten)
  return plan.notes.length === 0 ? undefined : carryOut(history, form, plan)
}

/** What becomes of a value in its list: another value, or nothing. */
type Fate = ((value: JsonObject) => JsonObject) | undefined
type Fates = Map<number, Map<number, Fate>>

/** A result on its way to its batch, with the message it was. */
interface Mover {
  readonly value: JsonObject
  readonly origin: number
}

interface Plan {
  readonly calls: Fates
  readonly results: Fates
  /** Results to put behind the message that ends a batch. */
  readonly behind: Map<number, ReadonlyArray<Mover>>
  readonly notes: Array<Note>
}

const planFor = (history: History, form: CallForm, flatten: ReadonlyMap<number, Code>): Plan => {
  const plan: Plan = { calls: new Map(), results: new Map(), behind: new Map(), notes: [] }
  const mint = minter(
    new Set(history.entries.flatMap((entry) => [...entry.calls, ...entry.results].map(({ id }) => id ?? "")))
  )
  const { batches, orphans } = history.pairing
  const hasCopies = batches.some((batch) => batch.copies.size > 0)
  batches.forEach((batch, index) => {
    // Copies first: with them gone, the last batch may be another, and its calls may be live.
    if (hasCopies) collapse(history, form, plan, batch)
    else {
      const reason = flatten.get(index)
      if (reason === undefined) planBatch(history, form, plan, index, mint)
      else flattenBatch(history, form, plan, batch, reason)
      dropExtras(history, form, plan, batch)
    }
  })
  if (!hasCopies) for (const result of orphans) planOrphan(history, form, plan, result)
  return plan
}

/** Takes copies out, and brings an answer that was matched to a copy to the call that stays. */
const collapse = (history: History, form: CallForm, plan: Plan, batch: Batch) => {
  for (const slot of batch.copies) {
    const call = batch.calls[slot]!
    set(plan.calls, call, undefined)
    const dropped = [valueAt(history.messages, form.callList, call)]
    note(plan, form.callList, call, "DUPLICATE_CALL_ID", "collapse", "an identical copy of an earlier call", dropped)
  }
  const carried = batch.answers.flatMap((answer) => (answer?.where === "carried" ? [answer.result] : []))
  if (carried.length === 0) return
  for (const result of carried) set(plan.results, result, undefined)
  const movers = carried.flatMap((result) => moverOf(history, form, result) ?? [])
  plan.behind.set(batch.last, movers)
}

const planBatch = (history: History, form: CallForm, plan: Plan, index: number, mint: () => string) => {
  const { rules } = history
  const batch = history.pairing.batches[index]!
  const waits = batch.calls.map((_, slot) => waitOf(history, index, slot))
  const calls = batch.calls.map((call, slot) => {
    const isFaulty = batch.repeats.has(slot) || idFault(rules, call.id) !== undefined
    if (!isFaulty || call.isExempt || waits[slot]?.isSuspended === true) return call
    const id = mint()
    set(plan.calls, call, (value) => form.withId(value, false, id))
    const code = batch.repeats.has(slot) ? "DUPLICATE_CALL_ID" : "ID_INVALID"
    note(plan, form.callList, call, code, "rename", `call id ${show(call.id ?? "")} is now ${show(id)}`)
    return { ...call, id }
  })
  const synthesised = calls.map((call, slot) => {
    const wait = waits[slot]
    return wait === undefined || wait.isSuspended ? undefined : form.answer(call, wait, history)
  })
  const misordered = firstOutOfOrder(rules, batch)
  const isUntidy =
    misordered !== undefined || calls.some((_, slot) => isMisplaced(rules, batch, slot) || synthesised[slot])
  const movers = calls.flatMap((call, slot): ReadonlyArray<Mover> => {
    const result = batch.answers[slot]?.result
    if (result === undefined) {
      if (synthesised[slot] === undefined) return []
      const code = waits[slot]?.code ?? "DANGLING_CALL"
      note(plan, form.callList, call, code, "synthesise", written[code] ?? "a result that says the outcome is unknown")
      return synthesised[slot].map((value) => ({ value, origin: -1 }))
    }
    const change = mender(form, rules.callId !== undefined, call, result)
    if (change !== undefined) noteMended(plan, form, call, result, call !== batch.calls[slot])
    if (isMisplaced(rules, batch, slot)) noteMoved(plan, form, batch, slot)
    if (isUntidy) set(plan.results, result, undefined)
    else if (change !== undefined) set(plan.results, result, change)
    const mover = isUntidy ? moverOf(history, form, result) : undefined
    if (mover === undefined) return []
    return [change === undefined ? mover : { ...mover, value: change(mover.value) }]
  })
  if (isUntidy) plan.behind.set(batch.last, movers)
  if (misordered !== undefined) {
    note(plan, form.resultList, misordered, "RESULT_ORDER", "reorder", "results put in the order of the calls")
  }
}

const dropExtras = (history: History, form: CallForm, plan: Plan, batch: Batch) => {
  for (const result of batch.extras) {
    set(plan.results, result, undefined)
    const dropped = [valueAt(history.messages, form.resultList, result)]
    note(plan, form.resultList, result, "DUPLICATE_RESULT", "drop", "a further result of an answered call", dropped)
  }
}

const written: { readonly [code: string]: string } = {
  DENIED_WITHOUT_RESULT: "a result that repeats the denial",
  PENDING_APPROVAL: "a denial, for the call was passed over"
}

const moverOf = (history: History, form: CallForm, result: Result): Mover | undefined => {
  const value = valueAt(history.messages, form.resultList, result)
  return value === undefined ? undefined : { value, origin: result.message }
}

/** How a result must change to name its call and to be of the right kind; `undefined` if it is right as it is. */
const mender = (form: CallForm, hasIds: boolean, call: Call, result: Result): Fate => {
  const { id } = call
  const isRenamed = id !== undefined && result.id !== id && (hasIds || result.id !== undefined)
  const isRetyped = form.answers?.(result, call) === false
  const misnamed = form.misnamed?.is(result, call) === true ? form.misnamed : undefined
  if (!isRenamed && !isRetyped && misnamed === undefined) return undefined
  return (value) => {
    const called = misnamed === undefined ? value : misnamed.withName(value, call.name)
    const named = isRenamed ? form.withId(called, true, id) : called
    return isRetyped && form.retype !== undefined ? form.retype(named, call) : named
  }
}

const noteMended = (plan: Plan, form: CallForm, call: Call, result: Result, isCallRenamed: boolean) => {
  if (form.answers?.(result, call) === false) {
    note(plan, form.resultList, result, "DANGLING_CALL", "rewrite", `result is now of the kind ${call.family} asks for`)
  } else if (form.misnamed?.is(result, call) === true) {
    note(
      plan,
      form.resultList,
      result,
      "NAME_INVALID",
      "rename",
      `result now has the name ${show(call.name)} of its call`
    )
  } else if (!isCallRenamed) {
    note(plan, form.resultList, result, "ID_INVALID", "rename", `result now names call ${show(call.id ?? "")}`)
  }
}

const noteMoved = (plan: Plan, form: CallForm, batch: Batch, slot: number) => {
  const answer = batch.answers[slot]!
  const code: Code =
    answer.where === "split" ? "RESULT_SPLIT" : answer.where === "apart" ? "RESULT_NOT_ADJACENT" : "RESULT_NOT_FIRST"
  note(plan, form.resultList, answer.result, code, "move", "result moved behind its call")
}

const planOrphan = (history: History, form: CallForm, plan: Plan, result: Result) => {
  const value = valueAt(history.messages, form.resultList, result)
  // Text behind calls that wait would end their turn.
  const isBehindLive = history.suspended.size > 0 && result.message > history.pairing.batches.at(-1)!.last
  const isKept = history.context.orphans === "text" && value !== undefined && !isBehindLive
  if (isKept) {
    const text = Synthetic.orphan(form.resultText(value))
    const kept = form.resultList === undefined ? history.format.note("user", text) : history.format.textPart(text)
    set(plan.results, result, () => kept)
  } else set(plan.results, result, undefined)
  const says = isKept ? "a result without its call, kept as text" : "a result without its call"
  note(plan, form.resultList, result, "ORPHAN_RESULT", isKept ? "flatten" : "drop", says, [value])
}

const flattenBatch = (history: History, form: CallForm, plan: Plan, batch: Batch, reason: Code) => {
  const lines = batch.calls.flatMap((call, slot) => {
    if (call.isExempt) return []
    const result = batch.answers[slot]?.result
    const value = result === undefined ? undefined : valueAt(history.messages, form.resultList, result)
    set(plan.calls, call, undefined)
    if (result !== undefined) set(plan.results, result, undefined)
    const dropped = [valueAt(history.messages, form.callList, call), ...(value === undefined ? [] : [value])]
    note(plan, form.callList, call, reason, "flatten", "call and result are text now", dropped)
    const text = value === undefined ? Synthetic.outcomeUnknown : form.resultText(value)
    return [Synthetic.flattened(call.name, show(call.args), text)]
  })
  const text = lines.join("\n")
  const value = form.resultList === undefined ? history.format.note("user", text) : history.format.textPart(text)
  plan.behind.set(batch.last, [{ value, origin: -1 }])
}

const carryOut = (history: History, form: CallForm, plan: Plan): Rewritten => {
  const messages: Array<unknown> = []
  const origins: Array<number> = []
  const push = (message: unknown, origin: number) => {
    messages.push(message)
    origins.push(origin)
  }
  const { host } = form
  let waiting: ReadonlyArray<JsonObject> = []
  history.messages.forEach((message, index) => {
    let current = rewrite(form, message, plan.calls.get(index), plan.results.get(index))
    if (waiting.length > 0) {
      // A message that took in results before takes them in again, even if it was emptied: its other fields stay.
      if (isObject(message) && host?.accepts(message) === true) {
        current = joined(history, form, message, current, waiting)
      } else if (host !== undefined) push(host.make(waiting), -1)
      waiting = []
    }
    if (current !== undefined) push(current, index)
    const behind = plan.behind.get(index) ?? []
    if (host === undefined) for (const mover of behind) push(mover.value, mover.origin)
    else waiting = behind.map((mover) => mover.value)
  })
  if (waiting.length > 0 && host !== undefined) push(host.make(waiting), -1)
  return { messages, origins, notes: plan.notes }
}

/** What is left of a message, with results added to its parts. */
const joined = (
  history: History,
  form: CallForm,
  message: JsonObject,
  left: unknown,
  results: ReadonlyArray<JsonObject>
): JsonObject => {
  const list = form.resultList ?? ""
  const current = isObject(left) ? left : { ...message, [list]: [] }
  const content = current[list]
  const parts =
    typeof content === "string" && content !== "" ? [history.format.textPart(content)] : listOf(current, list)
  return { ...current, [list]: form.host?.isInFront === true ? [...results, ...parts] : [...parts, ...results] }
}

/** The message with each of its values brought to its fate; `undefined` if nothing is left (R1). */
const rewrite = (
  form: CallForm,
  message: unknown,
  calls: Map<number, Fate> | undefined,
  results: Map<number, Fate> | undefined
): unknown => {
  if (!isObject(message) || (calls === undefined && results === undefined)) return message
  const fates = new Map([...(calls ?? []), ...(results ?? [])])
  if (fates.has(-1)) return fates.get(-1)?.(message)
  const list = form.callList ?? ""
  const before = listOf(message, list)
  const mapped = before.map((part, slot) => {
    const fate = fates.get(slot)
    return fate !== undefined && isObject(part) ? fate(part) : part
  })
  const named = form.renameAlong?.(before, mapped) ?? mapped
  const kept = named.filter((_, slot) => !fates.has(slot) || fates.get(slot) !== undefined)
  const next = { ...message, [list]: kept }
  return kept.length === before.length ? next : form.remainder(next)
}

const set = (fates: Fates, place: Place, fate: Fate) => {
  const slots = fates.get(place.message)
  if (slots === undefined) fates.set(place.message, new Map([[place.slot, fate]]))
  else slots.set(place.slot, fate)
}

const note = (
  plan: Plan,
  list: string | undefined,
  place: Place,
  code: Code,
  action: Action,
  text: string,
  dropped?: ReadonlyArray<unknown>
) => {
  const path = list === undefined || place.slot < 0 ? "" : step(list) + step(place.slot)
  const content = dropped === undefined ? {} : { dropped }
  plan.notes.push({ index: place.message, path, code, action, note: text, ...content })
}
