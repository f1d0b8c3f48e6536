import { assert, describe } from "@effect/vitest"
import * as Ids from "@turnstep/core/Ids"
import { isTerminal } from "@turnstep/core/TurnEvent"
import * as Agent from "@turnstep/runtime/Agent"
import * as Prepare from "@turnstep/runtime/Prepare"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as Log from "../../fixtures/Log.ts"
import * as Sound from "../../fixtures/Sound.ts"
import type { It } from "../../fixtures/Stores.ts"
import * as Tools from "../../fixtures/Tools.ts"
import * as World from "../../fixtures/World.ts"

const { script, text } = StrictProvider

/** A model that dies as soon as it is asked anything. */
const untouchable = Layer.effect(
  LanguageModel.LanguageModel,
  LanguageModel.make({
    generateText: () => Effect.die("the model was touched"),
    streamText: () => Stream.die("the model was touched")
  })
)

const request = { sessionId: Log.sessionId, turnId: Ids.turnId(1) }

export const suite = (it: It): void => {
  describe("Prepare", () => {
    it.effect("makes everything a Turn runs with and never touches the model", () =>
      Effect.gen(function* () {
        const agent = Agent.make("a", {
          instructions: Effect.succeed("Be kind."),
          toolkit: Tools.toolkit,
          policy: { maxSteps: 3 }
        })
        const { prepare } = yield* Prepare.Prepare.pipe(
          Effect.provide(Prepare.layer([agent]).pipe(Layer.provide([untouchable, Tools.make().handlers])))
        )
        const config = yield* prepare("a", request)
        assert.strictEqual(config.system.content, "Be kind.")
        assert.strictEqual(config.policy.maxSteps, 3)
        assert.sameMembers([...config.policies.keys()], ["look", "put", "poll", "pay"])
        assert.strictEqual(config.policies.get("pay")?.effects, "once")
      })
    )

    it.effect("is the one preparation of direct runs and of Turns that were admitted", () =>
      Effect.gen(function* () {
        let prepared = 0
        const agent = Agent.make("a", { instructions: Effect.sync(() => `Turn ${++prepared}.`) })
        const { provider, sessions } = yield* World.make({
          respond: () => text("ok"),
          agents: [agent],
          services: Layer.empty
        })
        const session = yield* sessions.open()
        yield* session.run("direct")
        yield* session.send("admitted")
        yield* World.ended(session, 2)
        assert.deepStrictEqual(
          provider.requests.map(({ messages }) => messages[0]?.content),
          ["Turn 1.", "Turn 2."]
        )
      })
    )

    it.effect("ends the Turn when it dies, and the session goes on", () =>
      Effect.gen(function* () {
        let isBroken = true
        const agent = Agent.make("a", {
          instructions: Effect.suspend(() => (isBroken ? Effect.die(new Error("no prompt")) : Effect.succeed("Fine.")))
        })
        const { logged, provider, sessions } = yield* World.make({
          respond: script([text("ok")]),
          agents: [agent],
          services: Layer.empty
        })
        const session = yield* sessions.open()
        const error = yield* Effect.flip(session.run("go"))
        assert.strictEqual(error._tag === "TurnFailed" && error.error.code, "defect")
        assert.notInclude(JSON.stringify(yield* World.events(session)), "no prompt")
        assert.include(logged.join(), "unexpected error")
        isBroken = false
        assert.deepStrictEqual(World.brief(yield* session.run("again")), ["Answered", "ok", 1])
        assert.isEmpty(yield* Sound.complaints(session, provider))
      })
    )

    it.effect(
      "runs no Turn of an agent the runtime does not know: a message admitted here waits for who knows it",
      () =>
        Effect.gen(function* () {
          const knowing = yield* World.make({
            respond: script([text("ok")]),
            agents: [Agent.make("new", { instructions: "i" })],
            services: Layer.empty
          })
          const session = yield* knowing.sessions.open()
          yield* knowing.stop
          const old = yield* World.make({
            respond: script([text("mine")]),
            agents: [Agent.make("old", { instructions: "i" })],
            services: Layer.empty
          })
          const here = yield* old.sessions.get(session.id)
          assert.strictEqual((yield* here.send("go")).effect, "started")
          // Long enough for the other runtime to have taken it up, were it to.
          yield* (yield* old.sessions.open()).run("mine")
          assert.deepStrictEqual(
            (yield* World.events(here)).map(({ type }) => type),
            ["session.created", "inbox.admitted"]
          )
          const there = yield* knowing.start
          yield* World.ended(yield* there.sessions.get(session.id), 1)
          assert.isEmpty(yield* Sound.complaints(here, knowing.provider))
        })
    )

    it.effect(
      "does no harm to an open Turn that a message reaches by way of a runtime that does not know its agent",
      () =>
        Effect.gen(function* () {
          const gate = yield* Tools.gate
          const knowing = yield* World.withTools({
            respond: script([text([gate.pass, "never"]), text("done"), text("and done")])
          })
          yield* knowing.session.send("go")
          yield* gate.reached
          yield* knowing.stop
          const old = yield* World.make({
            respond: script([text("mine")]),
            agents: [Agent.make("old", { instructions: "i" })],
            services: Layer.empty
          })
          const here = yield* old.sessions.get(knowing.session.id)
          assert.strictEqual((yield* here.steer("and this")).effect, "steering")
          yield* (yield* old.sessions.open()).run("mine")
          const there = yield* knowing.start
          yield* World.ended(yield* there.sessions.get(here.id), 2)
          const ends = (yield* World.events(here)).filter(isTerminal)
          assert.deepStrictEqual(
            ends.map(({ type }) => type),
            ["turn.completed", "turn.completed"]
          )
          assert.isEmpty(yield* Sound.complaints(here, knowing.provider))
        })
    )

    it.effect("opens no Turn for a message that was withdrawn while it was prepared, and starts the next one", () =>
      Effect.gen(function* () {
        const gate = yield* Tools.gate
        const agent = Agent.make("a", { instructions: Effect.as(gate.pass, "Fine.") })
        const { logged, provider, sessions } = yield* World.make({
          respond: script([text("ok")]),
          agents: [agent],
          services: Layer.empty
        })
        const session = yield* sessions.open()
        yield* session.send("no")
        yield* gate.reached
        yield* session.withdraw("inb_1")
        yield* session.followUp("yes")
        yield* gate.open
        yield* World.ended(session, 1)
        const started = World.dataOf(yield* World.events(session), "turn.started")
        assert.deepStrictEqual(
          started.map(({ itemId, turnId }) => [turnId, itemId]),
          [["trn_1", "inb_2"]]
        )
        assert.isEmpty(logged)
        assert.isEmpty(yield* Sound.complaints(session, provider))
      })
    )

    it.effect("is given up when the runtime closes, and made again by the next", () =>
      Effect.gen(function* () {
        const reached = yield* Deferred.make<void>()
        let isHanging = true
        const agent = Agent.make("a", {
          instructions: Effect.suspend(() =>
            isHanging ? Effect.andThen(Deferred.succeed(reached, undefined), Effect.never) : Effect.succeed("Fine.")
          )
        })
        const { provider, sessions, start, stop } = yield* World.make({
          respond: script([text("ok")]),
          agents: [agent],
          services: Layer.empty
        })
        const session = yield* sessions.open()
        yield* session.send("go")
        yield* Deferred.await(reached)
        yield* stop
        isHanging = false
        const next = yield* (yield* start).sessions.get(session.id)
        yield* World.ended(next, 1)
        assert.isEmpty(yield* Sound.complaints(next, provider))
      })
    )
  })
}
