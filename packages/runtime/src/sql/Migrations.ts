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

const loader = Migrator.fromRecord({
  "1_sessions": run([...tables, ...guards, ...functions])
})

/** Brings the database up to date. Any number of processes may do so at the same time. */
export const migrate = Migrator.make({})({ loader, table: "turnstep_migrations" })

export const layer: Layer.Layer<never, Migrator.MigrationError | SqlError, SqlClient> = Layer.effectDiscard(migrate)
