import { assert, describe } from "@effect/vitest"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Journals from "../../fixtures/Journals.ts"
import * as Sound from "../../fixtures/Sound.ts"
import type { It } from "../../fixtures/Stores.ts"
import * as Tools from "../../fixtures/Tools.ts"
import * as World from "../../fixtures/World.ts"

const { calls, script, text } = StrictProvider

export const suite = (it: It): void => {
  describe("Step", () => {
    it.effect("runs the calls of a batch side by side and answers them in their own order", () =>
      Effect.gen(function* () {
        const gates = yield* Effect.all([Tools.gate, Tools.gate, Tools.gate])
        const { provider, session, tools } = yield* World.withTools({
          respond: script([
            calls([Tools.call("look", "0"), Tools.call("pay", "1"), Tools.call("put", "2")]),
            text("done")
          ])
        })
        gates.forEach((gate, act) => tools.on(`${act}`, Effect.as(gate.pass, `result ${act}`)))
        const run = yield* Effect.forkChild(session.run("go"))
        // All three wait at their gates at once: none waits for another.
        yield* Effect.all(gates.map(({ reached }) => reached))
        for (const gate of gates.toReversed()) yield* gate.open
        yield* Fiber.join(run)
        assert.deepStrictEqual(
          provider.requests[1]?.messages.flatMap(({ content, role }) => (role === "tool" ? [content] : [])),
          ["result 0", "result 1", "result 2"]
        )
        assert.isEmpty(yield* Sound.complaints(session, provider, tools))
      })
    )

    it.effect("starts a call that may have effects only when its response is recorded, a pure one at once", () =>
      Effect.gen(function* () {
        const [record, look] = yield* Effect.all([Tools.gate, Tools.gate])
        const { session, tools } = yield* World.withTools({
          respond: script([
            calls([
              Tools.call("pay", "pay"),
              Tools.call("put", "put"),
              Tools.call("poll", "poll"),
              Tools.call("look", "look")
            ]),
            text("done")
          ]),
          around: Journals.before(Journals.atFirst("call.requested", record.pass))
        })
        tools.on("look", Effect.as(look.pass, "seen"))
        const run = yield* Effect.forkChild(session.run("go"))
        yield* Effect.all([record.reached, look.reached])
        yield* Effect.yieldNow
        assert.deepStrictEqual(Tools.startedActs(tools), ["look"])
        yield* record.open
        yield* look.open
        yield* Fiber.join(run)
        assert.sameMembers([...Tools.startedActs(tools)], ["look", "pay", "put", "poll"])
      })
    )

    it.effect("records a result while others of its batch still run", () =>
      Effect.gen(function* () {
        const gate = yield* Tools.gate
        const { session, tools } = yield* World.withTools({
          respond: script([calls([Tools.call("pay", "quick"), Tools.call("pay", "slow")]), text("done")])
        })
        tools.on("slow", Effect.as(gate.pass, "late"))
        const run = yield* Effect.forkChild(session.run("go"))
        yield* gate.reached
        const event = yield* World.until(session, ({ type }) => type === "call.completed")
        assert.strictEqual(event.type === "call.completed" && event.data.output, "did quick")
        yield* gate.open
        yield* Fiber.join(run)
      })
    )

    it.effect("asks the model again only when every result of the batch is there", () =>
      Effect.gen(function* () {
        const gate = yield* Tools.gate
        const { provider, session, tools } = yield* World.withTools({
          respond: script([calls([Tools.call("look", "quick"), Tools.call("look", "slow")]), text("done")])
        })
        tools.on("slow", Effect.as(gate.pass, "late"))
        const run = yield* Effect.forkChild(session.run("go"))
        yield* gate.reached
        yield* World.until(session, ({ type }) => type === "call.completed")
        assert.lengthOf(provider.requests, 1)
        yield* gate.open
        yield* Fiber.join(run)
        assert.lengthOf(provider.requests, 2)
      })
    )

    it.effect("runs no call of a response that was cut off by its length, and goes on", () =>
      Effect.gen(function* () {
        const { provider, session, tools } = yield* World.withTools({
          respond: script([
            calls([Tools.call("pay", "a"), { name: "look", arguments: '{"act": "b' }], { finish: "length" }),
            calls([Tools.call("pay", "c")]),
            text("done")
          ])
        })
        assert.deepStrictEqual(World.brief(yield* session.run("go")), ["Answered", "done", 3])
        assert.deepStrictEqual(Tools.startedActs(tools), ["c"])
        assert.include(JSON.stringify(provider.requests[1]?.messages), "was not executed")
        assert.isEmpty(yield* Sound.complaints(session, provider, tools))
      })
    )

    it.effect("lets a tool steer its own Turn, and queue behind it", () =>
      Effect.gen(function* () {
        const { provider, session, tools } = yield* World.withTools({
          respond: script([
            calls([Tools.call("pay", "speak"), Tools.call("look", "other")]),
            text("done"),
            text("later")
          ])
        })
        tools.on(
          "speak",
          Effect.orDie(session.steer("from within")).pipe(
            Effect.andThen(Effect.orDie(session.followUp("afterwards"))),
            Effect.as("spoken")
          )
        )
        yield* session.send("go")
        yield* World.ended(session, 2)
        assert.deepStrictEqual(
          provider.requests.map(({ messages }) => messages.at(-1)?.content),
          ["go", "from within", "afterwards"]
        )
        assert.isEmpty(yield* Sound.complaints(session, provider, tools))
      })
    )

    it.effect("lets a tool cancel its own Turn", () =>
      Effect.gen(function* () {
        const { provider, session, tools } = yield* World.withTools({
          respond: script([calls([Tools.call("pay", "stop"), Tools.call("look", "other")]), text("fine")])
        })
        tools.on("stop", Effect.andThen(Effect.orDie(session.cancel("trn_1", "I saw enough")), Effect.never))
        tools.on("other", Effect.never)
        const outcome = yield* session.run("go")
        assert.deepStrictEqual(World.brief(outcome), ["Cancelled", "user", "I saw enough"])
        assert.deepStrictEqual(World.answers(yield* World.events(session)), {
          stop: "outcome-unknown",
          other: "cancelled"
        })
        assert.strictEqual((yield* session.run("next"))._tag, "Answered")
        assert.isEmpty(yield* Sound.complaints(session, provider, tools))
      })
    )

    it.effect("takes a hundred calls at once", () =>
      Effect.gen(function* () {
        const names = ["look", "put", "poll", "pay"] as const
        const { provider, session, tools } = yield* World.withTools({
          respond: script([
            calls(Array.from({ length: 100 }, (_, act) => Tools.call(names[act % 4] ?? "look", `${act}`))),
            text("done")
          ])
        })
        assert.deepStrictEqual(World.brief(yield* session.run("go")), ["Answered", "done", 2])
        assert.lengthOf(tools.started, 100)
        assert.lengthOf(
          (provider.requests[1]?.messages ?? []).filter(({ role }) => role === "tool"),
          100
        )
        assert.isEmpty(yield* Sound.complaints(session, provider, tools))
      })
    )

    it.effect("registers and starts every call in the write of its response", () =>
      Effect.gen(function* () {
        const writes: Array<ReadonlyArray<string>> = []
        const { session } = yield* World.withTools({
          respond: script([calls([Tools.call("pay", "a"), Tools.call("look", "b")]), text("done")]),
          around: Journals.before(({ facts }) => Effect.sync(() => writes.push(facts.map(({ type }) => type))))
        })
        yield* session.run("go")
        assert.deepStrictEqual(writes[1], [
          "message.added",
          "call.requested",
          "call.requested",
          "call.started",
          "call.started"
        ])
      })
    )

    it.effect("costs two writes with a single call", () =>
      Effect.gen(function* () {
        let writes = 0
        const { session } = yield* World.withTools({
          respond: script([calls([Tools.call("pay", "a")]), calls([Tools.call("look", "b")]), text("done")]),
          around: Journals.before(() => Effect.sync(() => writes++))
        })
        yield* session.run("go")
        // Turn and first step, then response and results of each step, then the end.
        assert.strictEqual(writes, 6)
      })
    )
  })
}
