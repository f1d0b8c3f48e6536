/** A connection that breaks at a write: whether it was done or not, it is done once, and its writer learns of it. */
import { assert, describe, it } from "@effect/vitest"
import { Claim } from "@turnstep/core/Claim"
import { Journal } from "@turnstep/core/Journal"
import { FenceLost } from "@turnstep/core/TurnError"
import type { Fact } from "@turnstep/core/TurnEvent"
import * as Postgres from "@turnstep/runtime/database/Postgres"
import * as Migrations from "@turnstep/runtime/sql/Migrations"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import { SqlClient } from "effect/sql/SqlClient"
import * as Owned from "../contract/Owned.ts"
import * as TestPostgres from "../fixtures/Postgres.ts"
import * as Databases from "./Databases.ts"
import * as Wire from "./Wire.ts"

const running: Fact = { type: "session.status", data: { status: "running" } }
const idle: Fact = { type: "session.status", data: { status: "idle" } }

/** A journal behind a wire, and `others` with a connection of their own to the same database. */
const scene = Effect.gen(function* () {
  const url = yield* TestPostgres.freshUrl({ name: "turnstep", migrate: Migrations.migrate })
  const wire = yield* Wire.make(url)
  const ours = yield* Layer.build(Databases.ports.pipe(Layer.provideMerge(wire.layer)))
  const theirs = yield* Layer.build(Databases.ports.pipe(Layer.provideMerge(Postgres.layer({ url }))))
  const others = Effect.provide(theirs)
  const isDone = (sessionId: string, seq: number) =>
    others(
      Effect.flatMap(
        SqlClient,
        (sql) => sql`select from turnstep.sessions where session_id = ${sessionId} and next_seq > ${seq}`
      )
    ).pipe(Effect.map((rows) => rows.length === 1))
  const owned = yield* Effect.provide(Owned.make, ours)
  // The statements are prepared now: what is cut is a write, not its preparation.
  yield* owned.write([idle])
  yield* Effect.provide(Owned.send(owned.sessionId, "first"), ours)
  yield* owned.catchUp
  return { wire, ours: Effect.provide(ours), others, isDone, owned }
})

/** Starts a write, waits until the wire is cut, does `meanwhile`, mends it, and gives what the writer is told. */
const cut = <A, E, B, E2>(
  wire: Wire.Wire,
  at: "question" | "answer",
  write: Effect.Effect<A, E>,
  meanwhile: Effect.Effect<B, E2>,
  pass = 0
) =>
  Effect.gen(function* () {
    yield* wire.cutAt(at, pass)
    const writer = yield* Effect.forkChild(Effect.result(write), { startImmediately: true })
    yield* wire.isCut
    yield* meanwhile
    yield* wire.mend
    return yield* Fiber.join(writer)
  })

describe("a write whose connection breaks", () => {
  for (const at of ["question", "answer"] as const) {
    it.live(`is done once when the ${at} is lost`, () =>
      Effect.gen(function* () {
        const { isDone, others, owned, wire } = yield* scene
        const { seq } = owned.state
        const facts = [running, idle]
        const told = yield* cut(
          wire,
          at,
          owned.write(facts),
          // Others write in between, so that ours is not the last when it is sent again.
          Effect.gen(function* () {
            assert.strictEqual(yield* isDone(owned.sessionId, seq + 2), at === "answer")
            if (at === "answer") yield* others(Owned.send(owned.sessionId, "meanwhile"))
          })
        )
        assert.strictEqual(told._tag, "Success")
        yield* owned.catchUp
        const events = yield* others(
          Effect.flatMap(Journal, (journal) => journal.read(owned.sessionId, { after: seq }))
        )
        assert.deepStrictEqual(events.map(({ type }) => type).slice(0, 2), ["session.status", "session.status"])
        assert.lengthOf(events, at === "answer" ? 3 : 2)
        if (told._tag === "Success") assert.deepStrictEqual(told.success, events.slice(0, 2))
        yield* owned.write([idle])
      }).pipe(Effect.scoped)
    )

    it.live(`is done once when the ${at} is lost, also when it expects no seq`, () =>
      Effect.gen(function* () {
        const { others, ours, owned, wire } = yield* scene
        const { fence, sessionId, state } = owned
        const write = Effect.flatMap(Journal, (journal) =>
          journal.append({ sessionId, fence, expectedSeq: undefined, facts: [running, idle] })
        )
        const told = yield* cut(wire, at, ours(write), Effect.void)
        const events = yield* others(
          Effect.flatMap(Journal, (journal) => journal.read(sessionId, { after: state.seq }))
        )
        assert.lengthOf(events, 2)
        if (told._tag === "Success") assert.deepStrictEqual(told.success, events)
        else assert.fail("it was written and refused")
      }).pipe(Effect.scoped)
    )

    it.live(`admits a message once when the ${at} is lost`, () =>
      Effect.gen(function* () {
        const { isDone, others, ours, owned, wire } = yield* scene
        const { seq } = owned.state
        const told = yield* cut(
          wire,
          at,
          ours(Owned.send(owned.sessionId, "same text")),
          Effect.suspend(() => others(Owned.send(owned.sessionId, "same text"))),
          1 // The look at the session passes.
        )
        assert.isTrue(yield* isDone(owned.sessionId, seq + 1))
        assert.strictEqual(told._tag, "Success")
        const items = yield* others(
          Effect.flatMap(SqlClient, (sql) => sql`select count(*)::int as count from turnstep.inputs`)
        )
        assert.deepStrictEqual(items, [{ count: 3 }])
        const events = yield* others(
          Effect.flatMap(Journal, (journal) => journal.read(owned.sessionId, { after: seq }))
        )
        if (told._tag === "Success") assert.deepInclude(events, told.success.events[0])
      }).pipe(Effect.scoped)
    )

    it.live(`is refused when the ${at} is lost and the session has a new owner`, () =>
      Effect.gen(function* () {
        const { others, owned, wire } = yield* scene
        const { seq } = owned.state
        const takeOver = Effect.gen(function* () {
          const sql = yield* SqlClient
          const claims = yield* Claim
          yield* sql`update turnstep.runners set lease_until = clock_timestamp()`
          return (yield* claims.acquire(owned.sessionId)).fence
        })
        const told = yield* cut(wire, at, owned.write([running]), others(takeOver))
        assert.strictEqual(told._tag, "Failure")
        if (told._tag === "Failure") assert.instanceOf(told.failure, FenceLost)
        const events = yield* others(
          Effect.flatMap(Journal, (journal) => journal.read(owned.sessionId, { after: seq }))
        )
        assert.lengthOf(events, at === "answer" ? 1 : 0)
      }).pipe(Effect.scoped)
    )

    it.live(`records a new session once when the ${at} is lost`, () =>
      Effect.gen(function* () {
        const { others, ours, wire } = yield* scene
        yield* ours(Owned.created)
        const sessionId = Owned.freshId()
        const create = Effect.flatMap(Journal, (journal) => journal.create(sessionId, { agent: "a" }))
        const told = yield* cut(wire, at, ours(create), Effect.void)
        assert.strictEqual(told._tag, "Success")
        assert.lengthOf(yield* others(Effect.flatMap(Journal, (journal) => journal.read(sessionId, { after: 0 }))), 1)
        assert.strictEqual((yield* Effect.flip(others(create)))._tag, "SessionExists")
      }).pipe(Effect.scoped)
    )
  }
})
