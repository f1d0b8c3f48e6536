/**
 * Failures of the database: which pass, how long they are waited for, and what a caller is told.
 *
 * Owns: the kinds of failure, and the longest wait for a statement. Does not own: whether a statement may be sent twice;
 * every caller says why its own may.
 *
 * - F1. No statement is waited for without end: the limits of the server end what it has heard of, ours what the network
 *   swallows.
 */
import { StorageUnavailable } from "@turnstep/core/TurnError"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schedule from "effect/Schedule"
import { ConnectionError, SqlError } from "effect/sql/SqlError"

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

/** What a caller is told of a failure that is not its own fault, nor ours. */
export const unavailable = (error: SqlError): StorageUnavailable | undefined => {
  const state = stateOf(error)
  const reason = reasonOf(error, state ?? "")
  return reason === undefined
    ? undefined
    : new StorageUnavailable({ reason, ...(state === undefined ? {} : { state }) })
}

const reasonOf = (error: SqlError, state: string): StorageUnavailable["reason"] | undefined => {
  // A session that is lost says so in the state of whatever it was doing.
  if (isDisconnect(error) || state.startsWith("57P") || state === "3D000") return "unreachable"
  if (isConflict(error) || error.reason._tag === "StatementTimeoutError") return "busy"
  if (error.reason._tag === "AuthenticationError" || error.reason._tag === "AuthorizationError") return "denied"
  if (state === "25006") return "read-only"
  return state.startsWith("53") || state.startsWith("58") ? "full" : undefined
}

/** Ends with `StorageUnavailable` where storage is at fault; whatever else SQL refuses is a bug of ours. */
export const orUnavailable = <A, R>(self: Effect.Effect<A, SqlError, R>): Effect.Effect<A, never, R> =>
  Effect.catch(self, (error) => Effect.die(unavailable(error) ?? error))

type Retry = <A, R>(self: Effect.Effect<A, SqlError, R>) => Effect.Effect<A, SqlError, R>

/**
 * Fails as a lost connection when there is no answer within `patience` (F1). The wait ends then, and not when the driver has
 * given up on its connection: where the network swallows everything, that takes ten seconds more.
 */
export const bounded =
  (patience: Duration.Input): Retry =>
  (self) =>
    Effect.uninterruptibleMask((restore) =>
      Effect.flatMap(Effect.forkDetach(self, { startImmediately: true }), (statement) =>
        restore(Effect.timeoutOrElse(Fiber.join(statement), { duration: patience, orElse: () => silence })).pipe(
          Effect.ensuring(Effect.sync(() => statement.interruptUnsafe()))
        )
      )
    )

const silence = Effect.suspend(() => {
  const message = "the database does not answer"
  return Effect.fail(new SqlError({ reason: new ConnectionError({ cause: new Error(message), message }) }))
})

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

/** Sends again while the database is away, and waits for 35 s at most; for statements that may be sent twice. */
export const retryDisconnect: Retry = (self) =>
  bounded("35 seconds")(Effect.retry(self, { schedule: whileAway, while: isDisconnect }))

/** Shutting down, crashed, starting up, too many connections. */
const away: ReadonlySet<string> = new Set(["57P01", "57P02", "57P03", "53300"])
