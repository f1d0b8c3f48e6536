import { assert, describe, it } from "@effect/vitest"
import * as Ids from "@turnstep/core/Ids"
import * as SessionState from "@turnstep/core/SessionState"
import type { Fact, Figures } from "@turnstep/core/TurnEvent"
import * as Log from "../fixtures/Log.ts"

const turnId = Ids.turnId(1)
const itemId = Ids.itemId(1)
const callId = (index: number, step = 1) => Ids.callId(1, step, index)
const figures: Figures = { finishReason: "stop", usage: { inputTokens: 1, outputTokens: 2 }, ms: 3 }
const usage = { inputTokens: 0, outputTokens: 0 }

const admitted = (n: number): Fact => ({
  type: "inbox.admitted",
  data: {
    itemId: Ids.itemId(n),
    delivery: "follow-up",
    effect: "queued",
    parts: [{ type: "text", text: `${n}` }],
    ifNotApplied: "follow-up"
  }
})
const applied = (n = 1): Fact => ({
  type: "inbox.applied",
  data: { itemId: Ids.itemId(n), turnId, step: 1, messageId: Ids.userMessageId(Ids.itemId(n)) }
})
const said = (n = 1): Fact => ({
  type: "message.added",
  data: { messageId: Ids.userMessageId(Ids.itemId(n)), role: "user", parts: [{ type: "text", text: `${n}` }] }
})
const turnStarted = (n = 1, maxSteps = 2): Fact => ({
  type: "turn.started",
  data: { turnId: Ids.turnId(n), itemId, agent: "a", model: "m", limits: { maxSteps } }
})
const stepStarted = (step: number, kind: "work" | "hand-back" = "work"): Fact => ({
  type: "step.started",
  data: { turnId, step, kind }
})
const answered = (calls: number, step = 1): Fact => ({
  type: "message.added",
  data: {
    messageId: Ids.assistantMessageId(1, step),
    role: "assistant",
    parts: [
      { type: "text", text: "t" },
      ...Array.from({ length: calls }, (_, index) => ({
        type: "tool-call" as const,
        callId: callId(index, step),
        wireId: `w${step}${index}`,
        name: "t",
        params: {}
      }))
    ],
    figures
  }
})
const requested = (index: number, step = 1, effects: "pure" | "once" = "once"): Fact => ({
  type: "call.requested",
  data: { callId: callId(index, step), wireId: `w${step}${index}`, name: "t", params: {}, argsDigest: "d", effects }
})
const started = (index: number, attempt = 1): Fact => ({
  type: "call.started",
  data: { callId: callId(index), attempt }
})
const completed = (index: number): Fact => ({
  type: "call.completed",
  data: { callId: callId(index), isFailure: false, output: "o", ms: 1 }
})
const receipt = (index: number): Fact => ({
  type: "call.receipt",
  data: { callId: callId(index), outcome: "not-started", text: "r" }
})
const stepCompleted = (step: number): Fact => ({ type: "step.completed", data: { turnId, step, ...figures } })
const settled: Fact = { type: "turn.settled", data: { turnId, receipts: [] } }
const cancelled: Fact = { type: "turn.cancelled", data: { turnId, by: "user", steps: 1, usage } }
const failed: Fact = { type: "turn.failed", data: { turnId, error: { code: "c", message: "m" }, steps: 1, usage } }
const completedTurn: Fact = {
  type: "turn.completed",
  data: { turnId, steps: 1, usage, finishReason: "stop", messageId: Ids.assistantMessageId(1, 1) }
}
const cancelling: Fact = { type: "turn.cancelling", data: { turnId, by: "user" } }

const repeated = (verdict: "noted" | "tripped", step = 1): Fact => ({
  type: "guard.repeated",
  data: { turnId, step, verdict, code: "c", period: 1, count: 2, tools: ["t"], text: `[${verdict}]` }
})
const slimmed = (index: number, step = 1): Fact => ({
  type: "step.slimmed",
  data: { turnId, step, views: [{ callId: callId(index), text: "short", omitted: 9 }] }
})
const trippedTurn: Fact = {
  type: "turn.tripped",
  data: { turnId, code: "c", reason: "r", steps: 1, usage, messageId: Ids.assistantMessageId(1, 2) }
}

