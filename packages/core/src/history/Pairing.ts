/**
 * Which result answers which call.
 *
 * Owns: batches, the matching of results and the marks for calls that occur twice. Does not own: what is said about it
 * (`CallRules`) or done (`CallRepair`).
 *
 * - P1. By position first, by id second: a result answers a call of the batch directly in front of it. Ids recur.
 * - P2. A result that fits no call of that batch answers an earlier call only if its id occurs once in the history; it
 *   never answers a call that comes after it.
 * - P3. A real result beats a synthetic one, otherwise the first wins.
 * - P4. A call that repeats id, name and arguments of an earlier one is a copy as long as there are fewer results than
 *   calls. A call that may still be answered is none, unless nothing stands between it and the earlier one.
 * - P5. Where results are matched by name, those under other names right behind a batch answer its open calls in order, if they
 *   are as many.
 */
import type { Answer, Call, CallForm, Entry, Pairing, Place, Result, Where } from "./Format.ts"
import { equal, isObject, listOf, type JsonObject } from "./Json.ts"
import type { Rules } from "./Contract.ts"
import { isSynthetic } from "./Synthetic.ts"

/** The call or result at a place. */
export const valueAt = (
  messages: ReadonlyArray<unknown>,
  list: string | undefined,
  place: Place
): JsonObject | undefined => {
  const message = messages[place.message]
  if (list === undefined || !isObject(message)) return isObject(message) ? message : undefined
  const value = listOf(message, list)[place.slot]
  return isObject(value) ? value : undefined
}

/** Matches results to calls, in one pass over the entries. */
export const pair = (
  form: CallForm,
  rules: Rules,
  openCalls: ReadonlyArray<string> | undefined,
  messages: ReadonlyArray<unknown>,
  entries: ReadonlyArray<Entry>
): Pairing => {
  const batches: Array<OpenBatch> = []
  const strays: Array<Answer> = []
  // The batch in which an id was seen first.
  const seen = new Map<string, number>()
  const repeats: Array<Repeat> = []
  const isPlaceholder = (result: Result) => {
    const value = valueAt(messages, form.resultList, result)
    return value !== undefined && isSynthetic(form.resultText(value))
  }
  let batch: OpenBatch | undefined
  let run: Array<Call> = [] // the calls of a batch that may go on
  let region: Array<Answer> = []
  let isBroken = false // something stands between the batch and the next result
  let isExtendable = false // only asides since the last call
  let hasSpoken = false

  const close = () => {
    if (batch === undefined) for (const answer of region) strays.push(answer)
    else {
      match(form, batch, region, isPlaceholder, strays)
      markRepeats(batch, batches, rules, seen, repeats)
    }
    if (region.length > 0) region = []
  }

  for (let index = 0; index < entries.length; index++) {
    const entry = entries[index]!
    if (entry.calls.length > 0) {
      if (form.isRun && isExtendable && batch !== undefined) {
        for (const call of entry.calls) run.push(call)
        batch.last = index
      } else {
        close()
        if (form.isRun) run = [...entry.calls]
        batch = {
          first: index,
          last: index,
          calls: form.isRun ? run : entry.calls,
          answers: [],
          extras: noExtras,
          repeats: noRepeats,
          copies: noCopies,
          isAdjoining: isExtendable
        }
        batches.push(batch)
      }
      isBroken = false
      isExtendable = true
      hasSpoken = false
    } else if (entry.role !== "aside") {
      isExtendable = false
      if (entry.speaks) hasSpoken = true
      if (rules.placement === "run" ? entry.role !== "tool" : entry.role !== "user") isBroken = true
    }
    for (const result of entry.results) {
      region.push({ result, where: whereIs(rules, batch, entry, index, isBroken) })
    }
  }
  close()
  for (const repeat of repeats) markCopy(batches, repeat, !hasSpoken)
  const orphans = placeStrays(batches, strays, new Set(openCalls), isPlaceholder)
  return { batches, orphans, isLive: !hasSpoken }
}

interface OpenBatch {
  readonly first: number
  last: number
  readonly calls: ReadonlyArray<Call>
  readonly answers: Array<Answer | undefined>
  extras: Array<Result>
  repeats: Map<number, "batch" | "history">
  copies: Set<number>
  /** It follows another batch with nothing but asides between. */
  readonly isAdjoining: boolean
  /** The first place of each id, once it was asked for. */
  slots?: Map<string | undefined, number>
}

// What most batches have none of is shared; it is replaced, never written to.
const noExtras: Array<Result> = []
const noRepeats = new Map<number, "batch" | "history">()
const noCopies = new Set<number>()

const whereIs = (rules: Rules, batch: OpenBatch | undefined, entry: Entry, index: number, isBroken: boolean): Where => {
  if (batch === undefined || isBroken || entry.role === "assistant") return "apart"
  return rules.placement === "run" || index === batch.last + 1 ? "adjacent" : "split"
}

