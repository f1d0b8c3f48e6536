/**
 * The refusals of the runtime: what it will not do, said with the ids it concerns.
 *
 * Owns: their names and messages. Does not own: HTTP statuses (`server/api/ApiError`).
 */
import * as Cause from "effect/Cause"
import * as Schema from "effect/Schema"
import { ItemId, SessionId, TurnId } from "./Ids.ts"
import { Failure } from "./TurnEvent.ts"

/** No session has this id. */
export class SessionNotFound extends Schema.TaggedError<SessionNotFound>()("SessionNotFound", {
  sessionId: Schema.String
}) {
  override get message() {
    return `There is no session ${this.sessionId}.`
  }
}

/** A session with this id exists already. */
export class SessionExists extends Schema.TaggedError<SessionExists>()("SessionExists", { sessionId: SessionId }) {
  override get message() {
    return `Session ${this.sessionId} exists already.`
  }
}

/** A history can only come into a session in which nothing has happened yet. */
export class SessionNotEmpty extends Schema.TaggedError<SessionNotEmpty>()("SessionNotEmpty", {
  sessionId: SessionId
}) {
  override get message() {
    return `Session ${this.sessionId} has a history already.`
  }
}

/** The id chosen for a session has characters or a length an id cannot have. */
export class SessionIdInvalid extends Schema.TaggedError<SessionIdInvalid>()("SessionIdInvalid", {
  id: Schema.String
}) {
  override get message() {
    return "A session id is 1 to 64 of the characters A-Z a-z 0-9 _ -."
  }
}

/** The runtime was built without an agent of this name. */
export class AgentNotFound extends Schema.TaggedError<AgentNotFound>()("AgentNotFound", {
  agent: Schema.String,
  known: Schema.Array(Schema.String)
}) {
  override get message() {
    return `There is no agent "${this.agent}". Known agents: ${this.known.join(", ") || "none"}.`
  }
}

/** A Turn is running, and the caller asked for one to be started only if none is. */
export class SessionBusy extends Schema.TaggedError<SessionBusy>()("SessionBusy", {
  sessionId: SessionId,
  turnId: Schema.optionalKey(TurnId)
}) {
  override get message() {
    return `Session ${this.sessionId} has work already${this.turnId === undefined ? "" : ` (${this.turnId})`}.`
  }
}

/** A message was meant for a running Turn, and that Turn is not running. */
export class TurnNotRunning extends Schema.TaggedError<TurnNotRunning>()("TurnNotRunning", {
  sessionId: SessionId,
  expected: Schema.optionalKey(Schema.String),
  running: Schema.optionalKey(TurnId)
}) {
  override get message() {
    return `${this.expected ?? "A turn"} is not running in session ${this.sessionId}${
      this.running === undefined ? "" : `; ${this.running} is`
    }.`
  }
}

/** The session never had this Turn. */
export class TurnNotFound extends Schema.TaggedError<TurnNotFound>()("TurnNotFound", {
  sessionId: SessionId,
  turnId: Schema.String
}) {
  override get message() {
    return `Session ${this.sessionId} has no turn ${this.turnId}.`
  }
}

/** The inbox never had this item. */
export class ItemNotFound extends Schema.TaggedError<ItemNotFound>()("ItemNotFound", {
  sessionId: SessionId,
  itemId: Schema.String
}) {
  override get message() {
    return `The inbox of session ${this.sessionId} has no item ${this.itemId}.`
  }
}

/** The item is applied or returned: it can no longer be moved or withdrawn. */
export class ItemSettled extends Schema.TaggedError<ItemSettled>()("ItemSettled", {
  sessionId: SessionId,
  itemId: ItemId,
  state: Schema.Literals(["applied", "returned"])
}) {
  override get message() {
    return `${this.itemId} is ${this.state} already.`
  }
}

/** The same client key came with another body. */
export class ClientKeyReused extends Schema.TaggedError<ClientKeyReused>()("ClientKeyReused", {
  sessionId: SessionId,
  clientKey: Schema.String
}) {
  override get message() {
    return `The key "${this.clientKey}" was used in session ${this.sessionId} with another message.`
  }
}

/** Another owner holds the session now; stop writing and let it settle. */
export class FenceLost extends Schema.TaggedError<FenceLost>()("FenceLost", { sessionId: SessionId }) {}

/** Another live process owns the session. */
export class SessionClaimed extends Schema.TaggedError<SessionClaimed>()("SessionClaimed", { sessionId: SessionId }) {
  override get message() {
    return `Session ${this.sessionId} is driven by another process.`
  }
}

