/**
 * What must be true of every log, read event by event with nothing of the engine's: a second opinion on `SessionState`.
 *
 * Owns: the order of events. Does not own: what people were told (`Invariants`).
 *
 * - L1. One Turn at a time; it is settled, and its one terminal event follows at once.
 * - L2. A step is completed before the next one is requested, its calls are answered before it is completed.
 * - L3. Every call has one answer, and only calls that may run again are started again.
 * - L4. Work steps stop when a limit is spent or the Turn is tripped; the hand-back is the last step, and only then. A Turn
 *   is tripped by what it asked for before, and nothing of what it then asks for is started.
 * - L5. Items are applied or returned once. A message is applied between two steps, right before its own text, and a Turn
 *   starts from the first item that waits.
 * - L6. A Turn that was told to stop is cancelled; no Turn fails for a reason of the engine's.
 * - L7. A Turn's end tells what the Turn was: its receipts, its usage.
 * - L8. A session is idle only with nothing open and nothing waiting.
 * - L9. No request needs to be repaired.
 * - L10. A spill and the result that names it follow each other.
 */
import type { CallId, ItemId, TurnId } from "@turnstep/core/Ids"
import type { DataOf, TurnEvent } from "@turnstep/core/TurnEvent"
import { resultOf } from "./SimTools.ts"

interface Turn {
  readonly data: DataOf<"turn.started">
  step: number
  state: "between" | "requested" | "accepted"
  isHandBack: boolean
  isTripped: boolean
  isCancelling: boolean
  isSettled: boolean
  input: number
  output: number
  readonly receipts: Array<CallId>
}

interface Call {
  readonly data: DataOf<"call.requested">
  attempts: number
  isAnswered: boolean
}

interface Item {
  state: "waiting" | "applied" | "returned"
  steers: TurnId | undefined
  readonly parts: string
}

/** Why a Turn may fail here: its provider, processes that die over it, or storage that does not take what it has to record. */
const expectedFailures: ReadonlySet<string> = new Set([
  "rate-limited",
  "provider-error",
  "network",
  "invalid-request",
  "invalid-response",
  "crash-loop",
  "write-refused"
])

/** What a log says of the things people may ask about. */
export interface Told {
  readonly items: ReadonlyMap<ItemId, Readonly<Item>>
  readonly calls: ReadonlyMap<CallId, Readonly<Call>>
}

