/**
 * The history of the schema: applied in order, each once, all pending ones in one transaction.
 *
 * Owns: which statements belong to which version. Does not own: the statements (`schema/*`), or where they are (`Place`). A
 * migration that was released is never changed; what changes comes as the next one.
 *
 * - M1. A migration that fails leaves nothing behind: schema and tables, and the record of them, are made in one transaction.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Migrator from "effect/sql/Migrator"
import { SqlClient } from "effect/sql/SqlClient"
import { isSqlError, type SqlError } from "effect/sql/SqlError"
import * as Place from "./Place.ts"
import { functions } from "./schema/Append.ts"
import { guards } from "./schema/Guards.ts"
import { tables } from "./schema/Tables.ts"
import { stateOf, unavailable } from "./SqlFailure.ts"

/** The tables cannot be made: something else is in their place, or the database is no PostgreSQL we know. */
export class MigrationFailed extends Schema.TaggedError<MigrationFailed>()("MigrationFailed", {
  schema: Schema.String,
  problem: Schema.String
}) {
  override get message() {
    return `The tables cannot be made in the schema "${this.schema}": ${this.problem}. Nothing was changed.`
  }
}

const migrations: Readonly<Record<string, ReadonlyArray<string>>> = {
  "1_sessions": [...tables, ...guards, ...functions]
}

const latest = Math.max(...Object.keys(migrations).map((name) => Number.parseInt(name, 10)))

/** Whether there is nothing to do. It is read first, so that a role that may change no tables can start. */
const isUpToDate = Effect.fnUntraced(function* ({ name, schema, sql }: Place.Place) {
  const [found] = yield* sql<{ readonly known: boolean }>`
    select to_regclass(${`"${name}".migrations`}) is not null as known`
  if (found?.known !== true) return false
  const [row] = yield* sql<{ readonly last: number | null }>`select max(migration_id) as last from ${schema}.migrations`
  return (row?.last ?? 0) >= latest
})

/** Applies what is pending (M1), one process after the other. */
const apply = ({ name, schema, sql, text }: Place.Place) =>
  Effect.gen(function* () {
    yield* sql`select pg_advisory_xact_lock(hashtext(${`turnstep/migrations/${name}`}))`
    const [there] = yield* sql<{ readonly known: boolean }>`select to_regnamespace(${`"${name}"`}) is not null as known`
    // Asked for only where it is missing: a role that may not make schemas can be given one.
    if (there?.known !== true) yield* sql`create schema ${schema}`
    const loader = Migrator.fromRecord(
      Object.fromEntries(
        Object.entries(migrations).map(([migration, statements]) => [
          migration,
          Effect.forEach(statements, (statement) => sql.unsafe(text(statement)), { discard: true })
        ])
      )
    )
    return yield* Migrator.make({})({ loader, table: `${name}.migrations` })
  }).pipe(sql.withTransaction, Effect.provideService(SqlClient, sql))

/** Brings the database up to date. Any number of processes may do so at the same time. Returns what was applied. */
export const migrate: Effect.Effect<
  ReadonlyArray<readonly [id: number, name: string]>,
  MigrationFailed | SqlError,
  SqlClient
> = Effect.gen(function* () {
  const place = yield* Place.Place
  if (yield* isUpToDate(place)) return []
  return yield* apply(place).pipe(
    Effect.mapError((error) => {
      const cause = isSqlError(error) ? error : error.cause
      if (!isSqlError(cause)) return new MigrationFailed({ schema: place.name, problem: error.message })
      return unavailable(cause) === undefined
        ? new MigrationFailed({ schema: place.name, problem: wordsOf(cause) })
        : cause
    })
  )
})

export const layer: Layer.Layer<never, MigrationFailed | SqlError, SqlClient> = Layer.effectDiscard(migrate)

/** What the database says, in one line. */
const wordsOf = (error: SqlError): string => {
  const { cause } = error.reason
  const words = cause instanceof Error ? cause.message : error.message
  const state = stateOf(error)
  return `${words.replaceAll(/\s+/g, " ").trim()}${state === undefined ? "" : ` (${state})`}`
}
