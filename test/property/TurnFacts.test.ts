import * as Call from "@turnstep/core/Call"
import * as Accept from "@turnstep/core/Accept"
import { assert, describe, it } from "@effect/vitest"
import * as Admission from "@turnstep/core/Admission"
import type { Json } from "@turnstep/core/Canonical"
import * as Ids from "@turnstep/core/Ids"
import * as Inbox from "@turnstep/core/Inbox"
import * as Ledger from "@turnstep/core/Ledger"
import type { OpenTurn } from "@turnstep/core/OpenTurn"
import * as SessionState from "@turnstep/core/SessionState"
import { decodeFact, Fact, isTerminal } from "@turnstep/core/TurnEvent"
import * as TurnPlan from "@turnstep/core/TurnPlan"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as fc from "fast-check"
import * as Log from "../fixtures/Log.ts"

/** What models and providers have been seen to send. */
const ids = ["", "x", "x", "call_1", "a b", "x".repeat(41), "cal_1_1_0", "cal_1_1_1", "cal_2_1_0", "é", "ok-1"]
const names = ["read", "pay", "poll", "functions.read", "", "💥", "x".repeat(70), "nope", "\ud800"]
const params: ReadonlyArray<Json> = [
  {},
  { a: 1 },
  '{"cut',
  "",
  null,
  3,
  [1],
  { invalid_arguments: 1 },
  { "\ud800": "\udfff" }
]
const finishes = ["tool-calls", "tool-calls", "stop", "length", "content-filter", "unknown"]
const texts = ["", " ", "hello", "\ud83d", "line\n"]

const policyOf: Accept.PolicyOf = (tool) => {
  const effects = ({ read: "pure", pay: "once", poll: "queryable", put: "idempotent" } as const)[tool]
  return effects === undefined ? undefined : { effects, domain: "server" }
}

/** A session driven by chance: every choice is read off the tape. */
const play = (tape: ReadonlyArray<number>): Log.Log => {
  const log = Log.make()
  let at = 0
  const draw = (below: number): number => (tape[at++] ?? 0) % below
  const pick = <A>(from: ReadonlyArray<A>): A => from[draw(from.length)] as A
  const parts = (calls: number): ReadonlyArray<Accept.ResponsePart> => [
    ...(draw(2) === 0 ? [] : [{ type: "reasoning", text: pick(texts) } as const]),
    ...(draw(2) === 0 ? [] : [{ type: "text", text: pick(texts) } as const]),
    ...Array.from({ length: calls }, () => ({
      type: "tool-call" as const,
      id: pick(ids),
      name: pick(names),
      params: pick(params)
    }))
  ]
  const answer = (calls: number): Accept.Response => ({
    parts: parts(calls),
    finishReason: pick(finishes),
    usage: { inputTokens: 10, outputTokens: 1 },
    ms: 1
  })

  const arrive = () => {
    const head = SessionState.head(log.state)
    const waiting = [...log.state.pending.values()]
    const kind = draw(4)
    if (kind <= 1 || waiting.length === 0) {
      const delivery = pick(["auto", "start", "steer", "follow-up"] as const)
      const ifNotApplied = pick(["follow-up", "return"] as const)
      const fact = Inbox.admit(head, Log.request(`message ${head.items}`, { delivery, ifNotApplied }))
      if (!("_tag" in fact)) log.write([fact])
      return
    }
    const { delivery, id } = pick(waiting)
    const view = {
      head,
      agent: "hand",
      announced: [],
      keyed: undefined,
      turn: undefined,
      item: { itemId: id, delivery, state: "waiting" as const }
    }
    const decided: Result.Result<{ readonly facts: ReadonlyArray<Fact> }, unknown> =
      kind === 2 ? Admission.withdraw(id)(view) : Admission.move(id, pick(["steer", "follow-up"] as const))(view)
    if (Result.isSuccess(decided)) log.write(decided.success.facts)
  }

  const stop = (turn: OpenTurn) => {
    if (draw(2) === 0) {
      return log.write(TurnPlan.endTurn(log.state, turn, { type: "failed", error: { code: "c", message: "m" } }))
    }
    log.write([{ type: "turn.cancelling", data: { turnId: turn.id, by: "user" } }])
    if (draw(2) === 0) arrive()
    log.write(TurnPlan.endTurn(log.state, turn, { type: "cancelled", by: "user", reason: undefined }))
  }

  const proceed = () => {
    const { turn } = log.state
    const item = Inbox.nextStart(log.state.pending)
    if (turn === undefined) {
      if (item !== undefined)
        log.write(TurnPlan.startTurn(log.state, item, { model: "m", limits: { maxSteps: draw(4) } }))
      return
    }
    if (draw(8) === 0) return stop(turn)
    if (turn.step?.state === "requested") {
      if (turn.step.kind === "hand-back") {
        const words =
          draw(2) === 0
            ? Accept.handBack(turn, TurnPlan.reasonToEnd(turn, "steps"))
            : Accept.final(log.state, turn, answer(draw(3)))
        return log.write(TurnPlan.endTurn(log.state, turn, { type: "exhausted", limit: "steps" }, words))
      }
      const calls = draw(5)
      if (calls > 0) return log.write(Accept.withCalls(log.state, turn, answer(calls), policyOf))
      const words = Accept.final(log.state, turn, answer(0))
      return log.write(TurnPlan.endTurn(log.state, turn, { type: "completed" }, words))
    }
    const open = Ledger.openCalls(turn.ledger)
    if (open.length === 0) return log.write(TurnPlan.nextStep(log.state, turn, 0))
    const call = pick(open)
    if (draw(6) === 0) return log.write([Call.receipt(call, "timed-out")])
    if (draw(10) === 0) return log.write(Ledger.recovery(turn.ledger, () => undefined))
    log.write([
      { type: "call.completed", data: { callId: call.callId, isFailure: draw(2) === 0, output: pick(params), ms: 1 } }
    ])
  }

  while (at < tape.length) {
    if (draw(4) === 0) arrive()
    else proceed()
    const { pending, turn, turns, window } = log.state
    for (const item of pending.values()) {
      // No steer is left to a Turn that is over.
      if (item.turnId !== undefined) assert.strictEqual(item.turnId, turn?.id ?? Ids.turnId(turns + 1))
    }
    if (turn === undefined || Ledger.isSettled(turn.ledger)) assert.isUndefined(Log.judge(window))
  }
  const { turn } = log.state
  if (turn !== undefined) stop(turn)
  return log
}

