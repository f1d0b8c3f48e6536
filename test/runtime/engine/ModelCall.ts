import { assert, describe } from "@effect/vitest"
import * as SessionView from "@turnstep/core/SessionView"
import * as ModelCall from "@turnstep/runtime/ModelCall"
import type { Session } from "@turnstep/runtime/Session"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import * as Journals from "../../fixtures/Journals.ts"
import * as Sound from "../../fixtures/Sound.ts"
import type { It } from "../../fixtures/Stores.ts"
import * as Tools from "../../fixtures/Tools.ts"
import * as World from "../../fixtures/World.ts"

const { calls, failure, script, text } = StrictProvider

const limited = (seconds: string) => failure(429, { message: "slow down" }, { "retry-after": seconds })
const broken = failure(500, { message: "oops", type: "server_error" })

/** The code of the Turn that must fail. */
const codeOf = (session: Session) =>
  session.run("go").pipe(
    Effect.flip,
    Effect.map((error) => (error._tag === "TurnFailed" ? error.error.code : error._tag))
  )

/** What a watcher sees until the Turn is over: event types, and ephemeral ones with their text. */
const watched = (session: Session) =>
  session.watch(0).pipe(
    Stream.takeUntil((seen) => seen._tag === "Event" && seen.event.type.startsWith("turn.c")),
    Stream.runCollect,
    Effect.map((all) =>
      all.flatMap((seen) =>
        seen._tag === "Event"
          ? [seen.event.type]
          : seen._tag === "Ephemeral"
            ? [seen.ephemeral.type === "delta" ? `+${seen.ephemeral.delta}` : seen.ephemeral.type]
            : ["snapshot"]
      )
    ),
    Effect.forkChild({ startImmediately: true })
  )