/** Matches the results that follow a batch (P1); those that fit none of its calls are added to the strays. */
const match = (
  form: CallForm,
  batch: OpenBatch,
  region: ReadonlyArray<Answer>,
  isPlaceholder: (result: Result) => boolean,
  strays: Array<Answer>
) => {
  const { answers, calls } = batch
  for (let slot = 0; slot < calls.length; slot++) answers.push(undefined)
  let taken = 0
  while (taken < region.length && !calls[taken]?.isExempt && fits(form, calls[taken], region[taken]!.result)) {
    answers[taken] = region[taken++]
  }
  if (taken < region.length) {
    for (const stray of matchRest(form, batch, region, taken, isPlaceholder)) strays.push(stray)
  }
  // Results that are split belong to a message that holds at least one of them; without it they stand apart.
  if (!answers.some((answer) => answer?.where === "split") || answers.some((answer) => answer?.where === "adjacent"))
    return
  answers.forEach((answer, slot) => {
    if (answer?.where === "split") answers[slot] = { ...answer, where: "apart" }
  })
}

/** Matches the results from `start` on, which do not simply follow the order of the calls. */
const matchRest = (
  form: CallForm,
  batch: OpenBatch,
  region: ReadonlyArray<Answer>,
  start: number,
  isPlaceholder: (result: Result) => boolean
): ReadonlyArray<Answer> => {
  const { answers, calls } = batch
  const unnamed: Array<Answer> = []
  const unknown: Array<Answer> = []
  const index = new CallIndex(calls, form.isByName)
  let cursor = start
  for (const answer of region.slice(start)) {
    const { result } = answer
    const isNext = answers[cursor] === undefined && !calls[cursor]?.isExempt && fits(form, calls[cursor], result)
    const slots = isNext ? [cursor] : index.of(result)
    const free = slots.find((slot) => answers[slot] === undefined && !calls[slot]!.isExempt)
    const taken = slots.find((slot) => answers[slot] !== undefined || calls[slot]!.hasOwnResult)
    if (free !== undefined) {
      answers[free] = answer
      cursor = free + 1
    } else if (taken !== undefined) settleExtra(batch, taken, answer, isPlaceholder)
    else if (result.id === undefined && !form.isByName) unnamed.push(answer)
    else unknown.push(answer)
  }
  // What is left is matched by position: results without an id to the calls still open, unknown ids to calls without one.
  const rest = fill(batch, unnamed, () => true)
  const strangers = form.isByName ? fillByName(batch, unknown) : fill(batch, unknown, (call) => call.id === undefined)
  return [...rest, ...strangers]
}

/** Whether a result names a call. */
const fits = (form: CallForm, call: Call | undefined, result: Result): boolean => {
  if (call === undefined) return false
  if (call.id !== undefined && result.id !== undefined) return call.id === result.id
  return form.isByName && call.name === result.name
}

const fill = (batch: OpenBatch, results: ReadonlyArray<Answer>, accepts: (call: Call) => boolean) => {
  let slot = 0
  return results.filter((answer) => {
    while (slot < batch.calls.length) {
      const call = batch.calls[slot]!
      if (batch.answers[slot] === undefined && !call.isExempt && accepts(call)) {
        batch.answers[slot++] = answer
        return false
      }
      slot++
    }
    return true
  })
}

/**
 * Results under the names of other tools, right behind their batch: as many as there are calls without a result, they answer
 * them in order (P5). Gives those that answer none.
 */
const fillByName = (batch: OpenBatch, unknown: ReadonlyArray<Answer>): ReadonlyArray<Answer> => {
  const near = unknown.filter(({ where }) => where !== "apart")
  const open = batch.calls.filter((call, slot) => batch.answers[slot] === undefined && !call.isExempt)
  if (near.length === 0 || near.length !== open.length) return unknown
  // Ids on both sides that differ name other calls.
  const isOther = open.some((call, nth) => call.id !== undefined && near[nth]?.result.id !== undefined)
  if (isOther) return unknown
  const left = new Set(fill(batch, near, () => true))
  return unknown.filter((answer) => answer.where === "apart" || left.has(answer))
}

/** Puts a further result of an answered call aside, or in place of a synthetic one (P3). */
const settleExtra = (batch: OpenBatch, slot: number, answer: Answer, isPlaceholder: (result: Result) => boolean) => {
  if (batch.extras === noExtras) batch.extras = []
  const kept = batch.answers[slot]
  if (kept !== undefined && isPlaceholder(kept.result) && !isPlaceholder(answer.result)) {
    batch.answers[slot] = answer
    batch.extras.push(kept.result)
  } else batch.extras.push(answer.result)
}

