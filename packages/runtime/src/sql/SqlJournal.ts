/**
 * The journal in PostgreSQL.
 *
 * Owns: the port on top of the tables. Does not own: the write itself (`schema/Append`), its batching (`AppendBatch`), or
 * the connection (`SqlClient`).
 *
 * - Q1. An admission decides on one snapshot and is recorded only if no fact came after it; otherwise it looks and decides
 *   again. That is as strict as a lock held over the decision, takes two round trips instead of four, and a process that
 *   stalls in between holds up nobody.
 * - Q2. A write that was asked for is carried to its end and reported, whoever asked is interrupted or not.
 * - Q3. What SQL refuses after that is a defect, once per statement: `StorageUnavailable` where storage is at fault, else the
 *   bug of ours that it is.
 * - Q4. Until an admission is decided, interruption ends it, also where the caller of the port lets nothing else be
 *   interrupted.
 * - Q5. An admission that others were quicker than a thousand times is given up: `StorageUnavailable`.
 */
import type { SessionId } from "@turnstep/core/Ids"
import { Journal, listedTitle, SeqBehind, type Summary, type Write } from "@turnstep/core/Journal"
import * as Ids from "@turnstep/core/Ids"
import { FenceLost, SessionExists, SessionNotFound, StorageUnavailable } from "@turnstep/core/TurnError"
import { decodeFact, type Fact, type TurnEvent } from "@turnstep/core/TurnEvent"
import * as Clock from "effect/Clock"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { SqlClient } from "effect/sql/SqlClient"
import * as AppendBatch from "./AppendBatch.ts"
import * as Outside from "./Outside.ts"
import * as Place from "./Place.ts"
import * as SessionLock from "./SessionLock.ts"
import { orUnavailable, retryConflict, retryDisconnect } from "./SqlFailure.ts"
import * as SqlView from "./SqlView.ts"

