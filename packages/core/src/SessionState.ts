/**
 * The state of one session, folded from its events.
 *
 * The owner keeps one of these per session it drives and feeds it every committed event; the in-memory journal keeps one
 * to refuse illegal writes; a reader can rebuild one from the log at any time.
 *
 * Owns: what follows from the events. Does not own: which events come next (`TurnPlan`) or their storage (`Journal`).
 *
 * - S1. The fold is deterministic: the same events give the same state.
 * - S2. A fact that cannot follow from the state is refused (`IllegalFact`): one open Turn, no step while calls are open,
 *   one answer per call, no message inside a step but its answer, no closed Turn with open calls.
 * - S3. The window only grows, and its messages keep their identity from request to request.
 */
import * as Call from "./Call.ts"
import type * as Prompt from "effect/ai/Prompt"
import * as Breaker from "./Breaker.ts"
import * as FailureBudget from "./FailureBudget.ts"
import * as Ids from "./Ids.ts"
import * as Inbox from "./Inbox.ts"
import * as Ledger from "./Ledger.ts"
import * as OpenTurn from "./OpenTurn.ts"
import * as SetAside from "./SetAside.ts"
import * as Transcript from "./Transcript.ts"
import type { Fact, Terminal, TurnEvent } from "./TurnEvent.ts"
import { addUsage } from "./TurnEvent.ts"

/** A fact that cannot follow from the state it met: a bug of the writer (S2). */
export class IllegalFact extends Error {
  override readonly name = "IllegalFact"
  constructor(fact: Fact, why: string) {
    super(`${fact.type} refused: ${why}`)
  }
}

export interface SessionState {
  readonly sessionId: Ids.SessionId
  seq: number
  agent: string
  title: string | undefined
  status: "idle" | "running"
  items: number
  turns: number
  readonly pending: Map<Ids.ItemId, Inbox.Item>
  turn: OpenTurn.OpenTurn | undefined
  /** Messages of all Turns so far, without the system prompt (S3); empty when they are not kept. */
  readonly window: Array<Prompt.Message>
  /** Whether messages are converted and kept: who only judges facts needs none. */
  readonly keepsWindow: boolean
  /** Wire ids in use: an id that recurs is replaced before it is registered. */
  readonly wireIds: Set<string>
  /** The files of the messages, and which of them a model is not sent. */
  readonly setAside: SetAside.SetAside
}

export const make = (sessionId: Ids.SessionId, options = { keepsWindow: true }): SessionState => ({
  sessionId,
  keepsWindow: options.keepsWindow,
  seq: 0,
  agent: "",
  title: undefined,
  status: "idle",
  items: 0,
  turns: 0,
  pending: new Map(),
  turn: undefined,
  window: [],
  wireIds: new Set(),
  setAside: SetAside.make()
})

/** What admission must know. */
export const head = (state: SessionState): Inbox.Head => ({
  sessionId: state.sessionId,
  seq: state.seq,
  items: state.items,
  waiting: state.pending.size,
  turns: state.turns,
  runningTurn:
    state.turn !== undefined
      ? state.turn.cancelling === undefined
        ? state.turn.id
        : undefined
      : state.pending.size > 0
        ? Ids.turnId(state.turns + 1)
        : undefined,
  isBusy: state.turn !== undefined || state.pending.size > 0
})

/** Whether there is something to do: an open Turn, or an item that waits for one. */
export const hasWork = (state: SessionState): boolean => state.turn !== undefined || state.pending.size > 0

/** Whether an owner is to see to the session: it has work, or says that it is running after its last item was withdrawn. */
export const needsOwner = (state: SessionState): boolean => hasWork(state) || state.status === "running"

/** What is told of the session: `queued` while no Turn is open and an item waits for one. */
export const statusOf = (state: SessionState): "idle" | "queued" | "running" =>
  state.turn === undefined && state.pending.size > 0 ? "queued" : state.status

/** Feeds one event (S1, S2). */
export const apply = (state: SessionState, event: TurnEvent): void => {
  if (event.seq !== state.seq + 1) throw new IllegalFact(event, `seq ${event.seq} after ${state.seq}`)
  applyFact(state, event)
  state.seq = event.seq
}

