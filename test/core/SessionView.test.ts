import { assert, describe, it } from "@effect/vitest"
import type { CallId, ItemId, MessageId, TurnId } from "@turnstep/core/Ids"
import * as SessionView from "@turnstep/core/SessionView"
import type { Fact, TurnEvent, Type } from "@turnstep/core/TurnEvent"
import * as Schema from "effect/Schema"

const trn = (n: number) => `trn_${n}` as TurnId
const inb = (n: number) => `inb_${n}` as ItemId
const cal = (index: number) => `cal_1_1_${index}` as CallId
const msg = (id: string) => `msg_${id}` as MessageId
const usage = (inputTokens: number, outputTokens: number) => ({ inputTokens, outputTokens })
const text = (text: string) => [{ type: "text", text } as const]

const log = (facts: ReadonlyArray<Fact>): ReadonlyArray<TurnEvent> =>
  facts.map((fact, index) => ({ ...fact, seq: index + 1, at: 1000 + index }))

const admitted = (item: number, rest: Partial<Extract<Fact, { type: "inbox.admitted" }>["data"]> = {}): Fact => ({
  type: "inbox.admitted",
  data: {
    itemId: inb(item),
    delivery: "start",
    effect: "started",
    turnId: trn(1),
    parts: text(`message ${item}`),
    ifNotApplied: "follow-up",
    ...rest
  }
})
const started: Fact = {
  type: "turn.started",
  data: { turnId: trn(1), itemId: inb(1), agent: "default", model: "demo", limits: { maxSteps: 15 } }
}
const applied = (item: number, step: number): Fact => ({
  type: "inbox.applied",
  data: { itemId: inb(item), turnId: trn(1), step, messageId: msg(`inb_${item}`) }
})
const said = (item: number): Fact => ({
  type: "message.added",
  data: { messageId: msg(`inb_${item}`), role: "user", parts: text(`message ${item}`) }
})
const step = (step: number, kind: "work" | "hand-back" = "work"): Fact => ({
  type: "step.started",
  data: { turnId: trn(1), step, kind }
})
const figures = { finishReason: "stop", usage: usage(3, 2), ms: 7 }
const answered = (step: number): Fact => ({
  type: "message.added",
  data: { messageId: msg(`1_${step}`), role: "assistant", parts: text(`answer ${step}`), figures }
})
const completed = (step: number): Fact => ({ type: "step.completed", data: { turnId: trn(1), step, ...figures } })
const requested = (index: number, effects: "pure" | "once" = "pure"): Fact => ({
  type: "call.requested",
  data: { callId: cal(index), wireId: `w${index}`, name: "look", params: { index }, argsDigest: "d", effects }
})
const calling = (index: number, attempt = 1): Fact => ({ type: "call.started", data: { callId: cal(index), attempt } })

const opening = [admitted(1), started, applied(1, 1), said(1), step(1), answered(1)]

/** A session in which everything happened that a view shows. */
const eventful = log([
  { type: "session.created", data: { agent: "default" } },
  ...opening,
  requested(0),
  requested(1),
  requested(2, "once"),
  requested(3),
  calling(0),
  calling(1),
  calling(2),
  { type: "call.completed", data: { callId: cal(0), isFailure: false, output: { n: 1 }, ms: 5 } },
  {
    type: "call.completed",
    data: { callId: cal(1), isFailure: true, output: "no", modelView: { text: "n…", omitted: 9 }, ms: 6 }
  },
  admitted(2, { delivery: "steer", effect: "steering", clientKey: "k" }),
  admitted(3, { delivery: "steer", effect: "steering", ifNotApplied: "return" }),
  { type: "turn.cancelling", data: { turnId: trn(1), by: "user", reason: "enough" } },
  { type: "call.receipt", data: { callId: cal(2), outcome: "outcome-unknown", text: "who knows" } },
  { type: "call.receipt", data: { callId: cal(3), outcome: "not-started", text: "never" } },
  { type: "inbox.returned", data: { itemId: inb(2), reason: "turn-ended", disposition: "follow-up" } },
  { type: "inbox.returned", data: { itemId: inb(3), reason: "turn-ended", disposition: "returned" } },
  {
    type: "turn.settled",
    data: { turnId: trn(1), receipts: [{ callId: cal(2), outcome: "outcome-unknown" }] }
  },
  { type: "turn.cancelled", data: { turnId: trn(1), by: "user", reason: "enough", steps: 1, usage: usage(3, 2) } }
])

