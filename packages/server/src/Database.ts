/**
 * The database that a server uses, and in which words it is refused.
 *
 * Owns: which one the settings mean, what is said when it cannot be used. Does not own: connections (`runtime/database`).
 *
 * - B1. What is said names host and database, never user or password.
 */
import type { DataDirLocked, DataDirUnusable } from "@turnstep/runtime/database/DirectoryLock"
import * as Pglite from "@turnstep/runtime/database/Pglite"
import * as Postgres from "@turnstep/runtime/database/Postgres"
import * as Backlog from "@turnstep/runtime/sql/Backlog"
import * as Migrations from "@turnstep/runtime/sql/Migrations"
import { stateOf } from "@turnstep/runtime/sql/SqlFailure"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type * as SqlError from "effect/sql/SqlError"
import type * as Config from "./Config.ts"

/** The database does not let us in, or is not there. */
export class DatabaseUnusable extends Schema.TaggedError<DatabaseUnusable>()("DatabaseUnusable", {
  place: Schema.String,
  problem: Schema.String
}) {
  override get message() {
    return `The database at ${this.place} ${this.problem}`
  }
}

/** The database that the settings name, as it is: PostgreSQL, or the embedded one in the data folder. */
export const layer = (
  config: Config.Config
): Layer.Layer<
  Pglite.Services,
  DataDirLocked | DataDirUnusable | Postgres.DatabaseUrlInvalid | DatabaseUnusable,
  Path.Path
> => {
  const { data, databaseUrl } = config
  if (databaseUrl.value !== undefined) return postgres(databaseUrl.value)
  const embedded = Layer.unwrap(Effect.map(Path.Path, (path) => Pglite.layer({ dataDir: path.join(data.value, "db") })))
  return Layer.catchTag(embedded, "SqlError", refuse(placeIn(config)))
}

/** A PostgreSQL database, as it is. */
export const postgres = (url: Redacted.Redacted) =>
  Layer.catchTag(Postgres.layer({ url }), "SqlError", refuse(placeOf(url)))

/** What a start would go on with. Of a shared database only its own processes can tell; there it counts as nothing. */
export const backlog = (config: Config.Config) =>
  config.databaseUrl.value === undefined
    ? Effect.catchTag(Backlog.read, "SqlError", (error) =>
        Effect.fail(new DatabaseUnusable({ place: placeIn(config), problem: problemOf(error) }))
      )
    : Effect.succeed<Backlog.Backlog>({ turns: 0, messages: 0 })

/** Brings the schema of the database at `place` up to date; the migrations that were applied. */
export const migrate = (place: string) =>
  Effect.catchTag(Migrations.migrate, "SqlError", (error) =>
    Effect.fail(new DatabaseUnusable({ place, problem: problemOf(error) }))
  )

/** What a layer on a database fails with when the database does not do what it asks. */
export const refuse = (place: string) => (error: SqlError.SqlError) =>
  Layer.effectContext(new DatabaseUnusable({ place, problem: problemOf(error) }))

const problemOf = (error: SqlError.SqlError): string => {
  switch (error.reason._tag) {
    case "ConnectionError":
      return "cannot be reached. Start it, or correct DATABASE_URL."
    case "AuthenticationError":
      return "does not let this user in. Correct the user and password in DATABASE_URL."
    case "AuthorizationError":
      return "does not let this user create its tables. Run `turnstep migrate` as one who may, grant CREATE on the schema, or use another user."
    default:
      if (stateOf(error) === "3D000") return "does not exist. Create it, or correct DATABASE_URL."
      return `cannot be used (${error.reason._tag}). Check that DATABASE_URL names a PostgreSQL database of version 15 or later.`
  }
}

/** Where the database of the settings is. */
export const placeIn = ({ data, databaseUrl }: Config.Config): string =>
  databaseUrl.value === undefined ? `${data.value}/db` : placeOf(databaseUrl.value)

/** A database URL without what is secret in it. */
export const placeOf = (url: Redacted.Redacted): string => {
  const parsed = URL.parse(Redacted.value(url))
  return parsed === null ? "DATABASE_URL" : `${parsed.host}${parsed.pathname}`
}
