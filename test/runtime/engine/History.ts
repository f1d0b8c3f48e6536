import { assert, describe } from "@effect/vitest"
import { Claim } from "@turnstep/core/Claim"
import { Journal } from "@turnstep/core/Journal"
import { HistoryEmpty, HistoryFormatUnclear } from "@turnstep/core/history/Import"
import { verify } from "@turnstep/core/history/Verify"
import { FormatName } from "@turnstep/core/history/Contract"
import { SessionClaimed, SessionNotEmpty } from "@turnstep/core/TurnError"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import * as path from "node:path"
import * as Sound from "../../fixtures/Sound.ts"
import type { It } from "../../fixtures/Stores.ts"
import * as Tools from "../../fixtures/Tools.ts"
import * as World from "../../fixtures/World.ts"

const { calls, script, text } = StrictProvider

const corpus = path.join(import.meta.dirname, "../../corpus/history")

const inputOf = (name: string): ReadonlyArray<unknown> =>
  (JSON.parse(fs.readFileSync(path.join(corpus, `${name}.json`), "utf8")) as { input: ReadonlyArray<unknown> }).input

/** A poisoned history in each of the formats. */
const poisoned: { readonly [K in FormatName]: string } = {
  "openai-chat": "02-chat-parallel-middle-missing",
  "openai-responses": "30-resp-interrupt-no-output",
  anthropic: "46-anth-two-parallel-dangling",
  gemini: "82-gemini-response-first-after-compress",
  "ai-sdk-model": "72-aisdk-missing-results-before-user",
  "ai-sdk-ui": "76-aiui-user-speaks-over-approval"
}

