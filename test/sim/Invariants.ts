/**
 * What must be true at the end of a history: between the log, and what senders, watchers and services were told.
 *
 * Owns: these promises. Does not own: the order of events (`LogRules`), and what is judged on the spot (`SimModel`,
 * `SimTools`, `SimStore`, `SimWatcher`).
 *
 * - I1. No acknowledged message is lost, and none is there twice; at rest each is applied or returned.
 * - I2. What was withdrawn is returned; a Turn told to stop has that in its log; a `run` given up leaves nothing running.
 * - I3. A tool with effects runs only as often as its starts are recorded.
 * - I4. A result that was there before a Turn was told to stop is recorded, not replaced by a receipt; one that a tool has
 *   committed is recorded as well when it comes within the grace after that.
 * - I5. No event has a lower fence than one before it.
 * - I6. The store says of the session what its log says.
 * - I7. A Turn that was told to stop ends in a bounded time, where nothing went wrong but reads that failed before: its driver
 *   hears again.
 */
import * as SessionState from "@turnstep/core/SessionState"
import * as Transcript from "@turnstep/core/Transcript"
import { isTerminal, type TurnEvent } from "@turnstep/core/TurnEvent"
import { stopGrace } from "@turnstep/runtime/ToolStop"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as LogRules from "./LogRules.ts"
import type { SimStore } from "./SimStore.ts"
import type { Witness } from "./Witness.ts"

export const judge = (
  store: SimStore,
  witness: Witness,
  faults: ReadonlyArray<string>,
  now: number,
  isAtRest: boolean
): void => {
  const { events } = store
  const told = LogRules.read(store.sessionId, events, witness.violate)
  messages(events, told, witness, isAtRest)
  withdrawals(told, witness)
  cancellations(events, witness)
  if (faults.every((fault) => fault === "deaf")) stops(store, witness, now)
  givenUp(events, witness)
  toolRuns(store, told, witness)
  fences(store, witness)
  storeAgrees(store, witness)
}

/** I1 */
const messages = (events: ReadonlyArray<TurnEvent>, told: LogRules.Told, witness: Witness, isAtRest: boolean) => {
  const itemOf = new Map<string, string>()
  for (const event of events) {
    if (event.type !== "inbox.admitted") continue
    const text = Transcript.textOf(event.data.parts)
    if (itemOf.has(text)) witness.violate(`${text} was admitted as ${itemOf.get(text)} and ${event.data.itemId} (I1)`)
    itemOf.set(text, event.data.itemId)
  }
  for (const { admission, text } of witness.acknowledged) {
    if (itemOf.get(text) !== admission.itemId) witness.violate(`${text} was acknowledged and is lost (I1)`)
  }
  if (!isAtRest) return
  for (const [id, { state }] of told.items) if (state === "waiting") witness.violate(`${id} still waits (I1)`)
}

/** I2 */
const withdrawals = (told: LogRules.Told, witness: Witness) => {
  for (const id of witness.withdrawn) {
    if (told.items.get(id)?.state !== "returned") witness.violate(`${id} was withdrawn and is not returned (I2)`)
  }
}

/** I2 */
const cancellations = (events: ReadonlyArray<TurnEvent>, witness: Witness) => {
  for (const { state, turnId } of witness.cancellations) {
    const isThere = events.some((event) =>
      state === "returned"
        ? event.type === "inbox.returned" && event.data.reason === "cancelled"
        : state === "cancelling"
          ? event.type === "turn.cancelling" && event.data.turnId === turnId
          : isTerminal(event) && event.data.turnId === turnId
    )
    if (!isThere) witness.violate(`${turnId} was said to be ${state}, and the log does not say so (I2)`)
  }
}

/** What a tool has to come to its end when it is told to stop, in milliseconds. */
const grace = Duration.toMillis(stopGrace)

/** The grace of a tool, a sweep that rings every bell, and a read that failed and is made again, in milliseconds. */
const stopTime = grace + 2_000 + 100

/** Operations of storage between a cancel and the end of its Turn, one after the other: a dozen, with those under way. */
const stopOperations = 12

/** I7 */
const stops = ({ deafUntil, events, slowestOperation }: SimStore, witness: Witness, now: number) => {
  for (const event of events) {
    // A session that cannot be loaded is left alone for a while after that as well.
    if (event.type !== "turn.cancelling" || event.at < deafUntil) continue
    const { turnId } = event.data
    const end = events.find((other) => isTerminal(other) && other.data.turnId === turnId)?.at ?? now
    if (end - event.at > stopTime + stopOperations * slowestOperation) {
      witness.violate(`${turnId} was told to stop at ${event.at} and went on until ${end} (I7)`)
    }
  }
}

