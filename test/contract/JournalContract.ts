/** What every journal does: what is written, what is refused, what is read back. Admissions: `AdmitContract`. */
import * as Call from "@turnstep/core/Call"
import * as Accept from "@turnstep/core/Accept"
import { assert, layer } from "@effect/vitest"
import * as Admission from "@turnstep/core/Admission"
import { Claim } from "@turnstep/core/Claim"
import * as Ids from "@turnstep/core/Ids"
import { Journal, type Page, SeqBehind, type Summary } from "@turnstep/core/Journal"
import * as Ledger from "@turnstep/core/Ledger"
import { FenceLost, SessionExists } from "@turnstep/core/TurnError"
import type { Fact, TurnEvent } from "@turnstep/core/TurnEvent"
import * as TurnPlan from "@turnstep/core/TurnPlan"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import type * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Log from "../fixtures/Log.ts"
import * as Owned from "./Owned.ts"

/** Strings that some databases do not take. */
export const odd = [
  "\u0000",
  "a\u0000b",
  "\ud800",
  "\udbff",
  "\udfff\ud800",
  "💥\u2028",
  '"\\',
  "\\u0000",
  "x".repeat(5000)
]

export const suite = (name: string, store: Layer.Layer<Journal | Claim>): void =>
  layer(store, { excludeTestServices: true, timeout: "60 seconds" })(`Journal: ${name}`, (it) => {
    it.effect("records a session once", () =>
      Effect.gen(function* () {
        const journal = yield* Journal
        const sessionId = Owned.freshId()
        const data = { agent: "a", title: "t", metadata: { deep: [1, null, { x: "y" }] } }
        const events = yield* journal.create(sessionId, data)
        assert.deepStrictEqual(plain(events), [{ seq: 1, type: "session.created", data }])
        assert.deepStrictEqual(yield* Effect.flip(journal.create(sessionId, data)), new SessionExists({ sessionId }))
        assert.deepStrictEqual(yield* journal.read(sessionId, { after: 0 }), events)
      })
    )

    it.effect("ends a page with the event that fills its bytes, and has one at least", () =>
      Effect.gen(function* () {
        const journal = yield* Journal
        const sessionId = Owned.freshId()
        yield* journal.create(sessionId, { agent: "a" })
        for (let count = 0; count < 4; count++) {
          yield* journal.admit(sessionId, {}, Admission.send(Log.request("é".repeat(1000))))
        }
        const pageOf = (page: Omit<Page, "after">, after = 1) =>
          Effect.map(journal.read(sessionId, { after, ...page }), (events) => events.map(({ seq }) => seq))
        assert.deepStrictEqual(yield* pageOf({ bytes: 1 }), [2])
        assert.deepStrictEqual(yield* pageOf({ bytes: 3000 }), [2, 3])
        assert.deepStrictEqual(yield* pageOf({ bytes: 3000, limit: 1 }), [2])
        assert.deepStrictEqual(yield* pageOf({ bytes: 1_000_000 }), [2, 3, 4, 5])
        assert.deepStrictEqual(yield* pageOf({ bytes: 1, types: ["inbox.admitted"] }, 3), [4])
        assert.deepStrictEqual([...(yield* journal.heads([sessionId, Owned.freshId()]))], [[sessionId, 5]])
        assert.strictEqual((yield* journal.heads([])).size, 0)
      })
    )

    it.effect("gives facts the next sequence numbers and returns what it will read", () =>
      Effect.gen(function* () {
        const journal = yield* Journal
        const owned = yield* Owned.started()
        const facts = Accept.withCalls(owned.state, owned.open(), Owned.calling("pure", "once"), Owned.policyOf)
        const before = owned.state.seq
        const events = yield* owned.write(facts)
        assert.deepStrictEqual(
          events.map(({ seq }) => seq),
          facts.map((_, index) => before + 1 + index)
        )
        const read = yield* journal.read(owned.sessionId, { after: before })
        assert.deepStrictEqual(read, events)
        assert.strictEqual(JSON.stringify(read.map(({ data }) => data)), JSON.stringify(facts.map(({ data }) => data)))
      })
    )

    it.effect("keeps every string as it was written", () =>
      Effect.gen(function* () {
        const journal = yield* Journal
        for (const text of odd) {
          const sessionId = Owned.freshId()
          yield* journal.create(sessionId, { agent: text, title: text, metadata: { [text]: text } })
          yield* Owned.send(sessionId, text, { clientKey: text })
          const [created, admitted] = yield* journal.read(sessionId, { after: 0 })
          assert.deepStrictEqual(created?.data, { agent: text, title: text, metadata: { [text]: text } })
          assert.deepStrictEqual(admitted?.type === "inbox.admitted" && admitted.data.parts, [{ type: "text", text }])
          const summary = Option.getOrThrow(yield* journal.summary(sessionId))
          assert.deepStrictEqual([summary.agent, summary.title], [text, text])
        }
        const owned = yield* Owned.called("pure")
        const [call] = Ledger.openCalls(owned.open().ledger)
        assert.isDefined(call)
        yield* owned.write([Owned.result(call.callId, { [odd.join("")]: odd })])
        const [result] = yield* journal.read(owned.sessionId, { after: owned.state.seq - 1 })
        assert.deepStrictEqual(result?.type === "call.completed" && result.data.output, { [odd.join("")]: odd })
      })
    )

    it.effect("writes nothing under a stale fence", () =>
      Effect.gen(function* () {
        const journal = yield* Journal
        const claims = yield* Claim
        const owned = yield* Owned.started()
        const facts = Accept.final(owned.state, owned.open(), { ...Owned.calling(), finishReason: "stop" })
        const { fence: newer } = yield* claims.acquire(owned.sessionId)
        assert.deepStrictEqual(yield* Effect.flip(owned.write(facts)), new FenceLost({ sessionId: owned.sessionId }))
        const write = { sessionId: owned.sessionId, facts, expectedSeq: 1 }
        assert.instanceOf(yield* Effect.flip(journal.append({ ...write, fence: owned.fence })), FenceLost)
        assert.instanceOf(yield* Effect.flip(journal.append({ ...write, fence: newer + 1 })), FenceLost)
        assert.deepStrictEqual(yield* journal.read(owned.sessionId, { after: owned.state.seq }), [])
        assert.isNotEmpty(yield* journal.append({ ...write, fence: newer, expectedSeq: owned.state.seq }))
      })
    )

    it.effect("writes nothing to a session that does not exist", () =>
      Effect.gen(function* () {
        const journal = yield* Journal
        const sessionId = Owned.freshId()
        const write = { sessionId, fence: 0, expectedSeq: undefined, facts: [idle] }
        assert.deepStrictEqual(yield* Effect.flip(journal.append(write)), new FenceLost({ sessionId }))
        assert.deepStrictEqual(yield* journal.read(sessionId, { after: 0 }), [])
      })
    )

    it.effect("writes nothing when others wrote since the decision, and says how far they came", () =>
      Effect.gen(function* () {
        const journal = yield* Journal
        const owned = yield* Owned.make
        yield* Owned.send(owned.sessionId, "meanwhile")
        const refusal = yield* Effect.flip(owned.write([idle]))
        assert.deepStrictEqual(refusal, new SeqBehind(owned.state.seq + 1))
        assert.lengthOf(yield* journal.read(owned.sessionId, { after: owned.state.seq }), 1)
        yield* owned.catchUp
        yield* owned.write([idle])
      })
    )

    it.effect("does not ask how far the others came when no sequence number is expected", () =>
      Effect.gen(function* () {
        const journal = yield* Journal
        const owned = yield* Owned.make
        yield* Owned.send(owned.sessionId, "meanwhile")
        const write = { sessionId: owned.sessionId, fence: owned.fence, expectedSeq: undefined, facts: [idle] }
        assert.deepStrictEqual(plain(yield* journal.append(write)), [{ ...idle, seq: owned.state.seq + 2 }])
      })
    )

    it.effect("writes no facts without a trace", () =>
      Effect.gen(function* () {
        const journal = yield* Journal
        const owned = yield* Owned.make
        const before = yield* journal.summary(owned.sessionId)
        assert.deepStrictEqual(yield* owned.write([]), [])
        assert.deepStrictEqual(yield* journal.summary(owned.sessionId), before)
        yield* owned.write([idle])
      })
    )

    it.effect("dies of an illegal write and keeps nothing of it", () =>
      Effect.gen(function* () {
        const journal = yield* Journal
        const owned = yield* Owned.started()
        const illegal: ReadonlyArray<Fact> = [
          ...Accept.withCalls(owned.state, owned.open(), Owned.calling("pure"), Owned.policyOf),
          { type: "step.started", data: { turnId: owned.open().id, step: 2, kind: "work" } }
        ]
        const write = { sessionId: owned.sessionId, fence: owned.fence, expectedSeq: owned.state.seq, facts: illegal }
        const exit = yield* Effect.exit(journal.append(write))
        assert.isTrue(Exit.hasDies(exit))
        assert.deepStrictEqual(yield* journal.read(owned.sessionId, { after: owned.state.seq }), [])
        yield* owned.write(Accept.withCalls(owned.state, owned.open(), Owned.calling("pure"), Owned.policyOf))
      })
    )

    it.effect("finds the result of a call by its id, and none where there is none", () =>
      Effect.gen(function* () {
        const journal = yield* Journal
        const owned = yield* Owned.called("pure", "once", "pure")
        const [first, second, third] = Ledger.openCalls(owned.open().ledger)
        if (first === undefined || second === undefined || third === undefined)
          return assert.fail("three calls are open")
        yield* owned.write([Owned.result(first.callId, { found: true }), Call.receipt(second, "lost")])
        const found = yield* journal.resultOf(owned.sessionId, first.callId)
        assert.deepStrictEqual(found?.output, { found: true })
        const none = [second.callId, third.callId, "cal_1_2_0", "cal_9999999999_1_0", `cal_${"9".repeat(40)}_1_0`]
        for (const callId of none) {
          assert.isUndefined(yield* journal.resultOf(owned.sessionId, callId as Ids.CallId), callId)
        }
        assert.isUndefined(yield* journal.resultOf(Owned.freshId(), first.callId))
      })
    )

    it.effect("carries a write to its end when its caller is interrupted", () =>
      Effect.gen(function* () {
        const journal = yield* Journal
        const owned = yield* Owned.make
        const write = {
          sessionId: owned.sessionId,
          fence: owned.fence,
          expectedSeq: owned.state.seq,
          facts: [idle, idle]
        }
        const writer = yield* Effect.forkChild(journal.append(write), { startImmediately: true })
        yield* Fiber.interrupt(writer)
        assert.lengthOf(yield* journal.read(owned.sessionId, { after: owned.state.seq }), 2)
      })
    )

    it.effect("takes writes of a hundred sessions at once, and each session's in order", () =>
      Effect.gen(function* () {
        const journal = yield* Journal
        const owned = yield* Effect.forEach(
          Array.from({ length: 100 }, (_, index) => index),
          () => Owned.make,
          { concurrency: 10 }
        )
        const append = (index: number, facts: ReadonlyArray<Fact>) => {
          const { fence, sessionId } = owned[index % 100] as (typeof owned)[number]
          return journal.append({ sessionId, fence, expectedSeq: undefined, facts })
        }
        const wrong = { type: "turn.settled", data: { turnId: "trn_9", receipts: [] } } as unknown as Fact
        const exits = yield* Effect.forEach(
          Array.from({ length: 500 }, (_, index) => index),
          (index) => Effect.exit(append(index, index === 250 ? [wrong] : index % 2 === 0 ? [idle] : [running, idle])),
          { concurrency: "unbounded" }
        )
        assert.deepStrictEqual(
          exits.flatMap((exit, index) => (Exit.isFailure(exit) ? [index] : [])),
          [250]
        )
        for (const { sessionId } of owned) {
          const events = yield* journal.read(sessionId, { after: 0 })
          assert.deepStrictEqual(
            events.map(({ seq }) => seq),
            events.map((_, index) => index + 1)
          )
        }
      })
    )

    it.effect("reads pages", () =>
      Effect.gen(function* () {
        const journal = yield* Journal
        const owned = yield* Owned.called("pure")
        const all = yield* journal.read(owned.sessionId, { after: 0 })
        assert.strictEqual(all.length, owned.state.seq)
        assert.deepStrictEqual(yield* journal.read(owned.sessionId, { after: 3 }), all.slice(3))
        assert.deepStrictEqual(yield* journal.read(owned.sessionId, { after: 3, limit: 2 }), all.slice(3, 5))
        assert.deepStrictEqual(yield* journal.read(owned.sessionId, { after: 3, limit: 0 }), [])
        assert.deepStrictEqual(yield* journal.read(owned.sessionId, { after: all.length }), [])
        const types = ["message.added", "turn.started"] as const
        const wanted = all.filter(({ type }) => type === "message.added" || type === "turn.started")
        assert.isTrue(wanted.length > 2)
        assert.deepStrictEqual(yield* journal.read(owned.sessionId, { after: 0, types }), wanted)
        assert.deepStrictEqual(yield* journal.read(owned.sessionId, { after: 0, types, limit: 2 }), wanted.slice(0, 2))
        assert.deepStrictEqual(yield* journal.read(owned.sessionId, { after: 0, types: [] }), [])
        assert.deepStrictEqual(yield* journal.read(Owned.freshId(), { after: 0 }), [])
      })
    )

    it.effect("lists the beginning of a long title, and sums up with all of it", () =>
      Effect.gen(function* () {
        const journal = yield* Journal
        for (const text of ["x".repeat(1000), "💥\u0000".repeat(500), '\\"'.repeat(500), "t".repeat(200)]) {
          const sessionId = Owned.freshId()
          yield* journal.create(sessionId, { agent: "a", title: text })
          const [listed] = yield* journal.list({ before: undefined, limit: 1 })
          assert.strictEqual(listed?.title, Array.from(text).slice(0, 200).join(""))
          assert.strictEqual(Option.getOrThrow(yield* journal.summary(sessionId)).title, text)
        }
      })
    )

    it.effect("sums a session up", () =>
      Effect.gen(function* () {
        const journal = yield* Journal
        const owned = yield* Owned.started()
        const summary = Effect.map(journal.summary(owned.sessionId), Option.getOrThrow)
        const [first, ...rest] = yield* journal.read(owned.sessionId, { after: 0 })
        const expected: Partial<Summary> = {
          sessionId: owned.sessionId,
          agent: "a",
          title: undefined,
          status: "running",
          seq: owned.state.seq,
          turns: 1,
          activeTurn: Ids.turnId(1),
          createdAt: first?.at ?? 0,
          updatedAt: rest.at(-1)?.at ?? 0
        }
        assert.deepStrictEqual<Partial<Summary>>(yield* summary, expected)
        const events = yield* owned.write(
          TurnPlan.endTurn(owned.state, owned.open(), { type: "cancelled", by: "user", reason: undefined })
        )
        const ended: Partial<Summary> = {
          status: "idle",
          activeTurn: undefined,
          seq: owned.state.seq,
          updatedAt: events.at(-1)?.at ?? 0
        }
        assert.deepStrictEqual<Partial<Summary>>(yield* summary, { ...expected, ...ended })
        for (const none of ["no such session", ...odd]) {
          assert.deepStrictEqual(yield* journal.summary(none), Option.none())
        }
      })
    )

    it.effect("lists sessions, the newest first, page by page", () =>
      Effect.gen(function* () {
        const journal = yield* Journal
        const ids = yield* Effect.forEach([1, 2, 3, 4, 5], () => Owned.created)
        const newest = ids.toReversed()
        const list = (before: string | undefined, limit: number) =>
          Effect.map(journal.list({ before, limit }), (page) => page.map(({ sessionId }) => sessionId))
        assert.deepStrictEqual(yield* list(undefined, 5), newest)
        assert.deepStrictEqual(yield* list(undefined, 2), newest.slice(0, 2))
        assert.deepStrictEqual(yield* list(newest[1], 2), newest.slice(2, 4))
        for (const none of ["no such session", ...odd]) {
          assert.deepStrictEqual(yield* list(none, 2), newest.slice(0, 2))
        }
        const [page] = yield* journal.list({ before: undefined, limit: 1 })
        assert.deepStrictEqual(Option.some(page), yield* journal.summary(newest[0] as string))
      })
    )

    it.effect("knows sessions with work that nobody drives", () =>
      Effect.gen(function* () {
        const journal = yield* Journal
        const claims = yield* Claim
        const isUnattended = (id: string) =>
          Effect.map(journal.unattended(["a"], 10_000), (ids) => ids.some((each) => each === id))
        const idleOne = yield* Owned.created
        assert.isFalse(yield* isUnattended(idleOne))
        yield* Owned.send(idleOne, "waits")
        assert.isTrue(yield* isUnattended(idleOne))
        const owned = yield* Owned.started()
        assert.isFalse(yield* isUnattended(owned.sessionId))
        yield* claims.release(owned.sessionId, owned.fence)
        assert.isTrue(yield* isUnattended(owned.sessionId))
        yield* owned.write(TurnPlan.endTurn(owned.state, owned.open(), { type: "cancelled", by: "user", reason: "r" }))
        assert.isFalse(yield* isUnattended(owned.sessionId))
        yield* owned.write([running])
        assert.isTrue(yield* isUnattended(owned.sessionId))
        yield* owned.write([idle])
        assert.isFalse(yield* isUnattended(owned.sessionId))
        yield* Owned.send(yield* Owned.created, "waits too")
        assert.lengthOf(yield* journal.unattended(["a"], 1), 1)
      })
    )

    it.effect("names sessions with work to those who know their agent alone", () =>
      Effect.gen(function* () {
        const journal = yield* Journal
        for (const agent of ["known", 'o"dd\u0000\ud800']) {
          const sessionId = yield* Owned.createdFor(agent)
          yield* Owned.send(sessionId, "waits")
          assert.include(yield* journal.unattended(["x", agent], 10_000), sessionId)
          assert.notInclude(yield* journal.unattended(["x", "know", "known "], 10_000), sessionId)
        }
        assert.isEmpty(yield* journal.unattended([], 10_000))
      })
    )
  })

const idle: Fact = { type: "session.status", data: { status: "idle" } }
const running: Fact = { type: "session.status", data: { status: "running" } }

const plain = (events: ReadonlyArray<TurnEvent>) => events.map(({ data, seq, type }) => ({ seq, type, data }))
