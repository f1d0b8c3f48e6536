/**
 * The facts of a session: one ordered, durable log, from which its whole state can be rebuilt (mechanism J3).
 *
 * Owns: the names and shapes of the events. Does not own: which events follow from what (`SessionState`, the engine) or
 * where they are kept (`Journal`).
 *
 * - E1. `seq` is dense: 1, 2, 3, … without a gap in each session.
 * - E2. Events are only ever added; a reader that has seen `seq` n needs nothing but the events after n.
 */
import * as Schema from "effect/Schema"
import { Action, Code, FormatName } from "./history/Contract.ts"
import { CallId, ItemId, MessageId, SpillId, TurnId } from "./Ids.ts"
import { Outcome } from "./Receipt.ts"
import { AssistantPart, PastMessage, UserPart } from "./Transcript.ts"

const Count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

/** Tokens a response cost, as the provider counted them. What it did not tell is absent. */
export const Usage = Schema.Struct({
  inputTokens: Schema.Int,
  outputTokens: Schema.Int,
  /** Of the input: read from the provider's cache. */
  cachedInputTokens: Schema.optionalKey(Schema.Int),
  /** Of the input: written to the provider's cache. */
  cacheWriteTokens: Schema.optionalKey(Schema.Int),
  /** Of the output: reasoning. */
  reasoningTokens: Schema.optionalKey(Schema.Int)
})
export type Usage = typeof Usage.Type

export const addUsage = (a: Usage, b: Usage): Usage => ({
  inputTokens: a.inputTokens + b.inputTokens,
  outputTokens: a.outputTokens + b.outputTokens,
  ...sum("cachedInputTokens", a, b),
  ...sum("cacheWriteTokens", a, b),
  ...sum("reasoningTokens", a, b)
})

/** The sum of a count that one of the two may not have; absent when neither has it. */
const sum = <Name extends Exclude<keyof Usage, "inputTokens" | "outputTokens">>(name: Name, a: Usage, b: Usage) =>
  (a[name] === undefined && b[name] === undefined ? {} : { [name]: (a[name] ?? 0) + (b[name] ?? 0) }) as {
    readonly [K in Name]?: number
  }

/** How a response ended, what it cost, and how long it took in milliseconds. */
const figureFields = { finishReason: Schema.String, usage: Usage, ms: Schema.Finite }
export const Figures = Schema.Struct(figureFields)
export type Figures = typeof Figures.Type

/** What a Turn may use. Only steps are always limited. `deadline` is milliseconds since the epoch. */
export const Limits = Schema.Struct({
  maxSteps: Count,
  maxTokens: Schema.optionalKey(Count),
  /** In the currency of `price`, which is per million tokens. */
  maxCost: Schema.optionalKey(Schema.Finite),
  price: Schema.optionalKey(
    Schema.Struct({
      input: Schema.Finite,
      output: Schema.Finite,
      /** Of input read from the provider's cache; the price of input when absent. */
      cachedInput: Schema.optionalKey(Schema.Finite)
    })
  ),
  deadline: Schema.optionalKey(Schema.Finite),
  /** How often the same calls may be asked for in a row (`Breaker`). */
  repeatedToolCallLimit: Schema.optionalKey(Count),
  /** Failures in a row after which a domain is out of use (`FailureBudget`). */
  failureLimit: Schema.optionalKey(Count),
  /** Calls of one response that are run; the others are answered in words. */
  callLimit: Schema.optionalKey(Count)
})
export type Limits = typeof Limits.Type

/** The limit that ended a Turn. */
export const Limit = Schema.Literals(["steps", "tokens", "cost", "time"])
export type Limit = typeof Limit.Type

/** Where an admitted message goes: a Turn of its own at once, the next step of the running Turn, or the next Turn. */
export const Delivery = Schema.Literals(["start", "steer", "follow-up"])
export type Delivery = typeof Delivery.Type