const make = Effect.gen(function* () {
  const { schema, sql, text } = yield* Place.Place
  const random = yield* SecureRandom.SecureRandom
  const outside = Outside.make(sql)
  const look = SqlView.make(sql, text)
  const batch = yield* AppendBatch.make
  const lock = yield* SessionLock.make

  const create = Effect.fn("SqlJournal.create")(function* (sessionId, data) {
    const at = yield* Clock.currentTimeMillis
    const txn = yield* random.uuidV4()
    const title = data.title === undefined ? null : JSON.stringify(data.title)
    const [row] = yield* sql<{ readonly created: boolean }>`
      select ${schema}.turnstep_create(${sessionId}, ${JSON.stringify(data.agent)}, ${title}, ${txn}, ${at}::float8,
        ${JSON.stringify(data)}) as created`.pipe(retryConflict, retryDisconnect, orUnavailable)
    if (row?.created !== true) return yield* new SessionExists({ sessionId })
    return recorded([{ type: "session.created", data }], 1, at)
  }, Effect.uninterruptible) satisfies Journal["Service"]["create"]

  const appendNow = Effect.fnUntraced(function* ({ expectedSeq, facts, fence, sessionId }: Write) {
    const told = yield* batch.append({ sessionId, fence, expectedSeq, facts, digest: undefined })
    switch (told.verdict) {
      case "written":
        return recorded(facts, told.seq, told.at)
      case "behind":
        return yield* Effect.fail(new SeqBehind(told.seq))
      case "fence-lost":
        return yield* new FenceLost({ sessionId })
    }
  }, Effect.uninterruptible)

  // Where the span is made is known: capturing a stack for every write would cost more than the span.
  const append: Journal["Service"]["append"] = (write) =>
    Effect.withSpan(appendNow(write), "SqlJournal.append", { captureStackTrace: false })

  /** Q1. Each round is lost only to a write that succeeded, so some admission always gets through; this one within Q5. */
  const admitNow: Journal["Service"]["admit"] = Effect.fnUntraced(function* (sessionId, lookup, decide) {
    for (let round = 0; round < mostRounds; round++) {
      const seen = yield* Effect.interruptible(look(sessionId, lookup)) // Q4
      if (seen === undefined) return yield* new SessionNotFound({ sessionId })
      const decided = decide(seen.view)
      if (Result.isFailure(decided)) return yield* Effect.fail(decided.failure)
      const { digest, facts, value } = decided.success
      if (facts.length === 0) return { value, events: [] }
      const told = yield* batch.append({ sessionId, fence: undefined, expectedSeq: seen.seq, facts, digest })
      if (told.verdict === "written") return { value, events: recorded(facts, told.seq, told.at) }
      if (told.verdict === "fence-lost") return yield* new SessionNotFound({ sessionId })
    }
    return yield* Effect.die(new StorageUnavailable({ reason: "busy" }))
  })

  const admit: Journal["Service"]["admit"] = Effect.fn("SqlJournal.admit")((sessionId, lookup, decide) =>
    lock.withLock(sessionId, admitNow(sessionId, lookup, decide)).pipe(Effect.uninterruptible)
  )

  const read = Effect.fn("SqlJournal.read")(function* (sessionId, { after, bytes, limit, types }) {
    const ofTypes = types === undefined ? sql`` : sql`and e.type = any(${types}::text[])`
    const page = sql`
      select e.seq, e.at, e.type, e.data from ${schema}.sessions s join ${schema}.events e on e.session_no = s.session_no
      where s.session_id = ${sessionId} and e.seq > ${after} ${ofTypes}
      order by e.seq limit ${limit ?? null}`
    const fitting = sql`
      select seq, at, type, data from (
        select page.*, sum(octet_length(data::text)) over (order by seq) - octet_length(data::text) as before
        from (${page}) page) measured
      where before < ${bytes ?? null} order by seq`
    const rows = yield* sql<EventRow>`${bytes === undefined ? page : fitting}`.pipe(retryDisconnect, orUnavailable)
    return rows.map(eventOf)
  }) satisfies Journal["Service"]["read"]

  const resultOf = Effect.fn("SqlJournal.resultOf")(function* (sessionId, callId) {
    const { index, step, turn } = Ids.placeOf(callId)
    if (![turn, step, index].every(Number.isSafeInteger)) return undefined
    const [row] = yield* sql<EventRow>`
      select e.seq, e.at, e.type, e.data from ${schema}.sessions s
      join ${schema}.receipts r on r.session_no = s.session_no
      join ${schema}.events e on e.session_no = s.session_no and e.seq = r.answered_seq
      where s.session_id = ${sessionId} and r.turn = ${turn}::bigint and r.step = ${step}::bigint
        and r.idx = ${index}::bigint`.pipe(retryDisconnect, orUnavailable)
    const event = row === undefined ? undefined : eventOf(row)
    return event?.type === "call.completed" ? event.data : undefined
  }) satisfies Journal["Service"]["resultOf"]

  const heads = Effect.fn("SqlJournal.heads")(function* (sessionIds) {
    const rows = yield* sql<{ readonly id: SessionId; readonly seq: number }>`
      select s.session_id as id, s.next_seq - 1 as seq from ${schema}.sessions s
      where s.session_id = any(${sessionIds}::text[])`.pipe(retryDisconnect, orUnavailable)
    return new Map(rows.map(({ id, seq }) => [id, seq]))
  }) satisfies Journal["Service"]["heads"]

  const summary = Effect.fn("SqlJournal.summary")(function* (sessionId) {
    if (!isSessionId(sessionId)) return Option.none()
    const [row] = yield* sql<SummaryRow>`
      select s.title, ${summaryColumns} from ${schema}.sessions s where s.session_id = ${sessionId}`.pipe(
      retryDisconnect,
      orUnavailable
    )
    return Option.map(Option.fromUndefinedOr(row), summaryOf)
  }) satisfies Journal["Service"]["summary"]

  const list = Effect.fn("SqlJournal.list")(function* ({ before, limit }) {
    const from = before !== undefined && isSessionId(before) ? before : null
    // A character has six of JSON at most.
    const rows = yield* sql<SummaryRow>`
      select left(s.title::text, ${6 * listedTitle + 2}) as title, ${summaryColumns} from ${schema}.sessions s
      where s.session_no < coalesce(
        (select b.session_no from ${schema}.sessions b where b.session_id = ${from}), 9223372036854775807)
      order by s.session_no desc limit ${limit}`.pipe(retryDisconnect, orUnavailable)
    return rows.map((row) => summaryOf({ ...row, title: row.title === null ? null : beginningOf(row.title) }))
  }) satisfies Journal["Service"]["list"]

  const unattended = Effect.fn("SqlJournal.unattended")(function* (agents, limit) {
    const rows = yield* sql<{ readonly id: SessionId }>`
      select s.session_id as id from ${schema}.sessions s
      where (s.active_turn is not null or s.waiting > 0 or s.status = 'running')
        and s.agent::text = any(${agents.map((agent) => JSON.stringify(agent))}::text[])
        and not exists (
        select from ${schema}.runners r where r.incarnation = s.owner and r.lease_until > clock_timestamp())
      order by s.updated_at limit ${limit}`.pipe(retryDisconnect, orUnavailable)
    return rows.map(({ id }) => id)
  }) satisfies Journal["Service"]["unattended"]

  const summaryColumns = sql.literal(
    `s.session_id as id, s.agent,
      case when s.active_turn is null and s.waiting > 0 then 'queued' else s.status end as status, s.next_seq - 1 as seq, s.turns, s.active_turn as active,
      s.created_at as created, s.updated_at as updated`
  )

  return Journal.of({
    create: (...asked) => outside(create(...asked)),
    append: (write) => outside(append(write)),
    admit: (...asked) => outside(admit(...asked)),
    read: (...asked) => outside(read(...asked)),
    resultOf: (...asked) => outside(resultOf(...asked)),
    heads: (...asked) => outside(heads(...asked)),
    summary: (sessionId) => outside(summary(sessionId)),
    list: (page) => outside(list(page)),
    unattended: (...asked) => outside(unattended(...asked))
  })
})

