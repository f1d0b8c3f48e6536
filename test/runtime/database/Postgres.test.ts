import { assert, describe, it } from "@effect/vitest"
import * as PostgresLayer from "@turnstep/runtime/database/Postgres"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as SqlClient from "effect/sql/SqlClient"
import * as Postgres from "../../fixtures/Postgres.ts"

/** How an opening that must fail is refused. */
const refusal = (url: string) =>
  Effect.flip(Effect.provide(Effect.void, PostgresLayer.layer({ url: Redacted.make(url) })))

describe("Postgres", () => {
  for (const [url, problem] of [
    ["", "it is not a URL"],
    ["/var/run/postgresql", "it is not a URL"],
    ["mysql://root:hunter2@localhost/app", "it starts with mysql:// and not with postgres://"],
    ["localhost:5432/app", "it starts with localhost:// and not with postgres://"],
    ["http://user:hunter2@host/app", "it starts with http:// and not with postgres://"]
  ] as const) {
    it.effect(`refuses "${url.replace("hunter2", "…")}" and says why`, () =>
      Effect.gen(function* () {
        const error = yield* refusal(url)
        assert.deepStrictEqual(error, new PostgresLayer.DatabaseUrlInvalid({ problem }))
        assert.include(error.message, "Expected postgres://user:password@host:5432/database")
        assert.notInclude(error.message, "hunter2")
      })
    )
  }

  it.live("fails at once when nobody answers", () =>
    Effect.gen(function* () {
      const error = yield* refusal("postgres://user:hunter2@127.0.0.1:1/app")
      assert.strictEqual(error._tag, "SqlError")
      assert.strictEqual("reason" in error && error.reason._tag, "ConnectionError")
      assert.match(error.message, /^There is no connection to PostgreSQL at 127\.0\.0\.1:1\/app: .*ECONNREFUSED/)
      assert.notInclude(`${error.message} ${JSON.stringify(error)}`, "hunter2")
    })
  )

  it.live("fails at once when the database is not there", () =>
    Effect.gen(function* () {
      const error = yield* refusal(Redacted.value(yield* Postgres.url("no_such_database")))
      assert.include(String("reason" in error && error.reason.cause), "no_such_database")
      assert.match(error.message, /^There is no connection to PostgreSQL at .+\/no_such_database: .*does not exist/)
    })
  )

  it.live("limits on every connection how long it may wait, run and idle in a transaction", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const settings = sql<{ name: string; setting: string; unit: string }>`
        SELECT name, setting || coalesce(unit, '') AS setting FROM pg_settings
        WHERE name IN ('lock_timeout', 'statement_timeout', 'idle_in_transaction_session_timeout', 'TimeZone')
        ORDER BY name`
      const seen = yield* Effect.forEach([1, 2, 3], () => settings, { concurrency: "unbounded" })
      for (const rows of seen) {
        assert.deepStrictEqual(
          rows.map((row) => `${row.name} ${row.setting}`),
          [
            "TimeZone UTC",
            "idle_in_transaction_session_timeout 10000ms",
            "lock_timeout 5000ms",
            "statement_timeout 30000ms"
          ]
        )
      }
    }).pipe(Effect.provide(Postgres.layer()))
  )

  it.live("opens no more connections than it is allowed", () =>
    Effect.gen(function* () {
      const url = yield* Postgres.freshUrl()
      yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const pids = yield* Effect.forEach(
          Array.from({ length: 20 }),
          () => sql<{ pid: number }>`SELECT pg_backend_pid() AS pid, pg_sleep(0.001)::text`,
          { concurrency: "unbounded" }
        )
        assert.isAtMost(new Set(pids.map((rows) => rows[0]?.pid)).size, 2)
      }).pipe(Effect.provide(PostgresLayer.layer({ url, maxConnections: 2 })))
    })
  )
})
