/**
 * The doorbell of processes that share a PostgreSQL server: `NOTIFY`, each in a transaction of its own, away from the writes.
 *
 * - N1. It holds one connection of the pool. While that is away, or behind a pooler that does not pass notifications on, the
 *   sweep alone finds what is to be done.
 */
import type * as PgClient from "@effect/sql-pg/PgClient"
import type { Doorbell } from "@turnstep/core/Doorbell"
import * as Ids from "@turnstep/core/Ids"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"

const channel = "turnstep"

const isSessionId = Schema.is(Ids.SessionId)

export const make = (client: PgClient.PgClient): Doorbell => ({
  ring: (sessionId) =>
    client.notify(channel, sessionId).pipe(
      Effect.timeout("1 second"),
      Effect.catch((error) => Effect.logDebug(`the doorbell was not rung: ${error.message}`))
    ),
  rings: Stream.unwrap(Effect.map(client.listen(channel), Stream.fromQueue)).pipe(
    Stream.tapError((error) => Effect.logDebug(`the doorbell is not heard: ${error.message}`)),
    Stream.retry(Schedule.spaced("1 second")), // N1
    Stream.orDie,
    Stream.map(({ payload }) => payload),
    Stream.filter(isSessionId)
  )
})