const takenId: Fact = {
  type: "call.requested",
  data: { callId: callId(1), wireId: "w10", name: "t", params: {}, argsDigest: "d", effects: "pure" }
}

const opened = [admitted(1), turnStarted(), applied(), said(), stepStarted(1)]
const batch = [...opened, answered(2), requested(0), requested(1), started(0), started(1)]
const settledBatch = [...batch, completed(0), completed(1)]
const trippedBatch = [...opened, answered(1), requested(0), repeated("tripped"), receipt(0)]

const illegal: ReadonlyArray<readonly [string, ReadonlyArray<Fact>, Fact]> = [
  ["an item out of order", [admitted(1)], admitted(3)],
  ["an item twice", [admitted(1)], admitted(1)],
  ["applying what is not waiting", opened, applied(1)],
  ["applying what was never admitted", opened, applied(2)],
  [
    "returning an applied item",
    opened,
    { type: "inbox.returned", data: { itemId, reason: "withdrawn", disposition: "returned" } }
  ],
  ["moving an applied item", opened, { type: "inbox.moved", data: { itemId, delivery: "steer", turnId } }],
  ["a second Turn while one is open", [...opened, admitted(2)], turnStarted(2)],
  ["a Turn out of order", [admitted(1)], turnStarted(2)],
  ["a step while its predecessor waits for the model", opened, stepStarted(2)],
  ["a step while calls are open", [...batch, completed(0)], stepStarted(2)],
  ["a step while its predecessor is not completed", settledBatch, stepStarted(2)],
  ["a step that skips one", [...settledBatch, stepCompleted(1)], stepStarted(3)],
  ["a step of a Turn that is not open", [], stepStarted(1)],
  ["completing a step without an answer", opened, stepCompleted(1)],
  ["completing a step with open calls", [...batch, completed(0)], stepCompleted(1)],
  ["completing another step", settledBatch, stepCompleted(2)],
  ["a message without a Turn", [admitted(1)], said()],
  ["a user message between a call and its result", [...batch, completed(0)], said(2)],
  ["a user message while the model is asked", opened, said(2)],
  ["a second answer to one step", [...opened, answered(0)], answered(0)],
  ["an answer nobody awaits", [...settledBatch, stepCompleted(1)], answered(0, 2)],
  ["a call whose response was not accepted", opened, requested(0)],
  ["a call registered after one of its batch is answered", [...batch, completed(0)], requested(2)],
  ["a call registered twice", [...opened, answered(2), requested(0)], requested(0)],
  ["a wire id that is taken", [...opened, answered(2), requested(0)], takenId],
  ["starting what was never registered", opened, started(0)],
  ["starting an answered call", [...batch, completed(0)], started(0, 2)],
  ["a second attempt of a call that must never run twice", batch, started(0, 2)],
  ["an attempt that skips one", [...opened, answered(1), requested(0, 1, "pure"), started(0)], started(0, 3)],
  ["a second answer to a call", [...batch, completed(0)], completed(0)],
  ["a receipt for an answered call", [...batch, completed(0)], receipt(0)],
  ["a result after the receipt", [...batch, receipt(0)], completed(0)],
  ["an answer to a call nobody made", batch, completed(5)],
  ["settling a Turn with open calls", [...batch, completed(0)], settled],
  ["completing a Turn with open calls", batch, completedTurn],
  ["cancelling a Turn to its end with open calls", [...batch, cancelling, completed(1)], cancelled],
  ["failing a Turn with open calls", [...batch, receipt(1)], failed],
  ["a note while calls are open", [...batch, completed(0)], repeated("noted")],
  ["a note of another step", settledBatch, repeated("noted", 2)],
  ["a note behind the end of its step", [...settledBatch, stepCompleted(1)], repeated("noted")],
  ["a note of a step without calls", [...opened, answered(0)], repeated("noted")],
  ["shorter results while calls are open", [...batch, completed(0)], slimmed(0)],
  ["a shorter result of a call that is not there", settledBatch, slimmed(7)],
  ["tripping over a call that was started", batch, repeated("tripped")],
  ["tripping while the model is asked", opened, repeated("tripped")],
  ["tripping twice", [...opened, answered(1), requested(0), repeated("tripped")], repeated("tripped")],
  ["starting a call of a Turn that tripped", [...opened, answered(1), requested(0), repeated("tripped")], started(0)],
  ["a step with tools of a Turn that tripped", [...trippedBatch, stepCompleted(1)], stepStarted(2)],
  ["ending as tripped what did not trip", settledBatch, trippedTurn],
  [
    "tripping a Turn to its end with open calls",
    [...opened, answered(1), requested(0), repeated("tripped")],
    trippedTurn
  ],
  ["ending a Turn twice", [...opened, settled, failed], failed],
  ["stopping a Turn that is not open", [], cancelling],
  [
    "a step with tools when the budget is spent",
    [admitted(1), turnStarted(1, 1), applied(), said(), stepStarted(1), answered(0), stepCompleted(1)],
    stepStarted(2)
  ]
]

