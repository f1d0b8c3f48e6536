/**
 * Which facts come next in a Turn: every decision of the engine but one, as pure functions of the session's state.
 *
 * Owns: the order of facts inside a write. Does not own: which calls of a response run (`Accept`), when a write
 * happens (`Turn`), or the fold (`SessionState`).
 *
 * - P2. Steering is applied after all results of a batch and before the next request, in the same write as that request.
 * - P3. A Turn ends with one receipt for every open call, then `turn.settled`, then its terminal fact.
 */
import * as Accept from "./Accept.ts"
import * as Breaker from "./Breaker.ts"
import * as Budget from "./Budget.ts"
import * as Call from "./Call.ts"
import * as FailureBudget from "./FailureBudget.ts"
import * as Ids from "./Ids.ts"
import * as Inbox from "./Inbox.ts"
import * as Ledger from "./Ledger.ts"
import type { Cause } from "./Receipt.ts"
import type { OpenTurn } from "./OpenTurn.ts"
import type { SessionState } from "./SessionState.ts"
import * as Start from "./Start.ts"
import * as ToolOutput from "./ToolOutput.ts"
import type { Fact, Failure, Limit, Limits } from "./TurnEvent.ts"
import { addUsage } from "./TurnEvent.ts"

/** Facts that open a Turn from a waiting item and request its first step. */
export const startTurn = (
  state: SessionState,
  item: Inbox.Item,
  config: { readonly model: string; readonly limits: Limits }
): ReadonlyArray<Fact> => {
  const turnId = Ids.turnId(state.turns + 1)
  const steers = Inbox.steersFor(state.pending, turnId).filter((steer) => steer.id !== item.id)
  return [
    ...(state.status === "running" ? [] : [{ type: "session.status", data: { status: "running" } } as const]),
    {
      type: "turn.started",
      data: { turnId, itemId: item.id, agent: state.agent, model: config.model, limits: config.limits }
    },
    ...[item, ...steers].flatMap((each) => applyItem(each, turnId, 1)),
    { type: "step.started", data: { turnId, step: 1, kind: config.limits.maxSteps === 0 ? "hand-back" : "work" } }
  ]
}

/**
 * Facts that close a settled step and request the next one (P2): with tools, or for the hand-back when the Turn must end.
 * `unrecorded` are answers of its calls that are written before these; `now` is milliseconds since the epoch.
 */
export const nextStep = (
  state: SessionState,
  turn: OpenTurn,
  now: number,
  unrecorded: ReadonlyArray<Fact> = []
): ReadonlyArray<Fact> => {
  const step = Accept.stepOf(turn) + 1
  const kind = mustEnd(turn, now) === undefined ? "work" : "hand-back"
  const isAnswered = turn.step?.state === "accepted"
  return [
    ...shownShorter(turn, unrecorded),
    ...(isAnswered && kind === "work" ? repetition(turn, unrecorded) : []),
    ...(isAnswered && turn.step !== undefined
      ? [Accept.stepCompleted(turn.id, turn.step.step, turn.step.figures)]
      : []),
    ...Inbox.steersFor(state.pending, turn.id).flatMap((item) => applyItem(item, turn.id, step)),
    { type: "step.started", data: { turnId: turn.id, step, kind } }
  ]
}

/** Starts and refusals of calls that wait, when `results` of their batch are written before (`Start`, mechanism D4). */
export const startNext = (turn: OpenTurn, results: ReadonlyArray<Fact>, rules: Start.Rules): ReadonlyArray<Fact> => {
  const answers = results.filter(Call.isAnswering)
  const failures = answers.reduce((budget, fact) => {
    const call = turn.ledger.byId.get(fact.data.callId)
    return call?.state === "started"
      ? FailureBudget.observe(budget, call.domain, Call.answerOf(call, fact).outcome !== "ok")
      : budget
  }, turn.failures)
  return Start.next(turn.ledger.calls, new Set(answers.map(({ data }) => data.callId)), {
    ...rules,
    refusalOf: (call) =>
      rules.refusalOf(call) ?? FailureBudget.refused(failures, call.name, call.domain, turn.limits.failureLimit)
  })
}

