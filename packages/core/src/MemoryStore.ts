/**
 * The journal and the claims of one process, in memory: for programs and tests that need no durability.
 *
 * Owns: both ports over one map. Does not own: what is legal (`SessionState`).
 *
 * - M1. A write that the SQL schema would refuse dies here as well, and leaves nothing of itself (`Journal` J1).
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import { Claim } from "./Claim.ts"
import type { ItemId, SessionId, TurnId } from "./Ids.ts"
import * as Ids from "./Ids.ts"
import * as Inbox from "./Inbox.ts"
import { fitting, Journal, listedTitle, SeqBehind } from "./Journal.ts"
import type * as JournalPort from "./Journal.ts"
import type { OpenTurn } from "./OpenTurn.ts"
import * as SessionState from "./SessionState.ts"
import { FenceLost, SessionExists, SessionNotFound } from "./TurnError.ts"
import type { Fact, ReturnReason, TurnEvent } from "./TurnEvent.ts"

type Keyed = NonNullable<JournalPort.View["keyed"]>

interface Entry {
  readonly sessionId: SessionId
  readonly createdAt: number
  state: SessionState.SessionState
  readonly events: Array<TurnEvent>
  readonly keys: Map<string, Keyed>
  readonly items: Map<
    string,
    { delivery: Keyed["data"]["delivery"]; state: JournalPort.ItemState; reason?: ReturnReason }
  >
  fence: number
  isOwned: boolean
}

/** Journal and Claim over one map of sessions. */
export const layer: Layer.Layer<Journal | Claim> = Layer.effectContext(
  Effect.sync(() => {
    const entries = new Map<string, Entry>()
    return Context.make(Journal, journal(entries)).pipe(Context.add(Claim, claim(entries)))
  })
)

// The clock is read first: a fiber may be made to yield between two effects, and nothing must come between a check and its write.
const journal = (entries: Map<string, Entry>): Journal["Service"] => ({
  create: Effect.fnUntraced(function* (sessionId, data) {
    const at = yield* Clock.currentTimeMillis
    if (entries.has(sessionId)) return yield* new SessionExists({ sessionId })
    const entry: Entry = {
      sessionId,
      createdAt: at,
      state: SessionState.make(sessionId, { keepsWindow: false }),
      events: [],
      keys: new Map(),
      items: new Map(),
      fence: 0,
      isOwned: false
    }
    entries.set(sessionId, entry)
    return record(entry, [{ type: "session.created", data }], at, undefined)
  }),
  append: Effect.fnUntraced(function* (write) {
    const at = yield* Clock.currentTimeMillis
    const entry = entries.get(write.sessionId)
    if (entry === undefined || entry.fence !== write.fence) return yield* new FenceLost({ sessionId: write.sessionId })
    if (write.expectedSeq !== undefined && write.expectedSeq !== entry.state.seq) {
      return yield* Effect.fail(new SeqBehind(entry.state.seq))
    }
    return record(entry, write.facts, at, undefined)
  }),
  admit: Effect.fnUntraced(function* (sessionId, lookup, decide) {
    const at = yield* Clock.currentTimeMillis
    const entry = entries.get(sessionId)
    if (entry === undefined) return yield* new SessionNotFound({ sessionId })
    const decided = decide(view(entry, lookup))
    if (Result.isFailure(decided)) return yield* Effect.fail(decided.failure)
    const { facts, value, digest } = decided.success
    return { value, events: record(entry, facts, at, digest) }
  }),
  read: (sessionId, page) =>
    Effect.sync(() => {
      const types = page.types === undefined ? undefined : new Set<string>(page.types)
      const rest = (entries.get(sessionId)?.events ?? []).slice(page.after)
      const wanted = types === undefined ? rest : rest.filter((event) => types.has(event.type))
      return fitting(wanted, page)
    }),
  resultOf: (sessionId, callId) =>
    Effect.sync(() => {
      const found = entries
        .get(sessionId)
        ?.events.findLast((event) => event.type === "call.completed" && event.data.callId === callId)
      return found?.type === "call.completed" ? found.data : undefined
    }),
  heads: (sessionIds) =>
    Effect.sync(() => {
      const known = sessionIds.flatMap((id) => entries.get(id) ?? [])
      return new Map(known.map(({ sessionId, state }) => [sessionId, state.seq]))
    }),
  summary: (sessionId) => Effect.sync(() => Option.map(Option.fromUndefinedOr(entries.get(sessionId)), summaryOf)),
  list: ({ before, limit }) =>
    Effect.sync(() => {
      const all = [...entries.values()].toReversed()
      const from = before === undefined ? 0 : all.findIndex((entry) => entry.sessionId === before) + 1
      return all.slice(from, from + limit).map((entry) => {
        const summary = summaryOf(entry)
        return { ...summary, title: summary.title === undefined ? undefined : beginningOf(summary.title) }
      })
    }),
  unattended: (agents, limit) =>
    Effect.sync(() =>
      [...entries.values()]
        .filter((entry) => !entry.isOwned && SessionState.needsOwner(entry.state) && agents.includes(entry.state.agent))
        .slice(0, limit)
        .map((entry) => entry.sessionId)
    )
})

