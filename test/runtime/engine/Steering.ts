import { assert, describe } from "@effect/vitest"
import type { Session } from "@turnstep/runtime/Session"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Journals from "../../fixtures/Journals.ts"
import * as Sound from "../../fixtures/Sound.ts"
import type { It } from "../../fixtures/Stores.ts"
import * as Tools from "../../fixtures/Tools.ts"
import * as World from "../../fixtures/World.ts"

const { calls, script, text } = StrictProvider

/** A session whose first Turn is in the middle of a batch of two calls; `release` lets them end. */
const midBatch = Effect.fnUntraced(function* (replies: ReadonlyArray<StrictProvider.Reply>) {
  const gates = yield* Effect.all([Tools.gate, Tools.gate])
  const world = yield* World.withTools({
    respond: script([calls([Tools.call("look", "0"), Tools.call("look", "1")]), ...replies])
  })
  gates.forEach((gate, act) => world.tools.on(`${act}`, Effect.as(gate.pass, `result ${act}`)))
  const run = yield* Effect.forkChild(world.session.run("go"))
  yield* Effect.all(gates.map(({ reached }) => reached))
  return { ...world, gates, run, release: Effect.all(gates.map(({ open }) => open)) }
})

/** The messages of a request after the system's, by role and text. */
const said = (request: StrictProvider.Request | undefined) =>
  request?.messages.slice(1).map(({ content, role }) => [role, content])

/** Where each message was applied. */
const inputsOf = (session: Session) =>
  Effect.map(World.events(session), (events) =>
    World.dataOf(events, "inbox.applied").map(({ itemId, step, turnId }) => [itemId, turnId, step])
  )

