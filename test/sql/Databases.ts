/** Both databases with the schema in place, and the ports on them. */
import type { Claim } from "@turnstep/core/Claim"
import type { Journal } from "@turnstep/core/Journal"
import type * as Pglite from "@turnstep/runtime/database/Pglite"
import * as Migrations from "@turnstep/runtime/sql/Migrations"
import * as SqlClaim from "@turnstep/runtime/sql/SqlClaim"
import * as SqlJournal from "@turnstep/runtime/sql/SqlJournal"
import * as Layer from "effect/Layer"
import * as Databases from "../fixtures/Databases.ts"

/** A database with the schema. */
export const template: Databases.Template = { name: "turnstep", migrate: Migrations.migrate }

export const migrated = Databases.make(template)

/** Journal and claims of one process. */
export const ports = Layer.fresh(Layer.mergeAll(SqlJournal.layer, SqlClaim.layer))

/** What `storage` provides. */
export type Storage = Journal | Claim | Pglite.Services

/** The ports on a database, which stays at hand for SQL. */
export const storage = (database: Layer.Layer<Pglite.Services>): Layer.Layer<Storage> =>
  ports.pipe(Layer.provideMerge(database))