const views = {
  messages: [SessionView.messages, SessionView.messageTypes],
  calls: [SessionView.calls, SessionView.callTypes],
  turns: [SessionView.turns, SessionView.turnTypes],
  inbox: [SessionView.inbox, SessionView.inboxTypes]
} as const

describe("SessionView", () => {
  for (const [name, [fold, types]] of Object.entries(views)) {
    it(`folds ${name} from the types it names alone`, () => {
      const known: ReadonlySet<Type> = new Set(types)
      const some = eventful.filter((event) => known.has(event.type))
      assert.isAbove(fold(eventful).length, 0)
      assert.isBelow(some.length, eventful.length)
      assert.deepStrictEqual<unknown>(fold(some), fold(eventful))
    })
  }

  it("gives every message its Turn and step, and an answer its figures", () => {
    const events = log([...opening, completed(1), admitted(2), applied(2, 2), said(2), step(2), answered(2)])
    assert.deepStrictEqual<unknown>(
      SessionView.messages(events).map(({ id, role, turnId, step, at }) => [id, role, turnId, step, at]),
      [
        ["msg_inb_1", "user", "trn_1", 1, 1003],
        ["msg_1_1", "assistant", "trn_1", 1, 1005],
        ["msg_inb_2", "user", "trn_1", 2, 1009],
        ["msg_1_2", "assistant", "trn_1", 2, 1011]
      ]
    )
    assert.deepStrictEqual(
      SessionView.messages(events).map((message) => message.figures),
      [undefined, figures, undefined, figures]
    )
  })

  it("shows what came in from elsewhere in front of everything, results included", () => {
    const past = [
      { role: "user", parts: [{ type: "text", text: "a" }] },
      { role: "assistant", parts: [{ type: "tool-call", wireId: "c", name: "look", params: {} }] },
      { role: "tool", answers: [{ wireId: "c", name: "look", isFailure: false, result: "x" }] }
    ] as const
    const views = SessionView.messages(
      log([
        { type: "session.created", data: { agent: "default" } },
        { type: "history.imported", data: { format: "anthropic", messages: past.slice(0, 2) } },
        { type: "history.imported", data: { format: "anthropic", messages: past.slice(2) } },
        ...opening
      ])
    )
    assert.deepStrictEqual<unknown>(
      views.map(({ answers, id, parts, role, turnId }) => [id, role, turnId, parts.length, answers?.length]),
      [
        ["msg_past_1", "user", undefined, 1, undefined],
        ["msg_past_2", "assistant", undefined, 1, undefined],
        ["msg_past_3", "tool", undefined, 0, 1],
        ["msg_inb_1", "user", "trn_1", 1, undefined],
        ...views.slice(4).map(({ id, parts, role, turnId }) => [id, role, turnId, parts.length, undefined])
      ]
    )
  })

  it("shows how far each call has come, and what answered it", () => {
    const calls = SessionView.calls(eventful)
    assert.deepStrictEqual(
      calls.map(({ id, state, attempts, turnId, step }) => [id, state, attempts, turnId, step]),
      [
        ["cal_1_1_0", "completed", 1, "trn_1", 1],
        ["cal_1_1_1", "failed", 1, "trn_1", 1],
        ["cal_1_1_2", "receipted", 1, "trn_1", 1],
        ["cal_1_1_3", "receipted", 0, "trn_1", 1]
      ]
    )
    assert.deepStrictEqual(calls[0]?.output, { n: 1 })
    assert.deepStrictEqual(calls[1]?.modelView, { text: "n…", omitted: 9 })
    assert.deepStrictEqual(calls[2]?.receipt, { outcome: "outcome-unknown", text: "who knows" })
    assert.isUndefined(calls[3]?.startedAt)
  })

  it("shows what the model read of a result that was too much beside others", () => {
    const views = [{ callId: cal(0), text: "1…", omitted: 3 }]
    const events = log([
      ...opening,
      requested(0),
      calling(0),
      { type: "step.slimmed", data: { turnId: trn(1), step: 1, views } }
    ])
    assert.deepStrictEqual(SessionView.calls(events)[0]?.modelView, { text: "1…", omitted: 3 })
  })

  it("keeps the first start of a call that is started again", () => {
    const events = log([...opening, requested(0), calling(0), calling(0, 2)])
    const [call] = SessionView.calls(events)
    assert.deepStrictEqual([call?.state, call?.attempts, call?.startedAt], ["running", 2, 1007])
    assert.isUndefined(call?.endedAt)
  })

  it("shows a cancelled Turn with who cancelled it and the receipts it left", () => {
    const [turn] = SessionView.turns(eventful)
    assert.deepInclude(turn, {
      state: "cancelled",
      itemId: inb(1),
      steps: 1,
      usage: usage(3, 2),
      cancel: { by: "user", reason: "enough" },
      receipts: [{ callId: cal(2), outcome: "outcome-unknown" }]
    })
  })

  it("counts the steps and tokens of a running Turn, but not the hand-back as a step", () => {
    const events = log([...opening, completed(1), step(2), answered(2), completed(2), step(3, "hand-back")])
    assert.deepInclude(SessionView.turns(events)[0], { state: "running", steps: 2, usage: usage(6, 4) })
    assert.isUndefined(SessionView.turns(events)[0]?.endedAt)
  })

  it("shows how a Turn ended", () => {
    const end = (fact: Fact) => SessionView.turns(log([...opening, fact]))[0]
    const ended = { turnId: trn(1), steps: 1, usage: usage(1, 1) }
    assert.deepInclude(
      end({ type: "turn.completed", data: { ...ended, finishReason: "stop", messageId: msg("1_1") } }),
      { state: "completed", finishReason: "stop", messageId: msg("1_1"), endedAt: 1006 }
    )
    assert.deepInclude(end({ type: "turn.exhausted", data: { ...ended, limit: "steps", messageId: msg("1_1") } }), {
      state: "exhausted",
      limit: "steps"
    })
    const tripped = { code: "REPEATED_IDENTICAL_TOOL_CALL", reason: "the same again" }
    assert.deepInclude(end({ type: "turn.tripped", data: { ...ended, ...tripped, messageId: msg("1_1") } }), {
      state: "tripped",
      tripped,
      messageId: msg("1_1")
    })
    assert.deepInclude(end({ type: "turn.failed", data: { ...ended, error: { code: "c", message: "m" } } }), {
      state: "failed",
      error: { code: "c", message: "m" }
    })
    assert.deepInclude(end({ type: "turn.cancelling", data: { turnId: trn(1), by: "user" } }), {
      state: "cancelling",
      cancel: { by: "user" }
    })
  })

  it("shows what became of each message of the inbox", () => {
    assert.deepStrictEqual(
      SessionView.inbox(eventful).map(({ id, state, delivery, turnId, clientKey }) => [
        id,
        state,
        delivery,
        turnId,
        clientKey
      ]),
      [
        ["inb_1", "applied", "start", "trn_1", undefined],
        ["inb_2", "waiting", "follow-up", undefined, "k"],
        ["inb_3", "returned", "steer", "trn_1", undefined]
      ]
    )
    assert.strictEqual(SessionView.inbox(eventful)[2]?.reason, "turn-ended")
  })

  it("moves a message between the channels", () => {
    const queued = admitted(2, { delivery: "follow-up", effect: "queued" })
    const steered: Fact = { type: "inbox.moved", data: { itemId: inb(2), delivery: "steer", turnId: trn(1) } }
    const back: Fact = { type: "inbox.moved", data: { itemId: inb(2), delivery: "follow-up" } }
    const last = (facts: ReadonlyArray<Fact>) => SessionView.inbox(log([...opening, queued, ...facts]))[1]
    assert.isUndefined(last([])?.turnId)
    assert.deepInclude(last([steered]), { delivery: "steer", turnId: trn(1) })
    assert.strictEqual(last([steered, back])?.delivery, "follow-up")
    assert.isUndefined(last([steered, back])?.turnId)
  })

  it("writes times as ISO 8601 and reads them back", () => {
    const encode = Schema.encodeSync(SessionView.Instant)
    assert.strictEqual(encode(1_764_475_200_123), "2025-11-30T04:00:00.123Z")
    assert.strictEqual(Schema.decodeSync(SessionView.Instant)("2025-11-30T04:00:00.123Z"), 1_764_475_200_123)
  })
})