/** I2 */
const givenUp = (events: ReadonlyArray<TurnEvent>, witness: Witness) => {
  for (const { seq, text } of witness.abandoned) {
    const admitted = events.find(
      (event) => event.type === "inbox.admitted" && Transcript.textOf(event.data.parts) === text
    )
    if (admitted?.type !== "inbox.admitted") continue
    const { itemId } = admitted.data
    const isBack = events.some(
      (event) =>
        event.type === "inbox.returned" && event.data.itemId === itemId && event.data.disposition === "returned"
    )
    if (isBack) continue
    const start = events.find((event) => event.type === "inbox.applied" && event.data.itemId === itemId)
    const turnId = start?.type === "inbox.applied" ? start.data.turnId : undefined
    const isOver = events.some(
      (event) =>
        (event.type === "turn.cancelling" && event.data.turnId === turnId) ||
        (isTerminal(event) && event.data.turnId === turnId && event.seq <= seq)
    )
    if (!isOver) witness.violate(`${text} (${itemId}) was given up by its caller and goes on (I2)`)
  }
}

/** I3, I4 */
const toolRuns = ({ authors, events, sessionId }: SimStore, told: LogRules.Told, witness: Witness) => {
  for (const [id, { attempts, data, isAnswered }] of told.calls) {
    const runs = witness.toolRuns.get(`${sessionId}/${id} ${data.effects}`)
    if (runs === undefined) continue
    if (data.effects !== "pure" && runs.starts > attempts) {
      witness.violate(`${id} (${data.effects}) ran ${runs.starts} times with ${attempts} starts recorded (I3)`)
    }
    const { finished } = runs
    if (!isAnswered || finished === undefined) continue
    const receipt = events.find((event) => event.type === "call.receipt" && event.data.callId === id)
    if (receipt === undefined) continue
    const author = authors[receipt.seq - 1]
    const turnId = `trn_${id.split("_")[1]}`
    const stop = events.find((event) => event.type === "turn.cancelling" && event.data.turnId === turnId)
    const isSettling = events.some(
      (event) => event.type === "turn.settled" && event.data.receipts.some(({ callId }) => callId === id)
    )
    if (!isSettling || stop === undefined) continue
    // A Turn whose time is over was told to stop by its time, before anybody else told it.
    const start = events.find((event) => event.type === "turn.started" && event.data.turnId === turnId)
    const { deadline = Infinity } = start?.type === "turn.started" ? start.data.limits : {}
    const inTime = finished.isCommitted ? finished.at < Math.min(stop.at + grace, deadline) : finished.at < stop.at
    if (!inTime) continue
    if (author?.host === finished.host && author.fence === finished.fence && !witness.stopped.has(finished.host)) {
      witness.violate(`${id} was answered at ${finished.at} and got a receipt at ${receipt.at} (I4)`)
    }
  }
  for (const name of witness.toolRuns.keys()) {
    const [key, effects] = name.split(" ")
    const call = told.calls.get(key?.slice(sessionId.length + 1) as never)
    if (effects !== "pure" && call?.data.effects !== effects) witness.violate(`${name} ran and is in no log (I3)`)
  }
}

/** I5 */
const fences = ({ authors, events }: SimStore, witness: Witness) => {
  let highest = 0
  for (const { seq } of events) {
    const fence = authors[seq - 1]?.fence
    if (fence === undefined) continue
    if (fence < highest) witness.violate(`#${seq} has fence ${fence} after ${highest} (I5)`)
    highest = Math.max(highest, fence)
  }
}

/** I6 */
const storeAgrees = ({ events, memory, sessionId }: SimStore, witness: Witness) => {
  const found = Effect.runSync(memory.summary(sessionId))
  if (Option.isNone(found)) return
  const { activeTurn, agent, seq, status, turns } = found.value
  const state = SessionState.fold(sessionId, events)
  const same =
    activeTurn === state.turn?.id &&
    agent === state.agent &&
    seq === state.seq &&
    status === SessionState.statusOf(state) &&
    turns === state.turns
  if (!same) witness.violate(`the store says ${JSON.stringify(found.value)} of another log (I6)`)
}
