/**
 * The JSON bodies of requests and answers.
 *
 * Owns: their schemas. Does not own: views of the record (`core/SessionView`), events (`EventEnvelope`).
 */
import { ItemId, SessionId, TurnId } from "@turnstep/core/Ids"
import { CallView, Instant, ItemView, MessageView, TurnView } from "@turnstep/core/SessionView"
import { UserPart } from "@turnstep/core/Transcript"
import { Delivery, IfNotApplied } from "@turnstep/core/TurnEvent"
import * as Schema from "effect/Schema"
import { DurableEvent } from "./EventEnvelope.ts"
import { CheckHistory, ImportReport } from "./HistoryBody.ts"

const Count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

/** Entries a page has unless `limit` says otherwise, and at most. */
export const pageLimit = { usual: 100, most: 1000 } as const

/** Parts of a message: texts, and files by `http:`, `https:` or `data:` URL. Their content is judged at admission. */
export const Parts = Schema.Array(UserPart).check(
  Schema.makeFilter((parts) => (parts.length === 0 ? "a message has at least one part" : undefined))
)

/** A key of the client's: 1 to 255 printable ASCII characters. */
export const ClientKey = Schema.String.check(
  Schema.isPattern(/^[\x21-\x7e]{1,255}$/, { expected: "1 to 255 printable ASCII characters without spaces" })
)

/** The text of a message. */
export const Text = Schema.String.check(Schema.isMinLength(1))

/** Characters of a title at most. */
export const maxTitle = 200

export const Title = Schema.String.check(Schema.isMaxLength(maxTitle))

/** What a client keeps with a session: at most 50 members and 16 KiB of JSON. */
export const Metadata = Schema.Record(Schema.String, Schema.Json).check(
  Schema.makeFilter((metadata) => {
    if (Object.keys(metadata).length > 50) return "metadata has at most 50 members"
    return JSON.stringify(metadata).length > 16 * 1024 ? "metadata has at most 16384 characters of JSON" : undefined
  })
)

/** `POST /api/sessions` */
export const CreateSession = Schema.Struct({
  id: Schema.optionalKey(Schema.String),
  agent: Schema.optionalKey(Schema.String),
  title: Schema.optionalKey(Title),
  metadata: Schema.optionalKey(Metadata),
  /** A history that some other system wrote: the session goes on from it, repaired. */
  import: Schema.optionalKey(CheckHistory),
  /** Starts the first Turn: a text, or parts. */
  input: Schema.optionalKey(Schema.Union([Text, Parts]))
})

/** A session at a glance. */
export const SessionSummary = Schema.Struct({
  id: SessionId,
  agent: Schema.String,
  title: Schema.optionalKey(Schema.String),
  /** `queued`: no Turn is open, and a message waits for one. */
  status: Schema.Literals(["idle", "queued", "running"]),
  /** The `seq` of its last event. */
  headSeq: Count,
  turns: Count,
  activeTurn: Schema.optionalKey(TurnId),
  createdAt: Instant,
  updatedAt: Instant
})
export type SessionSummary = typeof SessionSummary.Type

/** A session. */
export const Session = Schema.Struct({
  ...SessionSummary.fields,
  metadata: Schema.optionalKey(Schema.Record(Schema.String, Schema.Json))
})

/** An admitted message: 202 means that it is durable. */
export const Admitted = Schema.Struct({
  item: Schema.Struct({ id: ItemId, delivery: Delivery }),
  effect: Schema.Literals(["started", "steering", "queued"]),
  /** The Turn it starts or steers, when that is certain. */
  turnId: Schema.optionalKey(TurnId),
  /** Everything that comes of it has a greater `seq`: follow it with `GET …/events?after=`. */
  after: Count
})

/** The answer to `POST /api/sessions`; `admitted` when it came with `input`, `imported` when it came with `import`. */
export const CreatedSession = Schema.Struct({
  ...Session.fields,
  imported: Schema.optionalKey(ImportReport),
  admitted: Schema.optionalKey(Admitted)
})

/** `POST /api/sessions/{session}/messages` */
export const SendMessage = Schema.Struct({
  /** The client's id of this message: the same id with the same message is admitted once. */
  id: Schema.optionalKey(ClientKey),
  text: Schema.optionalKey(Text),
  parts: Schema.optionalKey(Parts),
  /** Default `auto`: starts a Turn when the session is idle and steers the running one otherwise. */
  delivery: Schema.optionalKey(Schema.Literals(["auto", "start", "steer", "follow-up"])),
  /** Refuse the message unless this Turn is running. */
  expectedTurnId: Schema.optionalKey(Schema.String),
  /** What becomes of a steer whose Turn ends before its next step; default `follow-up`. */
  ifNotApplied: Schema.optionalKey(IfNotApplied)
}).check(
  Schema.makeFilter(({ text, parts }) =>
    (text === undefined) === (parts === undefined) ? "a message has either `text` or `parts`" : undefined
  )
)

/** `PATCH /api/sessions/{session}/inbox/{item}` */
export const MoveItem = Schema.Struct({ delivery: Schema.Literals(["steer", "follow-up"]) })
export const MovedItem = Schema.Struct({ id: ItemId, delivery: Delivery })

/** `POST /api/sessions/{session}/turns/{turn}/cancel` */
export const CancelTurn = Schema.Struct({ reason: Schema.optionalKey(Schema.String.check(Schema.isMaxLength(1000))) })

/** What becomes of a Turn that is told to stop: it will, or it had ended before. */
export const Cancelled = Schema.Struct({ turnId: TurnId, state: Schema.Literals(["cancelling", "ended", "returned"]) })

/** A page of a list: `next` is the `after` of the following page, `null` on the last one. */
const page = <Entry extends Schema.Top, Next extends Schema.Top>(entry: Entry, next: Next) =>
  Schema.Struct({ data: Schema.Array(entry), next: Schema.NullOr(next) })

export const SessionPage = page(SessionSummary, Schema.String)
export const ItemPage = page(ItemView, Schema.String)
export const TurnPage = page(TurnView, Schema.String)
export const MessagePage = page(MessageView, Schema.String)
export const CallPage = page(CallView, Schema.String)
export const EventPage = page(DurableEvent, Count)

/** What this server is. */
export const Info = Schema.Struct({
  name: Schema.Literal("turnstep"),
  version: Schema.String,
  model: Schema.Struct({
    name: Schema.String,
    /** Whether it is the scripted demo model, which is not a language model. */
    demo: Schema.Boolean
  }),
  agents: Schema.Array(Schema.String),
  storage: Schema.Literals(["postgres", "pglite", "memory"]),
  limits: Schema.Struct({ bodyBytes: Count, jsonDepth: Count, streams: Count, pageEntries: Count })
})
export type Info = typeof Info.Type