/** Looks up the calls of a batch by id, and by name where ids are absent. Built only when position does not tell. */
class CallIndex {
  private readonly calls: ReadonlyArray<Call>
  private readonly isByName: boolean
  private byId: Map<string, Array<number>> | undefined
  private byName: Map<string, Array<number>> | undefined

  constructor(calls: ReadonlyArray<Call>, isByName: boolean) {
    this.calls = calls
    this.isByName = isByName
  }

  of(result: Result): ReadonlyArray<number> {
    this.byId ??= this.group((call) => call.id)
    const named = result.id === undefined ? undefined : this.byId.get(result.id)
    if (named !== undefined || !this.isByName || result.name === undefined) return named ?? []
    this.byName ??= this.group((call) => call.name)
    const slots = this.byName.get(result.name) ?? []
    return result.id === undefined ? slots : slots.filter((slot) => this.calls[slot]!.id === undefined)
  }

  private group(keyOf: (call: Call) => string | undefined): Map<string, Array<number>> {
    const groups = new Map<string, Array<number>>()
    this.calls.forEach((call, slot) => {
      const key = keyOf(call)
      if (key === undefined) return
      const group = groups.get(key)
      if (group === undefined) groups.set(key, [slot])
      else group.push(slot)
    })
    return groups
  }
}

/** A call whose id was seen before, and the batch where that was. */
interface Repeat {
  readonly batch: number
  readonly slot: number
  readonly first: number
}

const markRepeats = (
  batch: OpenBatch,
  batches: ReadonlyArray<OpenBatch>,
  rules: Rules,
  seen: Map<string, number>,
  repeats: Array<Repeat>
) => {
  const number = batches.length - 1
  if (rules.callIdScope === "batch") seen.clear()
  batch.calls.forEach((call, slot) => {
    if (call.id === undefined) return
    const first = seen.get(call.id)
    if (first === undefined) return void seen.set(call.id, number)
    if (batch.repeats === noRepeats) batch.repeats = new Map()
    batch.repeats.set(slot, first === number ? "batch" : "history")
    repeats.push({ batch: number, slot, first })
  })
}

/** P4: a copy without a result is a copy; one with a result hands it to a first occurrence that has none. */
const markCopy = (batches: ReadonlyArray<OpenBatch>, { batch: number, first, slot }: Repeat, isLive: boolean) => {
  const batch = batches[number]!
  const prior = batches[first]!
  const call = batch.calls[slot]!
  const priorSlot = slotOf(prior, call.id)
  if (!isSameCall(prior.calls[priorSlot]!, call)) return
  const answer = batch.answers[slot]
  const isNear = first === number || (batch.isAdjoining && first === number - 1)
  if (answer === undefined && isLive && number === batches.length - 1 && !isNear) return
  if (answer !== undefined && prior.answers[priorSlot] !== undefined) return
  if (answer !== undefined) {
    prior.answers[priorSlot] = { result: answer.result, where: "carried" }
    batch.answers[slot] = undefined
  }
  if (batch.copies === noCopies) batch.copies = new Set()
  batch.copies.add(slot)
}

/** The first call of a batch with an id. */
const slotOf = (batch: OpenBatch, id: string | undefined): number => {
  batch.slots ??= new Map(batch.calls.map((call, slot) => [call.id, slot] as const).toReversed())
  return batch.slots.get(id) ?? -1
}

const isSameCall = (a: Call, b: Call): boolean =>
  !a.isExempt && !b.isExempt && a.family === b.family && a.name === b.name && equal(a.args, b.args)

/** P2: gives results that fit no call in front of them to the one earlier call with their id; returns the orphans. */
const placeStrays = (
  batches: ReadonlyArray<OpenBatch>,
  strays: ReadonlyArray<Answer>,
  openCalls: ReadonlySet<string>,
  isPlaceholder: (result: Result) => boolean
): ReadonlyArray<Result> => {
  if (strays.length === 0) return []
  const unique = new Map<string, { readonly batch: OpenBatch; readonly slot: number } | undefined>()
  for (const batch of batches) {
    batch.calls.forEach((call, slot) => {
      if (call.id === undefined || batch.copies.has(slot)) return
      unique.set(call.id, unique.has(call.id) ? undefined : { batch, slot })
    })
  }
  return strays.flatMap(({ result }) => {
    if (result.id === undefined) return [result]
    if (openCalls.has(result.id) && !unique.has(result.id)) return []
    const owner = unique.get(result.id)
    const call = owner?.batch.calls[owner.slot]
    if (owner === undefined || call === undefined || call.message >= result.message) return [result]
    if (owner.batch.answers[owner.slot] !== undefined || call.hasOwnResult) {
      settleExtra(owner.batch, owner.slot, { result, where: "apart" }, isPlaceholder)
      return []
    }
    if (call.isExempt) return [result]
    owner.batch.answers[owner.slot] = { result, where: "apart" }
    return []
  })
}
