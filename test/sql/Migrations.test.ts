import { assert, it } from "@effect/vitest"
import * as Migrations from "@turnstep/runtime/sql/Migrations"
import * as Effect from "effect/Effect"
import { SqlClient } from "effect/sql/SqlClient"
import { databases } from "../fixtures/Databases.ts"

for (const { layer, name } of databases) {
  it.live(`makes the schema once, however many start at the same time, on ${name}`, () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient
      const done = yield* Effect.forEach([1, 2, 3, 4], () => Migrations.migrate, { concurrency: "unbounded" })
      assert.deepStrictEqual(done.flat(), [[1, "sessions"]])
      assert.deepStrictEqual(yield* Migrations.migrate, [])
      assert.deepStrictEqual(yield* sql`select migration_id, name from turnstep_migrations`, [
        { migration_id: 1, name: "sessions" }
      ])
      assert.deepStrictEqual(yield* sql`select count(*)::int as count from sessions`, [{ count: 0 }])
    }).pipe(Effect.provide(layer))
  )
}
