/**
 * Journal and claims in one database, its schema brought up to date first: the durable twin of `MemoryStore`.
 */
import type { Claim } from "@turnstep/core/Claim"
import type { Journal } from "@turnstep/core/Journal"
import * as Layer from "effect/Layer"
import type { SqlClient } from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import * as Migrations from "./Migrations.ts"
import * as SqlClaim from "./SqlClaim.ts"
import * as SqlJournal from "./SqlJournal.ts"

export const layer: Layer.Layer<Journal | Claim, Migrations.MigrationFailed | SqlError, SqlClient> = Layer.mergeAll(
  SqlJournal.layer,
  SqlClaim.layer
).pipe(Layer.provide(Migrations.layer))