/** What becomes of a steer whose Turn ends before its next step. */
export const IfNotApplied = Schema.Literals(["follow-up", "return"])
export type IfNotApplied = typeof IfNotApplied.Type

/** Effect class of the called tool, frozen when the call was registered. */
export const Effects = Schema.Literals(["pure", "idempotent", "queryable", "once"])

/** Where the called tool runs, frozen when the call was registered. */
export const Domain = Schema.Literals(["server", "client", "local", "desktop", "plugin", "mcp", "provider"])

/** Why a Turn failed, as a value: `code` is stable, `message` is for people. */
export const Failure = Schema.Struct({ code: Schema.String, message: Schema.String })
export type Failure = typeof Failure.Type

const event = <const Type extends string, Fields extends Schema.Struct.Fields>(type: Type, fields: Fields) =>
  Schema.Struct({ type: Schema.tag(type), data: Schema.Struct(fields) })

const SessionCreated = event("session.created", {
  agent: Schema.String,
  title: Schema.optionalKey(Schema.String),
  metadata: Schema.optionalKey(Schema.Record(Schema.String, Schema.Json)),
  /** The session was created for this history (`Import.digestOf`), which is the next to come. */
  history: Schema.optionalKey(Schema.String),
  /** The client's key it was created under: whoever asks again under it is told of this session. */
  clientKey: Schema.optionalKey(Schema.String)
})

/**
 * A history from elsewhere, repaired: what the session goes on from. It comes before everything else, a long one as several
 * events of one write.
 */
const HistoryImported = event("history.imported", {
  /** How it was written. */
  format: FormatName,
  messages: Schema.Array(PastMessage)
})

const InboxAdmitted = event("inbox.admitted", {
  itemId: ItemId,
  delivery: Delivery,
  effect: Schema.Literals(["started", "steering", "queued"]),
  /** The Turn it starts or steers, when that is certain. */
  turnId: Schema.optionalKey(TurnId),
  parts: Schema.Array(UserPart),
  ifNotApplied: IfNotApplied,
  clientKey: Schema.optionalKey(Schema.String)
})
const InboxMoved = event("inbox.moved", {
  itemId: ItemId,
  delivery: Delivery,
  /** The Turn it steers from now on. */
  turnId: Schema.optionalKey(TurnId)
})
const InboxApplied = event("inbox.applied", { itemId: ItemId, turnId: TurnId, step: Count, messageId: MessageId })
/** Why a message was returned: its Turn ended first, its sender took it back, or its Turn was cancelled before it began. */
export const ReturnReason = Schema.Literals(["turn-ended", "withdrawn", "cancelled"])
export type ReturnReason = typeof ReturnReason.Type

const InboxReturned = event("inbox.returned", {
  itemId: ItemId,
  reason: ReturnReason,
  disposition: Schema.Literals(["follow-up", "returned"])
})

const TurnStarted = event("turn.started", {
  turnId: TurnId,
  itemId: ItemId,
  agent: Schema.String,
  model: Schema.String,
  limits: Limits
})
const TurnCancelling = event("turn.cancelling", {
  turnId: TurnId,
  by: Schema.Literals(["user", "caller"]),
  reason: Schema.optionalKey(Schema.String)
})
const TurnSettled = event("turn.settled", {
  turnId: TurnId,
  receipts: Schema.Array(Schema.Struct({ callId: CallId, outcome: Outcome }))
})
/** What a Turn took: steps with tools, tokens, and the cost in the currency of its price, should it have one. */
const spent = { steps: Count, usage: Usage, cost: Schema.optionalKey(Schema.Finite) }

