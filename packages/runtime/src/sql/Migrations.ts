/**
 * The history of the schema: applied in order, each once, all pending ones in one transaction.
 *
 * Owns: which statements belong to which version. Does not own: the statements (`schema/*`). A migration that was released
 * is never changed; what changes comes as the next one.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Migrator from "effect/sql/Migrator"
import { SqlClient } from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import { functions } from "./schema/Append.ts"
import { guards } from "./schema/Guards.ts"
import { tables } from "./schema/Tables.ts"

const run = (statements: ReadonlyArray<string>) =>
  Effect.flatMap(SqlClient, (sql) => Effect.forEach(statements, (text) => sql.unsafe(text), { discard: true }))

const table = "turnstep_migrations"

const migrations = {
  "1_sessions": run([...tables, ...guards, ...functions])
}

const pending = Migrator.make({})({ loader: Migrator.fromRecord(migrations), table })

const latest = Math.max(...Object.keys(migrations).map((name) => Number.parseInt(name, 10)))

/** Whether there is nothing to do. It is read first, so that a role that may change no tables can start. */
const isUpToDate = Effect.gen(function* () {
  const sql = yield* SqlClient
  const [found] = yield* sql<{ readonly known: boolean }>`select to_regclass(${table}) is not null as known`
  if (found?.known !== true) return false
  const [row] = yield* sql<{ readonly last: number | null }>`select max(migration_id) as last from ${sql(table)}`
  return (row?.last ?? 0) >= latest
})

/** Brings the database up to date. Any number of processes may do so at the same time. Returns what was applied. */
export const migrate = Effect.flatMap(isUpToDate, (isDone) => (isDone ? Effect.succeed([]) : pending))

export const layer: Layer.Layer<never, Migrator.MigrationError | SqlError, SqlClient> = Layer.effectDiscard(migrate)
