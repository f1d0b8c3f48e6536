/**
 * Stops a Turn that repeats itself: the same calls with the same results, again and again (mechanisms D1–D3).
 *
 * A *round* is what the calls of one step asked for and what they were answered, whatever their order. Rounds are the same
 * when name, canonical arguments and result of their calls are; a call that was refused before it was executed is known by
 * its refusal alone, since what it would have done depends on nothing it said. A block of one to four rounds that comes
 * again unchanged is a loop.
 *
 * Owns: what is the same, and when it is too often. Does not own: what follows (`TurnPlan`), or what of a result counts
 * (`ToolPolicy.Normalise`).
 *
 * - B1. Nothing is remembered but the last rounds of the Turn; it follows from its events, so a crash or a wait changes nothing.
 * - B2. A round that brings a new result is no repetition: whoever polls and sees progress may go on.
 * - B3. What only reads is judged by what it reads: it is executed once more than what may have effects, because only its
 *   result can tell whether there is something new by now.
 *   The same holds for a block: one whose every round may have effects is not begun a third time, one with a round that only
 *   reads runs until its last round, for that look may bring something new.
 * - B4. A loop whose calls are all counted elsewhere (`FailureBudget`) is none here; among other rounds they are seen as
 *   what they are, so that reading the same twice with an edit at the user's between is no repetition.
 */
import type { Json } from "./Canonical.ts"
import * as Canonical from "./Canonical.ts"
import * as FailureBudget from "./FailureBudget.ts"
import type { Domain, EffectClass } from "./ToolPolicy.ts"

/** What a Turn that trips is known by. */
export const code = "REPEATED_IDENTICAL_TOOL_CALL"

/**
 * How often the same may come, unless the agent says otherwise: what may have effects is not executed a third time, what
 * only reads not a fourth (B3).
 */
export const defaultLimit = 3

/** The most rounds a loop may have to be seen as one. */
export const longestPeriod = 4

/** A call as it is asked for. `refusal` says why it is not executed, if it is not. */
export interface Asked {
  readonly name: string
  readonly argsDigest: string
  readonly effects: EffectClass
  readonly domain: Domain
  readonly refusal: string | undefined
}

/** A call with its answer. `digest` is that of what results are compared by, when that is not the result itself. */
export interface Answered extends Asked {
  readonly isFailure: boolean
  readonly result: Json
  readonly digest: string | undefined
}

/** One round, as it is compared. */
interface Round {
  readonly asked: string
  /** Their results are digested when rounds that asked for the same are compared: most never are. */
  readonly calls: ReadonlyArray<Answered>
}

/** The memory of a Turn (B1). */
export interface Breaker {
  /** The last rounds, the newest last. */
  readonly rounds: ReadonlyArray<Round>
  /** For each period from 1 on: how many rounds, up to the last, were the same as the round one period before. */
  readonly runs: ReadonlyArray<number>
}

/** Rounds that came again: a block of `period` rounds, for the `count`th time. */
export interface Loop {
  readonly period: number
  readonly count: number
  /** Names of the tools called in it. */
  readonly tools: ReadonlyArray<string>
}

export const empty: Breaker = { rounds: [], runs: Array.from({ length: longestPeriod }, () => 0) }

/** Remembers a round whose calls are all answered. */
export const observe = ({ rounds, runs }: Breaker, calls: ReadonlyArray<Answered>): Breaker => {
  const round = { asked: keyOf(calls), calls }
  return {
    rounds: [...rounds, round].slice(-longestPeriod),
    runs: runs.map((run, index) => (isSame(rounds.at(-1 - index), round) ? run + 1 : 0))
  }
}

/** The loop that the last round has closed once more, if it has: then the model is told. */
export const repeated = ({ rounds, runs }: Breaker): Loop | undefined =>
  loops(rounds, (period) => {
    const run = runs[period - 1] ?? 0
    return run > 0 && run % period === 0 ? run / period + 1 : undefined
  })