const TurnCompleted = event("turn.completed", {
  turnId: TurnId,
  ...spent,
  finishReason: Schema.String,
  messageId: MessageId
})
const TurnExhausted = event("turn.exhausted", {
  turnId: TurnId,
  limit: Limit,
  ...spent,
  messageId: MessageId
})
const TurnTripped = event("turn.tripped", {
  turnId: TurnId,
  /** `REPEATED_IDENTICAL_TOOL_CALL`. */
  code: Schema.String,
  /** What it did over and over, for people. */
  reason: Schema.String,
  ...spent,
  messageId: MessageId
})
const TurnCancelled = event("turn.cancelled", {
  turnId: TurnId,
  by: Schema.Literals(["user", "caller"]),
  reason: Schema.optionalKey(Schema.String),
  ...spent
})
const TurnFailed = event("turn.failed", { turnId: TurnId, error: Failure, ...spent })
const SessionStatus = event("session.status", { status: Schema.Literals(["idle", "running"]) })

/** The open Turn was taken up from an owner that died. */
const WorkerClaimed = event("worker.claimed", { turnId: TurnId })

/** Storage refused what the Turn had to record, and has taken this instead; `reason` is storage's, in words. */
const WriteRefused = event("write.refused", { turnId: TurnId, reason: Schema.String })

const StepStarted = event("step.started", { turnId: TurnId, step: Count, kind: Schema.Literals(["work", "hand-back"]) })
const StepCompleted = event("step.completed", {
  turnId: TurnId,
  step: Count,
  ...figureFields
})

/**
 * The step's calls came again with the same results (`noted`: the model is told under the last result), or were asked for
 * once too often (`tripped`: they are not executed, and the Turn hands back).
 */
const GuardRepeated = event("guard.repeated", {
  turnId: TurnId,
  step: Count,
  verdict: Schema.Literals(["noted", "tripped"]),
  code: Schema.String,
  /** Rounds the loop has, and how often it came, the one that was refused included. */
  period: Count,
  count: Count,
  /** Names of the tools called in it. */
  tools: Schema.Array(Schema.String),
  /** What the model reads, or why the Turn ends. */
  text: Schema.String
})
/** The step's results were together more than the model is to read at once: these are shown shorter. */
const StepSlimmed = event("step.slimmed", {
  turnId: TurnId,
  step: Count,
  views: Schema.Array(Schema.Struct({ callId: CallId, text: Schema.String, omitted: Count }))
})

const MessageAdded = event("message.added", {
  messageId: MessageId,
  role: Schema.Literals(["user", "assistant"]),
  parts: Schema.Array(Schema.Union([...UserPart.members, ...AssistantPart.members.slice(1)])),
  /** Of an answer of the model. */
  figures: Schema.optionalKey(Figures)
})

const CallRequested = event("call.requested", {
  callId: CallId,
  wireId: Schema.String,
  name: Schema.String,
  params: Schema.Json,
  argsDigest: Schema.String,
  effects: Effects,
  /** Default `server`. */
  domain: Schema.optionalKey(Domain)
})
const CallStarted = event("call.started", { callId: CallId, attempt: Count })
const CallCompleted = event("call.completed", {
  callId: CallId,
  isFailure: Schema.Boolean,
  output: Schema.Json,
  /** What the model reads instead of the output, when that is not the output itself. */
  modelView: Schema.optionalKey(Schema.Struct({ text: Schema.String, omitted: Count })),
  /** The text of a durable local read: `output` is its proof, the text is this spill, of so many bytes. */
  received: Schema.optionalKey(Schema.Struct({ spillId: SpillId, bytes: Count })),
  /** SHA-256 of what the `Breaker` compares results by, when that is not the output itself. */
  resultDigest: Schema.optionalKey(Schema.String),
  ms: Schema.Finite
})
/**
 * A tool that was left behind came to its end: its call keeps its receipt. `answer` is what it said, where that is known; a
 * tool that was told to stop mostly ends without a word.
 */
const CallLate = event("call.late", {
  callId: CallId,
  ms: Schema.Finite,
  answer: Schema.optionalKey(Schema.Struct({ isFailure: Schema.Boolean, output: Schema.Json }))
})
/** An output of the call is too large for the log: it is kept under the id that is the SHA-256 of its bytes. */
const SpillCreated = event("spill.created", { callId: CallId, spillId: SpillId, bytes: Count, lines: Count })
const CallReceipt = event("call.receipt", { callId: CallId, outcome: Outcome, text: Schema.String })

