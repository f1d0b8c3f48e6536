import { assert, describe } from "@effect/vitest"
import * as Ids from "@turnstep/core/Ids"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Sound from "../../fixtures/Sound.ts"
import type { It } from "../../fixtures/Stores.ts"
import * as Tools from "../../fixtures/Tools.ts"
import * as World from "../../fixtures/World.ts"

const { calls, failure, script, text } = StrictProvider

const isHandBack = (request: StrictProvider.Request) => request.body["tool_choice"] === "none"

/** A model that never stops by itself; asked for the hand-back it answers as given. */
const restless =
  (handBack: StrictProvider.Reply, usage?: StrictProvider.Usage): StrictProvider.Respond =>
  (request) =>
    isHandBack(request) ? handBack : calls([Tools.call("look", `${request.index}`)], { usage })

const limitOf = Effect.fnUntraced(function* (world: Effect.Success<ReturnType<typeof World.withTools>>) {
  const outcome = yield* world.session.run("go")
  assert.isEmpty(yield* Sound.complaints(world.session, world.provider, world.tools))
  return outcome._tag === "BudgetSpent" ? [outcome.limit, outcome.steps] : [outcome._tag]
})

export const suite = (it: It): void => {
  describe("Budget", () => {
    it.effect(
      "takes fifteen steps by default, then hands back in the model's words; the next Turn has fifteen again",
      () =>
        Effect.gen(function* () {
          const { provider, session, tools } = yield* World.withTools({
            respond: restless(text("Read fifteen, more to read."))
          })
          for (const turn of [1, 2]) {
            assert.deepStrictEqual(World.brief(yield* session.run("go")), [
              "BudgetSpent",
              "Read fifteen, more to read.",
              15
            ])
            assert.lengthOf(tools.started, turn * 15)
            assert.lengthOf(provider.requests, turn * 16)
          }
          const steps = World.dataOf(yield* World.events(session), "step.started")
          assert.deepStrictEqual(
            steps.slice(16).map(({ kind, step }) => [step, kind]),
            [...Array.from({ length: 15 }, (_, i) => [i + 1, "work"]), [16, "hand-back"]]
          )
          assert.isEmpty(yield* Sound.complaints(session, provider, tools))
        })
    )

    it.effect("asks for the hand-back without tools and keeps the question out of the session", () =>
      Effect.gen(function* () {
        const { provider, session } = yield* World.withTools({
          respond: restless(text("over")),
          policy: { maxSteps: 1 }
        })
        yield* session.run("go")
        const asked = provider.requests[1]
        assert.match(String(asked?.messages.at(-1)?.content), /step budget of this turn \(1\) is spent/)
        yield* session.run("next")
        assert.notInclude(JSON.stringify(provider.requests[2]?.messages), "is spent")
      })
    )

    it.effect("hands back by itself when the model cannot, and claims nothing", () =>
      Effect.gen(function* () {
        for (const reply of [failure(401, { message: "no" }), text(""), calls([Tools.call("pay", "more")])]) {
          const { provider, session, tools } = yield* World.withTools({
            respond: restless(reply),
            policy: { maxSteps: 2 }
          })
          const outcome = yield* session.run("go")
          assert.deepInclude(outcome, { _tag: "BudgetSpent", limit: "steps", steps: 2 })
          const words = outcome._tag === "BudgetSpent" ? outcome.text : ""
          assert.include(words, "is spent; the work is not finished")
          assert.include(words, "look: 2 answered")
          assert.notInclude(Tools.startedActs(tools), "more")
          assert.isEmpty(yield* Sound.complaints(session, provider, tools))
        }
      })
    )

    it.effect("does not say of a call with an unknown outcome that it succeeded or failed", () =>
      Effect.gen(function* () {
        const gate = yield* Tools.gate
        const world = yield* World.withTools({
          respond: (request) =>
            isHandBack(request)
              ? failure(401, { message: "no" })
              : calls([Tools.call("pay", "a"), Tools.call("pay", "b")]),
          policy: { maxSteps: 1 }
        })
        world.tools.on("a", Effect.as(gate.pass, "late"))
        yield* world.session.send("go")
        yield* gate.reached
        yield* World.until(world.session, ({ type }) => type === "call.completed")
        yield* world.stop
        const next = yield* (yield* world.start).sessions.get(world.session.id)
        const outcome = yield* next.outcome(Ids.turnId(1))
        const words = outcome._tag === "BudgetSpent" ? outcome.text : outcome._tag
        assert.include(words, "pay: 1 answered, 1 with unknown outcome")
        assert.isEmpty(yield* Sound.complaints(next, world.provider, world.tools))
      })
    )

    it.effect("is not spent by a Turn that ends in its last step", () =>
      Effect.gen(function* () {
        const { session } = yield* World.withTools({
          respond: script([calls([Tools.call("look", "a")]), text("done")]),
          policy: { maxSteps: 2 }
        })
        assert.deepStrictEqual(World.brief(yield* session.run("go")), ["Answered", "done", 2])
      })
    )

    it.effect("ends a Turn that has used its tokens, with one request for the hand-back", () =>
      Effect.gen(function* () {
        const world = yield* World.withTools({
          respond: restless(text("over"), { prompt_tokens: 60, completion_tokens: 40 }),
          policy: { maxTokens: 250 }
        })
        assert.deepStrictEqual(yield* limitOf(world), ["tokens", 3])
        assert.lengthOf(world.provider.requests, 4)
      })
    )

    it.effect("counts the tokens of a Turn over its owners, and anew in the next Turn", () =>
      Effect.gen(function* () {
        const gate = yield* Tools.gate
        const { provider, session, start, stop, tools } = yield* World.withTools({
          respond: restless(text("over"), { prompt_tokens: 60, completion_tokens: 40 }),
          policy: { maxTokens: 250 }
        })
        tools.on("1", Effect.as(gate.pass, "late"))
        yield* session.send("go")
        yield* gate.reached
        yield* stop
        tools.on("1", Effect.succeed("again"))
        const next = yield* (yield* start).sessions.get(session.id)
        const end = yield* World.ended(next, 1)
        assert.deepInclude(end.data, { limit: "tokens", steps: 3 })
        assert.lengthOf(provider.requests, 4)
        const again = yield* next.run("go on")
        assert.deepStrictEqual(World.brief(again), ["BudgetSpent", "over", 3])
        assert.lengthOf(provider.requests, 8)
        assert.isEmpty(yield* Sound.complaints(next, provider, tools))
      })
    )

    it.effect("keeps the time of a Turn over its owners", () =>
      Effect.gen(function* () {
        const gate = yield* Tools.gate
        const { journal, session, start, stop, tools } = yield* World.withTools({
          respond: (request) =>
            isHandBack(request) ? text("over") : calls([Tools.call("pay", "slow"), Tools.call("put", "again")]),
          policy: { maxDuration: Duration.seconds(1) }
        })
        const other = yield* Tools.gate
        tools.on("slow", Effect.as(gate.pass, "late"))
        tools.on("again", Effect.as(other.pass, "late"))
        yield* session.send("go")
        yield* Effect.all([gate.reached, other.reached])
        yield* stop
        // The time goes on while nobody has the Turn.
        const [started] = World.dataOf(yield* journal.read(session.id, { after: 0 }), "turn.started")
        const left = (started?.limits.deadline ?? 0) - (yield* Clock.currentTimeMillis)
        assert.isAtMost(left, 1_000)
        yield* Effect.sleep(Math.max(0, left))
        const next = yield* (yield* start).sessions.get(session.id)
        assert.deepInclude((yield* World.ended(next, 1)).data, { limit: "time", steps: 1 })
        // What may run again is not begun where there is no time for it.
        assert.lengthOf(tools.started, 2)
      })
    )

    it.effect("ends a Turn that has used its money", () =>
      Effect.gen(function* () {
        const world = yield* World.withTools({
          respond: restless(text("over"), { prompt_tokens: 1_000_000, completion_tokens: 100_000 }),
          policy: { cost: { max: 3, price: { input: 1, output: 5 } } }
        })
        assert.deepStrictEqual(yield* limitOf(world), ["cost", 2])
      })
    )

    it.effect("stops tools when the time is over, and says what is known of them", () =>
      Effect.gen(function* () {
        const world = yield* World.withTools({
          respond: (request) =>
            isHandBack(request)
              ? text("over")
              : calls([Tools.call("pay", "quick"), Tools.call("pay", "slow"), Tools.call("look", "read")]),
          policy: { maxDuration: Duration.seconds(2) }
        })
        world.tools.on("slow", Effect.never)
        world.tools.on("read", Effect.never)
        assert.deepStrictEqual(yield* limitOf(world), ["time", 1])
        assert.deepStrictEqual(World.answers(yield* World.events(world.session)), {
          quick: "ok",
          slow: "outcome-unknown",
          read: "timed-out"
        })
      })
    )

    it.effect("stops waiting for the model when the time is over, and asks it once more, for the hand-back", () =>
      Effect.gen(function* () {
        const world = yield* World.withTools({
          respond: (request) => (isHandBack(request) ? text("I came this far") : text(["half", Effect.never])),
          policy: { maxDuration: Duration.millis(200) }
        })
        const outcome = yield* world.session.run("go")
        assert.deepInclude(outcome, { _tag: "BudgetSpent", limit: "time", text: "I came this far", steps: 1 })
        assert.lengthOf(world.provider.requests, 2)
        assert.match(String(world.provider.requests[1]?.messages.at(-1)?.content), /time of this turn is spent/)
        assert.isEmpty(yield* Sound.complaints(world.session, world.provider, world.tools))
        yield* world.provider.requests[0]?.aborted ?? Effect.void
      })
    )

    it.effect("can be cancelled during the hand-back", () =>
      Effect.gen(function* () {
        const gate = yield* Tools.gate
        const { provider, session, tools } = yield* World.withTools({
          respond: restless(text([gate.pass, "never"])),
          policy: { maxSteps: 1 }
        })
        const run = yield* Effect.forkChild(session.run("go"))
        yield* gate.reached
        yield* session.cancel("trn_1")
        assert.strictEqual((yield* Fiber.join(run))._tag, "Cancelled")
        assert.isEmpty(yield* Sound.complaints(session, provider, tools))
      })
    )
  })
}
