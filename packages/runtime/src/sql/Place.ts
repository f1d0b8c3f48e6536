/**
 * Where in the database the tables are: in a PostgreSQL schema of their own.
 *
 * Owns: the schema's name, and the client that statements are made with. Does not own: the statements.
 *
 * - L1. Every statement names the schema, so that neither a search path nor a table of the application with the same name
 *   changes what it means.
 * - L2. Names in rows are read as they are, whatever the application's client makes of names.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { SqlClient } from "effect/sql/SqlClient"
import type { Fragment } from "effect/sql/Statement"

/** The name cannot be that of a schema. A defect: the application is to choose another. */
export class TableSchemaInvalid extends Schema.TaggedError<TableSchemaInvalid>()("TableSchemaInvalid", {
  name: Schema.String
}) {
  override get message() {
    return `The tables cannot be in a schema ${JSON.stringify(this.name)}: ${rule}.`
  }
}

/** What a schema may be called, in words. */
export const rule =
  "its name is 1 to 63 of the characters a-z 0-9 _, begins with no digit, and not with pg_, which PostgreSQL keeps for itself"

/** Whether a schema may be called so. */
export const isName = (name: string): boolean => /^(?!pg_)[a-z_][a-z0-9_]{0,62}$/.test(name)

/** The schema that holds the tables, `turnstep` by default. `Runtime.layerSql` takes it as an option. */
export const TableSchema = Context.Reference<string>("runtime/sql/TableSchema", { defaultValue: () => "turnstep" })

export interface Place {
  /** The schema's name. */
  readonly name: string
  /** The schema in a statement: `from ${schema}.sessions`. */
  readonly schema: Fragment
  /** A statement for this schema, of a text in which `:schema` stands for it. */
  readonly text: (text: string) => string
  /** The application's client, without what it does to names (L2). */
  readonly sql: SqlClient
}

/** Dies with `TableSchemaInvalid`. */
export const Place: Effect.Effect<Place, never, SqlClient> = Effect.gen(function* () {
  const name = yield* TableSchema
  if (!isName(name)) return yield* Effect.die(new TableSchemaInvalid({ name }))
  const sql = (yield* SqlClient).withoutTransforms()
  const quoted = `"${name}"`
  return { name, sql, schema: sql.literal(quoted), text: (text) => text.replaceAll(":schema.", `${quoted}.`) }
})
