/**
 * What went wrong in the database, and what may simply be sent again.
 *
 * Owns: the two kinds of failure that pass, and how long they are waited for. Does not own: whether a statement may be
 * sent twice; every caller says why its own may.
 */
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import type { SqlError } from "effect/sql/SqlError"

/** The five characters with which PostgreSQL names an error. */
export const stateOf = (error: SqlError): string | undefined => {
  const { cause } = error.reason
  return typeof cause === "object" && cause !== null && "code" in cause && typeof cause.code === "string"
    ? cause.code
    : undefined
}

/** Two transactions met: this one was rolled back and may run again. */
export const isConflict = (error: SqlError): boolean =>
  error.reason._tag === "SerializationError" ||
  error.reason._tag === "DeadlockError" ||
  error.reason._tag === "LockTimeoutError"

/** The connection was lost or could not be had: what was sent may have been done or not. */
export const isDisconnect = (error: SqlError): boolean =>
  error.reason._tag === "ConnectionError" || away.has(stateOf(error) ?? "")

type Retry = <A, R>(self: Effect.Effect<A, SqlError, R>) => Effect.Effect<A, SqlError, R>

/** 8 times, 5 ms doubling up to 250 ms, each 80-120 %. */
const afterConflict = Schedule.min([Schedule.exponential("5 millis"), Schedule.spaced("250 millis")]).pipe(
  Schedule.jittered,
  Schedule.upTo({ times: 8 })
)

/** For 30 s, twice the life of a lease: 50 ms doubling up to 1 s, each 80-120 %. */
const whileAway = Schedule.min([Schedule.exponential("50 millis"), Schedule.spaced("1 second")]).pipe(
  Schedule.jittered,
  Schedule.upTo({ duration: "30 seconds" })
)

/** Sends again what conflicted. */
export const retryConflict: Retry = (self) => Effect.retry(self, { schedule: afterConflict, while: isConflict })

/** Sends again while the database is away; for statements that may be sent twice. */
export const retryDisconnect: Retry = (self) => Effect.retry(self, { schedule: whileAway, while: isDisconnect })

/** Shutting down, crashed, starting up, too many connections. */
const away: ReadonlySet<string> = new Set(["57P01", "57P02", "57P03", "53300"])
