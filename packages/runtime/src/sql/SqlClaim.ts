/**
 * Claims in PostgreSQL: a lease per process start keeps its sessions, a fence per claim keeps others out.
 *
 * Owns: the lease and its renewal, taking and giving back sessions. Does not own: the check of the fence at every write
 * (`schema/Append`), or which sessions wait for an owner (`SqlJournal`).
 *
 * - K1. An owner is an incarnation: a random id of this layer's life, never an address that a successor could share.
 * - K2. A lease lasts 15 s by the database's clock and is renewed every 5 s. Losing it costs liveness, never safety: whoever
 *   takes a session over has a higher fence.
 * - K3. Closing the scope ends the lease, and with it the ownership of every session.
 * - K4. No session stays owned by a live process that does not drive it: what could not be given back is given back with the
 *   next renewal.
 * - K5. A claim is current while the lease has not run out since, by the monotonic clock of this process: a process that wakes
 *   from a freeze knows before anybody tells it.
 */
import { Claim } from "@turnstep/core/Claim"
import type { SessionId } from "@turnstep/core/Ids"
import { SessionClaimed, SessionNotFound } from "@turnstep/core/TurnError"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import type { SqlClient } from "effect/sql/SqlClient"
import { hostname } from "node:os"
import { pid } from "node:process"
import * as Outside from "./Outside.ts"
import * as Place from "./Place.ts"
import * as SessionLock from "./SessionLock.ts"
import { bounded, orUnavailable, retryConflict, retryDisconnect } from "./SqlFailure.ts"

const make = Effect.gen(function* () {
  const { schema, sql } = yield* Place.Place
  const random = yield* SecureRandom.SecureRandom
  const incarnation = yield* random.uuidV4()
  const lock = yield* SessionLock.make
  const outside = Outside.make(sql)
  /** When the lease was renewed last, by a clock that nobody sets, and how often it had run out before (K5). */
  const lease = { since: 0n, lapses: 0 }
  /** Sessions that may still be owned by this incarnation though nobody here holds them (K4). */
  const adrift = new Set<SessionId>()

  const renew = sql`
    insert into ${schema}.runners (incarnation, address, lease_until)
    values (${incarnation}::uuid, ${`${hostname()}:${pid}`}, clock_timestamp() + interval '15 seconds')
    on conflict (incarnation) do update set lease_until = excluded.lease_until`.pipe((renewal) =>
    Effect.flatMap(monotonic, (asked) =>
      Effect.tap(renewal, () =>
        Effect.sync(() => {
          if (asked - lease.since > leaseNanos) lease.lapses++
          lease.since = asked
        })
      )
    )
  )

  const giveBack = Effect.suspend(() =>
    Effect.forEach(
      [...adrift],
      (sessionId) =>
        lock.withLock(
          sessionId,
          Effect.suspend(() =>
            adrift.has(sessionId) ? Effect.andThen(disown(sessionId), found(sessionId)) : Effect.void
          )
        ),
      { discard: true }
    )
  )
  const disown = (sessionId: SessionId) =>
    bounded("35 seconds")(
      sql`update ${schema}.sessions set owner = null where session_id = ${sessionId} and owner = ${incarnation}::uuid`
    )
  const lost = (sessionId: SessionId) => Effect.sync(() => adrift.add(sessionId))
  const found = (sessionId: SessionId) => Effect.sync(() => adrift.delete(sessionId))

  yield* sql`delete from ${schema}.runners where lease_until < clock_timestamp() - interval '1 hour'`.pipe(Effect.orDie)
  yield* Effect.acquireRelease(Effect.orDie(renew), () =>
    Effect.ignore(bounded("2 seconds")(sql`delete from ${schema}.runners where incarnation = ${incarnation}::uuid`))
  )
  // Apart from each other: a session that is hard to give back must not cost the lease, and with it every other session.
  yield* regularly("the lease was not renewed", bounded("4 seconds")(renew))
  yield* regularly("sessions were not given back", giveBack)

  const claim = Effect.fnUntraced(function* (sessionId: SessionId) {
    const { lapses } = lease
    const [row] = yield* sql<{ readonly fence: number | null; readonly left: boolean | null; readonly known: boolean }>`
      with former as (
        select session_no, owner from ${schema}.sessions where session_id = ${sessionId} for update
      ), claimed as (
        update ${schema}.sessions s set fence = s.fence + 1, owner = ${incarnation}::uuid from former f
        where s.session_no = f.session_no and (f.owner is null or f.owner = ${incarnation}::uuid or not exists (
          select from ${schema}.runners r where r.incarnation = f.owner and r.lease_until > clock_timestamp()))
        returning s.fence, f.owner is not null and f.owner <> ${incarnation}::uuid as left
      )
      select (select fence from claimed) as fence, (select c.left from claimed c) as left,
        exists (select from former) as known`.pipe(
      retryConflict,
      retryDisconnect, // Claimed twice is claimed: by the same owner, under a higher fence.
      Effect.tapCause(() => lost(sessionId)),
      orUnavailable
    )
    yield* found(sessionId)
    if (row?.known !== true) return yield* new SessionNotFound({ sessionId })
    if (row.fence === null) return yield* new SessionClaimed({ sessionId })
    const isCurrent = Effect.map(monotonic, (now) => lease.lapses === lapses && now - lease.since < leaseNanos)
    return { fence: row.fence, wasLeft: row.left === true, isCurrent }
  })

  const acquire = Effect.fn("SqlClaim.acquire")((sessionId: SessionId) =>
    Effect.uninterruptible(lock.withLock(sessionId, claim(sessionId)))
  )

  const release = Effect.fn("SqlClaim.release")(function* (sessionId: SessionId, fence: number) {
    yield* sql`update ${schema}.sessions set owner = null
      where session_id = ${sessionId} and fence = ${fence} and owner = ${incarnation}::uuid`.pipe(
      retryConflict,
      bounded("35 seconds"),
      Effect.tapCause(() => lost(sessionId)),
      Effect.catchCause((cause) => Effect.logWarning(`a session will be given back later: ${told(cause)}`))
    )
  }, Effect.uninterruptible)

  return Claim.of({
    acquire: (sessionId) => outside(acquire(sessionId)),
    release: (...asked) => outside(release(...asked))
  })
})

const monotonic = Clock.clockWith((clock) => clock.monotonicTimeNanos)

/** K2 */
const leaseNanos = 15_000_000_000n

/** Does it every five seconds, and says in one line when it could not. */
const regularly = (trouble: string, what: Effect.Effect<void, unknown>) =>
  what.pipe(
    Effect.catchCause((cause) => Effect.logWarning(`${trouble}: ${told(cause)}`)),
    Effect.schedule(Schedule.spaced("5 seconds")),
    Effect.forkScoped
  )

const told = (cause: Cause.Cause<unknown>): string => {
  const error = Cause.squash(cause)
  return error instanceof Error ? error.message : String(error)
}

/** Needs the schema of `Migrations`. */
export const layer: Layer.Layer<Claim, never, SqlClient> = Layer.effect(Claim, make).pipe(
  Layer.provide(SecureRandom.layerWebCrypto)
)