/** The loop that these calls would go round once too often, if they would: then they are not to be executed. */
export const trips = (
  { rounds, runs }: Breaker,
  calls: ReadonlyArray<Asked>,
  limit = defaultLimit
): Loop | undefined => {
  const asked = keyOf(calls)
  const isLook = calls.every(onlyReads)
  return loops(rounds, (period) => {
    const run = runs[period - 1] ?? 0
    const isNext = rounds.at(-period)?.asked === asked && run >= needed(period, limit, isLook, rounds)
    return isNext ? Math.floor(run / period) + 2 : undefined
  })
}

/** How many rounds must have been the same as those one period before, for the next one not to be executed (B3). */
const needed = (period: number, limit: number, isLook: boolean, rounds: ReadonlyArray<Round>): number => {
  if (isLook) return (limit - 1) * period
  const hasLook = rounds.slice(-period).some((round) => round.calls.every(onlyReads))
  return hasLook ? (limit - 1) * period - 1 : Math.max((limit - 2) * period, period - 1)
}

/** What the model reads with the results of a round that came again. */
export const note = (loop: Loop): string =>
  `[note of the runtime: ${whatCame(loop)} ${loop.count} times in a row, with the same arguments and the same results. ` +
  "Asking again will most likely bring nothing new, and the turn is ended if you go on like this. " +
  "Do something else, wait longer if you are waiting, or answer with what you know.]"

/** What the model reads in place of a result that nobody asks for once more. */
export const refusal = (tool: string, loop: Loop): string =>
  `[receipt: not started] ${tool} was not executed (${code}): ${whatCame(loop)} ${times(loop.count - 1)} in a row ` +
  "with the same arguments and the same results, and was asked for again. The turn ends here."

/** Why the Turn ends. */
export const reason = ({ count, period, tools }: Loop): string =>
  period === 1
    ? `This turn asked ${count} times in a row for the same calls (${tools.join(", ")}) and learned nothing new`
    : `This turn went ${count} times through the same ${period} rounds of calls (${tools.join(", ")}) and learned nothing new`

const whatCame = ({ period, tools }: Loop): string =>
  period === 1
    ? `the same ${tools.length === 1 ? "call" : "calls"} (${tools.join(", ")}) came`
    : `the same ${period} rounds of calls (${tools.join(", ")}) came`

const times = (count: number): string => (count === 1 ? "once" : `${count} times`)

/** The loop of the shortest period that is one, of rounds that are counted here (B4). */
const loops = (rounds: ReadonlyArray<Round>, countOf: (period: number) => number | undefined): Loop | undefined => {
  for (let period = 1; period <= Math.min(longestPeriod, rounds.length); period++) {
    const count = countOf(period)
    const block = rounds.slice(-period)
    const calls = block.flatMap((round) => round.calls)
    if (count !== undefined && calls.some(isCounted)) {
      return { period, count, tools: [...new Set(calls.map(({ name }) => name))] }
    }
  }
  return undefined
}

const isSame = (before: Round | undefined, round: Round): boolean =>
  before !== undefined && before.asked === round.asked && resultsOf(before) === resultsOf(round)

const resultsOf = ({ calls }: Round): string => distinct(calls.map(resultKey))

const onlyReads = ({ effects, refusal }: Asked): boolean => effects === "pure" && refusal === undefined

/** What is out of use is refused, and asking for it over and over is a loop like any other. */
const isCounted = ({ domain, refusal }: Asked): boolean => refusal !== undefined || !FailureBudget.counts(domain)

const keyOf = (calls: ReadonlyArray<Asked>): string => distinct(calls.map(callKey))

const callKey = ({ argsDigest, name, refusal }: Asked): string =>
  Canonical.stringify(refusal === undefined ? [name, argsDigest] : [name, "refused", Canonical.digestText(refusal)])

const resultKey = (call: Answered): string =>
  Canonical.stringify([callKey(call), call.isFailure, call.digest ?? Canonical.digest(call.result)])

/** Calls of a round run side by side: neither their order nor a second one of the same kind makes another round. */
const distinct = (keys: ReadonlyArray<string>): string => [...new Set(keys)].toSorted().join("\n")
