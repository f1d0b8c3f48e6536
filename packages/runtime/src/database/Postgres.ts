/**
 * Connections to a PostgreSQL server.
 *
 * Owns: what every connection is told at its start. Does not own: the schema (`sql/`).
 *
 * - P1. Nothing waits without end: not for a lock, not for a statement, and not
 *   for a process that froze inside its transaction and still holds the locks.
 * - P2. A layer that was built has spoken with its server.
 */
import * as PgClient from "@effect/sql-pg/PgClient"
import { Doorbell } from "@turnstep/core/Doorbell"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as SqlClient from "effect/sql/SqlClient"
import * as SqlError from "effect/sql/SqlError"
import * as PostgresDoorbell from "./PostgresDoorbell.ts"

/** The URL is not that of a PostgreSQL database. The URL itself is left out: it may hold a password. */
export class DatabaseUrlInvalid extends Schema.TaggedError<DatabaseUrlInvalid>()("DatabaseUrlInvalid", {
  problem: Schema.String
}) {
  override get message(): string {
    return `The database URL is not usable: ${this.problem}. Expected postgres://user:password@host:5432/database.`
  }
}

export interface Options {
  readonly url: Redacted.Redacted
  /** Concurrent transactions, plus one for the doorbell, which there is none of with a pool of one. Default 10. */
  readonly maxConnections?: number | undefined
}

/**
 * A pool of connections to the server at `url`, and the doorbell of all who use it.
 *
 * Fails with `DatabaseUrlInvalid`, or with the `SqlError` of the first statement
 * when the server cannot be reached or does not let us in. A connection pooler
 * in transaction mode must pass the settings below (PgBouncer: `ignore_startup_parameters`).
 */
export const layer = (
  options: Options
): Layer.Layer<PgClient.PgClient | SqlClient.SqlClient, DatabaseUrlInvalid | SqlError.SqlError> =>
  options.maxConnections === 1 ? client(options) : Layer.provideMerge(doorbell, client(options))

const doorbell = Layer.effect(Doorbell, Effect.map(PgClient.PgClient, PostgresDoorbell.make))

const client = (options: Options) =>
  PgClient.layerFrom(
    Effect.gen(function* () {
      yield* checkUrl(Redacted.value(options.url))
      const client = yield* PgClient.make({
        url: options.url,
        maxConnections: options.maxConnections ?? 10,
        applicationName: "turnstep",
        // The largest body that is taken has 16 MiB, and may grow when it is stored.
        maxMessageSize: 64 * 1024 * 1024,
        keepAlive: "30 seconds",
        startupParameters: settings
      })
      yield* Effect.mapError(client`SELECT 1`, (error) => placed(error, options.url)) // P2
      return client
    })
  )

/** Says where there is no connection: host, port and database, and nothing of the user. The class of the failure stays. */
const placed = (error: SqlError.SqlError, url: Redacted.Redacted): SqlError.SqlError => {
  const parsed = URL.parse(Redacted.value(url))
  const { _tag, cause } = error.reason
  if ((_tag !== "ConnectionError" && _tag !== "UnknownError") || parsed === null) return error
  const words = cause instanceof Error && cause.message !== "" ? `: ${cause.message}` : ""
  const place = `${parsed.hostname}:${parsed.port === "" ? "5432" : parsed.port}${parsed.pathname}`
  const message = `There is no connection to PostgreSQL at ${place}${words}`
  const Reason = _tag === "ConnectionError" ? SqlError.ConnectionError : SqlError.UnknownError
  return new SqlError.SqlError({ reason: new Reason({ cause, message }) })
}

// P1
const settings = {
  timezone: "UTC",
  lock_timeout: "5s",
  statement_timeout: "30s",
  idle_in_transaction_session_timeout: "10s"
}

const checkUrl = (url: string): Effect.Effect<void, DatabaseUrlInvalid> => {
  const parsed = URL.parse(url)
  const problem =
    parsed === null
      ? "it is not a URL"
      : !/^postgres(ql)?:$/.test(parsed.protocol)
        ? `it starts with ${parsed.protocol}// and not with postgres://`
        : undefined
  return problem === undefined ? Effect.void : Effect.fail(new DatabaseUrlInvalid({ problem }))
}
