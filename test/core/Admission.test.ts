import { assert, describe, it } from "@effect/vitest"
import * as Admission from "@turnstep/core/Admission"
import * as Ids from "@turnstep/core/Ids"
import type { View } from "@turnstep/core/Journal"
import type { ReturnReason } from "@turnstep/core/TurnEvent"
import * as Result from "effect/Result"
import * as Log from "../fixtures/Log.ts"

const view = (rest: Partial<Omit<View, "head">> & { readonly head?: Partial<View["head"]> } = {}): View => ({
  agent: "hand",
  announced: [],
  keyed: undefined,
  item: undefined,
  turn: undefined,
  ...rest,
  head: {
    sessionId: Log.sessionId,
    seq: 1,
    items: 0,
    waiting: 0,
    turns: 0,
    runningTurn: undefined,
    isBusy: false,
    ...rest.head
  }
})

const itemId = Ids.itemId(1)
const item = (state: "waiting" | "applied" | "returned", delivery: "start" | "steer" | "follow-up" = "follow-up") =>
  ({ itemId, delivery, state }) as const

const refusal = <A, E extends { readonly _tag: string }>(decision: Result.Result<A, E>) =>
  Result.isFailure(decision) ? decision.failure._tag : "admitted"
const facts = <A, E>(decision: Result.Result<{ readonly facts: ReadonlyArray<unknown>; readonly value: A }, E>) =>
  Result.isSuccess(decision) ? decision.success.facts : assert.fail("refused")
const value = <A, E>(decision: Result.Result<{ readonly value: A }, E>) =>
  Result.isSuccess(decision) ? decision.success.value : assert.fail("refused")

/** What the journal keeps of a message that came with a key. */
const keyed = (request: Parameters<typeof Admission.send>[0]): View["keyed"] => {
  const first = Admission.send(request)(view())
  if (Result.isFailure(first)) return assert.fail("refused")
  const { digest, facts } = first.success
  const [fact] = facts
  return fact?.type === "inbox.admitted" && digest !== undefined
    ? { seq: 2, data: fact.data, digest }
    : assert.fail("no digest")
}

