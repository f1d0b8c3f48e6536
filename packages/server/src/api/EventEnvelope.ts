/**
 * Events as they are on the wire: the session's facts in an envelope, and what is shown between them.
 *
 * Owns: the schemas. Does not own: the facts (`core/TurnEvent`) or how they are written fast (`http/EventWriter`).
 *
 * - E1. A durable event has a `seq`, which is also its SSE `id`, the `after` of a page and the `Last-Event-ID` of a
 *   reconnect. What has no `seq` is lost with the connection.
 * - E2. The envelope is a function of the event alone: the same event has the same bytes, in pages and in streams.
 */
import { SessionId, TurnId } from "@turnstep/core/Ids"
import { Instant } from "@turnstep/core/SessionView"
import { Fact, Failure } from "@turnstep/core/TurnEvent"
import * as Schema from "effect/Schema"
import * as Tuple from "effect/Tuple"

const Count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

/** The version of the envelope. */
export const version = 1

const place = {
  v: Schema.Literal(version),
  sessionId: SessionId,
  /** The Turn and step the event belongs to, where the event itself says so. */
  turnId: Schema.optionalKey(TurnId),
  step: Schema.optionalKey(Count)
}

/** A recorded event (E1). */
export const DurableEvent = Fact.mapMembers(Tuple.map(Schema.fieldsAssign({ ...place, seq: Count, at: Instant })))
export type DurableEvent = typeof DurableEvent.Type

const ephemeral = <const Type extends string, Fields extends Schema.Struct.Fields>(type: Type, data: Fields) =>
  Schema.Struct({ type: Schema.tag(type), ...place, data: Schema.Struct(data) })

/** A piece of the answer as it is generated; `offset` counts the code units of its channel before it, in its step. */
export const Delta = ephemeral("delta", {
  channel: Schema.Literals(["text", "reasoning"]),
  offset: Count,
  delta: Schema.String
})

/** What the deltas of this step said is void; the request is made again. */
export const StepReset = ephemeral("step.reset", { reason: Schema.String })

/** The model's provider has failed, and is asked again: `attempt` of `attempts` is next, in `waitMs` milliseconds. */
export const ModelRetrying = ephemeral("model.retrying", {
  attempt: Count,
  attempts: Count,
  reason: Failure,
  waitMs: Count
})

/** What a running tool tells of itself. */
export const CallProgress = ephemeral("call.progress", { callId: Schema.String, progress: Schema.Json })

/** The first event of a stream: `after` is where it begins. */
export const StreamOpened = ephemeral("stream.opened", { after: Count })

/** The answer in progress, for a reader who comes in the middle of it; deltas go on from the lengths of its texts. */
export const StreamSnapshot = ephemeral("stream.snapshot", { text: Schema.String, reasoning: Schema.String })

/**
 * Why a stream ends. `turn-end`: it was to end there. `shutdown`, `lagged` (the reader was too slow), `expired` (an hour is
 * over), `storage-unavailable`: connect again, after the last with a pause. `failed`: the record cannot be read on from
 * here, and connecting again does not help.
 */
export const ClosingReason = Schema.Literals([
  "turn-end",
  "shutdown",
  "lagged",
  "expired",
  "storage-unavailable",
  "failed"
])
export type ClosingReason = typeof ClosingReason.Type

/** The last event of a stream; the server never leaves it out. */
export const StreamClosed = ephemeral("stream.closed", { reason: ClosingReason })

/** What is shown but not kept (E1). */
export const EphemeralEvent = Schema.Union([
  Delta,
  StepReset,
  ModelRetrying,
  CallProgress,
  StreamOpened,
  StreamSnapshot,
  StreamClosed
])
export type EphemeralEvent = typeof EphemeralEvent.Type

/** Whatever a stream carries. */
export const StreamEvent = Schema.Union([...DurableEvent.members, ...EphemeralEvent.members])
export type StreamEvent = typeof StreamEvent.Type
