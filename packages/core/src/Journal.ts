/**
 * The durable record of every session: where facts are written and read.
 *
 * Owns: the port that storage implements. Does not own: which facts are written (`TurnPlan`, `Inbox`) or who may drive a
 * session (`Claim`).
 *
 * - J1. A write is all or nothing, and it repeats its fence: under a stale fence nothing is written (`FenceLost`).
 * - J2. Sequence numbers are dense in each session and given in the order of the writes.
 * - J3. What was acknowledged is durable.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import type * as Result from "effect/Result"
import type { CallId, ItemId, SessionId, TurnId } from "./Ids.ts"
import type * as Inbox from "./Inbox.ts"
import type { FenceLost, SessionExists, SessionNotFound } from "./TurnError.ts"
import type { DataOf, Fact, ReturnReason, TurnEvent, Type } from "./TurnEvent.ts"

/** `queued`: no Turn is open, and a message waits for one, which its sender was told of already. */
export type SessionStatus = "idle" | "queued" | "running"

/** A session at a glance. Times are milliseconds since the epoch. */
export interface Summary {
  readonly sessionId: SessionId
  readonly agent: string
  readonly title: string | undefined
  readonly status: SessionStatus
  /** The last sequence number. */
  readonly seq: number
  readonly turns: number
  readonly activeTurn: TurnId | undefined
  readonly createdAt: number
  readonly updatedAt: number
}

/** Characters of a title that a list shows. */
export const listedTitle = 200

/** A write of the session's owner. */
export interface Write {
  readonly sessionId: SessionId
  readonly fence: number
  /** When given, the write happens only if this is still the last sequence number: its decision saw every fact. */
  readonly expectedSeq: number | undefined
  readonly facts: ReadonlyArray<Fact>
}

/** Others have written since the decision was made; read what they wrote and decide again. */
export class SeqBehind {
  readonly _tag = "SeqBehind"
  readonly seq: number
  constructor(seq: number) {
    this.seq = seq
  }
}

/** What a decision about the inbox may look up, besides the head of the session. */
export interface Lookup {
  readonly clientKey?: string | undefined
  readonly itemId?: string | undefined
  readonly turnId?: string | undefined
}

/** The session as it stands under the lock of an admission. */
export interface View {
  readonly head: Inbox.Head
  /** The name of the session's agent. */
  readonly agent: string
  /** The item that was admitted under the key looked up. */
  readonly keyed: { readonly seq: number; readonly data: DataOf<"inbox.admitted">; readonly digest: string } | undefined
  readonly item:
    | {
        readonly itemId: ItemId
        readonly delivery: Inbox.Item["delivery"]
        readonly state: ItemState
        /** Of an item that was returned. */
        readonly reason?: ReturnReason
      }
    | undefined
  /** When the Turn looked up is announced and not open: the item it starts from, and after it the steers that join it. */
  readonly announced: ReadonlyArray<Pick<Inbox.Item, "id" | "ifNotApplied">>
  readonly turn: { readonly turnId: TurnId; readonly isOpen: boolean; readonly isCancelling: boolean } | undefined
}

export type ItemState = "waiting" | "applied" | "returned"

/** What an admission decided: facts to record (none for a repetition) and what the sender is told. */
export interface Decided<A> {
  readonly facts: ReadonlyArray<Fact>
  readonly value: A
  /** Digest of the body behind a client key. */
  readonly digest?: string | undefined
}

/** A page of a session's log. Without `limit` and `bytes` it reaches to the end. */
export interface Page {
  readonly after: number
  /** Events at most. */
  readonly limit?: number | undefined
  /** Bytes of data after which no further event begins: a page has at least one event, and at most one that is larger. */
  readonly bytes?: number | undefined
  readonly types?: ReadonlyArray<Type> | undefined
}

/** The bytes an event's data has on record. */
export const bytesOf = (data: unknown): number => encoder.encode(JSON.stringify(data)).length

const encoder = new TextEncoder()

/** The first events of a page that fit it. */
export const fitting = (events: ReadonlyArray<TurnEvent>, { bytes, limit }: Page): ReadonlyArray<TurnEvent> => {
  const counted = limit === undefined ? events : events.slice(0, limit)
  if (bytes === undefined) return counted
  let before = 0
  const end = counted.findIndex(({ data }) => {
    const isOver = before >= bytes
    before += bytesOf(data)
    return isOver
  })
  return end < 0 ? counted : counted.slice(0, end)
}

export class Journal extends Context.Service<
  Journal,
  {
    /** Records a new session. */
    readonly create: (
      sessionId: SessionId,
      data: DataOf<"session.created">
    ) => Effect.Effect<ReadonlyArray<TurnEvent>, SessionExists>
    /** Writes facts as the session's owner and returns them as events (J1, J2). */
    readonly append: (write: Write) => Effect.Effect<ReadonlyArray<TurnEvent>, FenceLost | SeqBehind>
    /** Decides under the session's lock and records what was decided; anyone may, no fence is needed. */
    readonly admit: <A, E>(
      sessionId: SessionId,
      lookup: Lookup,
      decide: (view: View) => Result.Result<Decided<A>, E>
    ) => Effect.Effect<{ readonly value: A; readonly events: ReadonlyArray<TurnEvent> }, SessionNotFound | E>
    /** Events in order. An unknown session has none. */
    readonly read: (sessionId: SessionId, page: Page) => Effect.Effect<ReadonlyArray<TurnEvent>>
    /** The result of a call, found by its id without reading the log; `undefined` for a call that has none. */
    readonly resultOf: (sessionId: SessionId, callId: CallId) => Effect.Effect<DataOf<"call.completed"> | undefined>
    /** The last sequence numbers of these sessions, as far as there are such. */
    readonly heads: (sessionIds: ReadonlyArray<SessionId>) => Effect.Effect<ReadonlyMap<SessionId, number>>
    readonly summary: (sessionId: string) => Effect.Effect<Option.Option<Summary>>
    /**
     * Sessions in the order of their creation, newest first, with the first 200 characters of their titles; `before` is the
     * id a former page ended with.
     */
    readonly list: (page: {
      readonly before: string | undefined
      readonly limit: number
    }) => Effect.Effect<ReadonlyArray<Summary>>
    /**
     * Sessions of these agents with an open Turn or waiting items, or that are not idle without them, that no live owner
     * drives.
     */
    readonly unattended: (agents: ReadonlyArray<string>, limit: number) => Effect.Effect<ReadonlyArray<SessionId>>
  }
>()("core/Journal") {}