export const suite = (it: It): void => {
  describe("Steering", () => {
    it.effect("lands after all results of the batch, before the next request, once, as messages of its own", () =>
      Effect.gen(function* () {
        const { gates, provider, release, run, session, tools } = yield* midBatch([text("done"), text("again")])
        yield* gates[0].open
        yield* World.until(session, ({ type }) => type === "call.completed")
        assert.deepInclude(yield* session.steer("only .ts"), { effect: "steering", turnId: "trn_1" as never })
        assert.deepInclude(yield* session.send("and fast"), { effect: "steering", delivery: "steer" })
        yield* release
        yield* Fiber.join(run)
        assert.deepStrictEqual(said(provider.requests[1]), [
          ["user", "go"],
          ["assistant", null],
          ["tool", "result 0"],
          ["tool", "result 1"],
          ["user", "only .ts"],
          ["user", "and fast"]
        ])
        yield* session.run("next")
        assert.lengthOf(
          (said(provider.requests[2]) ?? []).filter(([, content]) => content === "only .ts"),
          1
        )
        assert.deepStrictEqual(yield* inputsOf(session), [
          ["inb_1", "trn_1", 1],
          ["inb_2", "trn_1", 2],
          ["inb_3", "trn_1", 2],
          ["inb_4", "trn_2", 1]
        ])
        assert.isEmpty(yield* Sound.complaints(session, provider, tools))
      })
    )

    it.effect("is not read before the step that follows it", () =>
      Effect.gen(function* () {
        const { provider, release, run, session } = yield* midBatch([text("done")])
        yield* session.steer("x")
        assert.lengthOf(World.dataOf(yield* World.events(session), "inbox.applied"), 1)
        assert.lengthOf(provider.requests, 1)
        yield* release
        yield* Fiber.join(run)
      })
    )

    it.effect("makes three follow-ups three Turns, in their order", () =>
      Effect.gen(function* () {
        const { provider, release, session } = yield* midBatch([text("a"), text("b"), text("c"), text("d")])
        for (const name of ["one", "two", "three"]) {
          assert.deepInclude(yield* session.followUp(name), { effect: "queued", turnId: undefined })
        }
        yield* release
        yield* World.ended(session, 4)
        assert.deepStrictEqual(yield* inputsOf(session), [
          ["inb_1", "trn_1", 1],
          ["inb_2", "trn_2", 1],
          ["inb_3", "trn_3", 1],
          ["inb_4", "trn_4", 1]
        ])
        assert.deepStrictEqual(
          said(provider.requests[4])?.filter(([role]) => role === "user"),
          [
            ["user", "go"],
            ["user", "one"],
            ["user", "two"],
            ["user", "three"]
          ]
        )
        assert.isEmpty(yield* Sound.complaints(session, provider))
      })
    )

    it.effect("becomes a follow-up when the Turn ends before its next step", () =>
      Effect.gen(function* () {
        const gate = yield* Tools.gate
        const { provider, session } = yield* World.withTools({
          respond: script([text(["al", gate.pass, "most"]), text("then")])
        })
        yield* session.send("go")
        yield* gate.reached
        yield* session.steer("too late")
        yield* gate.open
        yield* World.ended(session, 2)
        const events = yield* World.events(session)
        assert.deepStrictEqual(World.dataOf(events, "inbox.returned"), [
          { itemId: "inb_2" as never, reason: "turn-ended", disposition: "follow-up" }
        ])
        assert.deepStrictEqual(yield* inputsOf(session), [
          ["inb_1", "trn_1", 1],
          ["inb_2", "trn_2", 1]
        ])
        assert.isEmpty(yield* Sound.complaints(session, provider))
      })
    )

    it.effect("is returned when the Turn ends before its next step and the sender asked so", () =>
      Effect.gen(function* () {
        const gate = yield* Tools.gate
        const { provider, session } = yield* World.withTools({ respond: script([text(["al", gate.pass, "most"])]) })
        yield* session.send("go")
        yield* gate.reached
        yield* session.steer("now or never", { ifNotApplied: "return" })
        yield* gate.open
        yield* World.ended(session, 1)
        yield* World.until(session, (event) => event.type === "session.status" && event.data.status === "idle")
        assert.deepStrictEqual(World.dataOf(yield* World.events(session), "inbox.returned"), [
          { itemId: "inb_2" as never, reason: "turn-ended", disposition: "returned" }
        ])
        assert.strictEqual((yield* Effect.flip(session.move("inb_2", "follow-up")))._tag, "ItemSettled")
        assert.isEmpty(yield* Sound.complaints(session, provider))
      })
    )

    it.effect("is not lost when it arrives in the write that ends the Turn", () =>
      Effect.gen(function* () {
        const ending = yield* Tools.gate
        const { provider, session } = yield* World.withTools({
          respond: script([text("one"), text("two")]),
          around: Journals.before(Journals.atFirst("turn.completed", ending.pass))
        })
        yield* session.send("go")
        yield* ending.reached
        assert.deepInclude(yield* session.send("just in time"), { effect: "steering" })
        yield* ending.open
        yield* World.ended(session, 2)
        assert.deepStrictEqual(yield* inputsOf(session), [
          ["inb_1", "trn_1", 1],
          ["inb_2", "trn_2", 1]
        ])
        assert.isEmpty(yield* Sound.complaints(session, provider))
      })
    )

    it.effect("is not lost when it arrives in the write that requests the next step", () =>
      Effect.gen(function* () {
        const stepping = yield* Tools.gate
        const { provider, session, tools } = yield* World.withTools({
          respond: script([calls([Tools.call("pay", "a")]), calls([Tools.call("pay", "b")]), text("done")]),
          around: Journals.before(Journals.atFirst("step.completed", stepping.pass))
        })
        const run = yield* Effect.forkChild(session.run("go"))
        yield* stepping.reached
        yield* session.steer("meanwhile")
        yield* stepping.open
        yield* Fiber.join(run)
        assert.deepStrictEqual(yield* inputsOf(session), [
          ["inb_1", "trn_1", 1],
          ["inb_2", "trn_1", 3]
        ])
        assert.isEmpty(yield* Sound.complaints(session, provider, tools))
      })
    )

    it.effect("moves a follow-up into the running Turn, and a steer out of it", () =>
      Effect.gen(function* () {
        const { provider, release, run, session } = yield* midBatch([text("done"), text("later")])
        yield* session.followUp("now after all")
        yield* session.steer("not now")
        assert.strictEqual(yield* session.move("inb_2", "steer"), "steer")
        assert.strictEqual(yield* session.move("inb_3", "follow-up"), "follow-up")
        yield* release
        yield* Fiber.join(run)
        yield* World.ended(session, 2)
        assert.deepStrictEqual(yield* inputsOf(session), [
          ["inb_1", "trn_1", 1],
          ["inb_2", "trn_1", 2],
          ["inb_3", "trn_2", 1]
        ])
        assert.strictEqual((yield* Effect.flip(session.move("inb_2", "follow-up")))._tag, "ItemSettled")
        assert.isEmpty(yield* Sound.complaints(session, provider))
      })
    )

    it.effect("withdraws what waits and nothing else", () =>
      Effect.gen(function* () {
        const { provider, release, run, session } = yield* midBatch([text("done")])
        yield* session.steer("no, wait")
        yield* session.followUp("nor this")
        yield* session.withdraw("inb_2")
        yield* session.withdraw("inb_2")
        yield* session.withdraw("inb_3")
        assert.strictEqual((yield* Effect.flip(session.withdraw("inb_1")))._tag, "ItemSettled")
        assert.strictEqual((yield* Effect.flip(session.withdraw("inb_9")))._tag, "ItemNotFound")
        yield* release
        yield* Fiber.join(run)
        assert.deepStrictEqual(yield* inputsOf(session), [["inb_1", "trn_1", 1]])
        assert.strictEqual((yield* session.summary).turns, 1)
        assert.isEmpty(yield* Sound.complaints(session, provider))
      })
    )

    it.effect("loses no result when a steer is withdrawn in the write that would apply it", () =>
      Effect.gen(function* () {
        const stepping = yield* Tools.gate
        const { provider, session, tools } = yield* World.withTools({
          // The request that went out with the write is given up, however far it came, and made again after it.
          respond: ({ index, messages }) =>
            index === 0
              ? calls([Tools.call("pay", "a")])
              : text(JSON.stringify(messages).includes("no, wait") ? "void" : "done"),
          around: Journals.before(Journals.atFirst("step.completed", stepping.pass))
        })
        const gate = yield* Tools.gate
        tools.on("a", Effect.as(gate.pass, "paid"))
        const run = yield* Effect.forkChild(session.run("go"))
        yield* gate.reached
        yield* session.steer("no, wait")
        yield* gate.open
        yield* stepping.reached
        yield* session.withdraw("inb_2")
        yield* stepping.open
        assert.deepStrictEqual(World.brief(yield* Fiber.join(run)), ["Answered", "done", 2])
        assert.deepStrictEqual(World.answers(yield* World.events(session)), { a: "ok" })
        assert.notInclude(JSON.stringify(provider.requests.at(-1)?.messages), "no, wait")
        assert.isEmpty(yield* Sound.complaints(session, provider, tools))
      })
    )

    it.effect("says the session is idle when the last follow-up is withdrawn before its Turn", () =>
      Effect.gen(function* () {
        const ended = yield* Tools.gate
        const { provider, session } = yield* World.withTools({
          respond: script([text("done"), text("no")]),
          around: Journals.after(Journals.atFirst("turn.completed", ended.pass))
        })
        yield* session.send("go")
        yield* session.followUp("later")
        yield* ended.reached
        yield* session.withdraw("inb_2")
        yield* ended.open
        yield* World.until(session, (event) => event.type === "session.status" && event.data.status === "idle").pipe(
          Effect.timeout("5 seconds")
        )
        assert.strictEqual((yield* session.summary).status, "idle")
        assert.isEmpty(yield* Sound.complaints(session, provider))
      })
    )

    it.effect("refuses a start while there is work, and a message meant for another Turn", () =>
      Effect.gen(function* () {
        const { release, run, session } = yield* midBatch([text("done")])
        assert.strictEqual((yield* Effect.flip(session.send("x", { delivery: "start" })))._tag, "SessionBusy")
        assert.strictEqual((yield* Effect.flip(session.steer("x", { expectedTurnId: "trn_2" })))._tag, "TurnNotRunning")
        assert.strictEqual((yield* session.steer("x", { expectedTurnId: "trn_1" })).effect, "steering")
        yield* release
        yield* Fiber.join(run)
        assert.strictEqual((yield* Effect.flip(session.steer("x")))._tag, "TurnNotRunning")
      })
    )

    it.effect("queues what is sent to a Turn that is stopping", () =>
      Effect.gen(function* () {
        const settling = yield* Tools.gate
        const { provider, session, tools } = yield* World.withTools({
          respond: script([calls([Tools.call("pay", "a")]), text("fine")]),
          around: Journals.before(Journals.atFirst("turn.cancelled", settling.pass))
        })
        const gate = yield* Tools.gate
        tools.on("a", Effect.as(gate.pass, "late"))
        yield* session.send("go")
        yield* gate.reached
        yield* session.cancel("trn_1")
        yield* settling.reached
        assert.deepInclude(yield* session.send("and now"), { delivery: "follow-up", effect: "queued" })
        yield* settling.open
        yield* World.ended(session, 2)
        assert.deepStrictEqual(World.answers(yield* World.events(session)), { a: "outcome-unknown" })
        assert.isEmpty(yield* Sound.complaints(session, provider, tools))
      })
    )
  })
}
