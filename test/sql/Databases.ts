/** Both databases with the schema in place. */
import type { Claim } from "@turnstep/core/Claim"
import type { Journal } from "@turnstep/core/Journal"
import type * as Pglite from "@turnstep/runtime/database/Pglite"
import * as Migrations from "@turnstep/runtime/sql/Migrations"
import * as SqlClaim from "@turnstep/runtime/sql/SqlClaim"
import * as SqlJournal from "@turnstep/runtime/sql/SqlJournal"
import * as Layer from "effect/Layer"
import * as Databases from "../fixtures/Databases.ts"

export const migrated = Databases.make({ name: "turnstep", migrate: Migrations.migrate })

/** Journal and claims on a database, which stays at hand for SQL. */
export const storage = (database: Layer.Layer<Pglite.Services>): Layer.Layer<Journal | Claim | Pglite.Services> =>
  Layer.mergeAll(SqlJournal.layer, SqlClaim.layer).pipe(Layer.provideMerge(database))
