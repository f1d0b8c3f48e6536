import * as Call from "@turnstep/core/Call"
import { assert, describe, it } from "@effect/vitest"
import * as Ids from "@turnstep/core/Ids"
import * as Ledger from "@turnstep/core/Ledger"
import type { EffectClass } from "@turnstep/core/ToolPolicy"

const effects: ReadonlyArray<EffectClass> = ["pure", "idempotent", "queryable", "once"]

/** A ledger with one call of each effect class, attempts as given. */
const ledgerOf = (attempt: number): Ledger.Ledger => {
  const ledger = Ledger.empty()
  effects.forEach((each, index) => {
    Ledger.open(ledger, {
      callId: Ids.callId(1, 1, index),
      wireId: `w${index}`,
      name: `tool_${each}`,
      params: {},
      argsDigest: "",
      effects: each
    })
  })
  for (const call of ledger.calls) {
    call.attempt = attempt
    call.state = attempt === 0 ? "registered" : "started"
  }
  return ledger
}

const answer = (ledger: Ledger.Ledger, call: Call.Call) =>
  Ledger.close(
    ledger,
    call,
    Call.answerOf(call, {
      type: "call.completed",
      data: { callId: call.callId, isFailure: false, output: "ok", ms: 1 }
    })
  )

/** Nothing keeps a call from running. */
const free = () => undefined

describe("Ledger", () => {
  it("is settled when every call has its answer, and when there is none", () => {
    const ledger = ledgerOf(1)
    assert.isTrue(Ledger.isSettled(Ledger.empty()))
    assert.isFalse(Ledger.isSettled(ledger))
    for (const call of ledger.calls) answer(ledger, call)
    assert.isTrue(Ledger.isSettled(ledger))
  })

  it("knows a call as open until it is answered", () => {
    const ledger = ledgerOf(1)
    const [first] = ledger.calls
    assert.isDefined(first)
    assert.strictEqual(Ledger.openCall(ledger, first.callId), first)
    answer(ledger, first)
    assert.isUndefined(Ledger.openCall(ledger, first.callId))
    assert.isUndefined(Ledger.openCall(ledger, Ids.callId(9, 9, 9)))
    assert.lengthOf(Ledger.openCalls(ledger), 3)
  })

  it("gives the answers in the order of the calls, whatever the order of answering", () => {
    const ledger = ledgerOf(1)
    for (const call of ledger.calls.toReversed()) answer(ledger, call)
    assert.deepStrictEqual(
      Ledger.answers(ledger).map(({ wireId }) => wireId),
      ["w0", "w1", "w2", "w3"]
    )
  })

  it("writes one receipt for every open call and none for an answered one", () => {
    const ledger = ledgerOf(1)
    for (const call of ledger.calls.slice(0, 2)) answer(ledger, call)
    assert.deepStrictEqual(
      Ledger.receipts(ledger, "cancelled").map(({ data }) => [data.callId, data.outcome]),
      [
        ["cal_1_1_2", "outcome-unknown"],
        ["cal_1_1_3", "outcome-unknown"]
      ]
    )
  })

  it("says of calls that never started that they did not", () => {
    for (const cause of ["cancelled", "failed", "lost", "timed-out"] as const)
      for (const { data } of Ledger.receipts(ledgerOf(0), cause)) assert.strictEqual(data.outcome, "not-started")
  })

  it("lets the next owner run again what may run again, and gives the rest a receipt", () => {
    assert.deepStrictEqual(
      Ledger.recovery(ledgerOf(1), free).map((fact) =>
        fact.type === "call.started"
          ? [fact.type, fact.data.attempt]
          : fact.type === "call.receipt"
            ? [fact.type, fact.data.outcome]
            : []
      ),
      [
        ["call.started", 2],
        ["call.started", 2],
        ["call.receipt", "outcome-unknown"],
        ["call.receipt", "outcome-unknown"]
      ]
    )
  })

  it("leaves open for the next owner what was started and can be asked for, and nothing else", () => {
    const lost = Ledger.askable(ledgerOf(1), () => true)
    assert.deepStrictEqual([...lost], [Ids.callId(1, 1, 2)])
    assert.deepStrictEqual(
      Ledger.recovery(ledgerOf(1), free, lost).map(({ data }) => "callId" in data && data.callId),
      [Ids.callId(1, 1, 0), Ids.callId(1, 1, 1), Ids.callId(1, 1, 3)]
    )
    assert.isEmpty(Ledger.askable(ledgerOf(1), () => false))
    assert.isEmpty(Ledger.askable(ledgerOf(0), () => true))
  })

  it("leaves what never started to its turn, whatever its effects", () => {
    assert.isEmpty(Ledger.recovery(ledgerOf(0), free))
  })

  it("neither starts nor runs again what must not run by the tools as they are now", () => {
    const refuse = (call: Call.Call) => (call.effects === "queryable" ? undefined : `${call.name} is not to run`)
    assert.deepStrictEqual(
      Ledger.recovery(ledgerOf(0), refuse).map((fact) => fact.type === "call.completed" && fact.data.output),
      ["tool_pure is not to run", "tool_idempotent is not to run", "tool_once is not to run"]
    )
    assert.deepStrictEqual(
      Ledger.recovery(ledgerOf(1), refuse).map((fact) => fact.type === "call.receipt" && fact.data.outcome),
      ["cancelled", "outcome-unknown", "outcome-unknown", "outcome-unknown"]
    )
  })

  it("has nothing to recover in a settled ledger", () => {
    const ledger = ledgerOf(1)
    for (const call of ledger.calls) answer(ledger, call)
    assert.isEmpty(Ledger.recovery(ledger, free))
  })
})
