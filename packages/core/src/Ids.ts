/**
 * The names of things: sessions, inbox items, Turns, calls, messages.
 *
 * Every id but a session's is minted by counting inside its session, so the same history always has the same ids,
 * on every process and in every replay.
 *
 * Owns: the form of each id. Does not own: who counts (`SessionState`).
 */
import * as Schema from "effect/Schema"

/** A session: `ses_<uuid>` when minted, or 1-64 of `A-Z a-z 0-9 _ -` when the caller names it. */
export const SessionId = Schema.String.check(Schema.isPattern(/^[A-Za-z0-9_-]{1,64}$/)).pipe(
  Schema.brand("core/SessionId")
)
export type SessionId = typeof SessionId.Type

/** An inbox item, numbered inside its session: `inb_3`. */
export const ItemId = Schema.String.check(Schema.isPattern(/^inb_[1-9][0-9]*$/)).pipe(Schema.brand("core/ItemId"))
export type ItemId = typeof ItemId.Type

/** A Turn, numbered inside its session: `trn_2`. */
export const TurnId = Schema.String.check(Schema.isPattern(/^trn_[1-9][0-9]*$/)).pipe(Schema.brand("core/TurnId"))
export type TurnId = typeof TurnId.Type

/** A tool call: `cal_<turn>_<step>_<index in the batch>`. Unlike the provider's own call id it never recurs. */
export const CallId = Schema.String.check(Schema.isPattern(/^cal_[1-9][0-9]*_[1-9][0-9]*_[0-9]+$/)).pipe(
  Schema.brand("core/CallId")
)
export type CallId = typeof CallId.Type

/** A large output that is kept outside the log: the SHA-256 of its bytes, 64 hexadecimal digits. */
export const SpillId = Schema.String.check(Schema.isPattern(/^[0-9a-f]{64}$/)).pipe(Schema.brand("core/SpillId"))
export type SpillId = typeof SpillId.Type

/** A message of the transcript. */
export const MessageId = Schema.String.pipe(Schema.brand("core/MessageId"))
export type MessageId = typeof MessageId.Type

export const itemId = (item: number): ItemId => `inb_${item}` as ItemId
export const turnId = (turn: number): TurnId => `trn_${turn}` as TurnId
export const callId = (turn: number, step: number, index: number): CallId => `cal_${turn}_${step}_${index}` as CallId

/** The number inside an `inb_` or `trn_` id. */
export const numberOf = (id: ItemId | TurnId): number => Number(id.slice(4))

/** Turn, step and index of a call id. */
export const placeOf = (id: CallId): { readonly turn: number; readonly step: number; readonly index: number } => {
  const [, turn, step, index] = id.split("_")
  return { turn: Number(turn), step: Number(step), index: Number(index) }
}

/** The message an inbox item becomes when it is applied. */
export const userMessageId = (item: ItemId): MessageId => `msg_${item}` as MessageId

/** A message of a history from elsewhere, numbered. */
export const pastMessageId = (message: number): MessageId => `msg_past_${message}` as MessageId

/** The answer the model gave in a step. */
export const assistantMessageId = (turn: number, step: number): MessageId => `msg_${turn}_${step}` as MessageId

/**
 * The idempotency key of a call: the same over attempts, owners and restarts, different for every call of every session.
 * Tools that can deduplicate are to pass it on (`spec: call_key`).
 */
export const callKey = (session: SessionId, call: CallId): string => `${session}/${call}`