describe("Admission", () => {
  it("answers the same message under the same key as it did the first time", () => {
    const request = Log.request("x", { clientKey: "k" })
    const again = Admission.send(request)(view({ keyed: keyed(request), head: { seq: 40, isBusy: true, items: 7 } }))
    assert.isEmpty(facts(again))
    assert.deepStrictEqual(value(again), value(Admission.send(request)(view())))
    assert.deepStrictEqual(value(again), {
      itemId,
      delivery: "start",
      effect: "started",
      turnId: Ids.turnId(1),
      after: 1
    })
  })

  it("refuses another message under a used key", () => {
    const known = keyed(Log.request("x", { clientKey: "k" }))
    const others = [
      Log.request("y", { clientKey: "k" }),
      Log.request("x", { clientKey: "k", delivery: "follow-up" }),
      Log.request("x", { clientKey: "k", ifNotApplied: "return" }),
      Log.request("x", { clientKey: "k", expectedTurnId: "trn_1" })
    ]
    for (const other of others)
      assert.strictEqual(refusal(Admission.send(other)(view({ keyed: known }))), "ClientKeyReused")
  })

  it("keeps a digest with every message that is admitted", () => {
    const decision = Admission.send(Log.request("x"))(view())
    assert.match((Result.isSuccess(decision) && decision.success.digest) || "", /^[0-9a-f]{64}$/)
  })

  it("moves a waiting message between the channels, once", () => {
    const running = { runningTurn: Ids.turnId(1), isBusy: true }
    const toSteer = Admission.move(itemId, "steer")
    assert.deepStrictEqual(facts(toSteer(view({ item: item("waiting"), head: running }))), [
      { type: "inbox.moved", data: { itemId, delivery: "steer", turnId: Ids.turnId(1) } }
    ])
    assert.isEmpty(facts(toSteer(view({ item: item("waiting", "steer"), head: running }))))
    assert.deepStrictEqual(facts(Admission.move(itemId, "follow-up")(view({ item: item("waiting", "steer") }))), [
      { type: "inbox.moved", data: { itemId, delivery: "follow-up" } }
    ])
  })

  it("refuses to move what is not there, not waiting, or has no Turn to go to", () => {
    const toSteer = Admission.move(itemId, "steer")
    assert.strictEqual(refusal(toSteer(view())), "ItemNotFound")
    assert.strictEqual(refusal(toSteer(view({ item: item("applied") }))), "ItemSettled")
    assert.strictEqual(refusal(toSteer(view({ item: item("returned") }))), "ItemSettled")
    assert.strictEqual(refusal(toSteer(view({ item: item("waiting") }))), "TurnNotRunning")
  })

  it("withdraws a waiting message; asked again it has nothing to do", () => {
    const withdraw = Admission.withdraw(itemId)
    assert.deepStrictEqual(facts(withdraw(view({ item: item("waiting") }))), [
      { type: "inbox.returned", data: { itemId, reason: "withdrawn", disposition: "returned" } }
    ])
    const back = (reason: ReturnReason) => view({ item: { ...item("returned"), reason } })
    assert.isEmpty(facts(withdraw(back("withdrawn"))))
    assert.strictEqual(refusal(withdraw(back("turn-ended"))), "ItemSettled")
    assert.strictEqual(refusal(withdraw(back("cancelled"))), "ItemSettled")
    assert.strictEqual(refusal(withdraw(view({ item: item("applied") }))), "ItemSettled")
    assert.strictEqual(refusal(withdraw(view())), "ItemNotFound")
  })

  it("tells an open Turn to stop, once, and says so of one that has ended", () => {
    const turnId = Ids.turnId(1)
    const cancel = Admission.cancel(Log.sessionId, turnId, "user", "enough")
    const open = cancel(view({ turn: { turnId, isOpen: true, isCancelling: false } }))
    assert.deepStrictEqual(facts(open), [{ type: "turn.cancelling", data: { turnId, by: "user", reason: "enough" } }])
    assert.deepStrictEqual(value(open), { turnId, state: "cancelling" })
    const again = cancel(view({ turn: { turnId, isOpen: true, isCancelling: true } }))
    assert.isEmpty(facts(again))
    assert.deepStrictEqual(value(again), { turnId, state: "cancelling" })
    const late = cancel(view({ turn: { turnId, isOpen: false, isCancelling: false } }))
    assert.isEmpty(facts(late))
    assert.deepStrictEqual(value(late), { turnId, state: "ended" })
    assert.strictEqual(refusal(cancel(view())), "TurnNotFound")
    assert.strictEqual(refusal(cancel(view({ head: { runningTurn: Ids.turnId(2), isBusy: true } }))), "TurnNotFound")
  })

  it("takes back the message of a Turn that is announced, and lets go of its steers as their senders asked", () => {
    const turnId = Ids.turnId(1)
    const announced = [
      { id: Ids.itemId(1), ifNotApplied: "follow-up" },
      { id: Ids.itemId(2), ifNotApplied: "follow-up" },
      { id: Ids.itemId(3), ifNotApplied: "return" }
    ] as const
    const cancel = Admission.cancel(Log.sessionId, turnId, "user", undefined)
    const early = cancel(view({ head: { runningTurn: turnId, isBusy: true }, announced }))
    const back = (item: number, disposition: "follow-up" | "returned") => ({
      type: "inbox.returned",
      data: { itemId: Ids.itemId(item), reason: "cancelled", disposition }
    })
    assert.deepStrictEqual(facts(early), [back(1, "returned"), back(2, "follow-up"), back(3, "returned")])
    assert.deepStrictEqual(value(early), { turnId, state: "returned" })
  })
})