/** Feeds the events a reader got. */
export const fold = (sessionId: Ids.SessionId, events: Iterable<TurnEvent>): SessionState => {
  const state = make(sessionId)
  for (const event of events) apply(state, event)
  return state
}

/** Feeds a fact whose sequence number is not known yet; the owner settles `seq` when it is. */
export const applyFact = (state: SessionState, fact: Fact): void => {
  switch (fact.type) {
    case "session.created":
      state.agent = fact.data.agent
      state.title = fact.data.title
      return
    case "history.imported":
      return bringIn(state, fact)
    case "session.status":
      state.status = fact.data.status
      return
    case "inbox.admitted":
      state.items++
      if (fact.data.itemId !== Ids.itemId(state.items)) throw new IllegalFact(fact, "items are numbered in order")
      state.pending.set(fact.data.itemId, Inbox.itemOf(fact.data))
      return
    case "inbox.moved":
      return moveItem(state, fact, fact.data.itemId, fact.data.delivery, fact.data.turnId)
    case "inbox.returned":
      if (fact.data.disposition === "follow-up") return moveItem(state, fact, fact.data.itemId, "follow-up", undefined)
      return takeItem(state, fact, fact.data.itemId)
    case "inbox.applied":
      return takeItem(state, fact, fact.data.itemId)
    case "turn.started":
      return startTurn(state, fact)
    case "turn.cancelling":
      turnOf(state, fact, fact.data.turnId).cancelling = fact.data
      return
    case "worker.claimed":
      turnOf(state, fact, fact.data.turnId).takeovers++
      return
    case "write.refused":
      turnOf(state, fact, fact.data.turnId).refusals++
      return
    case "step.started":
      return startStep(state, fact)
    case "step.completed":
      return completeStep(state, fact)
    case "transcript.repaired": {
      // What was sent instead follows from the window: the window itself stays what was recorded.
      const { step } = turnOf(state, fact, fact.data.turnId)
      if (step?.step !== fact.data.step || step.state !== "requested")
        throw new IllegalFact(fact, "nothing is requested")
      return
    }
    case "content.set-aside": {
      const { step } = turnOf(state, fact, fact.data.turnId)
      if (step?.step !== fact.data.step || step.state !== "requested")
        throw new IllegalFact(fact, "nothing is requested")
      if (!SetAside.apply(state.setAside, fact.data)) throw new IllegalFact(fact, "it names no file that is sent")
      return
    }
    case "step.slimmed":
      return slim(state, fact)
    case "guard.repeated":
      return fact.data.verdict === "noted" ? addNote(state, fact) : trip(state, fact)
    case "message.added":
      return addMessage(state, fact)
    case "call.requested": {
      const turn = openTurn(state, fact)
      if (turn.step?.state !== "accepted") throw new IllegalFact(fact, "its response was not accepted")
      if (turn.ledger.open < turn.ledger.calls.length) {
        throw new IllegalFact(fact, "a call of its batch is answered already")
      }
      if (turn.ledger.byId.has(fact.data.callId)) throw new IllegalFact(fact, "it is open")
      if (state.wireIds.has(fact.data.wireId)) throw new IllegalFact(fact, "its wire id is taken")
      Ledger.open(turn.ledger, fact.data)
      state.wireIds.add(fact.data.wireId)
      return
    }
    case "call.started": {
      const call = callOf(state, fact, fact.data.callId)
      if (state.turn?.tripped !== undefined) throw new IllegalFact(fact, "the Turn is tripped")
      if (fact.data.attempt !== call.attempt + 1) throw new IllegalFact(fact, "attempts are numbered in order")
      if (call.effects === "once" && fact.data.attempt > 1) throw new IllegalFact(fact, "it must never run twice")
      Ledger.start(call, fact.data.attempt)
      return
    }
    case "call.completed":
    case "call.receipt":
      return answer(state, fact)
    // What is kept beside the log, or came too late, changes nothing.
    case "spill.created":
    case "call.late":
      return
    case "turn.settled":
      if (!Ledger.isSettled(turnOf(state, fact, fact.data.turnId).ledger)) throw new IllegalFact(fact, "calls are open")
      return
    case "turn.completed":
    case "turn.exhausted":
    case "turn.tripped":
    case "turn.cancelled":
    case "turn.failed":
      return endTurn(state, fact)
  }
}