describe("SessionState", () => {
  for (const [what, facts, last] of illegal) {
    it(`refuses ${what}`, () => {
      const log = Log.make(facts)
      assert.throws(() => log.write([last]), SessionState.IllegalFact)
    })
  }

  it("refuses a gap and a repetition in the sequence", () => {
    for (const seq of [0, 1, 3]) {
      const log = Log.make()
      assert.throws(() => SessionState.apply(log.state, { ...admitted(1), seq, at: 0 }), SessionState.IllegalFact)
    }
  })

  it("lets the hand-back start when the budget is spent", () => {
    const log = Log.make([
      admitted(1),
      turnStarted(1, 1),
      applied(),
      said(),
      stepStarted(1),
      answered(0),
      stepCompleted(1)
    ])
    log.write([stepStarted(2, "hand-back")])
    assert.strictEqual(log.state.turn?.step?.kind, "hand-back")
  })

  it("lets the hand-back start when the Turn has tripped, and end it", () => {
    const log = Log.make([
      ...trippedBatch,
      stepCompleted(1),
      stepStarted(2, "hand-back"),
      answered(0, 2),
      stepCompleted(2)
    ])
    log.write([settled, trippedTurn])
    assert.isUndefined(log.state.turn)
  })

  it("shows the model a note under the last result, and shorter results in their places, in one message", () => {
    const log = Log.make([...settledBatch, slimmed(0), repeated("noted")])
    const [result, ...others] = log.state.window.filter(({ role }) => role === "tool")
    assert.isEmpty(others)
    assert.deepStrictEqual(
      result?.role === "tool" ? result.content.map((part) => (part.type === "tool-result" ? part.result : part)) : [],
      ["short", "o\n\n[noted]"]
    )
    assert.isUndefined(Log.judge(log.state.window))
  })

  it("forgets with the Turn what it counted", () => {
    const log = Log.make([...settledBatch])
    assert.lengthOf(log.state.turn?.breaker.rounds ?? [], 1)
    const item2: Fact = {
      type: "turn.started",
      data: { turnId: Ids.turnId(2), itemId: Ids.itemId(2), agent: "a", model: "m", limits: { maxSteps: 2 } }
    }
    log.write([settled, failed, admitted(2), item2])
    assert.isEmpty(log.state.turn?.breaker.rounds)
  })

  it("shows the model the results of a batch only when all are there, in the order of the calls", () => {
    const log = Log.make([...batch, completed(1)])
    assert.deepStrictEqual(
      log.state.window.map(({ role }) => role),
      ["user", "assistant"]
    )
    log.write([receipt(0)])
    const last = log.state.window.at(-1)
    assert.deepStrictEqual(
      last?.role === "tool" && last.content.map((part) => part.type === "tool-result" && part.id),
      ["w10", "w11"]
    )
    assert.isUndefined(Log.judge(log.state.window))
  })

  it("keeps the identity of the messages from step to step", () => {
    const log = Log.make(settledBatch)
    const before = [...log.state.window]
    log.write([stepCompleted(1), stepStarted(2), answered(0, 2), stepCompleted(2)])
    before.forEach((message, index) => assert.strictEqual(log.state.window[index], message))
    assert.lengthOf(log.state.window, before.length + 1)
  })

  it("shows the model the slimmed view and keeps the rest in the log", () => {
    const log = Log.make([
      ...opened,
      answered(1),
      requested(0),
      {
        type: "call.completed",
        data: { callId: callId(0), isFailure: false, output: "long", modelView: { text: "short", omitted: 9 }, ms: 1 }
      }
    ])
    assert.include(JSON.stringify(log.state.window.at(-1)), '"short"')
    assert.notInclude(JSON.stringify(log.state.window.at(-1)), '"long"')
  })

  it("adds up what the responses of a Turn cost", () => {
    const log = Log.make([...settledBatch, stepCompleted(1), stepStarted(2), answered(0, 2)])
    assert.deepStrictEqual(log.state.turn?.usage, { inputTokens: 2, outputTokens: 4 })
  })

  it("keeps a moved item in the order of its admission", () => {
    const log = Log.make([admitted(1), admitted(2)])
    log.write([{ type: "inbox.moved", data: { itemId, delivery: "steer", turnId } }])
    assert.deepStrictEqual([...log.state.pending.keys()], ["inb_1", "inb_2"])
    assert.strictEqual(log.state.pending.get(itemId)?.turnId, turnId)
  })

  it("offers an open Turn for steering until it is told to stop", () => {
    const log = Log.make(opened)
    assert.strictEqual(SessionState.head(log.state).runningTurn, turnId)
    log.write([cancelling])
    assert.isUndefined(SessionState.head(log.state).runningTurn)
    assert.isTrue(SessionState.head(log.state).isBusy)
  })

  it("offers the Turn that is about to be opened, and none in an idle session", () => {
    const log = Log.make()
    assert.isUndefined(SessionState.head(log.state).runningTurn)
    assert.isFalse(SessionState.hasWork(log.state))
    log.write([admitted(1)])
    assert.strictEqual(SessionState.head(log.state).runningTurn, turnId)
    assert.isTrue(SessionState.hasWork(log.state))
  })

  it("counts what went wrong with a Turn until a response is accepted", () => {
    const claimed: Fact = { type: "worker.claimed", data: { turnId } }
    const refused: Fact = { type: "write.refused", data: { turnId, reason: "full" } }
    const log = Log.make([...opened, claimed, claimed, refused])
    assert.deepStrictEqual([log.state.turn?.takeovers, log.state.turn?.refusals], [2, 1])
    log.write([answered(0)])
    assert.deepStrictEqual([log.state.turn?.takeovers, log.state.turn?.refusals], [0, 0])
  })

  it("gives the same state for the same events", () => {
    const log = Log.make([...settledBatch, stepCompleted(1), stepStarted(2)])
    assert.deepStrictEqual(SessionState.fold(Log.sessionId, log.events), log.state)
  })

  it("costs the same for each call of a batch, however large it is", () => {
    const calls = Array.from({ length: 40_000 }, (_, index) => index)
    const log = Log.make([...opened, answered(0)])
    const begun = performance.now()
    log.write(calls.map((index) => requested(index)))
    log.write(calls.toReversed().flatMap((index) => [started(index), completed(index)]))
    log.write([stepCompleted(1)])
    // A quarter of a second; with a look at all others for each it is half a minute.
    assert.isBelow(performance.now() - begun, 8_000)
  }, 60_000)
})
