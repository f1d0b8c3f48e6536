import * as PgClient from "@effect/sql-pg/PgClient"
import { assert, it } from "@effect/vitest"
import * as Agent from "@turnstep/runtime/Agent"
import * as Runtime from "@turnstep/runtime/Runtime"
import * as Session from "@turnstep/runtime/Session"
import * as Migrations from "@turnstep/runtime/sql/Migrations"
import * as Place from "@turnstep/runtime/sql/Place"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { SqlClient } from "effect/sql/SqlClient"
import * as String from "effect/String"
import * as Databases from "../fixtures/Databases.ts"
import * as Postgres from "../fixtures/Postgres.ts"

const agent = Agent.make("agent", { instructions: "Answer." })
const model = Layer.unwrap(
  Effect.map(StrictProvider.make({ respond: () => StrictProvider.text("done") }), ({ layer }) => layer)
)

for (const { layer, name } of Databases.databases) {
  it.live(`makes the schema once, however many start at the same time, on ${name}`, () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient
      const done = yield* Effect.forEach([1, 2, 3, 4], () => Migrations.migrate, { concurrency: "unbounded" })
      assert.deepStrictEqual(done.flat(), [[1, "sessions"]])
      assert.deepStrictEqual(yield* Migrations.migrate, [])
      assert.deepStrictEqual(yield* sql`select migration_id, name from turnstep.migrations`, [
        { migration_id: 1, name: "sessions" }
      ])
      assert.deepStrictEqual(yield* sql`select count(*)::int as count from turnstep.sessions`, [{ count: 0 }])
    }).pipe(Effect.provide(layer))
  )
}

/** A database of an application that has tables with our names, in the search path, and names in camel case. */
const ofAnApplication = (sql: SqlClient) =>
  Effect.gen(function* () {
    yield* sql`create table sessions (sid text)`
    yield* sql`create table migrations (id int)`
    yield* sql`insert into sessions values ('theirs')`
  })

for (const { layer, name } of Databases.make()) {
  it.live(`keeps to its own schema, whatever the application has, on ${name}`, () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient
      yield* ofAnApplication(sql)
      for (const schema of [undefined, "bots", "user"]) {
        const runtime = Layer.provide(Runtime.layerSql([agent], { schema }), model)
        const told = yield* Effect.gen(function* () {
          const session = yield* Session.open({ id: `in-${schema}` })
          yield* session.run("go", { clientKey: "k" })
          return yield* session.run("go", { clientKey: "k" })
        }).pipe(Effect.provide(runtime))
        assert.strictEqual(told.turnId, "trn_1")
        const kept = yield* sql`select session_id as id from ${sql.literal(`"${schema ?? "turnstep"}"`)}.sessions`
        assert.deepStrictEqual(kept, [{ id: `in-${schema}` }])
      }
      assert.deepStrictEqual(yield* sql`select * from sessions`, [{ sid: "theirs" }])
    }).pipe(Effect.scoped, Effect.provide(layer))
  )

  it.live(`says in one line why it fails, and leaves nothing behind, on ${name}`, () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient
      yield* sql`create schema turnstep`
      yield* sql`create table turnstep.turns (theirs int)`
      const error = yield* Effect.flip(Migrations.migrate)
      assert.strictEqual(
        error.message,
        'The tables cannot be made in the schema "turnstep": relation "turns" already exists (42P07). Nothing was changed.'
      )
      assert.deepStrictEqual(
        yield* sql`select relname as name from pg_class where relnamespace = 'turnstep'::regnamespace`,
        [{ name: "turns" }]
      )
      yield* sql`drop schema turnstep cascade`
      assert.deepStrictEqual(yield* Migrations.migrate, [[1, "sessions"]])
    }).pipe(Effect.provide(layer))
  )
}

it.live("works on a client of the application that makes camel case of names", () =>
  Effect.gen(function* () {
    const url = yield* Postgres.freshUrl()
    const client = PgClient.layer({
      url,
      transformQueryNames: String.camelToSnake,
      transformResultNames: String.snakeToCamel
    })
    const runtime = Layer.provide(Runtime.layerSql([agent]), [model, client])
    const outcomes = yield* Effect.gen(function* () {
      const session = yield* Session.open({ metadata: { kept_as: 1 } })
      return [yield* session.run("go", { clientKey: "k" }), yield* session.run("go", { clientKey: "k" })]
    }).pipe(Effect.provide(runtime))
    assert.deepStrictEqual(
      outcomes.map(({ turnId }) => turnId),
      ["trn_1", "trn_1"]
    )
  }).pipe(Effect.scoped)
)

it("takes no name that could be another's", () => {
  for (const name of ["turnstep", "_a", "user", "bots_2"]) assert.isTrue(Place.isName(name))
  for (const name of ["", "pg_x", "2a", "Bots", "a-b", 'a"b', "a.b", "x".repeat(64)]) assert.isFalse(Place.isName(name))
})
