/**
 * What a reader of a session asks for, folded from its events: messages, calls, Turns, inbox items.
 *
 * Owns: the shape of these views and how they follow from events. Does not own: the state the engine works with
 * (`SessionState`) or where the events are read (`Journal`).
 *
 * - V1. A view is a function of the events alone: the same log gives the same views, on every process.
 * - V2. A fold needs only the types it names (`messageTypes`, …): a reader may leave all others unread.
 */
import * as DateTime from "effect/DateTime"
import * as Schema from "effect/Schema"
import * as SchemaTransformation from "effect/SchemaTransformation"
import { CallId, ItemId, MessageId, pastMessageId, placeOf, TurnId, turnId } from "./Ids.ts"
import { Outcome } from "./Receipt.ts"
import { Answer, FilePart, PastCall, ReasoningPart, TextPart, ToolCallPart, UserPart } from "./Transcript.ts"
import type { DataOf, Fact, TurnEvent, Type } from "./TurnEvent.ts"
import {
  addUsage,
  Delivery,
  Effects,
  Failure,
  Figures,
  IfNotApplied,
  Limit,
  Limits,
  ReturnReason,
  Usage
} from "./TurnEvent.ts"

const Count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

/** Milliseconds since the epoch; ISO 8601 with milliseconds, in UTC, in JSON. */
export const Instant = Schema.DateTimeUtcFromString.pipe(
  Schema.decodeTo(
    Schema.Finite,
    SchemaTransformation.transform({
      decode: (time: DateTime.Utc) => DateTime.toEpochMillis(time),
      encode: (ms: number) => DateTime.makeUnsafe(ms)
    })
  )
)

/**
 * A message of the transcript. Results of calls are with the calls; only a history from elsewhere, whose messages belong to
 * no Turn, has them as messages (`tool`).
 */
export const MessageView = Schema.Struct({
  id: MessageId,
  role: Schema.Literals(["user", "assistant", "tool"]),
  turnId: Schema.optionalKey(TurnId),
  step: Schema.optionalKey(Count),
  at: Instant,
  parts: Schema.Array(Schema.Union([TextPart, FilePart, ReasoningPart, ToolCallPart, PastCall])),
  /** Results of the calls of the message before. */
  answers: Schema.optionalKey(Schema.Array(Answer)),
  /** Of an answer of the model. */
  figures: Schema.optionalKey(Figures)
})
export type MessageView = typeof MessageView.Type

/** How far a call has come: `receipted` means it got a receipt instead of a result of its own. */
export const CallState = Schema.Literals(["requested", "running", "completed", "failed", "receipted"])
export type CallState = typeof CallState.Type

/** A tool call and its answer. */
export const CallView = Schema.Struct({
  id: CallId,
  turnId: TurnId,
  step: Count,
  name: Schema.String,
  state: CallState,
  params: Schema.Json,
  argsDigest: Schema.String,
  effects: Effects,
  wireId: Schema.String,
  /** Times it was started. */
  attempts: Count,
  requestedAt: Instant,
  startedAt: Schema.optionalKey(Instant),
  endedAt: Schema.optionalKey(Instant),
  output: Schema.optionalKey(Schema.Json),
  modelView: Schema.optionalKey(Schema.Struct({ text: Schema.String, omitted: Count })),
  ms: Schema.optionalKey(Schema.Finite),
  receipt: Schema.optionalKey(Schema.Struct({ outcome: Outcome, text: Schema.String }))
})
export type CallView = typeof CallView.Type

/** How far a Turn has come. */
export const TurnState = Schema.Literals([
  "queued",
  "running",
  "cancelling",
  "completed",
  "exhausted",
  "tripped",
  "cancelled",
  "failed"
])
export type TurnState = typeof TurnState.Type

/** A Turn. One that is queued is announced to the sender of its message, and has no model, limits and start yet. */
export const TurnView = Schema.Struct({
  id: TurnId,
  state: TurnState,
  /** The message it started from. */
  itemId: ItemId,
  agent: Schema.String,
  model: Schema.optionalKey(Schema.String),
  limits: Schema.optionalKey(Limits),
  /** Steps with tools taken so far. */
  steps: Count,
  usage: Usage,
  /** In the currency of the Turn's price, should it have one and be over. */
  cost: Schema.optionalKey(Schema.Finite),
  startedAt: Schema.optionalKey(Instant),
  endedAt: Schema.optionalKey(Instant),
  finishReason: Schema.optionalKey(Schema.String),
  /** The message with its last words. */
  messageId: Schema.optionalKey(MessageId),
  /** The limit that ended it. */
  limit: Schema.optionalKey(Limit),
  /** The loop that ended it. */
  tripped: Schema.optionalKey(Schema.Struct({ code: Schema.String, reason: Schema.String })),
  cancel: Schema.optionalKey(
    Schema.Struct({ by: Schema.Literals(["user", "caller"]), reason: Schema.optionalKey(Schema.String) })
  ),
  error: Schema.optionalKey(Failure),
  /** Calls that got a receipt when it was settled. */
  receipts: Schema.optionalKey(Schema.Array(Schema.Struct({ callId: CallId, outcome: Outcome })))
})
export type TurnView = typeof TurnView.Type

