import { assert, describe } from "@effect/vitest"
import { isTerminal } from "@turnstep/core/TurnEvent"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Drivers from "@turnstep/runtime/Drivers"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Journals from "../../fixtures/Journals.ts"
import * as Sound from "../../fixtures/Sound.ts"
import type { It } from "../../fixtures/Stores.ts"
import * as Tools from "../../fixtures/Tools.ts"
import * as World from "../../fixtures/World.ts"

const { calls, script, text } = StrictProvider

export const suite = (it: It): void => {
  describe("Turn", () => {
    it.effect("answers without tools in one step", () =>
      Effect.gen(function* () {
        const { provider, session } = yield* World.withTools({ respond: script([text(["Hel", "lo"])]) })
        assert.deepStrictEqual(World.brief(yield* session.run("hi")), ["Answered", "Hello", 1])
        assert.deepStrictEqual(
          (yield* World.events(session)).map(({ type }) => type),
          [
            "session.created",
            "inbox.admitted",
            "session.status",
            "turn.started",
            "inbox.applied",
            "message.added",
            "step.started",
            "message.added",
            "step.completed",
            "turn.settled",
            "turn.completed",
            "session.status"
          ]
        )
        assert.isEmpty(yield* Sound.complaints(session, provider))
      })
    )

    it.effect("goes on until the model calls no more tools", () =>
      Effect.gen(function* () {
        const { provider, session, tools } = yield* World.withTools({
          respond: script([
            calls([Tools.call("look", "a"), Tools.call("pay", "b")]),
            calls([Tools.call("look", "c")], { text: "one more" }),
            text("done")
          ])
        })
        assert.deepStrictEqual(World.brief(yield* session.run("go")), ["Answered", "done", 3])
        assert.sameMembers([...Tools.startedActs(tools)], ["a", "b", "c"])
        assert.deepStrictEqual(
          provider.requests[2]?.messages.map(({ role }) => role),
          ["system", "user", "assistant", "tool", "tool", "assistant", "tool"]
        )
        assert.isEmpty(yield* Sound.complaints(session, provider, tools))
      })
    )

    it.effect("remembers the Turns before it", () =>
      Effect.gen(function* () {
        const { provider, session } = yield* World.withTools({ respond: script([text("one"), text("two")]) })
        yield* session.run("first")
        yield* session.run("second")
        assert.deepStrictEqual(
          provider.requests[1]?.messages.slice(1).map(({ content }) => content),
          ["first", "one", "second"]
        )
        assert.strictEqual((yield* session.summary).turns, 2)
      })
    )

    it.effect("stops the model's stream when it is cancelled, and goes on with the next message", () =>
      Effect.gen(function* () {
        const gate = yield* Tools.gate
        const { provider, session } = yield* World.withTools({
          respond: script([text(["half", gate.pass, "never"]), text("fine")])
        })
        const run = yield* Effect.forkChild(session.run("tell me"))
        yield* gate.reached
        assert.strictEqual((yield* session.cancel("trn_1", "changed my mind")).state, "cancelling")
        assert.deepStrictEqual(World.brief(yield* Fiber.join(run)), ["Cancelled", "user", "changed my mind"])
        yield* provider.requests[0]?.aborted ?? Effect.void
        assert.deepStrictEqual(World.brief(yield* session.run("again")), ["Answered", "fine", 1])
        assert.notInclude(JSON.stringify(provider.requests[1]?.messages), "half")
        assert.isEmpty(yield* Sound.complaints(session, provider))
      })
    )

    it.effect("answers every open call by a receipt that says what is known, when it is cancelled", () =>
      Effect.gen(function* () {
        const gates = yield* Effect.all({ look: Tools.gate, put: Tools.gate, poll: Tools.gate, pay: Tools.gate })
        const { provider, session, tools } = yield* World.withTools({
          respond: script([
            calls([
              Tools.call("look", "done"),
              Tools.call("look", "look"),
              Tools.call("put", "put"),
              Tools.call("poll", "poll"),
              Tools.call("pay", "pay")
            ]),
            text("fine")
          ])
        })
        for (const [act, gate] of Object.entries(gates)) tools.on(act, Effect.as(gate.pass, "late"))
        const run = yield* Effect.forkChild(session.run("go"))
        yield* Effect.forEach(Object.values(gates), ({ reached }) => reached)
        yield* World.until(session, (event) => event.type === "call.completed")
        yield* session.cancel("trn_1")
        yield* Fiber.join(run)
        assert.deepStrictEqual(World.answers(yield* World.events(session)), {
          done: "ok",
          look: "cancelled",
          put: "outcome-unknown",
          poll: "outcome-unknown",
          pay: "outcome-unknown"
        })
        assert.deepStrictEqual(tools.finished, ["done"])
        assert.strictEqual((yield* session.run("next"))._tag, "Answered")
        const told = JSON.stringify(provider.requests[1]?.messages)
        assert.include(told, "did done")
        assert.include(told, "[receipt: outcome unknown] pay")
        assert.isEmpty(yield* Sound.complaints(session, provider, tools))
      })
    )

    it.effect("records the cancel before it obeys, the receipts before it ends", () =>
      Effect.gen(function* () {
        const gate = yield* Tools.gate
        const { session, tools } = yield* World.withTools({ respond: script([calls([Tools.call("pay", "a")])]) })
        tools.on("a", Effect.as(gate.pass, "late"))
        const run = yield* Effect.forkChild(session.run("go"))
        yield* gate.reached
        yield* session.cancel("trn_1")
        yield* Fiber.join(run)
        const types = (yield* World.events(session)).map(({ type }) => type)
        assert.deepStrictEqual(types.slice(types.indexOf("turn.cancelling")), [
          "turn.cancelling",
          "call.receipt",
          "turn.settled",
          "turn.cancelled",
          "session.status"
        ])
      })
    )

    it.effect("is cancelled once, however often it is asked", () =>
      Effect.gen(function* () {
        const gate = yield* Tools.gate
        const { session } = yield* World.withTools({ respond: script([text([gate.pass, "never"])]) })
        const run = yield* Effect.forkChild(session.run("go"))
        yield* gate.reached
        yield* Effect.all([session.cancel("trn_1"), session.cancel("trn_1"), session.cancel("trn_1")], {
          concurrency: "unbounded"
        })
        yield* Fiber.join(run)
        assert.strictEqual((yield* session.cancel("trn_1")).state, "ended")
        assert.lengthOf(World.dataOf(yield* World.events(session), "turn.cancelling"), 1)
      })
    )

    it.effect("is unknown to cancel when the session never had it", () =>
      Effect.gen(function* () {
        const { session } = yield* World.withTools({ respond: script([]) })
        for (const id of ["trn_1", "trn_0", "nonsense", "trn_1; drop"]) {
          assert.strictEqual((yield* Effect.flip(session.cancel(id)))._tag, "TurnNotFound")
        }
      })
    )

    it.effect("can be cancelled as soon as it is announced: its message comes back, and it does not begin", () =>
      Effect.gen(function* () {
        const opening = yield* Tools.gate
        const { provider, session } = yield* World.withTools({
          respond: script([text("fine")]),
          around: Journals.before(Journals.atFirst("turn.started", opening.pass))
        })
        const { itemId, turnId } = yield* session.send("go")
        assert.strictEqual(turnId, "trn_1")
        assert.strictEqual((yield* session.summary).status, "queued")
        yield* opening.reached
        // Its owner is about to begin it, and stands still.
        assert.deepStrictEqual(yield* session.cancel("trn_1"), { turnId, state: "returned" })
        yield* opening.open
        yield* World.until(session, (event) => event.type === "session.status" && event.data.status === "idle").pipe(
          Effect.raceFirst(World.until(session, (event) => event.type === "inbox.returned"))
        )
        const returned = World.dataOf(yield* World.events(session), "inbox.returned")
        assert.deepStrictEqual(returned, [{ itemId, reason: "cancelled", disposition: "returned" }])
        assert.strictEqual((yield* session.withdraw(itemId).pipe(Effect.flip))._tag, "ItemSettled")
        assert.strictEqual((yield* session.run("next"))._tag, "Answered")
        assert.lengthOf(provider.requests, 1)
        assert.isEmpty(yield* Sound.complaints(session, provider))
      })
    )

    it.effect("can be cancelled before it begins where nobody would begin it", () =>
      Effect.gen(function* () {
        const { provider, session } = yield* World.withTools({ respond: script([]) }).pipe(
          Effect.provideService(Drivers.Workers, 0)
        )
        yield* session.send("go")
        yield* session.steer("and this", { ifNotApplied: "return" })
        assert.strictEqual((yield* session.cancel("trn_1")).state, "returned")
        assert.strictEqual((yield* session.summary).status, "idle")
        assert.isEmpty(yield* Sound.complaints(session, provider))
      })
    )

    const writes = [
      ["its last answer", "turn.completed", [text("done")], {}],
      ["an accepted response", "call.requested", [calls([Tools.call("pay", "a")])], {}],
      ["results and the next request", "step.completed", [calls([Tools.call("pay", "a")]), text("never")], { a: "ok" }]
    ] as const
    for (const [what, type, replies, answer] of writes) {
      it.effect(`obeys a cancel that arrives in the write of ${what}`, () =>
        Effect.gen(function* () {
          const writing = yield* Tools.gate
          let isCancelled = false
          const { provider, session, tools } = yield* World.withTools({
            respond: (request) => (isCancelled ? text("fine") : replies[request.index]),
            around: Journals.before(Journals.atFirst(type, writing.pass))
          })
          yield* session.send("go")
          yield* writing.reached
          assert.strictEqual((yield* session.cancel("trn_1")).state, "cancelling")
          yield* writing.open
          assert.strictEqual((yield* World.ended(session, 1)).type, "turn.cancelled")
          isCancelled = true
          const events = yield* World.events(session)
          assert.deepStrictEqual(World.answers(events), { ...answer })
          // Nothing takes a Turn further that has been told to stop.
          const told = events.findIndex((event) => event.type === "turn.cancelling")
          const further = ["step.started", "call.requested", "call.started"]
          assert.isEmpty(events.slice(told).filter((event) => further.includes(event.type)))
          assert.strictEqual((yield* session.run("next"))._tag, "Answered")
          assert.isEmpty(yield* Sound.complaints(session, provider, tools))
        })
      )
    }

    it.effect("keeps the results that were there when it was cancelled", () =>
      Effect.gen(function* () {
        const [slow, quick] = yield* Effect.all([Tools.gate, Tools.gate])
        const { provider, session, tools } = yield* World.withTools({
          respond: script([calls([Tools.call("pay", "quick"), Tools.call("pay", "slow")]), text("fine")])
        })
        tools.on("quick", Effect.as(quick.pass, "paid"))
        tools.on("slow", Effect.as(slow.pass, "late"))
        const run = yield* Effect.forkChild(session.run("go"))
        yield* Effect.all([quick.reached, slow.reached])
        yield* quick.open
        yield* World.until(session, (event) => event.type === "call.completed")
        yield* session.cancel("trn_1")
        yield* Fiber.join(run)
        assert.deepStrictEqual(World.answers(yield* World.events(session)), { quick: "ok", slow: "outcome-unknown" })
        yield* session.run("next")
        assert.isEmpty(yield* Sound.complaints(session, provider, tools))
      })
    )

    it.effect("lets nothing of a cancelled Turn reach the next", () =>
      Effect.gen(function* () {
        const gate = yield* Tools.gate
        const { provider, session, tools } = yield* World.withTools({
          respond: script([calls([Tools.call("look", "a")]), text("fine")])
        })
        tools.on("a", Effect.as(gate.pass, "late"))
        yield* session.send("go")
        yield* gate.reached
        yield* session.cancel("trn_1")
        yield* session.send("next")
        yield* World.ended(session, 2)
        yield* gate.open
        const ends = (yield* World.events(session)).filter(isTerminal).map(({ type }) => type)
        assert.deepStrictEqual(ends, ["turn.cancelled", "turn.completed"])
        assert.notInclude(JSON.stringify(provider.requests[1]?.messages), "late")
        assert.isEmpty(yield* Sound.complaints(session, provider, tools))
      })
    )
  })
}