/** The results of an open step that are shown shorter, because they are too much together (mechanism E1). */
const shownShorter = (turn: OpenTurn, unrecorded: ReadonlyArray<Fact>): ReadonlyArray<Fact> => {
  if (turn.step?.state !== "accepted") return []
  const views = ToolOutput.slimBatch(
    Ledger.answered(turn.ledger, unrecorded).map(({ answer, callId, effects }) => ({ callId, effects, ...answer }))
  )
  return views.length === 0
    ? []
    : [{ type: "step.slimmed", data: { turnId: turn.id, step: Accept.stepOf(turn), views } }]
}

/** What the model is told when the step brought nothing new (mechanism D2). */
const repetition = (turn: OpenTurn, unrecorded: ReadonlyArray<Fact>): ReadonlyArray<Fact> => {
  const breaker = Ledger.isSettled(turn.ledger)
    ? turn.breaker
    : Breaker.observe(turn.breaker, Ledger.round(Ledger.answered(turn.ledger, unrecorded)))
  const loop = Breaker.repeated(breaker)
  return loop === undefined ? [] : [Accept.repeatedFact(turn, "noted", loop, Breaker.note(loop))]
}

/** Owners a Turn may lose, one after the other, without coming further: the next one ends it. */
export const maxTakeovers = 3

/** The same where they ran a call that ran before as well: it may be what they die of, and is not begun a third time. */
export const maxTakeoversOfCall = 1

/**
 * Facts with which an owner takes up an open Turn (mechanism C3); `wasLeft` when its former owner died. `undefined` when too
 * many have died over it, of which fewer are too many when they ran the same call: it is not to be tried again. `recovery` settles or starts again what it had begun (`Ledger.recovery`).
 */
export const takeUp = (
  turn: OpenTurn,
  wasLeft: boolean,
  recovery: ReadonlyArray<Fact> = []
): ReadonlyArray<Fact> | undefined => {
  const ranAgain = Ledger.openCalls(turn.ledger).some(({ attempt, state }) => state === "started" && attempt > 1)
  if (wasLeft && turn.takeovers >= (ranAgain ? maxTakeoversOfCall : maxTakeovers)) return undefined
  const claimed: ReadonlyArray<Fact> = wasLeft ? [{ type: "worker.claimed", data: { turnId: turn.id } }] : []
  return [...claimed, ...recovery]
}

/** Times storage may refuse what a step has to record: each may have cost a response. Then the Turn ends. */
export const maxRefusals = 3

/** Facts that say that storage refused a write of the open Turn. */
export const refused = (turn: OpenTurn, reason: string): ReadonlyArray<Fact> => [
  { type: "write.refused", data: { turnId: turn.id, reason } }
]

/** Why a Turn must end with a hand-back: it went round in circles, or a limit is spent. */
export type HandBackCause = "repetition" | Limit

/** Why no further step with tools may start when the Turn's current one is over. */
export const mustEnd = (turn: OpenTurn, now: number): HandBackCause | undefined =>
  turn.tripped !== undefined
    ? "repetition"
    : Budget.spent(turn.limits, { steps: stepsOf(turn), usage: turn.usage, now })

/** The same in words. */
export const reasonToEnd = (turn: OpenTurn, cause: HandBackCause): string =>
  cause !== "repetition" ? Budget.reason(turn.limits, cause) : (turn.tripped?.text ?? "")

/** How a Turn ends after its hand-back. */
export const afterHandBack = (cause: HandBackCause): Ending =>
  cause === "repetition" ? { type: "tripped" } : { type: "exhausted", limit: cause }

