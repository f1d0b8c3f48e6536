import { assert, it, layer } from "@effect/vitest"
import { Claim } from "@turnstep/core/Claim"
import { Journal } from "@turnstep/core/Journal"
import { FenceLost, SessionClaimed } from "@turnstep/core/TurnError"
import * as SqlClaim from "@turnstep/runtime/sql/SqlClaim"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import { SqlClient } from "effect/sql/SqlClient"
import * as TestClock from "effect/testing/TestClock"
import * as Owned from "../contract/Owned.ts"
import * as Databases from "./Databases.ts"

/** The claims of another process; it ends with `scope`. */
const process = (scope: Scope.Scope) =>
  Effect.map(Layer.buildWithScope(Layer.fresh(SqlClaim.layer), scope), (context) => Context.get(context, Claim))

const endLeases = Effect.flatMap(SqlClient, (sql) => sql`update turnstep.runners set lease_until = clock_timestamp()`)

for (const database of Databases.migrated) {
  const storage = Databases.storage(database.layer)
  layer(storage, { excludeTestServices: true, timeout: "60 seconds" })(`SqlClaim on ${database.name}`, (it) => {
    it.effect("keeps a session for a live process until it is given back", () =>
      Effect.gen(function* () {
        const sessionId = yield* Owned.created
        const ours = yield* process(yield* Scope.Scope)
        const theirs = yield* process(yield* Scope.Scope)
        const { fence } = yield* ours.acquire(sessionId)
        assert.deepStrictEqual(yield* Effect.flip(theirs.acquire(sessionId)), new SessionClaimed({ sessionId }))
        yield* theirs.release(sessionId, fence)
        assert.instanceOf(yield* Effect.flip(theirs.acquire(sessionId)), SessionClaimed)
        yield* ours.release(sessionId, fence)
        assert.isTrue((yield* theirs.acquire(sessionId)).fence > fence)
      })
    )

    it.effect("lets one of two processes that come at once have it", () =>
      Effect.gen(function* () {
        const sessionId = yield* Owned.created
        const processes = yield* Effect.forEach([1, 2, 3, 4], () => Effect.flatMap(Scope.Scope, process))
        const claims = yield* Effect.forEach(processes, (one) => Effect.result(one.acquire(sessionId)), {
          concurrency: "unbounded"
        })
        assert.lengthOf(
          claims.filter(({ _tag }) => _tag === "Success"),
          1
        )
      })
    )

    it.effect("takes a session over from an owner whose lease ran out, and locks that owner out", () =>
      Effect.gen(function* () {
        const journal = yield* Journal
        const owned = yield* Owned.started()
        const theirs = yield* process(yield* Scope.Scope)
        assert.notInclude(yield* journal.unattended(["a"], 10_000), owned.sessionId)
        yield* endLeases
        assert.include(yield* journal.unattended(["a"], 10_000), owned.sessionId)
        const { fence } = yield* theirs.acquire(owned.sessionId)
        assert.isTrue(fence > owned.fence)
        assert.instanceOf(yield* Effect.flip(owned.write([])), FenceLost)
      })
    )

    it.effect("leaves every session to others when its process stops", () =>
      Effect.gen(function* () {
        const journal = yield* Journal
        const scope = yield* Scope.make()
        const theirs = yield* process(scope)
        const sessionId = yield* Owned.created
        yield* Owned.send(sessionId, "hi")
        const { fence } = yield* theirs.acquire(sessionId)
        assert.notInclude(yield* journal.unattended(["a"], 10_000), sessionId)
        yield* Scope.close(scope, Exit.void)
        assert.include(yield* journal.unattended(["a"], 10_000), sessionId)
        const claims = yield* Claim
        assert.isTrue((yield* claims.acquire(sessionId)).fence > fence)
      })
    )
  })

  it.effect(`renews its lease every five seconds on ${database.name}`, () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient
      const left = Effect.map(
        sql<{ readonly left: number }>`
          select extract(epoch from lease_until - clock_timestamp())::float8 as left from turnstep.runners`,
        ([row]) => row?.left ?? 0
      )
      assert.closeTo(yield* left, 15, 5)
      yield* endLeases
      yield* TestClock.adjust("4 seconds")
      assert.isTrue((yield* left) <= 0)
      yield* TestClock.adjust("1 second")
      // The renewal is under way: each look is a round trip, and it ends with the test's patience.
      while ((yield* left) < 10) yield* Effect.yieldNow
    }).pipe(Effect.provide(storage))
  )

  it.effect(`gives a session back later when it could not be at once on ${database.name}`, () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient
      const claims = yield* Claim
      const sessionId = yield* Owned.created
      const { fence } = yield* claims.acquire(sessionId)
      const owner = Effect.map(
        sql<{ readonly owner: string | null }>`select owner from turnstep.sessions where session_id = ${sessionId}`,
        ([row]) => row?.owner ?? null
      )
      yield* sql`alter table turnstep.sessions rename to away`
      yield* claims.release(sessionId, fence)
      yield* sql`alter table turnstep.away rename to sessions`
      assert.isNotNull(yield* owner)
      yield* TestClock.adjust("5 seconds")
      while ((yield* owner) !== null) yield* Effect.yieldNow
      assert.isTrue((yield* claims.acquire(sessionId)).fence > fence)
    }).pipe(Effect.provide(storage))
  )
}
