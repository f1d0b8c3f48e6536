import { assert, describe, it, layer } from "@effect/vitest"
import * as PgClient from "@effect/sql-pg/PgClient"
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Queue from "effect/Queue"
import * as Stream from "effect/Stream"
import * as SqlClient from "effect/sql/SqlClient"
import type * as SqlError from "effect/sql/SqlError"
import { databases } from "../../fixtures/Databases.ts"

const codeOf = (error: SqlError.SqlError): unknown => {
  const cause = error.reason.cause
  return cause instanceof Error && "code" in cause ? cause.code : undefined
}

for (const database of databases) {
  layer(database.layer, { timeout: "60 seconds", excludeTestServices: true })(database.name, (it) => {
    it.effect("gives back what it was given", () =>
      Effect.gen(function* () {
        const sql = yield* PgClient.PgClient
        const document = { text: "naïve 🦊 \u2028 \\u0000", list: [1, null, { deep: true }] }
        const [row] =
          yield* sql`SELECT ${9007199254740993n}::int8 AS big, ${1.5}::float8 AS real, ${sql.json(document)} AS doc,
          ${["a", 'b"', ""]}::text[] AS list, ${new Uint8Array([0, 255, 10])}::bytea AS bytes, ${null}::text AS nothing,
          ${"2026-01-02T03:04:05.678Z"}::timestamptz AS instant, ${true}::bool AS truth, 12345678901234567890.5::numeric AS exact`
        assert.deepStrictEqual(row?.["big"], 9007199254740993n)
        assert.deepStrictEqual(row?.["real"], 1.5)
        assert.deepStrictEqual(row?.["doc"], document)
        assert.deepStrictEqual(row?.["list"], ["a", 'b"', ""])
        assert.deepStrictEqual(Array.from(row?.["bytes"] as Uint8Array), [0, 255, 10])
        assert.isNull(row?.["nothing"])
        assert.strictEqual(new Date(row?.["instant"] as Date).toISOString(), "2026-01-02T03:04:05.678Z")
        assert.isTrue(row?.["truth"])
        assert.strictEqual(row?.["exact"], "12345678901234567890.5")
      })
    )

    it.effect("carries 8 MB in one value, there and back", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const value = "0123456789abcdef".repeat(512 * 1024)
        const [row] = yield* sql`SELECT ${value}::text AS value`
        assert.isTrue(row?.["value"] === value)
      })
    )

    it.effect("streams many rows", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const rows = yield* Stream.runCount(sql`SELECT n, repeat('x', 100) FROM generate_series(1, 20000) n`.stream)
        assert.strictEqual(rows, 20000)
      })
    )

    it.effect("speaks in UTC and under our name", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const [row] =
          yield* sql`SELECT current_setting('timezone') AS zone, current_setting('application_name') AS name`
        assert.deepStrictEqual(row, { zone: "UTC", name: "turnstep" })
      })
    )

    it.effect("classifies refusals by their SQLSTATE", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* sql`CREATE TABLE parent (id int PRIMARY KEY)`
        yield* sql`CREATE TABLE child (id int REFERENCES parent, n int CHECK (n > 0))`
        yield* sql`INSERT INTO parent VALUES (1)`
        const refusals = yield* Effect.forEach(
          [
            sql`INSERT INTO parent VALUES (1)`,
            sql`INSERT INTO child VALUES (2, 1)`,
            sql`INSERT INTO child VALUES (1, 0)`,
            sql`SELECT * FROM absent`,
            sql`SELEKT`,
            sql`SELECT 1 / ${0}::int`,
            sql`DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '40001'; END $$`
          ],
          (statement) => Effect.map(Effect.flip(statement), (error) => `${error.reason._tag} ${String(codeOf(error))}`)
        )
        assert.deepStrictEqual(refusals, [
          "UniqueViolation 23505",
          "ConstraintError 23503",
          "ConstraintError 23514",
          "SqlSyntaxError 42P01",
          "SqlSyntaxError 42601",
          "UnknownError 22012",
          "SerializationError 40001"
        ])
        assert.deepStrictEqual(yield* sql`SELECT 1 AS one`, [{ one: 1 }])
      })
    )

    it.effect("keeps the transactions of many fibers apart", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* sql`CREATE TABLE counter (n int NOT NULL)`
        yield* sql`INSERT INTO counter VALUES (0)`
        yield* sql`CREATE TABLE steps (fiber int, xid text)`
        const step = (fiber: number) => sql`INSERT INTO steps VALUES (${fiber}, pg_current_xact_id()::text)`
        const increment = (fiber: number) =>
          sql.withTransaction(
            Effect.gen(function* () {
              const [row] = yield* sql<{ n: number }>`SELECT n FROM counter FOR UPDATE`
              yield* step(fiber)
              yield* Effect.yieldNow
              yield* sql`UPDATE counter SET n = ${(row?.n ?? 0) + 1}`
              yield* step(fiber)
            })
          )
        const fibers = Array.from({ length: 40 }, (_, index) => index)
        yield* Effect.forEach(fibers, increment, { concurrency: "unbounded", discard: true })
        assert.deepStrictEqual(yield* sql`SELECT n FROM counter`, [{ n: 40 }])
        const mixed = yield* sql`SELECT xid FROM steps GROUP BY xid HAVING count(*) <> 2 OR count(DISTINCT fiber) <> 1`
        assert.deepStrictEqual(mixed, [])
      })
    )

    it.effect("lets others in once a transaction is over, and not before", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* sql`CREATE TABLE visible (n int)`
        const inside = yield* Deferred.make<void>()
        const leave = yield* Deferred.make<void>()
        const writer = yield* Effect.forkChild(
          sql.withTransaction(
            Effect.gen(function* () {
              yield* sql`INSERT INTO visible VALUES (1)`
              yield* Deferred.succeed(inside, undefined)
              yield* Deferred.await(leave)
              yield* sql`INSERT INTO visible VALUES (2)`
            })
          )
        )
        yield* Deferred.await(inside)
        const reader = yield* Effect.forkChild(sql`SELECT count(*)::int AS rows FROM visible`, {
          startImmediately: true
        })
        yield* Deferred.succeed(leave, undefined)
        yield* Fiber.join(writer)
        const [seen] = yield* Fiber.join(reader)
        assert.include([0, 2], seen?.["rows"])
        assert.deepStrictEqual(yield* sql`SELECT count(*)::int AS rows FROM visible`, [{ rows: 2 }])
      })
    )

    it.effect("rolls back when a fiber is interrupted inside its transaction", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* sql`CREATE TABLE undone (n int)`
        const inside = yield* Deferred.make<void>()
        const fiber = yield* Effect.forkChild(
          sql.withTransaction(
            sql`INSERT INTO undone VALUES (1)`.pipe(
              Effect.andThen(Deferred.succeed(inside, undefined)),
              Effect.andThen(Effect.never)
            )
          )
        )
        yield* Deferred.await(inside)
        yield* Fiber.interrupt(fiber)
        assert.deepStrictEqual(yield* sql`SELECT count(*)::int AS rows FROM undone`, [{ rows: 0 }])
      })
    )

    it.effect("lets a fiber that waits for another's lock be interrupted", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* sql`CREATE TABLE locked (n int)`
        yield* sql`INSERT INTO locked VALUES (0)`
        const inside = yield* Deferred.make<void>()
        const leave = yield* Deferred.make<void>()
        const owner = yield* Effect.forkChild(
          sql.withTransaction(
            sql`UPDATE locked SET n = n + 1`.pipe(
              Effect.andThen(Deferred.succeed(inside, undefined)),
              Effect.andThen(Deferred.await(leave))
            )
          )
        )
        yield* Deferred.await(inside)
        const waiter = yield* Effect.forkChild(sql`UPDATE locked SET n = n + 10`, { startImmediately: true })
        const exit = yield* Fiber.interrupt(waiter).pipe(Effect.andThen(Fiber.await(waiter)))
        assert.isTrue(Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause))
        yield* Deferred.succeed(leave, undefined)
        yield* Fiber.join(owner)
        assert.deepStrictEqual(yield* sql`SELECT n FROM locked`, [{ n: 1 }])
      })
    )

    it.effect("tells every listener, also after one of them has left", () =>
      Effect.gen(function* () {
        const pg = yield* PgClient.PgClient
        const stays = yield* pg.listen("jobs")
        const elsewhere = yield* pg.listen("other")
        yield* Effect.scoped(
          Effect.gen(function* () {
            const leaves = yield* pg.listen("jobs")
            yield* pg.withTransaction(pg`SELECT pg_notify('jobs', 'one')`)
            assert.strictEqual((yield* Queue.take(leaves)).payload, "one")
          })
        )
        yield* pg.notify("other", "aside")
        yield* pg.notify("jobs", "two")
        assert.strictEqual((yield* Queue.take(stays)).payload, "one")
        assert.strictEqual((yield* Queue.take(stays)).payload, "two")
        assert.strictEqual((yield* Queue.take(elsewhere)).payload, "aside")
      }).pipe(Effect.scoped)
    )

    it.effect("sends no notification of a transaction that is rolled back", () =>
      Effect.gen(function* () {
        const pg = yield* PgClient.PgClient
        const queue = yield* pg.listen("news")
        yield* Effect.exit(pg.withTransaction(Effect.andThen(pg`SELECT pg_notify('news', 'lost')`, Effect.fail("no"))))
        yield* pg.notify("news", "kept")
        assert.strictEqual((yield* Queue.take(queue)).payload, "kept")
      }).pipe(Effect.scoped)
    )
  })
}

describe("databases", () => {
  for (const { layer, name } of databases) {
    it.live(`${name} is fresh, whatever was done in another use of it`, () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        assert.deepStrictEqual(yield* sql`SELECT tablename FROM pg_tables WHERE schemaname = 'public'`, [])
      }).pipe(Effect.provide(layer))
    )
  }
})