const claim = (entries: Map<string, Entry>): Claim["Service"] => ({
  acquire: Effect.fnUntraced(function* (sessionId) {
    const entry = entries.get(sessionId)
    if (entry === undefined) return yield* new SessionNotFound({ sessionId })
    const wasLeft = entry.isOwned
    entry.isOwned = true
    return { fence: ++entry.fence, wasLeft, isCurrent: Effect.succeed(true) }
  }),
  release: (sessionId, fence) =>
    Effect.sync(() => {
      const entry = entries.get(sessionId)
      if (entry?.fence === fence) entry.isOwned = false
    })
})

const record = (
  entry: Entry,
  facts: ReadonlyArray<Fact>,
  at: number,
  digest: string | undefined
): ReadonlyArray<TurnEvent> => {
  const first = entry.state.seq + 1
  const events = facts.map((fact, place): TurnEvent => ({ ...fact, seq: first + place, at }))
  try {
    for (const event of events) SessionState.apply(entry.state, event)
  } catch (illegal) {
    // M1: facts of the write before the illegal one are folded already.
    entry.state = SessionState.make(entry.sessionId, { keepsWindow: false })
    for (const event of entry.events) SessionState.apply(entry.state, event)
    throw illegal
  }
  for (const event of events) {
    entry.events.push(event)
    index(entry, event, digest)
  }
  return events
}

const index = (entry: Entry, fact: TurnEvent, digest: string | undefined): void => {
  if (fact.type === "inbox.admitted") {
    entry.items.set(fact.data.itemId, { delivery: fact.data.delivery, state: "waiting" })
    if (fact.data.clientKey !== undefined && digest !== undefined) {
      entry.keys.set(fact.data.clientKey, { seq: fact.seq, data: fact.data, digest })
    }
    return
  }
  if (fact.type !== "inbox.applied" && fact.type !== "inbox.returned" && fact.type !== "inbox.moved") return
  const item = entry.items.get(fact.data.itemId)
  if (item === undefined) return
  if (fact.type === "inbox.moved") item.delivery = fact.data.delivery
  else if (fact.type === "inbox.applied") item.state = "applied"
  else if (fact.data.disposition === "follow-up") item.delivery = "follow-up"
  else {
    item.state = "returned"
    item.reason = fact.data.reason
  }
}

const view = (entry: Entry, lookup: JournalPort.Lookup): JournalPort.View => {
  const item = lookup.itemId === undefined ? undefined : entry.items.get(lookup.itemId)
  const turn = entry.state.turn
  return {
    head: SessionState.head(entry.state),
    agent: entry.state.agent,
    keyed: lookup.clientKey === undefined ? undefined : entry.keys.get(lookup.clientKey),
    item: item === undefined ? undefined : { itemId: lookup.itemId as ItemId, ...item },
    turn: turnView(entry, lookup.turnId, turn),
    announced: turn === undefined && lookup.turnId !== undefined ? Inbox.announced(entry.state.pending) : []
  }
}

const turnView = (entry: Entry, id: string | undefined, open: OpenTurn | undefined): JournalPort.View["turn"] => {
  if (id === undefined || !/^trn_[1-9][0-9]*$/.test(id)) return undefined
  const turnId = id as TurnId
  if (Ids.numberOf(turnId) > entry.state.turns) return undefined
  return {
    turnId,
    isOpen: open?.id === turnId,
    isCancelling: open?.id === turnId && open.cancelling !== undefined
  }
}

const summaryOf = (entry: Entry): JournalPort.Summary => ({
  sessionId: entry.sessionId,
  agent: entry.state.agent,
  title: entry.state.title,
  status: SessionState.statusOf(entry.state),
  seq: entry.state.seq,
  turns: entry.state.turns,
  activeTurn: entry.state.turn?.id,
  createdAt: entry.createdAt,
  updatedAt: entry.events.at(-1)?.at ?? entry.createdAt
})

const beginningOf = (title: string): string =>
  title.length <= listedTitle
    ? title
    : Array.from(title.slice(0, 2 * listedTitle))
        .slice(0, listedTitle)
        .join("")