const schedule = fc.array(fc.nat(255), { minLength: 20, maxLength: 250 })
const runs = { numRuns: Number(process.env["TURNSTEP_PROPERTY_RUNS"] ?? 150) }

describe("Facts of a session driven by chance", () => {
  it("always fold, and leave a window every provider accepts after any ending", () => {
    fc.assert(
      fc.property(schedule, (tape) => {
        const log = play(tape)
        assert.isUndefined(log.state.turn)
        assert.isUndefined(Log.judge(log.state.window))
        assert.deepStrictEqual(SessionState.fold(Log.sessionId, log.events), log.state)
      }),
      runs
    )
  })

  it("give every call one answer, every Turn one end, and every item one fate", () => {
    fc.assert(
      fc.property(schedule, (tape) => {
        const { events, state } = play(tape)
        const count = new Map<string, number>()
        const tally = (what: string, id: string) => count.set(`${what} ${id}`, (count.get(`${what} ${id}`) ?? 0) + 1)
        for (const event of events) {
          if (event.type === "call.requested") tally("call", event.data.callId)
          if (event.type === "call.completed" || event.type === "call.receipt") tally("answer", event.data.callId)
          if (event.type === "turn.started") tally("turn", event.data.turnId)
          if (isTerminal(event)) tally("end", event.data.turnId)
          if (event.type === "inbox.admitted") tally("item", event.data.itemId)
          if (event.type === "inbox.applied") tally("fate", event.data.itemId)
          if (event.type === "inbox.returned" && event.data.disposition === "returned") tally("fate", event.data.itemId)
        }
        for (const id of state.pending.keys()) tally("fate", id)
        const other: Record<string, string> = { call: "answer", turn: "end", item: "fate" }
        for (const [key, times] of count) {
          const [what = "", id] = key.split(" ")
          assert.strictEqual(times, 1, key)
          if (other[what] !== undefined) assert.isTrue(count.has(`${other[what]} ${id}`), key)
        }
      }),
      runs
    )
  })

  it("start Turns in the order in which their messages were admitted", () => {
    fc.assert(
      fc.property(schedule, (tape) => {
        const started = play(tape).events.flatMap((event) =>
          event.type === "turn.started" ? [Number(event.data.itemId.slice(4))] : []
        )
        assert.deepStrictEqual(
          started,
          [...started].toSorted((a, b) => a - b)
        )
      }),
      runs
    )
  })

  it("are stored and read again unchanged", () => {
    const encode = Schema.encodeUnknownSync(Fact)
    fc.assert(
      fc.property(schedule, (tape) => {
        for (const { at: _, seq: __, ...fact } of play(tape).events) {
          assert.deepStrictEqual(decodeFact(JSON.parse(JSON.stringify(encode(fact)))), fact as Fact)
        }
      }),
      { numRuns: 30 }
    )
  })
})