export const ItemState = Schema.Literals(["waiting", "applied", "returned"])

/** A message as the inbox knows it. */
export const ItemView = Schema.Struct({
  id: ItemId,
  state: ItemState,
  delivery: Delivery,
  ifNotApplied: IfNotApplied,
  /** While it waits the Turn it steers, once applied the Turn that read it. */
  turnId: Schema.optionalKey(TurnId),
  step: Schema.optionalKey(Count),
  messageId: Schema.optionalKey(MessageId),
  parts: Schema.Array(UserPart),
  clientKey: Schema.optionalKey(Schema.String),
  admittedAt: Instant,
  settledAt: Schema.optionalKey(Instant),
  /** Why it was returned. */
  reason: Schema.optionalKey(ReturnReason)
})
export type ItemView = typeof ItemView.Type

/** The types `messages` needs (V2). */
export const messageTypes: ReadonlyArray<Type> = ["history.imported", "inbox.applied", "step.started", "message.added"]

/** The transcript, in order (V1). */
export const messages = (events: Iterable<TurnEvent>): ReadonlyArray<MessageView> => {
  const views: Array<MessageView> = []
  let place: { readonly turnId: TurnId; readonly step: number } | undefined
  for (const event of events) {
    if (event.type === "history.imported") {
      for (const message of event.data.messages) {
        const parts = message.role === "tool" ? { parts: [], answers: message.answers } : { parts: message.parts }
        views.push({ id: pastMessageId(views.length + 1), role: message.role, at: event.at, ...parts })
      }
    } else if (event.type === "inbox.applied" || event.type === "step.started") {
      place = { turnId: event.data.turnId, step: event.data.step }
    } else if (event.type === "message.added" && place !== undefined) {
      const { messageId, role, parts, figures } = event.data
      views.push({ id: messageId, role, ...place, at: event.at, parts, ...(figures === undefined ? {} : { figures }) })
    }
  }
  return views
}

/** The types `calls` needs (V2). */
export const callTypes: ReadonlyArray<Type> = [
  "call.requested",
  "call.started",
  "call.completed",
  "call.receipt",
  "step.slimmed"
]

/** The calls, in the order they were requested (V1). */
export const calls = (events: Iterable<TurnEvent>): ReadonlyArray<CallView> => {
  const views = new Map<CallId, CallView>()
  for (const event of events) {
    if (event.type === "call.requested") views.set(event.data.callId, requested(event.data, event.at))
    else if (isOneOf(event, "call.started", "call.completed", "call.receipt")) {
      const view = views.get(event.data.callId)
      if (view !== undefined) views.set(view.id, { ...view, ...callChange(event, view) })
    } else if (event.type === "step.slimmed") {
      for (const { callId, ...modelView } of event.data.views) {
        const view = views.get(callId)
        if (view !== undefined) views.set(callId, { ...view, modelView })
      }
    }
  }
  return [...views.values()]
}

const requested = (data: DataOf<"call.requested">, at: number): CallView => {
  const { callId, ...rest } = data
  const { turn, step } = placeOf(callId)
  return { ...rest, id: callId, turnId: turnId(turn), step, state: "requested", attempts: 0, requestedAt: at }
}

const callChange = (
  event: EventOf<"call.started" | "call.completed" | "call.receipt">,
  view: CallView
): Partial<CallView> => {
  switch (event.type) {
    case "call.started":
      return { state: "running", attempts: event.data.attempt, startedAt: view.startedAt ?? event.at }
    case "call.completed": {
      const { isFailure, modelView, ms, output } = event.data
      const shown = modelView === undefined ? {} : { modelView }
      return { state: isFailure ? "failed" : "completed", endedAt: event.at, output, ms, ...shown }
    }
    case "call.receipt":
      return {
        state: "receipted",
        endedAt: event.at,
        receipt: { outcome: event.data.outcome, text: event.data.text }
      }
  }
}

/** The types `turns` needs (V2). */
export const turnTypes: ReadonlyArray<Type> = [
  "turn.started",
  "step.started",
  "step.completed",
  "turn.cancelling",
  "turn.settled",
  "turn.completed",
  "turn.exhausted",
  "turn.tripped",
  "turn.cancelled",
  "turn.failed"
]

