/** The runtime as a role that may only do what a server does: the statements are those of docs/schema.md. */
import { assert, describe, it } from "@effect/vitest"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as PostgresLayer from "@turnstep/runtime/database/Postgres"
import * as SqlStore from "@turnstep/runtime/sql/SqlStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { SqlClient } from "effect/sql/SqlClient"
import { readFileSync } from "node:fs"
import * as Postgres from "../fixtures/Postgres.ts"
import * as Sound from "../fixtures/Sound.ts"
import * as Tools from "../fixtures/Tools.ts"
import * as World from "../fixtures/World.ts"
import * as Databases from "./Databases.ts"

const { calls, script, text } = StrictProvider

/** The statements of the page, for a role of another name: roles belong to the whole server. */
const statements = (role: string): ReadonlyArray<string> => {
  const page = readFileSync(new URL("../../docs/schema.md", import.meta.url), "utf8")
  const block = /```sql\n(create role[^`]*)```/.exec(page)?.[1] ?? ""
  return block
    .replaceAll("turnstep_server", role)
    .split(";")
    .map((each) => each.trim())
    .filter((each) => each !== "")
}

const asRole = (url: Redacted.Redacted, role: string) =>
  Redacted.make(Redacted.value(url).replace("//postgres@", `//${role}@`))

/** A database with the schema and a role as the page makes it, gone with the scope. */
const prepared = Effect.gen(function* () {
  const url = yield* Postgres.freshUrl(Databases.template)
  const role = `server_${new URL(Redacted.value(url)).pathname.slice(-8)}`
  const administer = (texts: ReadonlyArray<string>) =>
    Effect.gen(function* () {
      const sql = yield* SqlClient
      yield* Effect.forEach(texts, (each) => sql.unsafe(each), { discard: true })
    }).pipe(Effect.provide(PostgresLayer.layer({ url, maxConnections: 1 })), Effect.orDie)
  yield* Effect.acquireRelease(administer(statements(role)), () =>
    administer([`drop owned by ${role}`, `drop role ${role}`])
  )
  return PostgresLayer.layer({ url: asRole(url, role) })
})

const forbidden: ReadonlyArray<string> = [
  "delete from turnstep.events",
  "delete from turnstep.sessions",
  "truncate turnstep.receipts",
  "update turnstep.events set data = '{}'",
  "update turnstep.tool_calls set effects = 'pure'",
  "update turnstep.receipts set outcome = 'ok'",
  "drop table turnstep.events",
  "create table turnstep.mine (x int)",
  "alter table turnstep.events disable trigger all",
  "create or replace function turnstep.turnstep_refuse() returns trigger language plpgsql as 'begin return new; end'",
  "set session_replication_role = replica",
  "delete from turnstep.migrations"
]

describe("RuntimeRole", () => {
  it.live(
    "lets the runtime do all it does, and nobody change or remove what is recorded",
    () =>
      Effect.gen(function* () {
        const client = yield* prepared
        yield* Effect.gen(function* () {
          const gate = yield* Tools.gate
          const { provider, session, start, stop, tools } = yield* World.withTools({
            respond: script([calls([Tools.call("look", "a"), Tools.call("pay", "b")]), text("done"), text("again")])
          })
          tools.on("a", Effect.as(gate.pass, "seen"))
          yield* session.send("go")
          yield* gate.reached
          yield* stop
          yield* gate.open
          const next = yield* (yield* start).sessions.get(session.id)
          yield* World.ended(next, 1)
          yield* next.steer("no turn").pipe(Effect.flip)
          yield* next.run("more")
          assert.isEmpty(yield* Sound.complaints(next, provider, tools))

          const sql = yield* SqlClient
          for (const each of forbidden) {
            const error = yield* Effect.flip(sql.unsafe(each))
            assert.strictEqual(error.reason._tag, "AuthorizationError", `${each}: ${error.message}`)
          }
        }).pipe(Effect.scoped, Effect.provide(Layer.provideMerge(Layer.fresh(SqlStore.layer), client)))
      }),
    { timeout: 30_000 }
  )
})
