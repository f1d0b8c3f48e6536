/**
 * A session as its users hold it: send, steer, follow up, cancel, and watch.
 *
 * Owns: the public operations and what they are told. Does not own: the Turns that come of them (`Drivers`).
 */
import type * as Admission from "@turnstep/core/Admission"
import type { SessionId, TurnId } from "@turnstep/core/Ids"
import type * as Inbox from "@turnstep/core/Inbox"
import type * as Journal from "@turnstep/core/Journal"
import type {
  AgentNotFound,
  ClientKeyReused,
  ContentUnreadable,
  ItemNotFound,
  ItemSettled,
  SessionBusy,
  SessionExists,
  SessionIdInvalid,
  SessionNotFound,
  StorageUnavailable,
  TurnFailed,
  TurnNotFound,
  TurnNotRunning,
  Unavailable
} from "@turnstep/core/TurnError"
import type { FormatName } from "@turnstep/core/history/Contract"
import type { Exported } from "@turnstep/core/history/Export"
import type * as Import from "@turnstep/core/history/Import"
import type { UserPart } from "@turnstep/core/Transcript"
import type { DataOf, Delivery, Ephemeral, IfNotApplied, Limit, TurnEvent, Usage } from "@turnstep/core/TurnEvent"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Stream from "effect/Stream"
import type { Partial } from "./EventHub.ts"
import type { WorkStopped } from "./offthread/OffThread.ts"
import type { ImportError } from "./SessionHistory.ts"

/** What is sent: a text, or parts with files. */
export type Input = string | ReadonlyArray<UserPart>

/** What a Turn took. */
interface Spent {
  /** Steps with tools. */
  readonly steps: number
  readonly usage: Usage
  /** In the currency of the policy's price, should it have one. */
  readonly cost?: number | undefined
}

/** How a Turn ended, as a value. */
export type TurnOutcome =
  | ({
      readonly _tag: "Answered"
      readonly turnId: TurnId
      readonly text: string
      /** `stop` for a whole answer; `length` and `content-filter` for one that was cut, `unknown` where the server tells none. */
      readonly finishReason: string
    } & Spent)
  | ({
      readonly _tag: "BudgetSpent"
      readonly turnId: TurnId
      readonly limit: Limit
      readonly text: string
    } & Spent)
  | ({
      readonly _tag: "Tripped"
      readonly turnId: TurnId
      /** `REPEATED_IDENTICAL_TOOL_CALL`. */
      readonly code: string
      /** What it did over and over. */
      readonly reason: string
      readonly text: string
    } & Spent)
  | {
      readonly _tag: "Cancelled"
      readonly turnId: TurnId
      /** `user`: by `cancel`; `caller`: whoever waited for it in `run` with `onInterrupt: "cancel"` was interrupted. */
      readonly by: "user" | "caller"
      readonly reason: string | undefined
    }

export interface SendOptions {
  /** `auto` (default) starts a Turn when the session is idle and steers the running one otherwise. */
  readonly delivery?: Delivery | "auto" | undefined
  /** What becomes of a steer whose Turn ends before its next step; default `follow-up`. */
  readonly ifNotApplied?: IfNotApplied | undefined
  /** Refuse the message unless this Turn is running. */
  readonly expectedTurnId?: string | undefined
  /** The same key with the same message is admitted once. */
  readonly clientKey?: string | undefined
}

export interface RunOptions extends Pick<SendOptions, "clientKey"> {
  /**
   * What an interruption of the wait means for the Turn. `leave` (default): nothing, it goes on, since a process that is told
   * to stop interrupts as well. `cancel`: whoever waits is the only one who wants it, so it is cancelled, or its message
   * withdrawn; the interrupted caller waits up to 5 s for that. A runtime that closes cancels nothing.
   */
  readonly onInterrupt?: "leave" | "cancel" | undefined
}

/** What a watcher of a session sees. `snapshot` is the answer in progress when the watching began. */
export type Seen =
  | { readonly _tag: "Event"; readonly event: TurnEvent }
  | { readonly _tag: "Ephemeral"; readonly ephemeral: Ephemeral }
  | { readonly _tag: "Snapshot"; readonly snapshot: Partial }

export type SendError =
  | SessionNotFound
  | SessionBusy
  | TurnNotRunning
  | ClientKeyReused
  | ContentUnreadable
  | Unavailable