/** The Turns, in order (V1). */
export const turns = (events: Iterable<TurnEvent>): ReadonlyArray<TurnView> => {
  const views = new Map<TurnId, TurnView>()
  for (const event of events) {
    if (event.type === "turn.started") {
      const { turnId, ...rest } = event.data
      const usage = { inputTokens: 0, outputTokens: 0 }
      views.set(turnId, { ...rest, id: turnId, state: "running", steps: 0, usage, startedAt: event.at })
    } else if (event.type.startsWith("turn.") || event.type.startsWith("step.")) {
      const view = "turnId" in event.data ? views.get(event.data.turnId) : undefined
      if (view !== undefined) views.set(view.id, { ...view, ...turnChange(event, view) })
    }
  }
  return [...views.values()]
}

/** A Turn that is announced and not recorded yet, which will start from an item. */
export const queued = (number: number, agent: string, itemId: ItemId): TurnView => ({
  id: turnId(number),
  state: "queued",
  itemId,
  agent,
  steps: 0,
  usage: { inputTokens: 0, outputTokens: 0 }
})

const turnChange = (event: TurnEvent, view: TurnView): Partial<TurnView> => {
  switch (event.type) {
    case "step.started":
      return event.data.kind === "work" ? { steps: event.data.step } : {}
    case "step.completed":
      return { usage: addUsage(view.usage, event.data.usage) }
    case "turn.cancelling":
      return { state: "cancelling", cancel: cancelOf(event.data) }
    case "turn.settled":
      return event.data.receipts.length === 0 ? {} : { receipts: event.data.receipts }
    case "turn.completed": {
      const { turnId: _, ...data } = event.data
      return { state: "completed", endedAt: event.at, ...data }
    }
    case "turn.exhausted": {
      const { turnId: _, ...data } = event.data
      return { state: "exhausted", endedAt: event.at, ...data }
    }
    case "turn.tripped": {
      const { code, reason, turnId: _, ...data } = event.data
      return { state: "tripped", endedAt: event.at, ...data, tripped: { code, reason } }
    }
    case "turn.cancelled": {
      const { by: _, reason: __, turnId: ___, ...data } = event.data
      return { state: "cancelled", endedAt: event.at, ...data, cancel: cancelOf(event.data) }
    }
    case "turn.failed": {
      const { turnId: _, ...data } = event.data
      return { state: "failed", endedAt: event.at, ...data }
    }
    default:
      return {}
  }
}

/** The types `inbox` needs (V2). */
export const inboxTypes: ReadonlyArray<Type> = ["inbox.admitted", "inbox.moved", "inbox.applied", "inbox.returned"]

/** Every message ever admitted, in order (V1). */
export const inbox = (events: Iterable<TurnEvent>): ReadonlyArray<ItemView> => {
  const views = new Map<ItemId, ItemView>()
  for (const event of events) {
    if (event.type === "inbox.admitted") views.set(event.data.itemId, admitted(event.data, event.at))
    else if (isOneOf(event, "inbox.moved", "inbox.applied", "inbox.returned")) {
      const view = views.get(event.data.itemId)
      if (view !== undefined) views.set(view.id, itemChange(event, view))
    }
  }
  return [...views.values()]
}

const admitted = (data: DataOf<"inbox.admitted">, at: number): ItemView => {
  const { effect: _, itemId, turnId, ...rest } = data
  const steered = turnId === undefined || data.delivery !== "steer" ? {} : { turnId }
  return { ...rest, ...steered, id: itemId, state: "waiting", admittedAt: at }
}

const itemChange = (event: EventOf<"inbox.moved" | "inbox.applied" | "inbox.returned">, view: ItemView): ItemView => {
  const { turnId: _, ...untargeted } = view
  switch (event.type) {
    case "inbox.moved": {
      const { delivery, turnId } = event.data
      return { ...untargeted, delivery, ...(turnId === undefined ? {} : { turnId }) }
    }
    case "inbox.applied": {
      const { messageId, step, turnId } = event.data
      return { ...view, state: "applied", settledAt: event.at, turnId, step, messageId }
    }
    case "inbox.returned":
      return event.data.disposition === "follow-up"
        ? { ...untargeted, delivery: "follow-up" }
        : { ...view, state: "returned", settledAt: event.at, reason: event.data.reason }
  }
}

type EventOf<T extends Type> = Extract<Fact, { readonly type: T }> & Pick<TurnEvent, "seq" | "at">

const isOneOf = <T extends Type>(event: TurnEvent, ...types: ReadonlyArray<T>): event is TurnEvent & EventOf<T> =>
  (types as ReadonlyArray<Type>).includes(event.type)

const cancelOf = ({ by, reason }: DataOf<"turn.cancelling">): NonNullable<TurnView["cancel"]> => ({
  by,
  ...(reason === undefined ? {} : { reason })
})