type FactOf<T extends Fact["type"]> = Extract<Fact, { readonly type: T }>

const bringIn = (state: SessionState, fact: FactOf<"history.imported">): void => {
  if (state.items > 0 || state.turns > 0) throw new IllegalFact(fact, "the session has begun")
  for (const message of fact.data.messages) {
    SetAside.added(state.setAside, message.role === "tool" ? [] : message.parts)
    keep(state, () => Transcript.pastMessage(message))
    if (message.role !== "assistant") continue
    for (const part of message.parts) if (part.type === "tool-call") state.wireIds.add(part.wireId)
  }
}

const startTurn = (state: SessionState, fact: FactOf<"turn.started">): void => {
  if (state.turn !== undefined) throw new IllegalFact(fact, `${state.turn.id} is open`)
  state.turns++
  if (fact.data.turnId !== Ids.turnId(state.turns)) throw new IllegalFact(fact, "Turns are numbered in order")
  state.turn = OpenTurn.started(fact.data, state.turns)
}

const endTurn = (state: SessionState, fact: FactOf<Terminal["type"]>): void => {
  const turn = turnOf(state, fact, fact.data.turnId)
  if (!Ledger.isSettled(turn.ledger)) throw new IllegalFact(fact, "calls are open")
  if (fact.type === "turn.tripped" && turn.tripped === undefined)
    throw new IllegalFact(fact, "it did not repeat itself")
  state.turn = undefined
}

const startStep = (state: SessionState, fact: FactOf<"step.started">): void => {
  const turn = turnOf(state, fact, fact.data.turnId)
  const previous = turn.step?.step ?? 0
  if (turn.step !== undefined && turn.step.state !== "completed")
    throw new IllegalFact(fact, `step ${previous} is open`)
  if (fact.data.step !== previous + 1) throw new IllegalFact(fact, "steps are numbered in order")
  if (fact.data.kind === "work" && previous >= turn.limits.maxSteps) {
    throw new IllegalFact(fact, "the step budget is spent")
  }
  if (fact.data.kind === "work" && turn.tripped !== undefined) throw new IllegalFact(fact, "the Turn is tripped")
  turn.step = { step: fact.data.step, kind: fact.data.kind, state: "requested", figures: OpenTurn.noFigures }
  turn.ledger = Ledger.empty()
}

const completeStep = (state: SessionState, fact: FactOf<"step.completed">): void => {
  const turn = turnOf(state, fact, fact.data.turnId)
  if (turn.step?.step !== fact.data.step || turn.step.state !== "accepted")
    throw new IllegalFact(fact, "it has no answer")
  if (!Ledger.isSettled(turn.ledger)) throw new IllegalFact(fact, "calls are open")
  turn.step.state = "completed"
}

const addMessage = (state: SessionState, fact: FactOf<"message.added">): void => {
  const turn = openTurn(state, fact)
  const { messageId, parts } = fact.data
  if (!Ledger.isSettled(turn.ledger)) throw new IllegalFact(fact, "calls are open")
  if (fact.data.role === "user") {
    if (turn.step !== undefined && turn.step.state !== "completed") throw new IllegalFact(fact, "a step is open")
    SetAside.added(state.setAside, parts, messageId)
    keep(state, () => Transcript.userMessage(fact.data.parts as ReadonlyArray<Transcript.UserPart>))
    return
  }
  if (turn.step?.state !== "requested") throw new IllegalFact(fact, "no answer is awaited")
  turn.step.state = "accepted"
  turn.takeovers = 0
  turn.refusals = 0
  turn.step.figures = fact.data.figures ?? OpenTurn.noFigures
  turn.usage = addUsage(turn.usage, turn.step.figures.usage)
  SetAside.answered(state.setAside, turn.model)
  SetAside.added(state.setAside, parts, messageId)
  keep(state, () => Transcript.assistantMessage(fact.data.parts as ReadonlyArray<Transcript.AssistantPart>))
}