/** Reads a log and calls `broken` for each rule it breaks. */
export const read = (sessionId: string, events: ReadonlyArray<TurnEvent>, broken: (what: string) => void): Told => {
  const items = new Map<ItemId, Item>()
  const calls = new Map<CallId, Call>()
  let turn: Turn | undefined
  let turns = 0
  let batch: Array<Call> = []
  let status = "idle"
  let before: TurnEvent | undefined
  let kept: { readonly callId: string; readonly seq: number } | undefined

  const settleItem = (event: TurnEvent, id: ItemId, state: "applied" | "returned"): Item | undefined => {
    const item = items.get(id)
    if (item?.state !== "waiting")
      broken(`#${event.seq} ${event.type} of ${id}, which is ${item?.state ?? "unknown"} (L5)`)
    if (item !== undefined) item.state = state
    return item
  }

  const answer = (event: TurnEvent, id: CallId): Call | undefined => {
    const call = calls.get(id)
    if (call === undefined || call.isAnswered) broken(`#${event.seq} ${event.type} of ${id}, which is not open (L3)`)
    if (call !== undefined) call.isAnswered = true
    return call
  }

  const applied = (event: TurnEvent, data: DataOf<"inbox.applied">) => {
    if (turn === undefined) return broken(`#${event.seq} ${data.itemId} is applied without a Turn (L5)`)
    const first = [...items].find(([, item]) => item.state === "waiting")?.[0]
    if (turn.step === 0 && before?.type === "turn.started" && first !== data.itemId) {
      broken(`#${event.seq} ${turn.data.turnId} starts from ${data.itemId}, and ${first} waits (L5)`)
    }
    if (turn.state !== "between" || data.step !== turn.step + 1) {
      broken(`#${event.seq} ${data.itemId} is applied inside a step (L5)`)
    }
    settleItem(event, data.itemId, "applied")
  }

  const message = (event: TurnEvent, data: DataOf<"message.added">) => {
    if (turn === undefined) return broken(`#${event.seq} a message without a Turn`)
    if (data.role === "user") {
      const item = before?.type === "inbox.applied" ? items.get(before.data.itemId) : undefined
      if (item?.parts !== JSON.stringify(data.parts)) broken(`#${event.seq} a text without its item (L5)`)
      return
    }
    if (turn.state !== "requested") broken(`#${event.seq} an answer nobody asked for (L2)`)
    turn.state = "accepted"
    batch = []
    turn.input += data.figures?.usage.inputTokens ?? 0
    turn.output += data.figures?.usage.outputTokens ?? 0
  }

  const step = (event: TurnEvent, data: DataOf<"step.started">) => {
    if (turn === undefined || turn.state !== "between" || data.step !== turn.step + 1) {
      return broken(`#${event.seq} step ${data.step} starts out of turn (L2)`)
    }
    const { limits } = turn.data
    const isSpent = turn.step >= limits.maxSteps || turn.input + turn.output >= (limits.maxTokens ?? Infinity)
    const isLate = event.at >= (limits.deadline ?? Infinity)
    if (data.kind === "work" && isSpent) broken(`#${event.seq} a step with a spent budget (L4)`)
    if (data.kind === "work" && turn.isTripped) broken(`#${event.seq} a step of a tripped Turn (L4)`)
    if (data.kind === "hand-back" && !isSpent && !isLate && !turn.isTripped)
      broken(`#${event.seq} a hand-back with budget left (L4)`)
    if (turn.isHandBack) broken(`#${event.seq} a step after the hand-back (L4)`)
    turn.step = data.step
    turn.state = "requested"
    turn.isHandBack = data.kind === "hand-back"
  }

  const ended = (event: TurnEvent & { readonly data: { readonly turnId: TurnId } }) => {
    if (turn === undefined || before?.type !== "turn.settled")
      return broken(`#${event.seq} ${event.type} of nothing settled (L1)`)
    if (turn.data.turnId !== event.data.turnId) broken(`#${event.seq} another Turn ends than is open (L1)`)
    if (turn.isCancelling && event.type !== "turn.cancelled")
      broken(`#${event.seq} ${event.type} of a Turn told to stop (L6)`)
    if (event.type === "turn.failed" && !expectedFailures.has(event.data.error.code)) {
      broken(`#${event.seq} the Turn failed: ${event.data.error.code} (L6)`)
    }
    const usage = "usage" in event.data ? event.data.usage : undefined
    if (usage?.inputTokens !== turn.input || usage.outputTokens !== turn.output) broken(`#${event.seq} usage (L7)`)
    for (const [id, item] of items) {
      if (item.state === "waiting" && item.steers === turn.data.turnId)
        broken(`#${event.seq} leaves its steer ${id} (L5)`)
    }
    turn = undefined
  }

  for (const event of events) {
    if (event.seq !== (before?.seq ?? 0) + 1) broken(`#${event.seq} follows #${before?.seq ?? 0}`)
    if (event.at < (before?.at ?? 0)) broken(`#${event.seq} is older than #${before?.seq ?? 0}`)
    if (turn?.isSettled === true && before?.type !== "turn.settled") broken(`#${event.seq} after turn.settled (L1)`)
    switch (event.type) {
      case "session.status":
        if (event.data.status === status) broken(`#${event.seq} says ${status} again (L8)`)
        status = event.data.status
        if (status === "idle" && (turn !== undefined || [...items.values()].some(({ state }) => state === "waiting"))) {
          broken(`#${event.seq} says idle with work left (L8)`)
        }
        break
      case "inbox.admitted":
        items.set(event.data.itemId, {
          state: "waiting",
          steers: event.data.delivery === "steer" ? event.data.turnId : undefined,
          parts: JSON.stringify(event.data.parts)
        })
        if (event.data.itemId !== `inb_${items.size}`) broken(`#${event.seq} ${event.data.itemId} out of order (L5)`)
        break
      case "inbox.moved": {
        const item = items.get(event.data.itemId)
        if (item?.state !== "waiting") broken(`#${event.seq} moves what does not wait (L5)`)
        else item.steers = event.data.delivery === "steer" ? event.data.turnId : undefined
        break
      }
      case "inbox.applied":
        applied(event, event.data)
        break
      case "inbox.returned": {
        const isBack = event.data.disposition === "returned"
        const item = settleItem(event, event.data.itemId, "returned")
        if (item === undefined || isBack) break
        item.state = "waiting"
        item.steers = undefined
        break
      }
      case "turn.started":
        if (turn !== undefined || event.data.turnId !== `trn_${++turns}`) broken(`#${event.seq} a second Turn (L1)`)
        turn = {
          data: event.data,
          step: 0,
          state: "between",
          isHandBack: false,
          isTripped: false,
          isCancelling: false,
          isSettled: false,
          input: 0,
          output: 0,
          receipts: []
        }
        batch = []
        break
      case "turn.cancelling":
        if (turn?.data.turnId !== event.data.turnId) broken(`#${event.seq} cancels a Turn that is not open`)
        else turn.isCancelling = true
        break
      case "step.started":
        step(event, event.data)
        break
      case "step.completed":
        if (turn?.state !== "accepted" || turn.step !== event.data.step) broken(`#${event.seq} completes no step (L2)`)
        if (batch.some((call) => !call.isAnswered)) broken(`#${event.seq} leaves calls open (L2)`)
        if (turn !== undefined) turn.state = "between"
        break
      case "message.added":
        message(event, event.data)
        break
      case "call.requested": {
        const call = { data: event.data, attempts: 0, isAnswered: false }
        if (turn?.state !== "accepted" || calls.has(event.data.callId)) broken(`#${event.seq} a call out of place (L3)`)
        calls.set(event.data.callId, call)
        batch.push(call)
        break
      }
      case "call.started": {
        const call = calls.get(event.data.callId)
        if (call === undefined || call.isAnswered || event.data.attempt !== ++call.attempts) {
          broken(`#${event.seq} starts ${event.data.callId} out of order (L3)`)
        } else if (turn?.isTripped === true) {
          broken(`#${event.seq} starts a call of a tripped Turn (L4)`)
        } else if (call.attempts > 1 && (call.data.effects === "once" || call.data.effects === "queryable")) {
          broken(`#${event.seq} starts ${event.data.callId} (${call.data.effects}) again (L3)`)
        }
        break
      }
      case "spill.created":
        kept = { callId: event.data.callId, seq: event.seq }
        break
      case "call.completed": {
        answer(event, event.data.callId)
        const { output } = event.data
        const isKept = typeof output === "object" && output !== null && "spill" in output
        if (isKept !== (kept?.callId === event.data.callId && kept.seq === event.seq - 1)) {
          broken(`#${event.seq} ${event.data.callId} and its spill are not written together (L10)`)
        }
        const expected = resultOf(`${sessionId}/${event.data.callId}`)
        if (typeof output === "string" && output.startsWith("done ") && output !== expected) {
          broken(`#${event.seq} ${event.data.callId} has the answer of another call: ${output} (L3)`)
        }
        break
      }
      case "call.receipt":
        answer(event, event.data.callId)
        turn?.receipts.push(event.data.callId)
        break
      case "transcript.repaired":
        broken(`#${event.seq} ${JSON.stringify(event.data.findings)} (L9)`)
        break
      case "content.set-aside":
        if (turn?.step !== event.data.step) broken(`#${event.seq} speaks of no step (L4)`)
        break
      case "turn.settled": {
        if (turn?.data.turnId !== event.data.turnId) broken(`#${event.seq} settles a Turn that is not open (L1)`)
        if (batch.some((call) => !call.isAnswered)) broken(`#${event.seq} settles open calls (L3)`)
        const told = event.data.receipts.map(({ callId }) => callId)
        if (told.join() !== turn?.receipts.slice(-told.length || Infinity).join()) broken(`#${event.seq} receipts (L7)`)
        if (turn !== undefined) turn.isSettled = true
        break
      }
      case "guard.repeated":
        if (turn?.state !== "accepted" || turn.step !== event.data.step) broken(`#${event.seq} speaks of no step (L4)`)
        if (event.data.verdict === "tripped") {
          if (turn !== undefined) turn.isTripped = true
          if (batch.some((call) => call.attempts > 0)) broken(`#${event.seq} trips over a call that ran (L4)`)
        } else if (batch.some((call) => !call.isAnswered)) broken(`#${event.seq} notes what is not answered (L4)`)
        break
      case "turn.tripped":
        if (turn?.isTripped !== true) broken(`#${event.seq} ends a Turn that did not trip (L4)`)
        ended(event)
        break
      case "turn.completed":
      case "turn.exhausted":
      case "turn.cancelled":
      case "turn.failed":
        ended(event)
        break
      default:
        break
    }
    before = event
  }
  return { items, calls }
}
