/**
 * The store outside of its callers' transactions.
 *
 * Owns: what becomes of a store that is used inside a transaction of the application. Does not own: the statements.
 *
 * - T1. What the store does for a caller is never part of that caller's transaction: facts of a session are seen by its driver
 *   when they are acknowledged, and an application that rolls back takes back none of them.
 * - T2. Where the transaction holds the only connection, the store would wait for the caller, and the caller for the store:
 *   the call is refused at once.
 */
import { CalledInTransaction } from "@turnstep/core/TurnError"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import type { SqlClient } from "effect/sql/SqlClient"

/** Does work with a connection of its own, whatever transaction the caller is in. Dies with `CalledInTransaction` (T2). */
export const make = (sql: SqlClient) => {
  const isAlone = hasOneConnection(sql)
  return <A, E>(work: Effect.Effect<A, E>): Effect.Effect<A, E> =>
    Effect.withFiber(({ context }) => {
      if (Context.getOrUndefined(context, sql.transactionService) === undefined) return work
      return isAlone
        ? Effect.die(new CalledInTransaction())
        : Effect.updateContext(work, Context.omit(sql.transactionService))
    })
}

const hasOneConnection = (sql: SqlClient): boolean =>
  sql.driver === "pglite" ||
  (Predicate.hasProperty(sql, "config") &&
    Predicate.hasProperty(sql.config, "maxConnections") &&
    sql.config.maxConnections === 1)