export interface Session {
  readonly id: SessionId
  /** Admits a message durably and says what becomes of it. */
  readonly send: (input: Input, options?: SendOptions) => Effect.Effect<Inbox.Admission, SendError>
  /**
   * Sends a message and waits for the Turn it starts. Interrupting the wait leaves the Turn alone, unless `onInterrupt` says
   * otherwise. `ItemSettled` when somebody took the message back before its Turn, `RuntimeClosed` when this runtime closes
   * first: the Turn goes on, and with the same `clientKey` and message the same Turn is waited for again.
   */
  readonly run: (input: Input, options?: RunOptions) => Effect.Effect<TurnOutcome, SendError | TurnFailed | ItemSettled>
  /** Sends a message into the running Turn, to be read at its next step. */
  readonly steer: (input: Input, options?: Omit<SendOptions, "delivery">) => Effect.Effect<Inbox.Admission, SendError>
  /** Queues a message for a Turn of its own. */
  readonly followUp: (
    input: Input,
    options?: Omit<SendOptions, "delivery">
  ) => Effect.Effect<Inbox.Admission, SendError>
  /**
   * Waits for a Turn to end, also for one that a waiting message is about to start. `TurnNotFound` when no message waits that
   * could start it.
   */
  readonly outcome: (
    turnId: string
  ) => Effect.Effect<TurnOutcome, SessionNotFound | TurnNotFound | TurnFailed | Unavailable>
  /** Tells a Turn to stop; done when that is durable, which for a Turn that is announced only is after it is opened. */
  readonly cancel: (
    turnId: string,
    reason?: string
  ) => Effect.Effect<Admission.Cancellation, SessionNotFound | TurnNotFound | Unavailable>
  /** Moves a waiting message to the other channel. */
  readonly move: (
    itemId: string,
    delivery: "steer" | "follow-up"
  ) => Effect.Effect<Delivery, SessionNotFound | ItemNotFound | ItemSettled | TurnNotRunning | Unavailable>
  /** Takes a waiting message back. */
  readonly withdraw: (itemId: string) => Effect.Effect<void, SessionNotFound | ItemNotFound | ItemSettled | Unavailable>
  /** Recorded events after a sequence number. */
  readonly events: (page: Journal.Page) => Effect.Effect<ReadonlyArray<TurnEvent>, Unavailable>
  /**
   * Everything after a sequence number as it happens: no gap and no duplicate among the events. The stream ends when the
   * runtime closes or the watcher is too slow, and can be taken up again after the last event.
   */
  readonly watch: (after: number) => Stream.Stream<Seen, Unavailable>
  readonly summary: Effect.Effect<Journal.Summary, SessionNotFound | Unavailable>
  /**
   * Brings in a history that some other system wrote, repaired, into a session in which nothing has happened yet: its next
   * message goes on from there. The report names all that was done and what could not be taken along. A history that was read
   * already (`Import.read`) comes in as it is.
   */
  readonly importHistory: (
    history: Import.History | Import.Imported
  ) => Effect.Effect<Import.ImportReport, ImportError | Unavailable>
  /** The messages of the session in a format, clean by its rules, with what it cannot carry. */
  readonly exportHistory: (format: FormatName) => Effect.Effect<Exported, SessionNotFound | WorkStopped | Unavailable>
}

export interface OpenOptions {
  /** Default: the first agent of the runtime. */
  readonly agent?: string | undefined
  /** Default: a new id. A session that exists already is refused; use `get` for it. */
  readonly id?: string | undefined
  readonly title?: string | undefined
  readonly metadata?: DataOf<"session.created">["metadata"]
  /** The history it is created for (`Import.digestOf`); it is brought in next. */
  readonly history?: string | undefined
  /** A key of the client's, which is on record with the creation: by it a caller who asks again knows the session as its own. */
  readonly clientKey?: string | undefined
}

/** The sessions of a runtime. */
export class Sessions extends Context.Service<
  Sessions,
  {
    /** Creates a session. */
    readonly open: (
      options?: OpenOptions
    ) => Effect.Effect<Session, AgentNotFound | SessionExists | SessionIdInvalid | Unavailable>
    /** The session of this id. */
    readonly get: (id: string) => Effect.Effect<Session, SessionNotFound | Unavailable>
    /** Fails while storage does not take writes. Whether it answers at all is for a read to say. */
    readonly takesWrites: Effect.Effect<void, StorageUnavailable>
    /** Sessions, newest first; `before` is the id a former page ended with. */
    readonly list: (page: {
      readonly before?: string | undefined
      readonly limit: number
    }) => Effect.Effect<ReadonlyArray<Journal.Summary>, Unavailable>
  }
>()("runtime/Sessions") {}

/** Creates a session. */
export const open = (options?: OpenOptions) => Effect.flatMap(Sessions, (sessions) => sessions.open(options))

/** The session of an id. */
export const get = (id: string) => Effect.flatMap(Sessions, (sessions) => sessions.get(id))

/** The session of an id, created with these options where there is none. */
export const getOrOpen = (id: string, options?: Omit<OpenOptions, "id">) =>
  Effect.flatMap(Sessions, (sessions) =>
    Effect.catchTag(sessions.open({ ...options, id }), "SessionExists", () =>
      Effect.catchTag(sessions.get(id), "SessionNotFound", Effect.die)
    )
  )

/** Sessions, newest first; `before` is the id a former page ended with. */
export const list = (page: { readonly before?: string | undefined; readonly limit: number }) =>
  Effect.flatMap(Sessions, (sessions) => sessions.list(page))
