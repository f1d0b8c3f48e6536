/**
 * The database that a server uses, and in which words it is refused.
 *
 * Owns: which one the settings mean, what is said when it cannot be used. Does not own: connections (`runtime/database`).
 *
 * - B1. What is said names host and database, never user or password.
 * - B2. A start waits a bounded time for a database that does not answer, and says so: machines start in any order.
 */
import type { DataDirLocked, DataDirUnusable } from "@turnstep/runtime/database/DirectoryLock"
import * as Pglite from "@turnstep/runtime/database/Pglite"
import * as Postgres from "@turnstep/runtime/database/Postgres"
import * as Backlog from "@turnstep/runtime/sql/Backlog"
import * as Migrations from "@turnstep/runtime/sql/Migrations"
import { isDisconnect, stateOf, unavailable } from "@turnstep/runtime/sql/SqlFailure"
import * as Console from "effect/Console"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import type * as SqlError from "effect/sql/SqlError"
import type * as Config from "./Config.ts"

/** The database does not let us in, or is not there. `passes` tells whether it may be there in a moment. */
export class DatabaseUnusable extends Schema.TaggedError<DatabaseUnusable>()("DatabaseUnusable", {
  place: Schema.String,
  problem: Schema.String,
  passes: Schema.Boolean
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

/** How long a start waits for a database that does not answer yet. */
export const Patience = Context.Reference<Duration.Duration>("server/Database/Patience", {
  defaultValue: () => Duration.seconds(30)
})

/** Builds the database of the settings for the current scope, and waits for one that is away (B2). */
export const open = Effect.fnUntraced(function* (config: Config.Config) {
  const patience = yield* Patience
  const opening = Layer.build(layer(config))
  return yield* Effect.catchTag(opening, "DatabaseUnusable", (error) =>
    !error.passes || Duration.isZero(patience)
      ? Effect.fail(error)
      : Console.error(`turnstep: ${error.message} Trying again for ${Duration.format(patience)}.`).pipe(
          Effect.andThen(
            Effect.retry(Effect.delay(opening, "1 second"), {
              while: (error) => error._tag === "DatabaseUnusable" && error.passes,
              schedule: Schedule.during(patience)
            })
          )
        )
  )
})

/** A PostgreSQL database, as it is. */
export const postgres = (url: Redacted.Redacted) =>
  Layer.catchTag(Postgres.layer({ url }), "SqlError", refuse(placeOf(url)))

/** What a start would go on with. Of a shared database only its own processes can tell; there it counts as nothing. */
export const backlog = (config: Config.Config) =>
  config.databaseUrl.value === undefined
    ? Effect.catchTag(Backlog.read, "SqlError", (error) => Effect.fail(unusable(placeIn(config), error)))
    : Effect.succeed<Backlog.Backlog>({ turns: 0, messages: 0 })

/** Brings the schema of the database at `place` up to date; the migrations that were applied. */
export const migrate = (place: string) =>
  Effect.catchTag(Migrations.migrate, "SqlError", (error) => Effect.fail(unusable(place, error)))

/** What a layer on a database fails with when the database does not do what it asks. */
export const refuse = (place: string) => (error: SqlError.SqlError) => Layer.effectContext(unusable(place, error))

const unusable = (place: string, error: SqlError.SqlError): DatabaseUnusable =>
  new DatabaseUnusable({ place, problem: problemOf(error), passes: isDisconnect(error) })

const problemOf = (error: SqlError.SqlError): string => {
  if (isDisconnect(error)) return "cannot be reached. Start it, or correct DATABASE_URL."
  switch (unavailable(error)?.reason) {
    case "read-only":
      return "is read-only, as a standby is. Correct DATABASE_URL to name the primary, or let the database be written."
    case "full":
      return "has no room left: a disk or a limit of the server is full. Make room there."
    case "busy":
      return "is busy: another session holds locks on its tables. Start again when that one is done."
  }
  switch (error.reason._tag) {
    case "AuthenticationError":
      return "does not let this user in. Correct the user and password in DATABASE_URL."
    case "AuthorizationError":
      return "does not let this user create its tables. Run `turnstep migrate` as one who may, grant CREATE on the database, or use another user."
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
