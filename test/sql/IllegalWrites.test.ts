/**
 * What the database refuses whoever writes.
 *
 * Each write is tried in a transaction that has passed the gate, unless its very point is that it has not. `legal` writes
 * are tried in the same way, so that a refusal is known to be about what it says it is about.
 */
import * as Accept from "@turnstep/core/Accept"
import { assert, layer } from "@effect/vitest"
import { Claim } from "@turnstep/core/Claim"
import type * as Ids from "@turnstep/core/Ids"
import * as Ledger from "@turnstep/core/Ledger"
import * as TurnPlan from "@turnstep/core/TurnPlan"
import { stateOf } from "@turnstep/runtime/sql/SqlFailure"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import { SqlClient } from "effect/sql/SqlClient"
import * as Owned from "../contract/Owned.ts"
import * as Databases from "./Databases.ts"
import * as Cases from "./IllegalWriteCases.ts"

/** A legal write is rolled back as well, so that every case meets the same session. */
class Undone extends Data.TaggedError("Undone") {}

const tried = Effect.fnUntraced(function* (target: Cases.Target, statement: string, isGated: boolean) {
  const sql = yield* SqlClient
  const gate = sql`update turnstep.sessions set next_seq = next_seq + 1 where session_no = ${target.no}`
  const write = Effect.andThen(isGated ? Effect.asVoid(gate) : Effect.void, sql.unsafe(statement))
  const refusal = yield* Effect.flip(sql.withTransaction(Effect.andThen(write, Effect.fail(new Undone()))))
  return refusal instanceof Undone ? "legal" : stateOf(refusal)
})

type InHand = Effect.Success<typeof Owned.make>

const targetOf = Effect.fnUntraced(function* ({ fence, sessionId }: InHand) {
  const sql = yield* SqlClient
  const [row] = yield* sql<{ readonly no: bigint; readonly seq: number }>`
    select session_no as no, next_seq as seq from turnstep.sessions where session_id = ${sessionId}`
  if (row === undefined) throw new Error("the session is not there")
  return { ...row, fence }
})

const idOf = (owned: InHand, index: number): Ids.CallId => {
  const call = owned.open().ledger.calls[index]
  if (call === undefined) throw new Error("no such call")
  return call.callId
}

const released = Effect.gen(function* () {
  const owned = yield* Owned.make
  yield* (yield* Claim).release(owned.sessionId, owned.fence)
  return owned
})

const batch = Effect.gen(function* () {
  const owned = yield* Owned.started()
  const response = Owned.calling("pure", "once", "idempotent", "once")
  const facts = Accept.withCalls(owned.state, owned.open(), response, Owned.policyOf)
  yield* owned.write(facts.slice(0, -1))
  return owned
})

const oneStep = Effect.gen(function* () {
  const owned = yield* Owned.started({ maxSteps: 1 })
  yield* owned.write(Accept.withCalls(owned.state, owned.open(), Owned.calling("pure"), Owned.policyOf))
  yield* owned.write(Ledger.receipts(owned.open().ledger, "timed-out"))
  const { id, step } = owned.open()
  if (step === undefined) throw new Error("no step is open")
  yield* owned.write([{ type: "step.completed", data: { turnId: id, step: step.step, ...step.figures } }])
  return owned
})

const handedBack = Effect.gen(function* () {
  const owned = yield* oneStep
  yield* owned.write(TurnPlan.nextStep(owned.state, owned.open(), 0).slice(-1))
  yield* owned.write(Accept.handBack(owned.open(), TurnPlan.reasonToEnd(owned.open(), "steps")))
  return owned
})

const closed = Effect.gen(function* () {
  const owned = yield* handedBack
  yield* owned.write(TurnPlan.endTurn(owned.state, owned.open(), { type: "exhausted", limit: "steps" }))
  yield* Owned.send(owned.sessionId, "again")
  return owned
})

const cancelled = Effect.gen(function* () {
  const owned = yield* Owned.started()
  yield* owned.write(TurnPlan.endTurn(owned.state, owned.open(), { type: "cancelled", by: "user", reason: undefined }))
  return owned
})

const failed = Effect.gen(function* () {
  const owned = yield* Owned.started()
  const [answer] = Accept.final(owned.state, owned.open(), Owned.calling())
  if (answer === undefined) throw new Error("there is no answer")
  yield* owned.write([answer])
  yield* owned.write(
    TurnPlan.endTurn(owned.state, owned.open(), { type: "failed", error: { code: "c", message: "m" } })
  )
  return owned
})

for (const database of Databases.migrated) {
  const storage = Databases.storage(database.layer)
  layer(storage, { excludeTestServices: true, timeout: "60 seconds" })(database.name, (it) => {
    const check = <E>(
      name: string,
      cases: ReadonlyArray<Cases.Case>,
      make: Effect.Effect<InHand, E, Databases.Storage>
    ): void =>
      it.effect(`refuses what may not be written to a session that is ${name}`, () =>
        Effect.gen(function* () {
          const target = yield* targetOf(yield* make)
          for (const [what, statement] of Cases.legal[name] ?? []) {
            assert.strictEqual(yield* tried(target, statement(target), true), "legal", `${name}: ${what}`)
          }
          for (const [what, refusal, statement] of cases) {
            assert.strictEqual(
              yield* tried(target, statement(target), name !== "not held"),
              refusal,
              `${name}: ${what}`
            )
          }
        })
      )

    check(
      "fresh",
      Cases.fresh,
      Effect.tap(Owned.make, ({ sessionId }) => Owned.send(sessionId, "hi", { clientKey: "k" }))
    )
    check(
      "requested",
      Cases.requested,
      Effect.tap(Owned.started(), ({ sessionId }) => Owned.send(sessionId, "hi"))
    )
    check("released", Cases.released, released)
    check("called", Cases.called, batch)
    check("not held", Cases.outside, batch)
    check(
      "answered",
      Cases.answered,
      Effect.tap(batch, (owned) => owned.write([Owned.result(idOf(owned, 0))]))
    )
    check("spent", Cases.spent, oneStep)
    check("handed back", Cases.handedBack, handedBack)
    check("closed", Cases.closed, closed)
    check("cancelled", Cases.cancelled, cancelled)
    check("failed", Cases.failed, failed)
  })
}
