import { assert, describe } from "@effect/vitest"
import { bytesOf } from "@turnstep/core/Journal"
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
  describe("Handover", () => {
    it.effect("asks the model again when the host let go while it answered, and shows one Turn", () =>
      Effect.gen(function* () {
        const gate = yield* Tools.gate
        const { journal, provider, session, start, stop } = yield* World.withTools({
          respond: script([text(["half", gate.pass]), text("whole")])
        })
        yield* session.send("go")
        yield* gate.reached
        // The model is asked while the step's record is still on its way.
        yield* World.until(session, ({ type }) => type === "step.started")
        const before = yield* World.events(session)
        yield* stop
        yield* provider.requests[0]?.aborted ?? Effect.void
        assert.deepStrictEqual(yield* journal.read(session.id, { after: 0 }), before)
        const next = yield* (yield* start).sessions.get(session.id)
        yield* World.ended(next, 1)
        assert.deepStrictEqual(
          provider.requests.map(({ messages }) => messages.length),
          [2, 2]
        )
        assert.isEmpty(yield* Sound.complaints(next, provider))
      })
    )

    it.effect(
      "keeps what is recorded, repeats what may be repeated under its key, and admits what it cannot know",
      () =>
        Effect.gen(function* () {
          const gates = yield* Effect.all({ look: Tools.gate, put: Tools.gate, poll: Tools.gate, pay: Tools.gate })
          const { journal, provider, session, start, stop, tools } = yield* World.withTools({
            respond: script([
              calls([
                Tools.call("pay", "kept"),
                Tools.call("look", "look"),
                Tools.call("put", "put"),
                Tools.call("poll", "poll"),
                Tools.call("pay", "pay")
              ]),
              text("done")
            ])
          })
          for (const [act, gate] of Object.entries(gates)) tools.on(act, Effect.as(gate.pass, "late"))
          yield* session.send("go")
          yield* Effect.forEach(Object.values(gates), ({ reached }) => reached)
          yield* World.until(session, ({ type }) => type === "call.completed")
          const before = yield* World.events(session)
          yield* stop
          assert.deepStrictEqual(yield* journal.read(session.id, { after: 0 }), before)
          for (const act of Object.keys(gates)) tools.on(act, Effect.succeed("again"))
          const next = yield* (yield* start).sessions.get(session.id)
          yield* World.ended(next, 1)
          assert.deepStrictEqual(World.answers(yield* World.events(next)), {
            kept: "ok",
            look: "ok",
            put: "ok",
            poll: "outcome-unknown",
            pay: "outcome-unknown"
          })
          const keysOf = (act: string) => tools.started.flatMap((run) => (run.act === act ? [run.key] : []))
          assert.lengthOf(keysOf("kept"), 1)
          assert.lengthOf(keysOf("pay"), 1)
          assert.lengthOf(keysOf("poll"), 1)
          assert.lengthOf(keysOf("look"), 2)
          assert.strictEqual(new Set(keysOf("put")).size, 1)
          assert.lengthOf(keysOf("put"), 2)
          assert.lengthOf(provider.requests, 2)
          assert.isEmpty(yield* Sound.complaints(next, provider, tools))
        })
    )

    it.effect("settles a Turn whose end could not be written, as soon as it can", () =>
      Effect.gen(function* () {
        const running = yield* Tools.gate
        const { logged, provider, session, tools } = yield* World.withTools({
          respond: script([calls([Tools.call("pay", "a")]), text("fine")]),
          around: Journals.before(Journals.atFirst("turn.cancelled", Effect.die("the store is away")))
        })
        tools.on("a", Effect.as(running.pass, "late"))
        yield* session.send("go")
        yield* running.reached
        yield* session.cancel("trn_1", "enough")
        const end = yield* World.ended(session, 1)
        assert.deepInclude(end.data, { by: "user", reason: "enough" })
        assert.deepStrictEqual(World.answers(yield* World.events(session)), { a: "outcome-unknown" })
        assert.include(logged.join(), "the turn was not settled here")
        assert.deepStrictEqual(World.brief(yield* session.run("next")), ["Answered", "fine", 1])
        assert.isEmpty(yield* Sound.complaints(session, provider, tools))
      })
    )

    it.effect("starts the messages that waited, in their order", () =>
      Effect.gen(function* () {
        const gate = yield* Tools.gate
        const { provider, session, start, stop } = yield* World.withTools({
          respond: script([text([gate.pass]), text("one"), text("two"), text("three")])
        })
        yield* session.send("a")
        yield* gate.reached
        yield* session.followUp("b")
        yield* session.steer("c")
        yield* stop
        const next = yield* (yield* start).sessions.get(session.id)
        yield* World.ended(next, 3)
        assert.deepStrictEqual(
          World.dataOf(yield* World.events(next), "turn.started").map(({ itemId }) => itemId),
          ["inb_1", "inb_2", "inb_3"]
        )
        assert.isEmpty(yield* Sound.complaints(next, provider))
      })
    )

    it.effect("counts the steps of the whole Turn, over its owners", () =>
      Effect.gen(function* () {
        const gate = yield* Tools.gate
        const { provider, session, start, stop, tools } = yield* World.withTools({
          respond: (request) =>
            request.body["tool_choice"] === "none" ? text("over") : calls([Tools.call("look", `${request.index}`)]),
          policy: { maxSteps: 3 }
        })
        tools.on("1", Effect.as(gate.pass, "late"))
        yield* session.send("go")
        yield* gate.reached
        yield* stop
        tools.on("1", Effect.succeed("again"))
        const next = yield* (yield* start).sessions.get(session.id)
        const end = yield* World.ended(next, 1)
        assert.strictEqual(end.type === "turn.exhausted" && end.data.steps, 3)
        assert.deepStrictEqual(Tools.startedActs(tools), ["0", "1", "1", "2"])
        assert.isEmpty(yield* Sound.complaints(next, provider, tools))
      })
    )

    it.effect("carries a write that is under way to its end", () =>
      Effect.gen(function* () {
        const [recording, slow] = yield* Effect.all([Tools.gate, Tools.gate])
        const { session, start, stop, tools } = yield* World.withTools({
          respond: script([calls([Tools.call("pay", "quick"), Tools.call("look", "slow")]), text("done")]),
          around: Journals.before(Journals.atFirst("call.completed", recording.pass))
        })
        tools.on("slow", Effect.as(slow.pass, "late"))
        yield* session.send("go")
        yield* Effect.all([recording.reached, slow.reached])
        const stopped = yield* Effect.forkChild(stop, { startImmediately: true })
        yield* recording.open
        yield* Fiber.join(stopped)
        tools.on("slow", Effect.succeed("again"))
        const next = yield* (yield* start).sessions.get(session.id)
        yield* World.ended(next, 1)
        assert.deepStrictEqual(World.answers(yield* World.events(next)), { quick: "ok", slow: "ok" })
      })
    )

    it.effect("reads a session of large messages page by page, each of a few megabytes", () =>
      Effect.gen(function* () {
        const pages: Array<number> = []
        const { provider, session, start, stop } = yield* World.withTools({
          respond: script(Array.from({ length: 9 }, () => text("ok"))),
          around: (journal) => ({
            ...journal,
            read: (id, page) =>
              Effect.tap(journal.read(id, page), (events) =>
                Effect.sync(() => void (page.types ?? pages.push(bytesOf(events))))
              )
          })
        })
        const large = "x".repeat(1024 * 1024)
        for (let turn = 1; turn <= 8; turn++) yield* session.run(`${turn} ${large}`)
        yield* stop
        pages.length = 0
        const next = yield* (yield* start).sessions.get(session.id)
        yield* next.run("and now?")
        assert.lengthOf(provider.requests.at(-1)?.messages ?? [], 1 + 8 * 2 + 1)
        // Each message is in the record twice: as it was admitted, and as it was applied.
        assert.isAtLeast(pages.filter((bytes) => bytes > 1024 * 1024).length, 3)
        assert.isBelow(Math.max(...pages), 6 * 1024 * 1024)
      })
    )
  })
}
