/**
 * Pages of the lists that are read from a session's log: messages, calls, items of the inbox.
 *
 * Owns: reading a list within bounds, however large its log is. Does not own: what an entry says (`core/SessionView`).
 *
 * - L1. Memory is bounded by a page: the log is read in pieces, first for which entries there are and how large they are, then
 *   for the entries of the page.
 * - L2. A page has at most `Page.pageBytes` of data, or one entry. A shorter page than was asked for names the next one, too.
 */
import * as Journal from "@turnstep/core/Journal"
import * as SessionView from "@turnstep/core/SessionView"
import type { Fact, Type, TurnEvent } from "@turnstep/core/TurnEvent"
import type { Session } from "@turnstep/runtime/Session"
import * as Effect from "effect/Effect"
import * as Page from "./Page.ts"
import * as Problem from "./Problem.ts"

/** A list that is read from the log. */
export interface List<Entry> {
  readonly types: ReadonlyArray<Type>
  readonly view: (events: Iterable<TurnEvent>) => ReadonlyArray<Entry>
  /** Ids of the entries an event belongs to; `undefined` for one that places others. */
  readonly idsOf: (event: TurnEvent) => ReadonlyArray<string> | undefined
  /** The event without what makes it large. */
  readonly bare: (event: TurnEvent) => TurnEvent
}

type DataOf<T extends Type> = Extract<Fact, { readonly type: T }>["data"]

const changed = <T extends Type>(event: TurnEvent & { readonly type: T }, data: Partial<DataOf<T>>): TurnEvent =>
  ({ ...event, data: { ...event.data, ...data } }) as TurnEvent

export const messages: List<SessionView.MessageView> = {
  types: SessionView.messageTypes,
  view: SessionView.messages,
  idsOf: (event) => (event.type === "message.added" ? [event.data.messageId] : undefined),
  bare: (event) => (event.type === "message.added" ? changed(event, { parts: [] }) : event)
}

export const calls: List<SessionView.CallView> = {
  types: SessionView.callTypes,
  view: SessionView.calls,
  idsOf: (event) =>
    event.type === "step.slimmed"
      ? event.data.views.map(({ callId }) => callId)
      : "callId" in event.data
        ? [event.data.callId]
        : undefined,
  bare: (event) => {
    if (event.type === "call.requested") return changed(event, { params: null })
    if (event.type === "call.completed") return changed(event, { output: null, modelView: { text: "", omitted: 0 } })
    return event.type === "step.slimmed" ? changed(event, { views: [] }) : event
  }
}

export const inbox: List<SessionView.ItemView> = {
  types: SessionView.inboxTypes,
  view: SessionView.inbox,
  idsOf: (event) => ("itemId" in event.data ? [event.data.itemId] : undefined),
  bare: (event) => (event.type === "inbox.admitted" ? changed(event, { parts: [] }) : event)
}

/** The page that is asked for, of the entries that `matches` takes (L1, L2). */
export const page = Effect.fnUntraced(function* <Entry extends { readonly id: string }>(
  session: Session,
  list: List<Entry>,
  query: Page.Query,
  matches: (entry: Entry) => boolean = () => true
) {
  const bare: Array<TurnEvent> = []
  const bytes = new Map<string, number>()
  yield* eachPiece(session, list, (event) => {
    bare.push(list.bare(event))
    const size = Journal.bytesOf(event.data)
    for (const id of list.idsOf(event) ?? []) bytes.set(id, (bytes.get(id) ?? 0) + size)
  })
  // Messages of an imported history are whole in one event, and have no bytes of their own.
  const sizeOf = (entry: Entry) => bytes.get(entry.id) ?? Journal.bytesOf(entry)
  const { data, next } = yield* Page.of(list.view(bare).filter(matches), query, sizeOf)
  return { data: yield* chosen(session, list, new Set(data.map(({ id }) => id))), next }
})

/** The entries of these ids, as they are now (L1). */
export const chosen = Effect.fnUntraced(function* <Entry extends { readonly id: string }>(
  session: Session,
  list: List<Entry>,
  ids: ReadonlySet<string>
) {
  const events: Array<TurnEvent> = []
  yield* eachPiece(session, list, (event) => {
    const of = list.idsOf(event)
    if (of === undefined || of.some((id) => ids.has(id))) events.push(event)
  })
  return list.view(events).filter(({ id }) => ids.has(id))
})

const eachPiece = Effect.fnUntraced(function* (
  session: Session,
  { types }: { readonly types: ReadonlyArray<Type> },
  take: (event: TurnEvent) => void
) {
  for (let after = 0; ;) {
    const events = yield* Problem.refusing(session.events({ after, types, limit: 1_000, bytes: Page.pageBytes }))
    const last = events.at(-1)
    if (last === undefined) return
    after = last.seq
    for (const event of events) take(event)
  }
})
