/**
 * `turnstep migrate`: brings a PostgreSQL schema up to date, so that servers need not be allowed to.
 *
 * Owns: the command. Does not own: the migrations (`runtime/sql/Migrations`); every start of a server runs them as well.
 */
import * as Place from "@turnstep/runtime/sql/Place"
import * as Config from "effect/Config"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import { defaults, SettingInvalid } from "../Config.ts"
import * as Database from "../Database.ts"

export const command = Command.make(
  "migrate",
  {
    databaseUrl: Flag.Redacted("database-url").pipe(
      Flag.withDescription("the PostgreSQL database, as a user who may create tables [DATABASE_URL]"),
      Flag.withFallbackConfig(Config.Redacted("DATABASE_URL"))
    ),
    schema: Flag.String("schema").pipe(
      Flag.withDescription("the schema that is to hold the tables [TURNSTEP_SCHEMA, default turnstep]"),
      Flag.withFallbackConfig(Config.String("TURNSTEP_SCHEMA")),
      Flag.withDefault(defaults.schema)
    )
  },
  Effect.fn("migrate")(function* ({ databaseUrl, schema }) {
    if (!Place.isName(schema)) {
      const problem = `"${schema}" cannot be a schema of its own.`
      return yield* new SettingInvalid({ setting: "--schema", problem, advice: `Choose another: ${Place.rule}.` })
    }
    const place = Database.placeOf(databaseUrl)
    const applied = yield* Database.migrate(place).pipe(
      Effect.provide(Database.postgres(databaseUrl)),
      Effect.provideService(Place.TableSchema, schema)
    )
    const said =
      applied.length === 0 ? "was up to date" : `is up to date: ${applied.map(([, name]) => name).join(", ")} applied`
    yield* Console.log(`The schema at ${place} ${said}.`)
  })
).pipe(
  Command.withDescription(
    "Bring a PostgreSQL schema up to date. A server does so too at its start; run this first when its user may not create tables."
  )
)