export const suite = (it: It): void => {
  describe("ModelCall", () => {
    it.effect("waits as long as the provider says when it is asked too often", () =>
      Effect.gen(function* () {
        const { provider, session } = yield* World.withTools({ respond: script([limited("1"), text("done")]) })
        const [time, outcome] = yield* Effect.timed(session.run("go"))
        assert.deepStrictEqual(World.brief(outcome), ["Answered", "done", 1])
        assert.isTrue(Duration.isGreaterThanOrEqualTo(time, Duration.seconds(1)))
        assert.lengthOf(provider.requests, 2)
      })
    )

    it.effect("does not wait longer than its policy allows", () =>
      Effect.gen(function* () {
        const { provider, session } = yield* World.withTools({ respond: script([limited("3600")]) })
        assert.strictEqual(yield* codeOf(session), "rate-limited")
        assert.lengthOf(provider.requests, 1)
      })
    )

    it.effect("asks again when the provider is broken, a bounded number of times", () =>
      Effect.gen(function* () {
        const { provider, session } = yield* World.withTools({ respond: () => broken })
        assert.strictEqual(yield* codeOf(session), "provider-error")
        assert.lengthOf(provider.requests, World.quickRetry.attempts)
        assert.isEmpty(yield* Sound.complaints(session, provider))
      })
    )

    it.effect("goes on when the provider recovers", () =>
      Effect.gen(function* () {
        const { session } = yield* World.withTools({ respond: script([broken, broken, text("done")]) })
        assert.deepStrictEqual(World.brief(yield* session.run("go")), ["Answered", "done", 1])
      })
    )

    it.effect("never sends a refused request again, and says why it was refused", () =>
      Effect.gen(function* () {
        const refusals = [
          [401, "authentication"],
          [403, "authentication"],
          [400, "invalid-request"],
          [404, "invalid-request"]
        ] as const
        for (const [status, code] of refusals) {
          const { provider, session } = yield* World.withTools({ respond: () => failure(status, { message: "no" }) })
          assert.strictEqual(yield* codeOf(session), code, `${status}`)
          assert.lengthOf(provider.requests, 1)
        }
      })
    )

    it.effect(
      "does not ask again when the account is empty, whatever the status, and says so in the provider's words",
      () =>
        Effect.gen(function* () {
          for (const [status, error] of [
            [429, { message: "Insufficient balance or no resource package. Please recharge.", code: "1113" }],
            [
              429,
              { message: "Your account is suspended due to insufficient balance", type: "exceeded_current_quota_error" }
            ],
            [402, { message: "Insufficient Balance", code: "invalid_request_error" }]
          ] as const) {
            const { provider, session } = yield* World.withTools({ respond: () => failure(status, error) })
            const failed = yield* Effect.flip(session.run("go"))
            assert.strictEqual(failed._tag === "TurnFailed" && failed.error.code, "quota-exhausted")
            assert.include(failed.message, error.message)
            assert.lengthOf(provider.requests, 1)
          }
        })
    )

    it.effect("leaves the session usable after a Turn that failed", () =>
      Effect.gen(function* () {
        const { provider, session } = yield* World.withTools({
          respond: script([calls([Tools.call("look", "a")]), failure(401, { message: "no" }), text("fine")])
        })
        assert.strictEqual(yield* codeOf(session), "authentication")
        assert.deepStrictEqual(World.brief(yield* session.run("again")), ["Answered", "fine", 1])
        assert.isEmpty(yield* Sound.complaints(session, provider))
      })
    )

    it.effect("runs no tool of half a stream and asks again", () =>
      Effect.gen(function* () {
        const { provider, session, tools } = yield* World.withTools({
          respond: script([
            calls([Tools.call("pay", "half"), Tools.call("pay", "other")], { cut: 4 }),
            calls([Tools.call("pay", "whole")]),
            text("done")
          ])
        })
        assert.deepStrictEqual(World.brief(yield* session.run("go")), ["Answered", "done", 2])
        assert.deepStrictEqual(Tools.startedActs(tools), ["whole"])
        assert.isEmpty(yield* Sound.complaints(session, provider, tools))
      })
    )

    it.effect("gives up on a provider that never finishes a stream", () =>
      Effect.gen(function* () {
        const { provider, session, tools } = yield* World.withTools({
          respond: () => calls([Tools.call("pay", "half")], { cut: 3 })
        })
        assert.strictEqual(yield* codeOf(session), "network")
        assert.lengthOf(provider.requests, World.quickRetry.attempts)
        assert.isEmpty(tools.started)
      })
    )

    it.effect("says that what it has shown is void before it asks again", () =>
      Effect.gen(function* () {
        const { session } = yield* World.withTools({
          respond: script([text(["Hel", "lo"], { cut: 3 }), text(["Good ", "day"])])
        })
        const seen = yield* watched(session)
        yield* session.run("go")
        const shown = yield* Fiber.join(seen)
        assert.deepStrictEqual(shown.slice(shown.indexOf("step.started")), [
          "step.started",
          "+Hel",
          "+lo",
          "step.reset",
          "model.retrying",
          "+Good ",
          "+day",
          "message.added",
          "step.completed",
          "turn.settled",
          "turn.completed"
        ])
      })
    )

    it.effect("has nothing to declare void when nothing was shown", () =>
      Effect.gen(function* () {
        const { session } = yield* World.withTools({ respond: script([broken, text(["a"])]) })
        const seen = yield* watched(session)
        yield* session.run("go")
        assert.notInclude(yield* Fiber.join(seen), "step.reset")
      })
    )

    it.effect("shows nothing of a step before the step is recorded", () =>
      Effect.gen(function* () {
        const record = yield* Tools.gate
        const asked = yield* Deferred.make<void>()
        const { session } = yield* World.withTools({
          respond: script([
            calls([Tools.call("look", "first")]),
            Effect.as(Deferred.succeed(asked, undefined), text(["a", "b"]))
          ]),
          around: Journals.before(Journals.atFirst("step.completed", record.pass))
        })
        const seen = yield* watched(session)
        const run = yield* Effect.forkChild(session.run("go"))
        yield* record.reached
        // The request is on its way already; its answer waits for the record.
        yield* Deferred.await(asked)
        yield* record.open
        yield* Fiber.join(run)
        const shown = yield* Fiber.join(seen)
        assert.isBelow(shown.lastIndexOf("step.started"), shown.indexOf("+a"))
      })
    )

    it.effect("can be cancelled while it waits to ask again", () =>
      Effect.gen(function* () {
        const asked = yield* Deferred.make<void>()
        const { session } = yield* World.withTools({
          respond: script([Effect.as(Deferred.succeed(asked, undefined), limited("9")), text("fine")])
        })
        const run = yield* Effect.forkChild(session.run("go"))
        yield* Deferred.await(asked)
        yield* session.cancel("trn_1")
        assert.strictEqual((yield* Fiber.join(run))._tag, "Cancelled")
        assert.deepStrictEqual(World.brief(yield* session.run("next")), ["Answered", "fine", 1])
      })
    )

    it.effect("counts what the responses cost, and nothing where the provider does not say", () =>
      Effect.gen(function* () {
        const usage = { prompt_tokens: 100, completion_tokens: 10 }
        const { session } = yield* World.withTools({
          respond: script([calls([Tools.call("look", "a")], { usage }), text("done", { usage: null })])
        })
        const outcome = yield* session.run("go")
        assert.deepStrictEqual(outcome._tag === "Answered" && outcome.usage, { inputTokens: 100, outputTokens: 10 })
      })
    )

    it.effect("counts cached input and reasoning, and what they cost, in the outcome and the view of the Turn", () =>
      Effect.gen(function* () {
        const usage = {
          prompt_tokens: 1_000,
          completion_tokens: 100,
          prompt_tokens_details: { cached_tokens: 800 },
          completion_tokens_details: { reasoning_tokens: 40 }
        }
        const price = { input: 10, output: 100, cachedInput: 1 }
        const { session } = yield* World.withTools({
          respond: script([calls([Tools.call("look", "a")], { usage }), text("done", { usage })]),
          policy: { cost: { price } }
        })
        const outcome = yield* session.run("go")
        const [view] = SessionView.turns(yield* World.events(session))
        for (const { cost, usage } of [outcome._tag === "Answered" ? outcome : { cost: 0, usage: undefined }, view!]) {
          assert.deepStrictEqual(usage, {
            inputTokens: 2_000,
            outputTokens: 200,
            cachedInputTokens: 1_600,
            reasoningTokens: 80
          })
          assert.closeTo(cost ?? 0, (400 * 10 + 1_600 * 1 + 200 * 100) / 1_000_000, 1e-12)
        }
      })
    )

    it.effect(
      "tells watchers why it asks again, which attempt that is and how long it waits, and records none of it",
      () =>
        Effect.gen(function* () {
          const { session } = yield* World.withTools({ respond: script([limited("0.2"), broken, text("done")]) })
          const seen = yield* session
            .watch(0)
            .pipe(Stream.takeUntil(World.isEndOf(1)), Stream.runCollect, Effect.forkChild({ startImmediately: true }))
          yield* session.run("go")
          const told = (yield* Fiber.join(seen)).flatMap((each) =>
            each._tag === "Ephemeral" && each.ephemeral.type === "model.retrying" ? [each.ephemeral] : []
          )
          assert.deepStrictEqual(
            told.map(({ attempt, attempts, reason: { code }, step }) => [step, attempt, attempts, code]),
            [
              [1, 2, 4, "rate-limited"],
              [1, 3, 4, "provider-error"]
            ]
          )
          assert.strictEqual(told[0]?.waitMs, 200)
          assert.include(told[0]?.reason.message, "slow down")
          assert.include(told[1]?.reason.message, "oops")
          assert.isFalse((yield* World.events(session)).some(({ type }) => type.includes("retry")))
        })
    )

    it.effect("takes an empty answer for an answer without words", () =>
      Effect.gen(function* () {
        const { provider, session } = yield* World.withTools({ respond: script([text(""), text("fine")]) })
        assert.deepStrictEqual(World.brief(yield* session.run("go")), [
          "Answered",
          "[The model returned an empty answer.]",
          1
        ])
        assert.strictEqual((yield* session.run("again"))._tag, "Answered")
        assert.isEmpty(yield* Sound.complaints(session, provider))
      })
    )

    it.effect("waits half a second, then twice as long each time, by default", () =>
      Effect.gen(function* () {
        const policy = yield* ModelCall.Retry
        assert.strictEqual(policy.attempts, 4)
        assert.strictEqual(Duration.toMillis(policy.base), 500)
        assert.strictEqual(Duration.toMillis(policy.longest), 60_000)
      })
    )

    it.effect("says how to go on from a text that the provider refuses, and that is a way on", () =>
      Effect.gen(function* () {
        const { provider, session, sessions } = yield* World.withTools({
          respond: ({ messages }) =>
            JSON.stringify(messages).includes("forbidden")
              ? failure(400, { message: "against our policy", code: "content_policy_violation" })
              : text("fine")
        })
        yield* session.run("hello")
        const refused = [yield* Effect.flip(session.run("forbidden")), yield* Effect.flip(session.run("and now?"))]
        for (const error of refused) {
          const told = error._tag === "TurnFailed" ? error.error : assert.fail(error._tag)
          assert.strictEqual(told.code, "content-policy")
          assert.match(told.message, /against our policy.*export the session, take the text out, and import the rest/)
        }
        const { messages } = yield* session.exportHistory("openai-chat")
        const allowed = messages.filter((message) => !JSON.stringify(message).includes("forbidden"))
        const next = yield* Effect.orDie(sessions.open())
        yield* next.importHistory({ format: "openai-chat", messages: allowed })
        assert.strictEqual((yield* next.run("and now?"))._tag, "Answered")
        assert.include(JSON.stringify(provider.requests.at(-1)?.messages), "hello")
      })
    )
  })
}
