import { assert, describe, it } from "@effect/vitest"
import * as PgClient from "@effect/sql-pg/PgClient"
import { Claim } from "@turnstep/core/Claim"
import { Journal } from "@turnstep/core/Journal"
import * as Pglite from "@turnstep/runtime/database/Pglite"
import * as SqlStore from "@turnstep/runtime/sql/SqlStore"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Queue from "effect/Queue"
import * as SqlClient from "effect/sql/SqlClient"
import * as TestClock from "effect/testing/TestClock"
import * as fs from "node:fs"
import * as path from "node:path"
import { setImmediate } from "node:timers/promises"
import * as Log from "../../fixtures/Log.ts"
import * as Child from "../../fixtures/Child.ts"
import * as PgliteDirectory from "../../fixtures/Pglite.ts"

const open = (dataDir: string) => Pglite.layer({ dataDir })

/** For what does not depend on the disk. */
const openQuickly = (dataDir: string) => Pglite.layer({ dataDir, sync: false })

/** How an opening that must fail is refused. */
const refusal = (dataDir: string) => Effect.flip(Effect.provide(Effect.void, open(dataDir)))

const acknowledgedRows = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ n: number }>`SELECT n FROM acknowledged ORDER BY n`
  return rows.map((row) => row.n)
})

// Databases are made, opened and synced here: on a busy machine that takes its time.
describe("Pglite", { timeout: 120_000 }, () => {
  it.live("makes a database where there is none, or where the making of one was cut short", () =>
    Effect.gen(function* () {
      const dataDir = path.join(yield* PgliteDirectory.emptyDirectory, "data")
      fs.mkdirSync(path.join(dataDir, "pg", "global"), { recursive: true })
      fs.writeFileSync(path.join(dataDir, "pg.incomplete"), "")
      const one = Effect.flatMap(SqlClient.SqlClient, (sql) => sql`SELECT 1 AS one`)
      assert.deepStrictEqual(yield* Effect.provide(one, open(dataDir)), [{ one: 1 }])
      assert.deepStrictEqual(fs.readdirSync(dataDir).toSorted(), ["pg", "turnstep.lock"])
      assert.strictEqual(fs.statSync(path.join(dataDir, "pg")).mode & 0o777, 0o700)
    })
  )

  it.live("loses no acknowledged row when its process is killed, and opens again", () =>
    Effect.gen(function* () {
      const dataDir = yield* PgliteDirectory.freshDirectory()
      const child = yield* Child.start("commitRows", dataDir)
      let acknowledged = 0
      while (acknowledged < 40) acknowledged = Number(yield* child.line)
      yield* child.kill
      for (let line = yield* child.line; line !== undefined; line = yield* child.line) acknowledged = Number(line)
      const rows = yield* Effect.provide(acknowledgedRows, open(dataDir))
      assert.include([acknowledged, acknowledged + 1], rows.length) // the last one may lack its acknowledgement only
      assert.deepStrictEqual(
        rows,
        rows.map((_, index) => index + 1)
      )
    })
  )

  it.live("ends the leases of a process that was killed, so that its sessions wait for nobody", () =>
    Effect.gen(function* () {
      const dataDir = yield* PgliteDirectory.freshDirectory()
      const claimed = Effect.flatMap(Claim, (claims) => claims.acquire(Log.sessionId))
      yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* Effect.flatMap(Journal, (journal) => journal.create(Log.sessionId, { agent: "a" }))
        yield* claimed
        // What closing the scope would take back, it does not find: as if the process had been killed.
        yield* sql`update turnstep.sessions set fence = fence + 1, owner = gen_random_uuid()`
        yield* sql`insert into turnstep.runners select owner, 'killed', clock_timestamp() + interval '1 hour' from turnstep.sessions`
        assert.strictEqual((yield* Effect.flip(claimed))._tag, "SessionClaimed")
      }).pipe(Effect.provide(Layer.provideMerge(SqlStore.layer, openQuickly(dataDir))))
      const taken = yield* Effect.provide(claimed, Layer.provide(SqlStore.layer, openQuickly(dataDir)))
      assert.deepStrictEqual([taken.fence, taken.wasLeft], [3, true])
    })
  )

  it.live("refuses a second opener, and lets it in once the first has closed, to what that one committed", () =>
    Effect.gen(function* () {
      const dataDir = yield* PgliteDirectory.freshDirectory()
      const first = Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* sql`CREATE TABLE kept AS SELECT 1 AS n`
        return yield* refusal(dataDir)
      })
      const second = yield* Effect.provide(first, openQuickly(dataDir))
      assert.deepStrictEqual([second._tag, "pid" in second ? second.pid : 0], ["DataDirLocked", process.pid])
      const read = Effect.flatMap(SqlClient.SqlClient, (sql) => sql`SELECT n FROM kept`)
      assert.deepStrictEqual(yield* Effect.provide(read, openQuickly(dataDir)), [{ n: 1 }])
    })
  )

  it.live("says what is wrong with a directory that does not open", () =>
    Effect.gen(function* () {
      const dataDir = yield* PgliteDirectory.freshDirectory()
      fs.writeFileSync(path.join(dataDir, "pg", "PG_VERSION"), "17\n")
      const error = yield* refusal(dataDir)
      assert.strictEqual(error._tag, "DataDirUnusable")
      assert.include(error.message, dataDir)
      assert.include(error.message, "version 17, which is not compatible")
      assert.isFalse(fs.existsSync(path.join(dataDir, "turnstep.pid")))
    })
  )

  it.live("says that a clone has left the empty folders out", () =>
    Effect.gen(function* () {
      const dataDir = yield* PgliteDirectory.freshDirectory()
      fs.rmSync(path.join(dataDir, "pg/pg_notify"), { recursive: true })
      assert.match(
        (yield* refusal(dataDir)).message,
        /"pg_notify": .+ Folders are missing, as in a copy that git has made/
      )
    })
  )

  it.live("says in words what the file system reports to the database", () =>
    Effect.gen(function* () {
      const dataDir = path.join(yield* PgliteDirectory.emptyDirectory, "data")
      fs.mkdirSync(path.join(dataDir, "pg"), { recursive: true })
      fs.writeFileSync(path.join(dataDir, "pg/base"), "in the place of a folder")
      assert.match((yield* refusal(dataDir)).message, /does not open: a file is in the place of a folder/)
    })
  )

  it.live("fails what is open, and what is opened later, when the database dies", () =>
    Effect.gen(function* () {
      const dataDir = yield* PgliteDirectory.freshDirectory()
      yield* Effect.gen(function* () {
        const pg = yield* PgClient.PgClient
        const news = yield* pg.listen("news")
        fs.rmSync(path.join(dataDir, "pg", "pg_wal"), { recursive: true })
        const killer = yield* Effect.flip(pg`SELECT pg_switch_wal()`)
        const listener = yield* Effect.flip(Queue.take(news))
        const latecomer = yield* Effect.flip(pg`SELECT 1`)
        assert.include(String(killer.reason.cause), "pg_wal")
        for (const error of [listener, latecomer]) assert.strictEqual(error.reason._tag, "ConnectionError")
        assert.include(String(latecomer.reason.cause), "PGlite stopped")
        assert.include(String(latecomer.reason.cause), "pg_wal")
      }).pipe(Effect.scoped, Effect.provide(openQuickly(dataDir)))
    })
  )

  it.effect("ends a transaction that waits for another fiber's statement, instead of both waiting forever", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* sql`CREATE TABLE waits (n int)`
      yield* Effect.scoped(Effect.all([sql.reserve, sql.reserve])) // connected before the clock is moved
      const inside = yield* Deferred.make<void>()
      const other = yield* Effect.forkChild(Effect.andThen(Deferred.await(inside), sql`INSERT INTO waits VALUES (2)`))
      const transaction = yield* sql`INSERT INTO waits VALUES (1)`.pipe(
        Effect.andThen(Deferred.succeed(inside, undefined)),
        Effect.andThen(Fiber.join(other)),
        sql.withTransaction,
        Effect.exit,
        Effect.forkChild
      )
      yield* Deferred.await(inside)
      while (transaction.pollUnsafe() === undefined) {
        yield* TestClock.adjust("10 seconds")
        yield* Effect.promise(() => setImmediate())
      }
      assert.isTrue(Exit.isFailure(yield* Fiber.join(transaction)))
      assert.deepStrictEqual(yield* sql`SELECT n FROM waits`, [{ n: 2 }])
    }).pipe(Effect.provide(PgliteDirectory.layer()))
  )
})
