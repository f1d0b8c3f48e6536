/**
 * Group commit: writes of several sessions that wait at the same moment travel in one statement and one commit.
 *
 * Owns: who waits for whom, and sending a statement again. Does not own: what a statement does (`schema/Append`).
 *
 * - B1. A write that finds a free flush is sent at once; nothing is ever held back to be collected.
 * - B2. Writes of one session are in one statement at a time, in the order they came.
 * - B3. A write that is waited for is carried to its end, whoever waits is interrupted or not.
 * - B4. An illegal write fails alone: when a statement is refused, each of its writes is sent again by itself.
 * - B5. After a lost connection the same statement is sent again. It cannot be done twice: a fenced write is known by its
 *   transaction id, an admission by its item's (schema A2), and any other write without a fence by its expected seq.
 */
import type { SessionId } from "@turnstep/core/Ids"
import type { Fact } from "@turnstep/core/TurnEvent"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { SqlClient } from "effect/sql/SqlClient"
import * as FactText from "./FactText.ts"
import * as Place from "./Place.ts"
import * as Projection from "./Projection.ts"
import { orUnavailable, retryConflict, retryDisconnect, unavailable } from "./SqlFailure.ts"

/** A write as it is asked for. Without a fence it must say which seq it expects (B5). */
export interface Asked {
  readonly sessionId: SessionId
  readonly facts: ReadonlyArray<Fact>
  /** Of the body behind a client key, for an admission. */
  readonly digest: string | undefined
  readonly expectedSeq: number | undefined
  readonly fence: number | undefined
}

/** What became of a write. `seq` is its first sequence number, or the last one others wrote. */
export type Verdict =
  | { readonly verdict: "written"; readonly seq: number; readonly at: number }
  | { readonly verdict: "fence-lost" }
  | { readonly verdict: "behind"; readonly seq: number }

export interface AppendBatch {
  readonly append: (asked: Asked) => Effect.Effect<Verdict>
}

/** Writes in one statement at most. */
const maxWrites = 64

/** Statements under way at most: one is written by the database while the next is prepared. */
const maxFlushes = 2

interface Waiting {
  readonly asked: Asked
  /** Of the data of each fact, encoded once. */
  readonly texts: ReadonlyArray<string>
  readonly txn: string
  readonly at: number
  readonly done: Deferred.Deferred<Verdict>
}

interface Row {
  readonly verdicts: ReadonlyArray<Verdict["verdict"]> | null
  readonly seqs: ReadonlyArray<number>
}

export const make: Effect.Effect<AppendBatch, never, SqlClient | SecureRandom.SecureRandom> = Effect.gen(function* () {
  const { sql, text } = yield* Place.Place
  const statement = text(query)
  const random = yield* SecureRandom.SecureRandom
  const context = yield* Effect.context<never>()
  const under = new Set<SessionId>()
  let queue: Array<Waiting> = []
  let flushes = 0

  /** The next statement's writes: of each session at most one, and none of a session that is under way (B2). */
  const take = (): ReadonlyArray<Waiting> => {
    const taken: Array<Waiting> = []
    const left: Array<Waiting> = []
    for (const waiting of queue) {
      const { sessionId } = waiting.asked
      if (taken.length === maxWrites || under.has(sessionId)) left.push(waiting)
      else {
        under.add(sessionId)
        taken.push(waiting)
      }
    }
    queue = left
    return taken
  }

  const send = (writes: ReadonlyArray<Waiting>): Effect.Effect<void> =>
    Effect.suspend(() => sql.unsafe<Row>(statement, parameters(writes))).pipe(
      retryConflict,
      retryDisconnect,
      Effect.matchCauseEffect({
        onSuccess: ([row]) => tell(writes, (waiting, index) => told(row, index, waiting)),
        onFailure: (cause) => {
          const error = Cause.findErrorOption(cause)
          const reason = Option.isNone(error) ? undefined : unavailable(error.value)?.reason
          // For want of room a large write may fail alone; every other trouble is that of them all.
          const isOfAll = reason !== undefined && reason !== "full"
          return isOfAll || writes.length === 1
            ? tell(writes, () => orUnavailable(Effect.failCause(cause)))
            : Effect.forEach(writes, (waiting) => send([waiting]), { discard: true }) // B4
        }
      })
    )

  const flush: Effect.Effect<void> = Effect.suspend(() => {
    const writes = take()
    if (writes.length === 0) {
      flushes--
      return Effect.void
    }
    return Effect.flatMap(send(writes), () => {
      for (const { asked } of writes) under.delete(asked.sessionId)
      return flush
    })
  })

  /** A flush of its own fiber, outside of the caller's context: it serves others, and must not join the caller's transaction. */
  const flushing = flush.pipe(
    Effect.updateContext<never, never>(() => context),
    Effect.forkDetach({ startImmediately: true, uninterruptible: true })
  )

  const append = Effect.fnUntraced(function* (asked: Asked) {
    const texts = yield* Effect.sync(() => FactText.of(asked.facts))
    const done = Deferred.makeUnsafe<Verdict>()
    queue.push({ asked, texts, done, txn: yield* random.uuidV4(), at: yield* Clock.currentTimeMillis })
    if (flushes < maxFlushes) {
      flushes++
      yield* flushing
    }
    return yield* Deferred.await(done)
  }, Effect.uninterruptible)

  return { append }
})

const tell = (
  writes: ReadonlyArray<Waiting>,
  verdict: (waiting: Waiting, index: number) => Effect.Effect<Verdict>
): Effect.Effect<void> =>
  Effect.sync(() => writes.forEach((waiting, index) => Deferred.doneUnsafe(waiting.done, verdict(waiting, index))))

const told = (row: Row | undefined, index: number, { at }: Waiting): Effect.Effect<Verdict> => {
  const seq = row?.seqs[index]
  return row === undefined || seq === undefined
    ? Effect.die(new Error("a write was sent and not answered"))
    : Effect.succeed({ verdict: row.verdicts?.[index] ?? "written", seq, at })
}

const query = `select verdicts, seqs
  from :schema.turnstep_append($1::jsonb, $2::float8[], $3::int[], $4::int[], $5::text[], $6::text[], $7::jsonb)`

const parameters = (waiting: ReadonlyArray<Waiting>): ReadonlyArray<unknown> => {
  const owners: Array<number> = []
  const places: Array<number> = []
  const types: Array<string> = []
  const datas: Array<string> = []
  const writes = waiting.map(({ asked, texts, txn }, index) => {
    asked.facts.forEach(({ type }, place) => {
      owners.push(index + 1)
      places.push(place)
      types.push(type)
      datas.push(texts[place] ?? "")
    })
    return {
      w: index + 1,
      session: asked.sessionId,
      fence: asked.fence ?? null,
      expected: asked.expectedSeq ?? null,
      txn,
      count: asked.facts.length
    }
  })
  // As text: a list of numbers some of which fit 32 bits and some of which do not is a list of two types to the client.
  const times = `{${waiting.map(({ at }) => at).join(",")}}`
  const groups = Projection.groups(waiting.map(({ asked, txn }) => ({ facts: asked.facts, digest: asked.digest, txn })))
  return [JSON.stringify(writes), times, owners, places, types, datas, JSON.stringify(groups)]
}