/**
 * Storage cannot take or give anything at the moment. The trouble passes, or an operator ends it; nothing acknowledged is lost.
 *
 * `reason`: `unreachable` (no connection, or no answer: a write may have happened), `busy` (a lock or a statement took too
 * long), `full` (no room, or a disk that fails), `read-only`, `denied` (its user may not). All but `unreachable` mean that
 * nothing was written. `state` is the code of the database, for logs.
 */
export class StorageUnavailable extends Schema.TaggedError<StorageUnavailable>()("StorageUnavailable", {
  reason: Schema.Literals(["unreachable", "busy", "full", "read-only", "denied"]),
  state: Schema.optionalKey(Schema.String)
}) {
  override get message() {
    return storageMessages[this.reason]
  }
}

/** The trouble of storage that is in a cause, failed with or died of. */
export const storageTroubleIn = (cause: Cause.Cause<unknown>): StorageUnavailable | undefined => {
  for (const reason of cause.reasons) {
    const error = Cause.isFailReason(reason) ? reason.error : Cause.isDieReason(reason) ? reason.defect : undefined
    if (error instanceof StorageUnavailable) return error
  }
  return undefined
}

/**
 * A session was used inside a transaction that holds the database's only connection. A defect: the call is to be moved, not to
 * be repeated.
 */
export class CalledInTransaction extends Schema.TaggedError<CalledInTransaction>()("CalledInTransaction", {}) {
  override get message() {
    return (
      "A session was used inside a transaction of a database with one connection (PGlite, or a pool of one), and would have " +
      "waited for that connection without end. Use the session before or after the transaction, for example with " +
      "`sql.afterCommit(...)`."
    )
  }
}

const storageMessages = {
  unreachable: "The database did not answer.",
  busy: "The database took too long, and nothing was written.",
  full: "The database has no room to write, or its disk fails. Nothing was written.",
  "read-only": "The database takes no writes at the moment. Nothing was written.",
  denied: "The database does not let the server do this. Nothing was written."
} as const

/** The Turn ended in failure: the model could not be reached, refused the request, or the engine met a defect. */
export class TurnFailed extends Schema.TaggedError<TurnFailed>()("TurnFailed", {
  sessionId: SessionId,
  turnId: TurnId,
  error: Failure
}) {
  override get message() {
    return `${this.turnId} failed: ${this.error.message}`
  }
}

/**
 * The runtime is closed, or closed while somebody waited. Nothing is said of what was asked for: a message may have been
 * recorded, and a Turn goes on where its session is driven next.
 */
export class RuntimeClosed extends Schema.TaggedError<RuntimeClosed>()("RuntimeClosed", {
  sessionId: Schema.optionalKey(SessionId)
}) {
  override get message() {
    const whose = this.sessionId === undefined ? "" : ` of session ${this.sessionId}`
    return `The runtime is closed. What was recorded is kept, and an open turn${whose} goes on when the session is taken up again.`
  }
}

/** Why any operation of a session may fail: whoever asks may ask again, here later or of another process. */
export type Unavailable = StorageUnavailable | RuntimeClosed

/** A file of a message that no provider can read. `pointer` leads into the parts of the message, as in `/0/data`. */
export const ContentFault = Schema.Struct({
  pointer: Schema.String,
  reason: Schema.Literals([
    "unsupported-type",
    "not-a-link",
    "not-base64",
    "type-mismatch",
    "empty",
    "too-large",
    "image-size",
    "unreadable"
  ]),
  detail: Schema.String
})
export type ContentFault = typeof ContentFault.Type

/** The message has files that no provider can read. It would make every later request of the session fail. */
export class ContentUnreadable extends Schema.TaggedError<ContentUnreadable>()("ContentUnreadable", {
  faults: Schema.Array(ContentFault)
}) {
  override get message() {
    return `The message was not accepted. ${this.faults.map(({ detail, pointer }) => `${pointer}: ${detail}`).join(" ")}`
  }
}

/**
 * A fact was not written, because it would be larger on record than what can be read again: the same fact is refused again. A
 * failure where a history is read, a defect where a fact is written.
 */
export class FactTooLarge extends Schema.TaggedError<FactTooLarge>()("FactTooLarge", {
  type: Schema.String,
  bytes: Schema.Int,
  most: Schema.Int
}) {
  override get message() {
    return `${this.type} has ${this.bytes} bytes on record or more, and ${this.most} at most can be read again. Nothing was written.`
  }
}

/** Work away from the serving thread was stopped, or not begun; `message` is written for the model and for people. */
export class WorkStopped extends Schema.TaggedError<WorkStopped>()("WorkStopped", {
  reason: Schema.Literals(["time", "memory", "crashed", "full"]),
  message: Schema.String
}) {}
