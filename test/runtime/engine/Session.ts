import { assert, describe } from "@effect/vitest"
import { isTerminal } from "@turnstep/core/TurnEvent"
import * as Agent from "@turnstep/runtime/Agent"
import * as Drivers from "@turnstep/runtime/Drivers"
import { getOrOpen, list, type Session, Sessions } from "@turnstep/runtime/Session"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Sound from "../../fixtures/Sound.ts"
import type { It } from "../../fixtures/Stores.ts"
import * as Tools from "../../fixtures/Tools.ts"
import * as World from "../../fixtures/World.ts"

const { calls, script, text } = StrictProvider

const plain = Agent.make("plain", { instructions: "Answer." })
const talker = (respond: StrictProvider.Respond, around?: World.Options<never>["around"]) =>
  World.make({ respond, agents: [plain], services: Layer.empty, around })

const ends = (session: Session) =>
  Effect.map(World.events(session), (events) => events.filter(isTerminal).map(({ type }) => type))

export const suite = (it: It): void => {
  describe("Session", () => {
    it.effect("takes the id it is given, once, and mints one otherwise", () =>
      Effect.gen(function* () {
        const { sessions } = yield* talker(script([]))
        const id = "mine-A_1"
        assert.strictEqual((yield* sessions.open({ id })).id, id)
        assert.strictEqual((yield* Effect.flip(sessions.open({ id })))._tag, "SessionExists")
        const minted = yield* Effect.all([sessions.open(), sessions.open()])
        for (const session of minted) assert.match(session.id, /^ses_[0-9a-f-]{36}$/)
        assert.notStrictEqual(minted[0].id, minted[1].id)
      })
    )

    it.effect("refuses ids that are too long, empty or more than a name", () =>
      Effect.gen(function* () {
        const { sessions } = yield* talker(script([]))
        for (const id of ["", "x".repeat(65), "a b", "../etc", "a/b", "ä", "a\u0000", "a'; drop"]) {
          assert.strictEqual((yield* Effect.flip(sessions.open({ id })))._tag, "SessionIdInvalid", id)
        }
      })
    )

    it.effect("knows nothing of a session that was never opened", () =>
      Effect.gen(function* () {
        const { sessions } = yield* talker(script([]))
        for (const id of ["ses_none", "", "../etc"]) {
          assert.strictEqual((yield* Effect.flip(sessions.get(id)))._tag, "SessionNotFound")
        }
      })
    )

    it.effect("refuses an agent the runtime does not have and names those it has", () =>
      Effect.gen(function* () {
        const { agentName, sessions } = yield* talker(script([]))
        const error = yield* Effect.flip(sessions.open({ agent: "nobody" }))
        assert.deepStrictEqual(error._tag === "AgentNotFound" && [error.agent, error.known], [
          "nobody",
          [agentName("plain")]
        ])
      })
    )

    it.effect("keeps title and metadata, and lists sessions newest first, page by page", () =>
      Effect.gen(function* () {
        const { sessions } = yield* talker(script([]))
        const opened = yield* Effect.forEach(["a", "b", "c"], (title) => sessions.open({ title, metadata: { title } }))
        const first = yield* sessions.list({ limit: 2 })
        assert.deepStrictEqual(
          first.map(({ title }) => title),
          ["c", "b"]
        )
        const second = yield* sessions.list({ before: first.at(-1)?.sessionId ?? "", limit: 1 })
        assert.deepInclude(second[0], { title: "a", status: "idle", seq: 1, turns: 0 })
        assert.strictEqual(second[0]?.sessionId, opened[0]?.id)
        const [created] = yield* World.events(opened[0] as Session)
        assert.deepStrictEqual(created?.type === "session.created" && created.data.metadata, { title: "a" })
      })
    )

    it.effect("admits a message once for each key, over any number of attempts", () =>
      Effect.gen(function* () {
        const { provider, sessions } = yield* talker(() => text("ok"))
        const session = yield* sessions.open()
        const sent = yield* Effect.all(
          Array.from({ length: 8 }, () => session.send("pay", { clientKey: "k1" })),
          { concurrency: "unbounded" }
        )
        for (const each of sent) assert.deepStrictEqual(each, sent[0])
        yield* World.ended(session, 1)
        assert.deepStrictEqual(yield* session.send("pay", { clientKey: "k1" }), sent[0])
        assert.strictEqual((yield* Effect.flip(session.send("other", { clientKey: "k1" })))._tag, "ClientKeyReused")
        assert.strictEqual((yield* session.send("pay", { clientKey: "k2" })).itemId, "inb_2")
        yield* World.ended(session, 2)
        assert.lengthOf(provider.requests, 2)
      })
    )

    it.effect("keeps keys apart between sessions", () =>
      Effect.gen(function* () {
        const { sessions } = yield* talker(() => text("ok"))
        const [one, two] = yield* Effect.all([sessions.open(), sessions.open()])
        yield* one.send("a", { clientKey: "k" })
        assert.strictEqual((yield* two.send("b", { clientKey: "k" })).itemId, "inb_1")
        yield* Effect.all([World.ended(one, 1), World.ended(two, 1)])
      })
    )

    it.effect(
      "cancels the Turn of a run that is interrupted where its caller says so, and returns when it is settled",
      () =>
        Effect.gen(function* () {
          const gate = yield* Tools.gate
          const { provider, session, tools } = yield* World.withTools({
            respond: script([calls([Tools.call("pay", "a")]), text("fine")])
          })
          tools.on("a", Effect.as(gate.pass, "late"))
          const run = yield* Effect.forkChild(session.run("go", { onInterrupt: "cancel" }))
          yield* gate.reached
          yield* Fiber.interrupt(run)
          const events = yield* World.events(session)
          assert.deepStrictEqual(World.dataOf(events, "turn.cancelling"), [{ turnId: "trn_1" as never, by: "caller" }])
          assert.deepStrictEqual(yield* ends(session), ["turn.cancelled"])
          assert.deepStrictEqual(World.answers(events), { a: "outcome-unknown" })
          assert.deepStrictEqual(World.brief(yield* session.run("next")), ["Answered", "fine", 1])
          assert.isEmpty(yield* Sound.complaints(session, provider, tools))
        })
    )

    it.effect(
      "tells who waits that the runtime has closed, and lets the same run be waited for again under its key",
      () =>
        Effect.gen(function* () {
          const gate = yield* Tools.gate
          const { provider, session, start, stop, tools } = yield* World.withTools({
            respond: script([calls([Tools.call("look", "a")]), text("fine")])
          })
          tools.on("a", Effect.as(gate.pass, "seen"))
          const run = yield* Effect.forkChild(session.run("go", { clientKey: "k" }))
          const waiting = yield* Effect.forkChild(session.outcome("trn_1"))
          yield* gate.reached
          yield* stop
          assert.strictEqual((yield* Effect.flip(Fiber.join(run)))._tag, "RuntimeClosed")
          assert.strictEqual((yield* Effect.flip(Fiber.join(waiting)))._tag, "RuntimeClosed")
          assert.strictEqual((yield* Effect.flip(session.run("too late")))._tag, "RuntimeClosed")
          yield* gate.open
          const next = yield* (yield* start).sessions.get(session.id)
          assert.deepStrictEqual(World.brief(yield* next.run("go", { clientKey: "k" })), ["Answered", "fine", 2])
          assert.deepStrictEqual(World.brief(yield* next.run("go", { clientKey: "k" })), ["Answered", "fine", 2])
          assert.strictEqual((yield* Effect.flip(next.run("other", { clientKey: "k" })))._tag, "ClientKeyReused")
          assert.lengthOf(World.dataOf(yield* World.events(next), "inbox.admitted"), 1)
          assert.isEmpty(yield* Sound.complaints(next, provider, tools))
        })
    )

    it.effect("withdraws the message of a run that is interrupted before its Turn", () =>
      Effect.gen(function* () {
        const gate = yield* Tools.gate
        const { provider, sessions } = yield* talker(script([text([gate.pass, "ok"]), text("never")]))
        const session = yield* sessions.open()
        yield* session.send("first")
        yield* gate.reached
        const run = yield* Effect.forkChild(session.run("second", { onInterrupt: "cancel" }))
        yield* World.until(session, (event) => event.type === "inbox.admitted" && event.data.itemId === "inb_2")
        yield* Fiber.interrupt(run)
        yield* gate.open
        yield* World.ended(session, 1)
        assert.deepStrictEqual(World.dataOf(yield* World.events(session), "inbox.returned"), [
          { itemId: "inb_2" as never, reason: "withdrawn", disposition: "returned" }
        ])
        assert.lengthOf(provider.requests, 1)
      })
    )

    it.effect("leaves no message behind when a run is interrupted while it is admitted", () =>
      Effect.gen(function* () {
        const admitting = yield* Tools.gate
        const { provider, sessions } = yield* talker(
          () => text(["half", Effect.never]),
          (journal) => ({
            ...journal,
            admit: (id, lookup, decide) => Effect.tap(journal.admit(id, lookup, decide), admitting.pass)
          })
        )
        const session = yield* sessions.open()
        const run = yield* Effect.forkChild(session.run("go", { onInterrupt: "cancel" }))
        yield* admitting.reached
        const interrupted = yield* Effect.forkChild(Fiber.interrupt(run), { startImmediately: true })
        yield* admitting.open
        yield* Fiber.join(interrupted)
        const events = yield* World.events(session)
        const fate = [...World.dataOf(events, "inbox.returned"), ...World.dataOf(events, "turn.cancelled")]
        assert.lengthOf(fate, 1)
        assert.isEmpty(yield* Sound.complaints(session, provider))
      })
    )

    it.effect("is opened where there is none of its id, and found where there is", () =>
      Effect.gen(function* () {
        const { sessions } = yield* talker(() => text("ok"))
        const id = `same-${yield* Effect.map(sessions.open(), (session) => session.id)}`
        const use = Effect.provideService(Sessions, sessions)
        const first = yield* use(getOrOpen(id, { title: "first" }))
        yield* first.run("a")
        const again = yield* use(getOrOpen(id, { title: "second" }))
        const { title, turns } = yield* again.summary
        assert.deepStrictEqual([title, turns], ["first", 1])
        assert.include(
          (yield* use(list({ limit: 1 }))).map(({ sessionId }) => sessionId),
          first.id
        )
      })
    )

    it.effect("leaves the Turn of a run that is interrupted alone", () =>
      Effect.gen(function* () {
        const gate = yield* Tools.gate
        const { provider, session, tools } = yield* World.withTools({
          respond: script([calls([Tools.call("pay", "a")]), text("fine")])
        })
        tools.on("a", Effect.as(gate.pass, "paid"))
        const run = yield* Effect.forkChild(session.run("go"))
        yield* gate.reached
        yield* Fiber.interrupt(run)
        yield* gate.open
        assert.deepStrictEqual(World.brief(yield* session.outcome("trn_1")), ["Answered", "fine", 2])
        assert.isEmpty(yield* Sound.complaints(session, provider, tools))
      })
    )

    it.effect("ends a run whose message somebody else withdrew", () =>
      Effect.gen(function* () {
        const gate = yield* Tools.gate
        const { sessions } = yield* talker(script([text([gate.pass, "ok"])]))
        const session = yield* sessions.open()
        yield* session.send("first")
        yield* gate.reached
        const run = yield* Effect.forkChild(session.run("second"))
        yield* World.until(session, (event) => event.type === "inbox.admitted" && event.data.itemId === "inb_2")
        yield* session.withdraw("inb_2")
        const exit = yield* Effect.timeoutOption(Fiber.await(run), "2 seconds")
        yield* Fiber.interrupt(run)
        yield* gate.open
        yield* World.ended(session, 1)
        assert.strictEqual(exit._tag, "Some", "the run waits for ever")
        assert.strictEqual((yield* Effect.flip(Fiber.join(run)))._tag, "ItemSettled")
      })
    )

    it.effect("gives the outcome of a Turn that is over, and of one that is to come", () =>
      Effect.gen(function* () {
        const { sessions } = yield* talker(script([text("one"), text("two")]))
        const session = yield* sessions.open()
        const { turnId } = yield* session.send("a")
        assert.isDefined(turnId)
        assert.deepStrictEqual(World.brief(yield* session.outcome(turnId)), ["Answered", "one", 1])
        yield* session.run("b")
        assert.deepStrictEqual(World.brief(yield* session.outcome(turnId)), ["Answered", "one", 1])
      })
    )

    it.effect("tells at once of a Turn that no message could start, and as soon as none can any more", () =>
      Effect.gen(function* () {
        const gate = yield* Tools.gate
        const { sessions } = yield* talker(script([text([gate.pass, "one"]), text("two")]))
        const session = yield* sessions.open()
        const notFound = (turnId: string) => Effect.map(Effect.flip(session.outcome(turnId)), ({ _tag }) => _tag)
        assert.strictEqual(yield* notFound("trn_1"), "TurnNotFound")
        yield* session.send("a")
        yield* gate.reached
        assert.strictEqual(yield* notFound("trn_2"), "TurnNotFound")
        assert.strictEqual(yield* notFound("no id of ours"), "TurnNotFound")
        yield* session.followUp("b")
        yield* session.followUp("c")
        const second = yield* Effect.forkChild(session.outcome("trn_2"), { startImmediately: true })
        const third = yield* Effect.forkChild(notFound("trn_3"), { startImmediately: true })
        assert.strictEqual(yield* notFound("trn_4"), "TurnNotFound")
        yield* session.withdraw("inb_3")
        assert.strictEqual(yield* Fiber.join(third), "TurnNotFound")
        yield* gate.open
        assert.deepStrictEqual(World.brief(yield* Fiber.join(second)), ["Answered", "two", 1])
      })
    )

    it.effect("runs sessions side by side and never two Turns of one", () =>
      Effect.gen(function* () {
        const gates = yield* Effect.all([Tools.gate, Tools.gate])
        let asked = 0
        const { provider, sessions } = yield* talker(() => {
          const gate = gates[asked++]
          return gate === undefined ? text("more") : text([gate.pass, "ok"])
        })
        const opened = yield* Effect.all([sessions.open(), sessions.open()])
        for (const session of opened) for (const name of ["a", "b"]) yield* session.followUp(name)
        yield* Effect.all(gates.map(({ reached }) => reached))
        // Each session has one Turn open, and each has a second one waiting.
        assert.lengthOf(provider.requests, 2)
        for (const { open } of gates) yield* open
        for (const session of opened) yield* World.ended(session, 2)
        for (const session of opened) assert.isEmpty(yield* Sound.complaints(session, provider))
      })
    )

    it.effect("is not closed by a runtime that closes: nothing is written, and a run does not cancel its Turn", () =>
      Effect.gen(function* () {
        const gate = yield* Tools.gate
        const { journal, session, stop, tools } = yield* World.withTools({
          respond: script([calls([Tools.call("look", "a")])])
        })
        tools.on("a", Effect.as(gate.pass, "late"))
        const run = yield* Effect.forkChild(session.run("go"))
        yield* gate.reached
        yield* World.until(session, ({ type }) => type === "call.started")
        const before = yield* World.events(session)
        yield* stop
        assert.strictEqual((yield* Effect.flip(Fiber.join(run)))._tag, "RuntimeClosed")
        assert.deepStrictEqual(yield* journal.read(session.id, { after: 0 }), before)
      })
    )

    it.effect("can be read while nothing drives it", () =>
      Effect.gen(function* () {
        const world = yield* World.withTools({ respond: script([text("ok")]) })
        yield* world.session.run("go")
        yield* world.stop
        const { sessions } = yield* Effect.provideService(world.start, Drivers.Workers, 0)
        const session = yield* sessions.get(world.session.id)
        assert.strictEqual((yield* session.summary).turns, 1)
        assert.lengthOf(yield* session.events({ after: 2, limit: 3 }), 3)
        assert.deepStrictEqual(
          (yield* session.events({ after: 0, types: ["turn.started", "turn.completed"] })).map(({ type }) => type),
          ["turn.started", "turn.completed"]
        )
      })
    )
  })
}
