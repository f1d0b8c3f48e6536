import { assert, describe, it } from "@effect/vitest"
import * as Ids from "@turnstep/core/Ids"
import * as Inbox from "@turnstep/core/Inbox"
import * as Log from "../fixtures/Log.ts"

const turn = Ids.turnId
const head = (rest: Partial<Inbox.Head> = {}): Inbox.Head => ({
  sessionId: Log.sessionId,
  seq: 30,
  items: 4,
  waiting: 0,
  turns: 2,
  runningTurn: undefined,
  isBusy: false,
  ...rest
})
const idle = head()
const running = head({ runningTurn: turn(2), isBusy: true })
const stopping = head({ isBusy: true })

const admitted = (session: Inbox.Head, request: Partial<Inbox.Request>): unknown => {
  const fact = Inbox.admit(session, Log.request("x", request))
  if ("_tag" in fact) return fact._tag
  const { delivery, effect, itemId, turnId } = fact.data
  return [itemId, delivery, effect, turnId]
}

const item = (n: number, rest: Partial<Inbox.Item> = {}): readonly [Ids.ItemId, Inbox.Item] => [
  Ids.itemId(n),
  { id: Ids.itemId(n), delivery: "follow-up", parts: [], ifNotApplied: "follow-up", turnId: undefined, ...rest }
]

describe("Inbox", () => {
  it("starts a Turn in an idle session", () => {
    assert.deepStrictEqual(admitted(idle, {}), ["inb_5", "start", "started", "trn_3"])
    assert.deepStrictEqual(admitted(idle, { delivery: "start" }), ["inb_5", "start", "started", "trn_3"])
    assert.deepStrictEqual(admitted(idle, { delivery: "follow-up" }), ["inb_5", "follow-up", "started", "trn_3"])
  })

  it("steers the running Turn unless asked to queue", () => {
    assert.deepStrictEqual(admitted(running, {}), ["inb_5", "steer", "steering", "trn_2"])
    assert.deepStrictEqual(admitted(running, { delivery: "follow-up" }), ["inb_5", "follow-up", "queued", undefined])
  })

  it("queues behind a Turn that is stopping", () => {
    assert.deepStrictEqual(admitted(stopping, {}), ["inb_5", "follow-up", "queued", undefined])
  })

  it("refuses a start when there is work already and a steer when no Turn can be steered", () => {
    assert.strictEqual(admitted(running, { delivery: "start" }), "SessionBusy")
    assert.strictEqual(admitted(stopping, { delivery: "start" }), "SessionBusy")
    assert.strictEqual(admitted(idle, { delivery: "steer" }), "TurnNotRunning")
    assert.strictEqual(admitted(stopping, { delivery: "steer" }), "TurnNotRunning")
  })

  it("refuses a message meant for another Turn than the running one", () => {
    assert.strictEqual(admitted(running, { expectedTurnId: "trn_1" }), "TurnNotRunning")
    assert.strictEqual(admitted(idle, { expectedTurnId: "trn_2" }), "TurnNotRunning")
    assert.strictEqual(admitted(running, { expectedTurnId: "nonsense" }), "TurnNotRunning")
    assert.deepStrictEqual(admitted(running, { expectedTurnId: "trn_2" }), ["inb_5", "steer", "steering", "trn_2"])
  })

  it("picks the steers of a Turn in the order of their admission and leaves those of others", () => {
    const pending = new Map([
      item(1, { delivery: "steer", turnId: turn(2) }),
      item(2),
      item(3, { delivery: "steer", turnId: turn(1) }),
      item(4, { delivery: "steer", turnId: turn(2) })
    ])
    assert.deepStrictEqual(
      Inbox.steersFor(pending, turn(2)).map(({ id }) => id),
      ["inb_1", "inb_4"]
    )
  })

  it("starts the next Turn from the first item that waits, whatever its channel", () => {
    const steer = item(2, { delivery: "steer", turnId: turn(1) })
    assert.strictEqual(Inbox.nextStart(new Map([item(1), steer, item(3)]))?.id, "inb_1")
    assert.strictEqual(Inbox.nextStart(new Map([steer, item(3)]))?.id, "inb_2")
    assert.isUndefined(Inbox.nextStart(new Map()))
  })

  it("turns the steers a Turn leaves behind into follow-ups, or returns them when asked so", () => {
    const steer = { delivery: "steer", turnId: turn(1) } as const
    const pending = new Map([item(1, steer), item(2, { ...steer, ifNotApplied: "return" }), item(3)])
    assert.deepStrictEqual(
      Inbox.atTurnEnd(pending, turn(1)).map(({ data }) => [data.itemId, data.reason, data.disposition]),
      [
        ["inb_1", "turn-ended", "follow-up"],
        ["inb_2", "turn-ended", "returned"]
      ]
    )
  })
})