/** How a Turn ends. */
export type Ending =
  | { readonly type: "completed" }
  | { readonly type: "exhausted"; readonly limit: Limit }
  | { readonly type: "tripped" }
  | { readonly type: "cancelled"; readonly by: "user" | "caller"; readonly reason: string | undefined }
  | { readonly type: "failed"; readonly error: Failure }

/** Facts that settle and close a Turn (P3); `before` are facts of the same write that come first, such as the final answer. */
export const endTurn = (
  state: SessionState,
  turn: OpenTurn,
  ending: Ending,
  before: ReadonlyArray<Fact> = []
): ReadonlyArray<Fact> => {
  const receipts = before.length > 0 ? [] : Ledger.receipts(turn.ledger, causeOf(ending))
  const returned = Inbox.atTurnEnd(state.pending, turn.id)
  const left = state.pending.size - returned.filter((fact) => fact.data.disposition === "returned").length
  return [
    ...before,
    ...receipts,
    // The next Turn reads what this one was told, also where it was stopped in the middle of a batch.
    ...shownShorter(turn, receipts),
    ...returned,
    {
      type: "turn.settled",
      data: { turnId: turn.id, receipts: receipts.map(({ data: { callId, outcome } }) => ({ callId, outcome })) }
    },
    terminal(turn, ending, before),
    ...(left === 0 ? [{ type: "session.status", data: { status: "idle" } } as const] : [])
  ]
}

/** Facts for a session without work: it is idle, should it not say so. The last item may have been withdrawn after its Turn. */
export const rest = (state: SessionState): ReadonlyArray<Fact> =>
  state.status === "running" && state.turn === undefined && state.pending.size === 0
    ? [{ type: "session.status", data: { status: "idle" } }]
    : []

/** Steps with tools, the current one included. */
const stepsOf = (turn: OpenTurn): number =>
  turn.step === undefined ? 0 : turn.step.kind === "work" ? turn.step.step : turn.step.step - 1

const causeOf = (ending: Ending): Cause => (ending.type === "failed" ? "failed" : "cancelled")

const terminal = (turn: OpenTurn, ending: Ending, before: ReadonlyArray<Fact>): Fact => {
  const turnId = turn.id
  const answer = before.find((fact) => fact.type === "message.added")?.data
  const figures = answer?.figures
  const usage = figures === undefined ? turn.usage : addUsage(turn.usage, figures.usage)
  const cost = turn.limits.price === undefined ? {} : { cost: Budget.costOf(turn.limits, usage) }
  const spent = { steps: stepsOf(turn), usage, ...cost }
  const messageId = answer?.messageId ?? Ids.assistantMessageId(turn.number, Accept.stepOf(turn))
  switch (ending.type) {
    case "completed":
      return {
        type: "turn.completed",
        data: { turnId, ...spent, finishReason: figures?.finishReason ?? "unknown", messageId }
      }
    case "exhausted":
      return {
        type: "turn.exhausted",
        data: { turnId, limit: ending.limit, ...spent, messageId }
      }
    case "tripped":
      return {
        type: "turn.tripped",
        data: { turnId, code: Breaker.code, reason: turn.tripped?.text ?? "", ...spent, messageId }
      }
    case "cancelled":
      return {
        type: "turn.cancelled",
        data: {
          turnId,
          by: ending.by,
          ...(ending.reason === undefined ? {} : { reason: ending.reason }),
          ...spent
        }
      }
    case "failed":
      return { type: "turn.failed", data: { turnId, error: ending.error, ...spent } }
  }
}

const applyItem = (item: Inbox.Item, turnId: Ids.TurnId, step: number): ReadonlyArray<Fact> => {
  const messageId = Ids.userMessageId(item.id)
  return [
    { type: "inbox.applied", data: { itemId: item.id, turnId, step, messageId } },
    { type: "message.added", data: { messageId, role: "user", parts: item.parts } }
  ]
}