/** Rounds of an admission (Q5). */
const mostRounds = 1000

/** Needs the schema of `Migrations`. */
export const layer: Layer.Layer<Journal, never, SqlClient> = Layer.effect(Journal, make).pipe(
  Layer.provide(SecureRandom.layerWebCrypto)
)

/** What is no session's id names none; it may hold what the database would not even take as text. */
const isSessionId = Schema.is(Ids.SessionId)

interface EventRow {
  readonly seq: number
  readonly at: Date
  readonly type: string
  readonly data: unknown
}

interface SummaryRow {
  readonly id: SessionId
  readonly agent: string
  readonly title: string | null
  readonly status: Summary["status"]
  readonly seq: number
  readonly turns: number
  readonly active: number | null
  readonly created: Date
  readonly updated: Date
}

/** The title whose JSON begins with this text, up to `listedTitle` characters. */
const beginningOf = (json: string): string => {
  const [beginning = '"'] = titleBeginning.exec(json) ?? []
  return String(JSON.parse(`${beginning}"`))
}

const titleBeginning = new RegExp(`^"(?:[^"\\\\]|\\\\u[0-9a-f]{4}|\\\\[^u]){0,${listedTitle}}`, "iu")

const recorded = (facts: ReadonlyArray<Fact>, first: number, at: number): ReadonlyArray<TurnEvent> =>
  facts.map((fact, index) => ({ ...fact, seq: first + index, at }))

const eventOf = ({ at, data, seq, type }: EventRow): TurnEvent => ({
  ...decodeFact({ type, data }),
  seq,
  at: at.getTime()
})

const summaryOf = (row: SummaryRow): Summary => ({
  sessionId: row.id,
  agent: row.agent,
  title: row.title ?? undefined,
  status: row.status,
  seq: row.seq,
  turns: row.turns,
  activeTurn: row.active === null ? undefined : Ids.turnId(row.active),
  createdAt: row.created.getTime(),
  updatedAt: row.updated.getTime()
})