/**
 * A request of the step broke the contract of its provider and was sent repaired. A defect of ours, or a history that was
 * brought in for another provider; `at` are JSON pointers into the messages as they would have left.
 */
const TranscriptRepaired = event("transcript.repaired", {
  turnId: TurnId,
  step: Count,
  findings: Schema.Array(Schema.Struct({ code: Code, at: Schema.String })),
  changes: Schema.Array(Schema.Struct({ code: Code, at: Schema.String, action: Action }))
})

/**
 * From now on this model reads words in the place of these files: its provider refused them, or its wire cannot carry them.
 * `message` counts the session's messages from 0, those of a history from elsewhere included, and `part` its parts.
 */
const ContentSetAside = event("content.set-aside", {
  turnId: TurnId,
  step: Count,
  model: Schema.String,
  parts: Schema.Array(Schema.Struct({ message: Count, part: Count, messageId: Schema.optionalKey(MessageId) })),
  by: Schema.Literals(["provider", "wire"]),
  reason: Schema.String
})

/** Every fact a session can have. */
export const Fact = Schema.Union([
  SessionCreated,
  HistoryImported,
  SessionStatus,
  InboxAdmitted,
  InboxMoved,
  InboxApplied,
  InboxReturned,
  TurnStarted,
  TurnCancelling,
  TurnSettled,
  TurnCompleted,
  TurnExhausted,
  TurnTripped,
  TurnCancelled,
  TurnFailed,
  WorkerClaimed,
  WriteRefused,
  StepStarted,
  StepCompleted,
  StepSlimmed,
  GuardRepeated,
  MessageAdded,
  CallRequested,
  CallStarted,
  TranscriptRepaired,
  ContentSetAside,
  CallCompleted,
  CallReceipt,
  CallLate,
  SpillCreated
])
export type Fact = typeof Fact.Type
export type Type = Fact["type"]

/** The data of an event of a type. */
export type DataOf<T extends Type> = Extract<Fact, { readonly type: T }>["data"]

/** A recorded fact: `seq` is its place in the session's log (E1), `at` milliseconds since the epoch. */
export type TurnEvent = Fact & { readonly seq: number; readonly at: number }

/** Decodes a stored fact; a row that does not decode is a bug of ours. */
export const decodeFact = Schema.decodeUnknownSync(Fact)

/** Types of the events after which a Turn is over. */
export const terminalTypes = [
  "turn.completed",
  "turn.exhausted",
  "turn.tripped",
  "turn.cancelled",
  "turn.failed"
] as const satisfies ReadonlyArray<Type>

/** An event after which a Turn is over. */
export type Terminal = Extract<Fact, { readonly type: (typeof terminalTypes)[number] }>

export const isTerminal = (fact: Fact): fact is Terminal => (terminalTypes as ReadonlyArray<Type>).includes(fact.type)

/** What is shown but not kept: no `seq`, lost with the connection. */
export type Ephemeral =
  | {
      readonly type: "delta"
      readonly turnId: TurnId
      readonly step: number
      readonly channel: "text" | "reasoning"
      /** Code units of this channel sent before this delta in this step. */
      readonly offset: number
      readonly delta: string
    }
  | { readonly type: "step.reset"; readonly turnId: TurnId; readonly step: number; readonly reason: string }
  | {
      /** The model's provider has failed, and is asked again. */
      readonly type: "model.retrying"
      readonly turnId: TurnId
      readonly step: number
      /** The attempt that is next, of so many. */
      readonly attempt: number
      readonly attempts: number
      readonly reason: Failure
      /** Milliseconds until it is made. */
      readonly waitMs: number
    }
  | { readonly type: "call.progress"; readonly callId: CallId; readonly progress: Schema.Json }
