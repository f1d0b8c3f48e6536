/**
 * Takeover races, straight at claims and journal: contenders take a session from one another while each still writes.
 *
 * Every lease is over before it begins, so that each claim is a takeover and every former owner is a zombie that knows
 * nothing of it.
 *
 * - R1. No row is written under a fence when a higher one has been written.
 * - R2. What was acknowledged is there, and nothing else.
 */
import { assert, it } from "@effect/vitest"
import { Claim } from "@turnstep/core/Claim"
import { Journal } from "@turnstep/core/Journal"
import type { Fact } from "@turnstep/core/TurnEvent"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { SqlClient } from "effect/sql/SqlClient"
import * as Owned from "../contract/Owned.ts"
import * as Databases from "../sql/Databases.ts"

const contenders = 3
const sessions = 8

/** Facts that change nothing and belong together. */
const facts: ReadonlyArray<Fact> = [
  { type: "session.status", data: { status: "running" } },
  { type: "session.status", data: { status: "idle" } }
]

const endEveryLease = Effect.gen(function* () {
  const sql = yield* SqlClient
  yield* sql.unsafe(`create function over() returns trigger language plpgsql as $$ begin
    new.lease_until := clock_timestamp() - interval '1 second'; return new; end $$`)
  yield* sql.unsafe(
    `create trigger over before insert or update on turnstep.runners for each row execute function over()`
  )
})

/** A race for each takeover, `wanted` in all. */
export const suite = (database: (typeof Databases.migrated)[number], wanted: number): void =>
  it.live(
    `${database.name}: nothing is written under a stale fence in ${wanted} takeover races`,
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient
        yield* endEveryLease
        const counts = { takeovers: 0, refused: 0, written: 0 }

        const contend = (sessionId: Parameters<typeof Owned.send>[0]) =>
          Effect.gen(function* () {
            const claims = yield* Claim
            const journal = yield* Journal
            const write = (fence: number) =>
              Effect.match(journal.append({ sessionId, fence, expectedSeq: undefined, facts }), {
                onSuccess: () => void counts.written++,
                onFailure: () => void counts.refused++
              })
            while (counts.takeovers < wanted) {
              const { fence } = yield* claims.acquire(sessionId)
              counts.takeovers++
              yield* write(fence)
              yield* write(fence)
            }
          }).pipe(Effect.provide(Databases.ports))

        const found = yield* Effect.forEach(
          Array.from({ length: sessions }),
          () =>
            Effect.gen(function* () {
              const sessionId = yield* Effect.provide(Owned.created, Databases.ports)
              const racing = Array.from({ length: contenders }, () => contend(sessionId))
              yield* Effect.all(racing, { concurrency: "unbounded" })
              return sessionId
            }),
          { concurrency: "unbounded" }
        )
        assert.lengthOf(found, sessions)

        const [{ stale, rows } = { stale: -1, rows: -1 }] = yield* sql<{ stale: number; rows: number }>`
          select count(*) filter (where fence < before)::int as stale, count(*) filter (where fence > 0)::int as rows
          from (
            select fence, max(fence) over (
              partition by session_no order by seq rows between unbounded preceding and 1 preceding) as before
            from turnstep.events
          ) e` // R1
        console.log(
          `${database.name}: ${counts.takeovers} takeovers, ${counts.refused} stale writes refused, ${rows} rows`
        )
        assert.strictEqual(stale, 0)
        assert.strictEqual(rows, counts.written * facts.length) // R2
        assert.isAtLeast(counts.refused, 1, "nobody was late: these were no races")
      }).pipe(Effect.provide(Layer.fresh(database.layer))),
    { timeout: 600_000 }
  )