export const suite = (it: It): void => {
  describe("A history from elsewhere", () => {
    for (const format of FormatName.literals) {
      it.effect(`is healed and goes on, over a restart too: ${format}`, () =>
        Effect.gen(function* () {
          const world = yield* World.withTools({
            respond: script([calls([Tools.call("look", "a")]), text("one"), text("two")])
          })
          const messages = inputOf(poisoned[format])
          const report = yield* world.session.importHistory({ format, messages })
          assert.strictEqual(report.format, format)
          assert.isNotEmpty(report.changes)
          assert.deepStrictEqual(World.brief(yield* world.session.run("go on")), ["Answered", "one", 2])
          yield* world.stop
          const next = yield* world.start
          const session = yield* Effect.orDie(next.sessions.get(world.session.id))
          assert.deepStrictEqual(World.brief(yield* session.run("and on")), ["Answered", "two", 1])

          assert.isEmpty(yield* Sound.complaints(session, world.provider, world.tools))
          const contents = world.provider.requests[2]?.messages.map(({ content }) => content) ?? []
          assert.includeMembers(contents, ["go on", "one", "and on"])
          assert.isAbove(contents.length, report.messages)
          for (const target of FormatName.literals) {
            const exported = yield* session.exportHistory(target)
            assert.deepStrictEqual(
              verify(target, exported.messages, { purpose: "archive" }).filter(({ severity }) => severity === "error"),
              []
            )
            assert.include(JSON.stringify(exported.messages), "and on")
          }
        })
      )
    }

    it.effect("comes into a session once, before everything else", () =>
      Effect.gen(function* () {
        const { session, sessions } = yield* World.withTools({ respond: script([text("hi")]) })
        const messages = [{ role: "user", content: "hello" }]
        const first = yield* session.importHistory({ messages })
        assert.deepStrictEqual(yield* session.importHistory({ messages }), first)
        assert.strictEqual((yield* session.summary).seq, 2)
        const other = { messages: [{ role: "user", content: "another" }] }
        const refused = new SessionNotEmpty({ sessionId: session.id })
        assert.deepStrictEqual(yield* Effect.flip(session.importHistory(other)), refused)
        yield* session.run("go")
        assert.deepStrictEqual(yield* Effect.flip(session.importHistory(other)), refused)
        assert.deepStrictEqual(yield* session.importHistory({ messages }), first)
        const spoken = yield* Effect.orDie(sessions.open())
        yield* spoken.send("hello")
        assert.instanceOf(yield* Effect.flip(spoken.importHistory({ messages })), SessionNotEmpty)
      })
    )

    it.effect("comes in for all who bring the same at the same time", () =>
      Effect.gen(function* () {
        const here = yield* World.withTools({ respond: script([text("hi")]) })
        const there = yield* here.start
        const sessions = [here.session, yield* there.sessions.get(here.session.id)]
        const messages = [{ role: "user", content: "hello" }]
        const reports = yield* Effect.forEach(
          [...sessions, ...sessions],
          (session) => session.importHistory({ messages }),
          {
            concurrency: "unbounded"
          }
        )
        assert.lengthOf(reports, 4)
        assert.strictEqual((yield* here.session.summary).seq, 2)
      })
    )

    it.effect("comes in when who died over it no longer has the session", () =>
      Effect.gen(function* () {
        const world = yield* World.withTools({ respond: script([text("hi")]) })
        const { acquire, release } = yield* Claim
        let claims = 0
        const claim = Claim.of({
          acquire: (id) => (++claims < 3 ? new SessionClaimed({ sessionId: id }) : acquire(id)),
          release
        })
        const ports = Context.make(Journal, world.journal).pipe(Context.add(Claim, claim))
        const { sessions } = yield* world.startOn(ports)
        const session = yield* sessions.get(world.session.id)
        yield* session.importHistory({ messages: [{ role: "user", content: "hello" }] })
        assert.deepStrictEqual([claims, (yield* session.summary).seq], [3, 2])
      })
    )

    it.effect("is not taken when nothing can be made of it, and nothing is written", () =>
      Effect.gen(function* () {
        const { session } = yield* World.withTools({ respond: script([]) })
        assert.instanceOf(yield* Effect.flip(session.importHistory({ messages: [] })), HistoryEmpty)
        const mixed = [
          { role: "assistant", tool_calls: [{ id: "a", type: "function", function: { name: "f", arguments: "{}" } }] },
          { role: "user", content: [{ type: "tool_result", tool_use_id: "a", content: "x" }] }
        ]
        assert.instanceOf(yield* Effect.flip(session.importHistory({ messages: mixed })), HistoryFormatUnclear)
        assert.strictEqual((yield* session.summary).seq, 1)
      })
    )

    it.effect("may be long, and is one write of events that are not", () =>
      Effect.gen(function* () {
        const { provider, session } = yield* World.withTools({ respond: script([text("hi")]) })
        const messages = Array.from({ length: 600 }, (_, index) => ({
          role: index % 2 === 0 ? "user" : "assistant",
          content: `${index} ${"x".repeat(2_000)}`
        }))
        const report = yield* session.importHistory({ format: "openai-chat", messages })
        assert.strictEqual(report.messages, 600)
        const events = yield* session.events({ after: 1 })
        assert.isAbove(events.length, 3)
        for (const event of events) assert.isBelow(JSON.stringify(event).length, 300_000)
        yield* session.run("go")
        assert.strictEqual(provider.requests[0]?.messages.length, 602)
        assert.isEmpty(yield* Sound.complaints(session, provider))
      })
    )

    it.effect("keeps its call ids to itself: a model that uses one again gets another", () =>
      Effect.gen(function* () {
        const { provider, session, tools } = yield* World.withTools({
          respond: script([calls([{ ...Tools.call("look", "a"), id: "call_1" }]), text("done")])
        })
        yield* session.importHistory({
          format: "anthropic",
          messages: [
            { role: "user", content: "a" },
            { role: "assistant", content: [{ type: "tool_use", id: "call_1", name: "look", input: {} }] },
            { role: "user", content: [{ type: "tool_result", tool_use_id: "call_1", content: "x" }] }
          ]
        })
        assert.deepStrictEqual(World.brief(yield* session.run("go")), ["Answered", "done", 2])
        assert.isEmpty(yield* Sound.complaints(session, provider, tools))
      })
    )
  })
}
