/**
 * What anyone may ask of a session from outside: send a message, move or withdraw a waiting one, cancel a Turn.
 *
 * Each is a pure decision on the session as it stands under its lock (`Journal.admit`); asking twice has one effect.
 *
 * Owns: these decisions. Does not own: the lock and the record (`Journal`), or how a Turn is stopped (`Turn`).
 */
import * as Result from "effect/Result"
import * as Canonical from "./Canonical.ts"
import * as FileContent from "./FileContent.ts"
import type { SessionId, TurnId } from "./Ids.ts"
import * as Ids from "./Ids.ts"
import * as Inbox from "./Inbox.ts"
import type { Decided, View } from "./Journal.ts"
import {
  ClientKeyReused,
  ContentUnreadable,
  ItemNotFound,
  ItemSettled,
  type SessionBusy,
  TurnNotFound,
  TurnNotRunning
} from "./TurnError.ts"
import type { Delivery, Fact } from "./TurnEvent.ts"

type Decision<A, E> = Result.Result<Decided<A>, E>

/**
 * Admits a message. The same client key with the same message answers as it did the first time, with another it is refused.
 * A message with files that no provider can read is refused.
 */
export const send = (
  request: Inbox.Request
): ((view: View) => Decision<Inbox.Admission, SessionBusy | TurnNotRunning | ClientKeyReused | ContentUnreadable>) => {
  // Read outside the lock, and once for all attempts of the transaction.
  const digest = digestOf(request)
  const faults = FileContent.faultsOf(request.parts)
  return (view) => {
    if (view.keyed !== undefined && request.clientKey !== undefined) {
      if (view.keyed.digest !== digest) {
        return Result.fail(new ClientKeyReused({ sessionId: view.head.sessionId, clientKey: request.clientKey }))
      }
      return Result.succeed({ facts: [], value: Inbox.admissionOf(view.keyed.data, view.keyed.seq - 1) })
    }
    if (faults.length > 0) return Result.fail(new ContentUnreadable({ faults }))
    const admitted = Inbox.admit(view.head, request)
    if ("_tag" in admitted) return Result.fail(admitted)
    return Result.succeed({ facts: [admitted], value: Inbox.admissionOf(admitted.data, view.head.seq), digest })
  }
}

/** Moves a waiting message to the other channel: into the running Turn, or behind it. */
export const move =
  (itemId: string, delivery: Exclude<Delivery, "start">) =>
  (view: View): Decision<Delivery, ItemNotFound | ItemSettled | TurnNotRunning> => {
    const item = waiting(view, itemId)
    if (Result.isFailure(item)) return Result.fail(item.failure)
    const { sessionId, runningTurn } = view.head
    if (delivery === "steer" && runningTurn === undefined) return Result.fail(new TurnNotRunning({ sessionId }))
    if (item.success.delivery === delivery) return Result.succeed({ facts: [], value: delivery })
    const fact: Fact = {
      type: "inbox.moved",
      data: {
        itemId: item.success.itemId,
        delivery,
        ...(delivery === "steer" && runningTurn !== undefined ? { turnId: runningTurn } : {})
      }
    }
    return Result.succeed({ facts: [fact], value: delivery })
  }

/** Takes a waiting message back. A message that was taken back already stays so; one that came back for another reason is settled. */
export const withdraw =
  (itemId: string) =>
  (view: View): Decision<void, ItemNotFound | ItemSettled> => {
    if (view.item?.reason === "withdrawn") return Result.succeed({ facts: [], value: undefined })
    const item = waiting(view, itemId)
    if (Result.isFailure(item)) return Result.fail(item.failure)
    const fact: Fact = {
      type: "inbox.returned",
      data: { itemId: item.success.itemId, reason: "withdrawn", disposition: "returned" }
    }
    return Result.succeed({ facts: [fact], value: undefined })
  }

/**
 * What becomes of a Turn that is told to stop: it will (`cancelling`), it had ended before (`ended`), or it was announced and
 * not open yet: it does not begin, and its message is returned to its sender (`returned`).
 */
export interface Cancellation {
  readonly turnId: TurnId
  readonly state: "cancelling" | "ended" | "returned"
}

/** Tells a Turn to stop, or takes back the message of one that is announced. */
export const cancel =
  (sessionId: SessionId, turnId: string, by: "user" | "caller", reason: string | undefined) =>
  (view: View): Decision<Cancellation, TurnNotFound> => {
    if (view.turn === undefined) {
      const { runningTurn } = view.head
      if (runningTurn !== turnId) return Result.fail(new TurnNotFound({ sessionId, turnId }))
      return Result.succeed({
        facts: Inbox.atCancel(view.announced),
        value: { turnId: runningTurn, state: "returned" }
      })
    }
    const value: Cancellation = { turnId: view.turn.turnId, state: view.turn.isOpen ? "cancelling" : "ended" }
    if (!view.turn.isOpen || view.turn.isCancelling) return Result.succeed({ facts: [], value })
    const fact: Fact = {
      type: "turn.cancelling",
      data: { turnId: view.turn.turnId, by, ...(reason === undefined ? {} : { reason }) }
    }
    return Result.succeed({ facts: [fact], value })
  }

/** A Turn that is looked for: recorded, or about to be started by a message that waits. `seq` is the last of the session. */
export interface Found {
  readonly turnId: TurnId
  readonly isStarted: boolean
  readonly seq: number
}

/** Finds a Turn. One that no waiting message could start may never be, and is not found. */
export const find =
  (turnId: string) =>
  ({ head, turn }: View): Decision<Found, TurnNotFound> => {
    if (turn !== undefined) {
      return Result.succeed({ facts: [], value: { turnId: turn.turnId, isStarted: true, seq: head.seq } })
    }
    const next = Array.from({ length: head.waiting }, (_, index) => Ids.turnId(head.turns + 1 + index))
    const found = next.find((id) => id === turnId)
    return found === undefined
      ? Result.fail(new TurnNotFound({ sessionId: head.sessionId, turnId }))
      : Result.succeed({ facts: [], value: { turnId: found, isStarted: false, seq: head.seq } })
  }

const waiting = (view: View, itemId: string): Result.Result<NonNullable<View["item"]>, ItemNotFound | ItemSettled> => {
  const { sessionId } = view.head
  if (view.item === undefined) return Result.fail(new ItemNotFound({ sessionId, itemId }))
  const { state } = view.item
  if (state !== "waiting") return Result.fail(new ItemSettled({ sessionId, itemId: view.item.itemId, state }))
  return Result.succeed(view.item)
}

const digestOf = (request: Inbox.Request): string =>
  Canonical.digest({
    parts: request.parts,
    delivery: request.delivery,
    ifNotApplied: request.ifNotApplied,
    expectedTurnId: request.expectedTurnId
  })