const answer = (state: SessionState, fact: Call.Answering): void => {
  const call = callOf(state, fact, fact.data.callId)
  const turn = openTurn(state, fact)
  turn.takeovers = 0
  const given = Call.answerOf(call, fact)
  Ledger.close(turn.ledger, call, given)
  turn.done.push({ tool: call.name, outcome: given.outcome })
  if (fact.type === "call.completed" && fact.data.received !== undefined) {
    turn.reads.push({ wireId: call.wireId, ...fact.data.received })
  }
  if (call.state === "answered") {
    turn.failures = FailureBudget.observe(turn.failures, call.domain, given.outcome !== "ok")
  }
  if (!Ledger.isSettled(turn.ledger)) return
  SetAside.added(state.setAside, [])
  keep(state, () => Transcript.toolMessage(Ledger.answers(turn.ledger)))
  turn.breaker = Breaker.observe(turn.breaker, Ledger.round(Ledger.answered(turn.ledger, [])))
}

/** The step whose results the model is about to read. */
const answeredStep = (state: SessionState, fact: FactOf<"guard.repeated" | "step.slimmed">): OpenTurn.OpenTurn => {
  const turn = turnOf(state, fact, fact.data.turnId)
  const { step, ledger } = turn
  if (step?.step !== fact.data.step || step.state !== "accepted" || ledger.calls.length === 0)
    throw new IllegalFact(fact, "the step has no calls")
  if (!Ledger.isSettled(ledger)) throw new IllegalFact(fact, "calls are open")
  return turn
}

/** Shows the results of the step as they now are, in place of the message that was last (S3: nobody has read it). */
const showAgain = (state: SessionState, turn: OpenTurn.OpenTurn): void => {
  if (state.keepsWindow) state.window[state.window.length - 1] = Transcript.toolMessage(Ledger.answers(turn.ledger))
}

const slim = (state: SessionState, fact: FactOf<"step.slimmed">): void => {
  const turn = answeredStep(state, fact)
  for (const { callId, omitted, text } of fact.data.views) {
    const call = turn.ledger.byId.get(callId)
    if (call?.answer === undefined) throw new IllegalFact(fact, `${callId} is not of this step`)
    call.answer = { ...call.answer, result: text, omitted }
  }
  showAgain(state, turn)
}

const addNote = (state: SessionState, fact: FactOf<"guard.repeated">): void => {
  const turn = answeredStep(state, fact)
  turn.ledger.note = fact.data.text
  showAgain(state, turn)
}

const trip = (state: SessionState, fact: FactOf<"guard.repeated">): void => {
  const turn = turnOf(state, fact, fact.data.turnId)
  if (turn.step?.step !== fact.data.step || turn.step.state !== "accepted" || turn.tripped !== undefined)
    throw new IllegalFact(fact, "no calls are asked for")
  if (Ledger.hasStarted(turn.ledger)) throw new IllegalFact(fact, "a call was started")
  turn.tripped = fact.data
}

const keep = (state: SessionState, message: () => Prompt.Message): void => {
  if (state.keepsWindow) state.window.push(message())
}

const openTurn = (state: SessionState, fact: Fact): OpenTurn.OpenTurn => {
  if (state.turn === undefined) throw new IllegalFact(fact, "no Turn is open")
  return state.turn
}

const turnOf = (state: SessionState, fact: Fact, id: Ids.TurnId): OpenTurn.OpenTurn => {
  if (state.turn?.id !== id) throw new IllegalFact(fact, `${id} is not open`)
  return state.turn
}

const callOf = (state: SessionState, fact: Fact, id: Ids.CallId): Call.Call => {
  const call = Ledger.openCall(openTurn(state, fact).ledger, id)
  if (call === undefined) throw new IllegalFact(fact, `${id} is not open`)
  return call
}

const takeItem = (state: SessionState, fact: Fact, id: Ids.ItemId): void => {
  if (!state.pending.delete(id)) throw new IllegalFact(fact, `${id} is not waiting`)
}

const moveItem = (
  state: SessionState,
  fact: Fact,
  id: Ids.ItemId,
  delivery: Inbox.Item["delivery"],
  turnId: Ids.TurnId | undefined
): void => {
  const item = state.pending.get(id)
  if (item === undefined) throw new IllegalFact(fact, `${id} is not waiting`)
  // A Map keeps the place of a key that is set again: the item stays in the order of its admission.
  state.pending.set(id, { ...item, delivery, turnId })
}
