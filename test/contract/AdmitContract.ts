/** What every journal does for admissions: decide on the session as it stands, record what was decided, once. */
import * as Accept from "@turnstep/core/Accept"
import { assert, layer } from "@effect/vitest"
import * as Admission from "@turnstep/core/Admission"
import type { Claim } from "@turnstep/core/Claim"
import * as Ids from "@turnstep/core/Ids"
import { type Decided, Journal, type Lookup, type View } from "@turnstep/core/Journal"
import * as SessionState from "@turnstep/core/SessionState"
import { ClientKeyReused, SessionBusy, SessionNotFound } from "@turnstep/core/TurnError"
import * as TurnPlan from "@turnstep/core/TurnPlan"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import { odd } from "./JournalContract.ts"
import * as Owned from "./Owned.ts"

export const suite = (name: string, store: Layer.Layer<Journal | Claim>): void =>
  layer(store, { excludeTestServices: true, timeout: "60 seconds" })(`Journal.admit: ${name}`, (it) => {
    it.effect("knows no session of another id", () =>
      Effect.gen(function* () {
        const sessionId = Owned.freshId()
        assert.deepStrictEqual(yield* Effect.flip(Owned.send(sessionId, "hi")), new SessionNotFound({ sessionId }))
      })
    )

    it.effect("decides on what happened before", () =>
      Effect.gen(function* () {
        const owned = yield* Owned.make
        const effects = (...texts: ReadonlyArray<string>) =>
          Effect.forEach(texts, (text) =>
            Effect.map(
              Owned.send(owned.sessionId, text),
              ({ value }) => `${value.itemId} ${value.effect} ${value.turnId}`
            )
          )
        assert.deepStrictEqual(yield* effects("a", "b"), ["inb_1 started trn_1", "inb_2 steering trn_1"])
        yield* owned.catchUp
        const [item] = owned.state.pending.values()
        assert.isDefined(item)
        yield* owned.write(TurnPlan.startTurn(owned.state, item, { model: "m", limits: { maxSteps: 2 } }))
        assert.deepStrictEqual(yield* effects("c"), ["inb_3 steering trn_1"])
        yield* cancel(owned.sessionId, "trn_1")
        assert.deepStrictEqual(yield* effects("d"), ["inb_4 queued undefined"])
        yield* owned.catchUp
        yield* owned.write(TurnPlan.endTurn(owned.state, owned.open(), { type: "cancelled", by: "user", reason: "r" }))
        assert.deepStrictEqual(yield* effects("e"), ["inb_5 steering trn_2"])
      })
    )

    it.effect("sees the same head as the fold of the events", () =>
      Effect.gen(function* () {
        const owned = yield* Owned.make
        const agree = Effect.gen(function* () {
          yield* owned.catchUp
          assert.deepStrictEqual((yield* look(owned.sessionId, {})).head, SessionState.head(owned.state))
        })
        yield* agree
        yield* Owned.send(owned.sessionId, "a")
        yield* agree
        const [item] = owned.state.pending.values()
        assert.isDefined(item)
        yield* owned.write(TurnPlan.startTurn(owned.state, item, { model: "m", limits: { maxSteps: 0 } }))
        yield* agree
        yield* Owned.send(owned.sessionId, "b", { delivery: "follow-up" })
        yield* agree
        yield* cancel(owned.sessionId, "trn_1")
        yield* agree
        yield* owned.write(TurnPlan.endTurn(owned.state, owned.open(), { type: "cancelled", by: "user", reason: "r" }))
        yield* agree
      })
    )

    it.effect("records nothing of a refusal", () =>
      Effect.gen(function* () {
        const journal = yield* Journal
        const owned = yield* Owned.started()
        const refusal = yield* Effect.flip(Owned.send(owned.sessionId, "no", { delivery: "start" }))
        assert.instanceOf(refusal, SessionBusy)
        assert.deepStrictEqual(yield* journal.read(owned.sessionId, { after: owned.state.seq }), [])
      })
    )

    it.effect("admits what has a key once, and tells the sender the same again", () =>
      Effect.gen(function* () {
        for (const clientKey of odd) {
          const sessionId = yield* Owned.created
          const first = yield* Owned.send(sessionId, "hi", { clientKey })
          const again = yield* Owned.send(sessionId, "hi", { clientKey })
          assert.deepStrictEqual(again, { value: first.value, events: [] })
          const refusal = yield* Effect.flip(Owned.send(sessionId, "other", { clientKey }))
          assert.deepStrictEqual(refusal, new ClientKeyReused({ sessionId, clientKey }))
          const others = odd.filter((key) => key !== clientKey)
          yield* Effect.forEach(others, (key) => Owned.send(sessionId, "other", { clientKey: key }))
          assert.strictEqual((yield* look(sessionId, {})).head.items, odd.length)
          const late = yield* Owned.send(sessionId, "hi", { clientKey })
          assert.deepStrictEqual(late.value, first.value)
          assert.strictEqual(late.value.after, (first.events[0]?.seq ?? 0) - 1)
          yield* Owned.send(yield* Owned.created, "another session", { clientKey })
        }
      })
    )

    it.effect("admits one of many that come at once with the same key", () =>
      Effect.gen(function* () {
        const sessionId = yield* Owned.created
        const sent = yield* Effect.forEach(
          Array.from({ length: 20 }, (_, index) => index),
          () => Owned.send(sessionId, "hi", { clientKey: "k" }),
          { concurrency: "unbounded" }
        )
        assert.deepStrictEqual(new Set(sent.map(({ value }) => value.itemId)), new Set([Ids.itemId(1)]))
        assert.strictEqual(sent.flatMap(({ events }) => events).length, 1)
      })
    )

    it.effect("looks up what a Turn that is announced will start from, and the steers that join it", () =>
      Effect.gen(function* () {
        const { sessionId } = yield* Owned.make
        const announced = (turnId: string) => Effect.map(look(sessionId, { turnId }), ({ announced }) => announced)
        assert.isEmpty(yield* announced("trn_1"))
        yield* Owned.send(sessionId, "a")
        yield* Owned.send(sessionId, "b", { ifNotApplied: "return" })
        yield* Owned.send(sessionId, "c", { delivery: "follow-up" })
        assert.deepStrictEqual(
          (yield* announced("trn_1")).map(({ id, ifNotApplied }) => [id, ifNotApplied]),
          [
            ["inb_1", "follow-up"],
            ["inb_2", "return"]
          ]
        )
        yield* admit(sessionId, { turnId: "trn_1" }, Admission.cancel(sessionId, "trn_1", "user", undefined))
        assert.deepStrictEqual(
          (yield* announced("trn_1")).map(({ id }) => id),
          ["inb_3"]
        )
        const { turn } = yield* look((yield* Owned.started()).sessionId, { turnId: "trn_1" })
        assert.isTrue(turn?.isOpen)
      })
    )

    it.effect("looks up an item and what became of it", () =>
      Effect.gen(function* () {
        const owned = yield* Owned.started()
        const { sessionId } = owned
        const item = (itemId: string) => Effect.map(look(sessionId, { itemId }), ({ item }) => item)
        yield* Owned.send(sessionId, "b")
        assert.deepStrictEqual(yield* item("inb_1"), { itemId: Ids.itemId(1), delivery: "start", state: "applied" })
        assert.deepStrictEqual(yield* item("inb_2"), { itemId: Ids.itemId(2), delivery: "steer", state: "waiting" })
        yield* admit(sessionId, { itemId: "inb_2" }, Admission.move("inb_2", "follow-up"))
        assert.deepStrictEqual(yield* item("inb_2"), { itemId: Ids.itemId(2), delivery: "follow-up", state: "waiting" })
        yield* admit(sessionId, { itemId: "inb_2" }, Admission.withdraw("inb_2"))
        assert.deepStrictEqual(yield* item("inb_2"), {
          itemId: Ids.itemId(2),
          delivery: "follow-up",
          state: "returned",
          reason: "withdrawn"
        })
        yield* Owned.send(sessionId, "c", { ifNotApplied: "follow-up" })
        yield* owned.catchUp
        yield* owned.write(TurnPlan.endTurn(owned.state, owned.open(), { type: "cancelled", by: "user", reason: "r" }))
        assert.deepStrictEqual(yield* item("inb_3"), { itemId: Ids.itemId(3), delivery: "follow-up", state: "waiting" })
        for (const none of ["inb_4", "inb_0", "inb_01", "inb_99999999999999999999", "trn_1", "inb_1 ", ""]) {
          assert.isUndefined(yield* item(none), none)
        }
      })
    )

    it.effect("looks up a Turn and whether it goes on", () =>
      Effect.gen(function* () {
        const owned = yield* Owned.started()
        const turn = (turnId: string) => Effect.map(look(owned.sessionId, { turnId }), ({ turn }) => turn)
        const turnId = Ids.turnId(1)
        assert.deepStrictEqual(yield* turn("trn_1"), { turnId, isOpen: true, isCancelling: false })
        yield* cancel(owned.sessionId, "trn_1")
        assert.deepStrictEqual(yield* turn("trn_1"), { turnId, isOpen: true, isCancelling: true })
        assert.deepStrictEqual((yield* cancel(owned.sessionId, "trn_1")).events, [])
        yield* owned.catchUp
        yield* owned.write(TurnPlan.endTurn(owned.state, owned.open(), { type: "cancelled", by: "user", reason: "r" }))
        assert.deepStrictEqual(yield* turn("trn_1"), { turnId, isOpen: false, isCancelling: false })
        for (const none of ["trn_2", "trn_0", "trn_01", "trn_99999999999999999999", "inb_1", ""]) {
          assert.isUndefined(yield* turn(none), none)
        }
      })
    )

    it.effect("keeps one order of admissions and the owner's writes", () =>
      Effect.gen(function* () {
        const journal = yield* Journal
        const owned = yield* Owned.started({ maxSteps: 1000, repeatedToolCallLimit: 1000 })
        const sends = Effect.forEach(
          Array.from({ length: 60 }, (_, index) => index),
          (index) => Owned.send(owned.sessionId, `m${index}`, { clientKey: `k${index % 50}`, delivery: "follow-up" }),
          { concurrency: "unbounded" }
        ).pipe(Effect.ignore)
        const step = Effect.gen(function* () {
          for (let done = 0; done < 20;) {
            const facts =
              owned.open().step?.state === "requested"
                ? Accept.withCalls(owned.state, owned.open(), Owned.calling("nope"), Owned.policyOf)
                : TurnPlan.nextStep(owned.state, owned.open(), 0)
            const exit = yield* Effect.result(owned.write(facts))
            if (Result.isSuccess(exit)) done++
            yield* owned.catchUp
          }
        })
        yield* Effect.all([sends, step], { concurrency: "unbounded" })
        const events = yield* journal.read(owned.sessionId, { after: 0 })
        const state = SessionState.fold(owned.sessionId, events)
        assert.isTrue(state.seq >= owned.state.seq)
        assert.strictEqual(state.items, 51)
        assert.strictEqual(state.pending.size, 50)
      })
    )
  })

const admit = <A, E>(sessionId: Ids.SessionId, lookup: Lookup, decide: (view: View) => Result.Result<Decided<A>, E>) =>
  Effect.flatMap(Journal, (journal) => journal.admit(sessionId, lookup, decide))

const cancel = (sessionId: Ids.SessionId, turnId: string) =>
  admit(sessionId, { turnId }, Admission.cancel(sessionId, turnId, "user", undefined))

/** The view an admission would decide on. */
const look = (sessionId: Ids.SessionId, lookup: Lookup) =>
  Effect.map(
    admit(sessionId, lookup, (view) => Result.succeed({ facts: [], value: view })),
    ({ value }) => value
  )
