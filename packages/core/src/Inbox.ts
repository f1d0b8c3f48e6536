/**
 * The two channels into a session: a steer joins the running Turn at its next step, a follow-up waits for a Turn of its own.
 *
 * An item has two recorded moments: *admitted* (durable, acknowledged) and *applied* (in a Turn and step), or *returned*
 * with a reason (mechanisms B1-B3).
 *
 * Owns: what an arriving message becomes, and which item is next. Does not own: how admission is made durable (`Journal`).
 *
 * - I1. Items are applied in the order of their admission, each exactly once.
 * - I2. A steer belongs to one Turn. When that Turn ends first it becomes a follow-up or is returned, as its sender asked.
 */
import type { ItemId, SessionId, TurnId } from "./Ids.ts"
import { itemId, turnId } from "./Ids.ts"
import { SessionBusy, TurnNotRunning } from "./TurnError.ts"
import type { UserPart } from "./Transcript.ts"
import type { DataOf, Delivery, Fact, IfNotApplied } from "./TurnEvent.ts"

/** An item that is neither applied nor returned. */
export interface Item {
  readonly id: ItemId
  readonly delivery: Delivery
  readonly parts: ReadonlyArray<UserPart>
  readonly ifNotApplied: IfNotApplied
  /** The Turn a steer belongs to (I2). */
  readonly turnId: TurnId | undefined
}

/** What admission must know of a session. */
export interface Head {
  readonly sessionId: SessionId
  /** The last sequence number. */
  readonly seq: number
  /** Items admitted so far. */
  readonly items: number
  /** Items that are neither applied nor returned. */
  readonly waiting: number
  /** Turns started so far. */
  readonly turns: number
  /** The Turn that can be steered: the running one unless it is stopping, or the one about to be opened. */
  readonly runningTurn: TurnId | undefined
  /** Whether a Turn is open or an item waits for one. */
  readonly isBusy: boolean
}

/** A message on its way in. `auto` starts a Turn when the session is idle and steers the running one otherwise. */
export interface Request {
  readonly parts: ReadonlyArray<UserPart>
  readonly delivery: Delivery | "auto"
  readonly ifNotApplied: IfNotApplied
  readonly expectedTurnId: string | undefined
  readonly clientKey: string | undefined
}

/** What the sender is told: whether the message starts a Turn, joins the running one, or waits. */
export type Effect = "started" | "steering" | "queued"

/** An admitted message. `turnId` is the Turn it starts or steers, when that is certain. */
export interface Admission {
  readonly itemId: ItemId
  readonly delivery: Delivery
  readonly effect: Effect
  readonly turnId: TurnId | undefined
  /** The sequence number before the message: all that comes of it is recorded after this one. */
  readonly after: number
}

/** Decides what an arriving message becomes; the fact is to be recorded under the same lock the head was read. */
export const admit = (
  head: Head,
  request: Request
): Extract<Fact, { readonly type: "inbox.admitted" }> | SessionBusy | TurnNotRunning => {
  const { sessionId, runningTurn, isBusy } = head
  const running = runningTurn === undefined ? {} : { running: runningTurn }
  if (request.expectedTurnId !== undefined && request.expectedTurnId !== runningTurn) {
    return new TurnNotRunning({ sessionId, expected: request.expectedTurnId, ...running })
  }
  const delivery =
    request.delivery === "auto" ? (!isBusy ? "start" : runningTurn ? "steer" : "follow-up") : request.delivery
  if (delivery === "start" && isBusy) {
    return new SessionBusy({ sessionId, ...(runningTurn === undefined ? {} : { turnId: runningTurn }) })
  }
  if (delivery === "steer" && runningTurn === undefined) return new TurnNotRunning({ sessionId })
  const effect: Effect = delivery === "steer" ? "steering" : isBusy ? "queued" : "started"
  const target = effect === "queued" ? undefined : effect === "steering" ? runningTurn : turnId(head.turns + 1)
  return {
    type: "inbox.admitted",
    data: {
      itemId: itemId(head.items + 1),
      delivery,
      effect,
      ...(target === undefined ? {} : { turnId: target }),
      parts: request.parts,
      ifNotApplied: request.ifNotApplied,
      ...(request.clientKey === undefined ? {} : { clientKey: request.clientKey })
    }
  }
}

/** What the sender of a message is told that is admitted right after `after`. */
export const admissionOf = (data: DataOf<"inbox.admitted">, after: number): Admission => ({
  itemId: data.itemId,
  delivery: data.delivery,
  effect: data.effect,
  turnId: data.turnId,
  after
})

/** The waiting item of an admitted fact. */
export const itemOf = (data: DataOf<"inbox.admitted">): Item => ({
  id: data.itemId,
  delivery: data.delivery,
  parts: data.parts,
  ifNotApplied: data.ifNotApplied,
  turnId: data.delivery === "steer" ? data.turnId : undefined
})

/** The items that join a Turn at its next step (I1). */
export const steersFor = (pending: ReadonlyMap<ItemId, Item>, turn: TurnId): ReadonlyArray<Item> =>
  [...pending.values()].filter((item) => item.delivery === "steer" && item.turnId === turn)

/**
 * The item the next Turn starts from, when none is open: the first that waits (I1). That may be a steer: the item that was
 * to open its Turn was withdrawn.
 */
export const nextStart = (pending: ReadonlyMap<ItemId, Item>): Item | undefined => pending.values().next().value

/** The items of the Turn that is about to be opened: the one it starts from, and the steers that join it. */
export const announced = (pending: ReadonlyMap<ItemId, Item>): ReadonlyArray<Item> => {
  const start = nextStart(pending)
  return start === undefined
    ? []
    : [start, ...[...pending.values()].filter((item) => item.delivery === "steer" && item.id !== start.id)]
}

/** What becomes of the items of a Turn that is cancelled before it is opened: its message is returned, its steers as ever (I2). */
export const atCancel = (
  items: ReadonlyArray<Pick<Item, "id" | "ifNotApplied">>
): ReadonlyArray<Extract<Fact, { readonly type: "inbox.returned" }>> =>
  items.map(({ id, ifNotApplied }, index) => ({
    type: "inbox.returned",
    data: {
      itemId: id,
      reason: "cancelled",
      disposition: index === 0 || ifNotApplied === "return" ? "returned" : "follow-up"
    }
  }))

/** What becomes of the steers a Turn leaves behind (I2). */
export const atTurnEnd = (
  pending: ReadonlyMap<ItemId, Item>,
  turn: TurnId
): ReadonlyArray<Extract<Fact, { readonly type: "inbox.returned" }>> =>
  steersFor(pending, turn).map((item) => ({
    type: "inbox.returned",
    data: {
      itemId: item.id,
      reason: "turn-ended",
      disposition: item.ifNotApplied === "return" ? "returned" : "follow-up"
    }
  }))
