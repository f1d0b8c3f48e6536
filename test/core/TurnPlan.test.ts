import * as Accept from "@turnstep/core/Accept"
import { assert, describe, it } from "@effect/vitest"
import type { Json } from "@turnstep/core/Canonical"
import * as Ids from "@turnstep/core/Ids"
import * as Ledger from "@turnstep/core/Ledger"
import type { OpenTurn } from "@turnstep/core/OpenTurn"
import type * as Start from "@turnstep/core/Start"
import * as TurnPlan from "@turnstep/core/TurnPlan"
import type { Fact, Limits } from "@turnstep/core/TurnEvent"
import * as Effect from "effect/Effect"
import * as Log from "../fixtures/Log.ts"

const limits: Limits = { maxSteps: 2 }
const usage = { inputTokens: 10, outputTokens: 5 }

const response = (
  parts: ReadonlyArray<Accept.ResponsePart>,
  finishReason = parts.some((part) => part.type === "tool-call") ? "tool-calls" : "stop"
): Accept.Response => ({ parts, finishReason, usage, ms: 1 })
const text = (text: string): Accept.ResponsePart => ({ type: "text", text })
const call = (id: string, name = "read", params: Json = {}): Accept.ResponsePart => ({
  type: "tool-call",
  id,
  name,
  params
})

const policyOf: Accept.PolicyOf = (tool) =>
  tool === "read" || tool === "pay" ? { effects: tool === "read" ? "pure" : "once", domain: "server" } : undefined

const openTurn = (log: Log.Log): OpenTurn => log.state.turn ?? assert.fail("no Turn is open")

/** A log whose first Turn is open and asks the model. */
const running = (bounds: Limits = limits): Log.Log => {
  const log = Log.make()
  Log.admit(log, "hello")
  startNext(log, bounds)
  return log
}

const startNext = (log: Log.Log, bounds: Limits = limits): void => {
  const [item] = log.state.pending.values()
  if (item !== undefined) log.write(TurnPlan.startTurn(log.state, item, { model: "m", limits: bounds }))
}

const accept = (log: Log.Log, ...parts: ReadonlyArray<Accept.ResponsePart>) => {
  const facts = Accept.withCalls(log.state, openTurn(log), response(parts), policyOf)
  log.write(facts)
  return accepted(facts)
}

/** What a response came to: its facts, and the calls among them that are started. */
const accepted = (facts: ReadonlyArray<Fact>) => {
  const started = new Set(facts.flatMap((fact) => (fact.type === "call.started" ? [fact.data.callId] : [])))
  const runnable = facts.flatMap((fact) =>
    fact.type === "call.requested" && started.has(fact.data.callId) ? [fact.data] : []
  )
  return { facts, runnable }
}

const done = (callId: Ids.CallId, output: Json = "ok"): Fact => ({
  type: "call.completed",
  data: { callId, isFailure: false, output, ms: 1 }
})

const completeAll = (log: Log.Log) =>
  log.write(Ledger.openCalls(openTurn(log).ledger).map(({ callId }) => done(callId)))

const types = (facts: ReadonlyArray<Fact>) => facts.map(({ type }) => type)

const outputOf = (facts: ReadonlyArray<Fact>, callId: Ids.CallId) => {
  for (const fact of facts) if (fact.type === "call.completed" && fact.data.callId === callId) return fact.data.output
  return undefined
}

