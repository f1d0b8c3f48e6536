import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import * as PostgresLayer from "@turnstep/runtime/database/Postgres"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { SqlClient } from "effect/sql/SqlClient"
import * as Command from "../fixtures/Command.ts"
import * as Folder from "../fixtures/Folder.ts"
import * as Postgres from "../fixtures/Postgres.ts"

const migrate = (url: string | undefined) => ran(["migrate"], url)

const ran = Effect.fnUntraced(function* (args: ReadonlyArray<string>, url: string | undefined) {
  const cwd = yield* Folder.make({})
  const command = yield* Command.start(args, {
    cwd,
    env: url === undefined ? {} : { DATABASE_URL: url }
  })
  const code = yield* command.exit
  return { code, stdout: command.stdout(), stderr: command.stderr() }
}, Effect.provide(NodeServices.layer))

describe("turnstep migrate", () => {
  it.live("makes the schema once, and says so", () =>
    Effect.gen(function* () {
      const url = yield* Postgres.freshUrl()
      const first = yield* migrate(Redacted.value(url))
      assert.strictEqual(first.code, 0, first.stderr)
      assert.match(first.stdout, /is up to date: sessions applied/)
      assert.match((yield* migrate(Redacted.value(url))).stdout, /was up to date/)
      const rows = Effect.flatMap(SqlClient, (sql) => sql`select * from turnstep.sessions`)
      assert.isEmpty(yield* Effect.provide(rows, PostgresLayer.layer({ url })))
    })
  )

  it.live("makes the schema of the name it is given", () =>
    Effect.gen(function* () {
      const url = yield* Postgres.freshUrl()
      const made = yield* ran(["migrate", "--schema", "bots"], Redacted.value(url))
      assert.strictEqual(made.code, 0, made.stderr)
      const rows = Effect.flatMap(SqlClient, (sql) => sql`select * from bots.sessions`)
      assert.isEmpty(yield* Effect.provide(rows, PostgresLayer.layer({ url })))
      const refused = yield* ran(["migrate", "--schema", "Bots"], Redacted.value(url))
      assert.strictEqual(refused.code, 2)
      assert.match(refused.stderr, /"Bots" cannot be a schema of its own/)
    })
  )

  it.live("says what to do without a database, and with one that does not answer", () =>
    Effect.gen(function* () {
      const without = yield* migrate(undefined)
      assert.strictEqual(without.code, 2, without.stderr)
      assert.match(without.stderr, /database-url/)
      const unreachable = yield* migrate("postgres://user:pa55word@127.0.0.1:1/main")
      assert.strictEqual(unreachable.code, 1)
      assert.match(unreachable.stderr, /127\.0\.0\.1:1\/main cannot be reached/)
      assert.notInclude(unreachable.stderr, "pa55word")
    })
  )

  it.live("says that there is no such database, as the doctor does, who looks without touching", () =>
    Effect.gen(function* () {
      const url = Redacted.value(yield* Postgres.freshUrl())
      const missing = url.replace(new URL(url).pathname, "/none_of_this_name")
      const port = ["--port", "0"]
      for (const args of [["migrate"], ["doctor", ...port]]) {
        const refused = yield* ran(args, missing)
        assert.strictEqual(refused.code, 1)
        assert.match(refused.stderr + refused.stdout, /none_of_this_name does not exist\. Create it/)
      }
      const well = yield* ran(["doctor", ...port], url)
      assert.strictEqual(well.code, 0, well.stdout)
      assert.match(well.stdout, /✓ storage: PostgreSQL at .* lets us in/)
      const tables = Effect.flatMap(
        SqlClient,
        (sql) => sql`select from pg_tables where schemaname in ('public', 'turnstep')`
      )
      assert.isEmpty(yield* Effect.provide(tables, PostgresLayer.layer({ url: Redacted.make(url) })))
    }).pipe(Effect.scoped)
  )

  it.live("says that the user may not, and who may", () =>
    Effect.gen(function* () {
      const url = yield* Postgres.freshUrl()
      const role = `guest_${new URL(Redacted.value(url)).pathname.slice(-8)}`
      const administer = (text: string) =>
        Effect.flatMap(SqlClient, (sql) => sql.unsafe(text)).pipe(
          Effect.provide(PostgresLayer.layer({ url, maxConnections: 1 })),
          Effect.orDie
        )
      yield* Effect.acquireRelease(administer(`create role ${role} login`), () => administer(`drop role ${role}`))
      const asGuest = Redacted.value(url).replace("//postgres@", `//${role}@`)
      for (const args of [["migrate"], ["serve", "--port", "0"]]) {
        const refused = yield* ran(args, asGuest)
        assert.strictEqual(refused.code, 1)
        assert.match(refused.stderr, /does not let this user create its tables.*turnstep migrate/)
      }
    })
  )
})