describe("TurnPlan", () => {
  it("opens a Turn with its item, the steers meant for it, and its first request", () => {
    const log = Log.make()
    Log.admit(log, "first")
    Log.admit(log, "steer")
    Log.admit(log, "later", { delivery: "follow-up" })
    const [item] = log.state.pending.values()
    assert.isDefined(item)
    const facts = TurnPlan.startTurn(log.state, item, { model: "m", limits })
    assert.deepStrictEqual(types(facts), [
      "session.status",
      "turn.started",
      "inbox.applied",
      "message.added",
      "inbox.applied",
      "message.added",
      "step.started"
    ])
    log.write(facts)
    assert.deepStrictEqual([...log.state.pending.keys()], ["inb_3"])
  })

  it("registers every call before any is started, and nothing is runnable before", () => {
    const log = running()
    const { facts, runnable } = accept(log, text("I look"), call("a"), call("b", "pay"))
    assert.deepStrictEqual(types(facts), [
      "message.added",
      "call.requested",
      "call.requested",
      "call.started",
      "call.started"
    ])
    assert.deepStrictEqual(
      runnable.map(({ callId, effects, wireId }) => [callId, effects, wireId]),
      [
        ["cal_1_1_0", "pure", "a"],
        ["cal_1_1_1", "once", "b"]
      ]
    )
  })

  it("answers what cannot run in the same write and never starts it", () => {
    const log = running()
    const { facts, runnable } = accept(
      log,
      call("a", "nope"),
      call("b", "read", '{"pa'),
      call("c"),
      call("d", "read", [1])
    )
    assert.deepStrictEqual(
      runnable.map(({ wireId }) => wireId),
      ["c"]
    )
    assert.match(String(outputOf(facts, Ids.callId(1, 1, 0))), /no tool named "nope"/)
    assert.match(String(outputOf(facts, Ids.callId(1, 1, 1))), /not a JSON object/)
    assert.match(String(outputOf(facts, Ids.callId(1, 1, 3))), /not a JSON object/)
  })

  it("runs no call of a response that was cut off", () => {
    for (const finishReason of ["length", "content-filter", "error"]) {
      const log = running()
      const { facts, runnable } = accepted(
        Accept.withCalls(log.state, openTurn(log), response([call("a"), call("b", "pay")], finishReason), policyOf)
      )
      assert.isEmpty(runnable)
      log.write(facts)
      assert.isTrue(Ledger.isSettled(openTurn(log).ledger))
      assert.isUndefined(Log.judge(log.state.window))
    }
  })

  it("runs a call whose tool has a parameter of any name", () => {
    const log = running()
    const { runnable } = accept(log, call("a", "read", { invalid_arguments: "mine" }))
    assert.lengthOf(runnable, 1)
  })

  it("does not run another tool than the model named", () => {
    const log = running()
    const { facts, runnable } = accepted(
      Accept.withCalls(log.state, openTurn(log), response([call("a", "re ad")]), (tool) =>
        tool === "re_ad" ? { effects: "once", domain: "server" } : undefined
      )
    )
    assert.isEmpty(runnable)
    assert.match(String(outputOf(facts, Ids.callId(1, 1, 0))), /no tool named "re ad"/)
  })

  it("gives every call a wire id of its own, whatever the provider sent", () => {
    const sent = ["x", "x", "", "x".repeat(41), "a b", "cal_1_1_6", "ä", "cal_1_1_9", "ok", "."]
    const log = running()
    const { facts } = accept(log, ...sent.map((id) => call(id)))
    const wireIds = facts.flatMap((fact) => (fact.type === "call.requested" ? [fact.data.wireId] : []))
    assert.strictEqual(new Set(wireIds).size, sent.length)
    for (const id of wireIds) assert.match(id, /^[A-Za-z0-9_-]{1,40}$/)
    assert.deepStrictEqual([wireIds[0], wireIds[8]], ["x", "ok"])
    completeAll(log)
    assert.isUndefined(Log.judge(log.state.window))
  })

  it("never uses a wire id again, not in a later Turn either", () => {
    const log = running()
    accept(log, call("x"))
    completeAll(log)
    log.write(TurnPlan.endTurn(log.state, openTurn(log), { type: "cancelled", by: "user", reason: undefined }))
    Log.admit(log, "again")
    startNext(log)
    const { runnable } = accept(log, call("x"))
    assert.strictEqual(runnable[0]?.wireId, "cal_2_1_0")
  })

  it("applies steers after the results of the batch and before the next request, in their order", () => {
    const log = running()
    accept(log, call("a"))
    Log.admit(log, "one")
    Log.admit(log, "later", { delivery: "follow-up" })
    Log.admit(log, "two")
    completeAll(log)
    const facts = TurnPlan.nextStep(log.state, openTurn(log), 0)
    assert.deepStrictEqual(types(facts), [
      "step.completed",
      "inbox.applied",
      "message.added",
      "inbox.applied",
      "message.added",
      "step.started"
    ])
    log.write(facts)
    assert.deepStrictEqual(
      log.state.window.map(({ role }) => role),
      ["user", "assistant", "tool", "user", "user"]
    )
    assert.deepStrictEqual([...log.state.pending.keys()], ["inb_3"])
  })

  it("asks for the hand-back when a limit is spent", () => {
    const log = running({ maxSteps: 1 })
    accept(log, call("a"))
    completeAll(log)
    log.write(TurnPlan.nextStep(log.state, openTurn(log), 0))
    assert.deepStrictEqual([openTurn(log).step?.step, openTurn(log).step?.kind], [2, "hand-back"])
    assert.strictEqual(TurnPlan.mustEnd(openTurn(log), 0), "steps")
  })

  it("runs nothing of a response that would only repeat what is known, answers all of it, and asks for the hand-back", () => {
    const log = running({ maxSteps: 9 })
    for (const n of [1, 2]) {
      accept(log, call(`a${n}`, "pay", { to: "x", n: 1 }))
      completeAll(log)
      log.write(TurnPlan.nextStep(log.state, openTurn(log), 0))
    }
    const { facts, runnable } = accept(log, call("a3", "pay", { n: 1, to: "x" }))
    assert.isEmpty(runnable)
    assert.deepStrictEqual(types(facts), ["message.added", "call.requested", "guard.repeated", "call.receipt"])
    const next = TurnPlan.nextStep(log.state, openTurn(log), 0)
    assert.deepStrictEqual(types(next), ["step.completed", "step.started"])
    log.write(next)
    assert.strictEqual(openTurn(log).step?.kind, "hand-back")
    const end = TurnPlan.endTurn(
      log.state,
      openTurn(log),
      TurnPlan.afterHandBack("repetition"),
      Accept.handBack(openTurn(log), TurnPlan.reasonToEnd(openTurn(log), "repetition"))
    )
    log.write(end)
    assert.include(types(end), "turn.tripped")
    assert.isUndefined(Log.judge(log.state.window))
  })

  it("tells the model of a repetition in the write of its results, recorded or not", () => {
    for (const isRecorded of [true, false]) {
      const log = running({ maxSteps: 9 })
      accept(log, call("a"))
      completeAll(log)
      log.write(TurnPlan.nextStep(log.state, openTurn(log), 0))
      accept(log, call("b"))
      const results = [done(Ids.callId(1, 2, 0))]
      if (isRecorded) log.write(results)
      const next = TurnPlan.nextStep(log.state, openTurn(log), 0, isRecorded ? [] : results)
      assert.deepStrictEqual(types(next), ["guard.repeated", "step.completed", "step.started"])
      log.write([...(isRecorded ? [] : results), ...next])
      assert.include(JSON.stringify(log.state.window.at(-1)), "note of the runtime")
      assert.notInclude(JSON.stringify(log.state.window.slice(0, -1)), "note of the runtime")
    }
  })

  it("says nothing of a repetition when the next step has no tools anyway", () => {
    const log = running({ maxSteps: 2 })
    for (const id of ["a", "b"]) {
      accept(log, call(id))
      completeAll(log)
      log.write(TurnPlan.nextStep(log.state, openTurn(log), 0))
    }
    assert.notInclude(types(log.events), "guard.repeated")
  })

  it("keeps only the words of a hand-back that calls tools all the same", () => {
    const log = running({ maxSteps: 0 })
    log.write(Accept.final(log.state, openTurn(log), response([text("done: nothing"), call("a")])))
    assert.isUndefined(Log.judge(log.state.window))
    assert.notInclude(JSON.stringify(log.state.window), "tool-call")
  })

  it("puts words in place of an answer without any", () => {
    for (const parts of [[], [text("")], [text(" \n")], [{ type: "reasoning", text: "hm" } as const]]) {
      const log = running()
      log.write(Accept.final(log.state, openTurn(log), response(parts)))
      assert.include(JSON.stringify(log.state.window.at(-1)), Accept.emptyAnswer)
      assert.isUndefined(Log.judge(log.state.window))
    }
  })

  it("ends a Turn with a receipt for every open call, then settled, then its terminal fact", () => {
    const log = running()
    accept(log, call("a"), call("b", "pay"), call("c"))
    log.write([done(Ids.callId(1, 1, 0))])
    const facts = TurnPlan.endTurn(log.state, openTurn(log), { type: "cancelled", by: "user", reason: "no" })
    assert.deepStrictEqual(types(facts), [
      "call.receipt",
      "call.receipt",
      "turn.settled",
      "turn.cancelled",
      "session.status"
    ])
    const settled = facts.find((fact) => fact.type === "turn.settled")
    assert.deepStrictEqual(settled?.data.receipts, [
      { callId: Ids.callId(1, 1, 1), outcome: "outcome-unknown" },
      { callId: Ids.callId(1, 1, 2), outcome: "cancelled" }
    ])
    log.write(facts)
    assert.isUndefined(Log.judge(log.state.window))
  })

  it("says the session is idle only when nothing waits", () => {
    const log = running()
    Log.admit(log, "next", { delivery: "follow-up" })
    const ending = { type: "cancelled", by: "user", reason: undefined } as const
    assert.notInclude(types(TurnPlan.endTurn(log.state, openTurn(log), ending)), "session.status")
    const other = running()
    Log.admit(other, "for you alone", { delivery: "steer", ifNotApplied: "return" })
    assert.include(types(TurnPlan.endTurn(other.state, openTurn(other), ending)), "session.status")
    const third = running()
    Log.admit(third, "keep", { delivery: "steer" })
    assert.notInclude(types(TurnPlan.endTurn(third.state, openTurn(third), ending)), "session.status")
  })

  it("makes the steers it leaves behind follow-ups, or returns them when asked so", () => {
    const log = running()
    Log.admit(log, "keep", { delivery: "steer" })
    Log.admit(log, "only now", { delivery: "steer", ifNotApplied: "return" })
    log.write(TurnPlan.endTurn(log.state, openTurn(log), { type: "cancelled", by: "user", reason: undefined }))
    assert.deepStrictEqual(
      [...log.state.pending.values()].map(({ delivery, id, turnId }) => [id, delivery, turnId]),
      [["inb_2", "follow-up", undefined]]
    )
  })

  it("counts the cost of the final answer in the Turn's usage", () => {
    const log = running()
    accept(log, call("a"))
    completeAll(log)
    log.write(TurnPlan.nextStep(log.state, openTurn(log), 0))
    const facts = TurnPlan.endTurn(
      log.state,
      openTurn(log),
      { type: "completed" },
      Accept.final(log.state, openTurn(log), response([text("done")]))
    )
    const end = facts.find((fact) => fact.type === "turn.completed")
    assert.deepStrictEqual(end?.data.usage, { inputTokens: 20, outputTokens: 10 })
    assert.strictEqual(end?.data.steps, 2)
    assert.strictEqual(end?.data.messageId, "msg_1_2")
  })

  const rules: Start.Rules = { keyOf: () => "one", refusalOf: () => undefined, atOnce: 16 }
  const local: Accept.PolicyOf = () => ({ effects: "once", domain: "local", exclusive: () => "one" })
  const reachable = new Set(["local"] as const)

  it("starts the next call of a key with the result of the one before, and none of it earlier", () => {
    const log = running()
    log.write(
      Accept.withCalls(
        log.state,
        openTurn(log),
        response([call("a", "pay"), call("b", "pay"), call("c", "read")]),
        (tool) => (tool === "pay" ? { effects: "once", domain: "server", exclusive: () => "one" } : policyOf(tool))
      )
    )
    const states = () => openTurn(log).ledger.calls.map(({ state }) => state)
    assert.deepStrictEqual(states(), ["started", "registered", "started"])
    const keyOf: Start.Rules["keyOf"] = ({ name }) => (name === "pay" ? "one" : undefined)
    const second = done(Ids.callId(1, 1, 2))
    assert.isEmpty(TurnPlan.startNext(openTurn(log), [second], { ...rules, keyOf }))
    const first = done(Ids.callId(1, 1, 0))
    const next = TurnPlan.startNext(openTurn(log), [first], { ...rules, keyOf })
    assert.deepStrictEqual(next, [{ type: "call.started", data: { callId: Ids.callId(1, 1, 1), attempt: 1 } }])
    log.write([first, ...next])
    assert.deepStrictEqual(states(), ["answered", "started", "started"])
  })

  it("starts no more calls at once than there is room, in the order of the response", () => {
    const log = running()
    const many = Array.from({ length: 5 }, (_, index) => call(`c${index}`))
    log.write(Accept.withCalls(log.state, openTurn(log), response(many), policyOf, { atOnce: 2 }))
    const started = () => openTurn(log).ledger.calls.flatMap(({ state }, index) => (state === "started" ? [index] : []))
    assert.deepStrictEqual(started(), [0, 1])
    const result = done(Ids.callId(1, 1, 1))
    log.write([result, ...TurnPlan.startNext(openTurn(log), [result], { ...rules, keyOf: () => undefined, atOnce: 2 })])
    assert.deepStrictEqual(started(), [0, 2])
  })

  it("stops the calls of a domain inside a batch when its failures are spent", () => {
    const log = running({ maxSteps: 2, failureLimit: 2 })
    const many = Array.from({ length: 4 }, (_, index) => call(`c${index}`, "edit", { index }))
    log.write(Accept.withCalls(log.state, openTurn(log), response(many), local, { reachable }))
    for (const index of [0, 1]) {
      const failed: Fact = {
        type: "call.completed",
        data: { callId: Ids.callId(1, 1, index), isFailure: true, output: "away", ms: 1 }
      }
      log.write([failed, ...TurnPlan.startNext(openTurn(log), [failed], rules)])
    }
    const { calls } = openTurn(log).ledger
    assert.deepStrictEqual(
      calls.map(({ state }) => state),
      ["answered", "answered", "refused", "refused"]
    )
    assert.match(String(calls[3]?.answer?.output), /2 calls of local tools have failed in a row/)
  })

  it("starts nothing that a person must approve, and nothing at the user's, unless it is known to be free", () => {
    const asking: Record<string, ReturnType<Accept.PolicyOf>> = {
      always: { effects: "once", domain: "server", needsApproval: true },
      decides: { effects: "pure", domain: "server", needsApproval: () => Effect.succeed(false) },
      never: { effects: "once", domain: "server", needsApproval: false },
      client: { effects: "pure", domain: "client" },
      local: { effects: "pure", domain: "local" },
      desktop: { effects: "pure", domain: "desktop" },
      plugin: { effects: "pure", domain: "plugin" }
    }
    const names = Object.keys(asking)
    const startedOf = (known: Accept.Known) => {
      const log = running()
      const made = response(names.map((name) => call(name, name)))
      const { facts, runnable } = accepted(
        Accept.withCalls(log.state, openTurn(log), made, (tool) => asking[tool], known)
      )
      log.write(facts)
      for (const { answer, name, state } of openTurn(log).ledger.calls) {
        if (state === "refused")
          assert.match(String(answer?.output), new RegExp(`not executed: ${name} (needs|is exec)`))
      }
      return runnable.map(({ name }) => name)
    }
    assert.deepStrictEqual(startedOf({}), ["never"])
    // Only a rule can find a call free: what always needs a person does.
    const free = new Set(names.map((_, index) => Ids.callId(1, 1, index)))
    assert.deepStrictEqual(startedOf({ free }), ["decides", "never"])
  })

  it("answers the calls beyond the limit of a response in words", () => {
    for (const [bounds, limit] of [
      [limits, 128],
      [{ ...limits, callLimit: 3 }, 3]
    ] as const) {
      const log = running(bounds)
      const many = Array.from({ length: limit + 2 }, (_, index) => call(`c${index}`))
      const facts = Accept.withCalls(log.state, openTurn(log), response(many), policyOf, { atOnce: 1000 })
      assert.lengthOf(accepted(facts).runnable, limit)
      assert.match(String(outputOf(facts, Ids.callId(1, 1, limit))), new RegExp(`a response may make ${limit} calls`))
      log.write(facts)
    }
  })
})
