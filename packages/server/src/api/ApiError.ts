/**
 * What the server says when it refuses: problem details (RFC 9457) with a stable `code` and a `hint` that says what to do.
 *
 * Owns: the one table from codes to statuses and hints, and from typed refusals to codes. No status is chosen elsewhere.
 * Does not own: when something is refused.
 *
 * - A1. A problem tells nothing of the inside: no stack, no SQL, no path of a file. What we did not foresee is `internal`
 *   with an opaque id that the log has too.
 */
import type { HistoryEmpty, HistoryFormatUnclear } from "@turnstep/core/history/Import"
import type * as TurnError from "@turnstep/core/TurnError"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import * as Schema from "effect/Schema"

interface Row {
  readonly status: number
  readonly title: string
  readonly hint: string
}

const table = {
  "invalid-json": {
    status: 400,
    title: "The body is not JSON",
    hint: "Send one JSON object in UTF-8, with quoted names and no trailing comma."
  },
  "json-too-deep": {
    status: 400,
    title: "The JSON is nested too deeply",
    hint: "Send JSON with at most 64 levels of arrays and objects."
  },
  "invalid-request": {
    status: 400,
    title: "The request does not fit its schema",
    hint: "Correct what `errors` points at; /api/docs describes every field."
  },
  unauthorized: {
    status: 401,
    title: "The token is missing or wrong",
    hint: "Send the header `Authorization: Bearer <token>`. The token is in the file `token` of the server's data directory."
  },
  "origin-not-allowed": {
    status: 403,
    title: "This web page may not use the server",
    hint: "Use a page served by this server, or start the server with `--allow-origin <origin>`."
  },
  "session-not-found": {
    status: 404,
    title: "There is no such session",
    hint: "List sessions with GET /api/sessions, or create one with POST /api/sessions."
  },
  "turn-not-found": {
    status: 404,
    title: "There is no such turn",
    hint: "List the session's turns with GET /api/sessions/{session}/turns."
  },
  "call-not-found": {
    status: 404,
    title: "There is no such call",
    hint: "List the session's calls with GET /api/sessions/{session}/calls."
  },
  "spill-not-found": {
    status: 404,
    title: "There is no such spill",
    hint: "The session's `spill.created` events name its spills. They are kept for some days only."
  },
  "item-not-found": {
    status: 404,
    title: "There is no such inbox item",
    hint: "List the session's messages with GET /api/sessions/{session}/inbox."
  },
  "route-not-found": {
    status: 404,
    title: "There is no such route",
    hint: "See GET /api/docs for all routes; their paths start with /api."
  },
  "method-not-allowed": {
    status: 405,
    title: "The route does not take this method",
    hint: "Use a method that the `allow` header names."
  },
  "session-exists": {
    status: 409,
    title: "The session exists already",
    hint: "Choose another id, leave the id out, or send a message to the session."
  },
  "session-not-empty": {
    status: 409,
    title: "The session has a history already",
    hint: "Import into a new session: leave the id out."
  },
  "turn-active": {
    status: 409,
    title: "A turn is running",
    hint: 'Send `"delivery": "steer"` to join it or `"follow-up"` to queue behind it, or cancel it first.'
  },
  "no-active-turn": {
    status: 409,
    title: "No turn is running",
    hint: 'Send `"delivery": "start"` or `"auto"` to start one.'
  },
  "turn-mismatch": {
    status: 409,
    title: "Another turn is running",
    hint: "Read the session again, then send the id of the running turn as `expectedTurnId`, or leave it out."
  },
  "inbox-already-applied": {
    status: 409,
    title: "The message was read already",
    hint: "Cancel the turn that reads it, or send another message."
  },
  "inbox-already-returned": {
    status: 409,
    title: "The message was given back already",
    hint: "Send it again."
  },
  "too-large": {
    status: 413,
    title: "The body is too large",
    hint: "Send at most 1 MiB, or 16 MiB where a history is taken, and a million entries of arrays and objects."
  },
  "unsupported-media-type": {
    status: 415,
    title: "The body is not declared as JSON",
    hint: "Send the header `content-type: application/json` (with curl: `--json`)."
  },
  "host-not-allowed": {
    status: 421,
    title: "The server is not known by this name",
    hint: "Use the address the server printed at its start, or start it with `--allow-host <host:port>`."
  },
  "range-not-satisfiable": {
    status: 416,
    title: "The range lies outside",
    hint: "Ask for bytes that are there, as `content-range` says, or leave out the header `range`."
  },
  "idempotency-key-reused": {
    status: 422,
    title: "The idempotency key was used for something else",
    hint: "Send a new `Idempotency-Key` (or message `id`) with a new request, and the same one only with the same request."
  },
  "content-unreadable": {
    status: 422,
    title: "The message has a file that no model can read",
    hint: "Correct or leave out what `errors` points at, and send the message again. Nothing of it was kept."
  },
  "agent-not-found": {
    status: 422,
    title: "There is no such agent",
    hint: "Leave `agent` out, or name one that GET /api/info lists."
  },
  internal: {
    status: 500,
    title: "The server met an unexpected error",
    hint: "Send the request again. If it fails again, report the id in `detail`; the server's log has the cause under it."
  },
  "shutting-down": {
    status: 503,
    title: "The server is stopping",
    hint: "Send the request again in a moment. What was accepted is kept."
  },
  "storage-unavailable": {
    status: 503,
    title: "The database cannot be reached",
    hint: "Send the request again in a moment, with the same idempotency key if it has one."
  },
  overloaded: {
    status: 503,
    title: "The server has too much of this work",
    hint: "Send the request again in a moment, with the same idempotency key if it has one."
  },
  "too-many-downloads": {
    status: 503,
    title: "Too many downloads are under way",
    hint: "Send the request again in a moment, or end another download."
  },
  "too-many-streams": {
    status: 503,
    title: "Too many event streams are open",
    hint: "Close a stream, or read the events as pages without the `accept: text/event-stream` header."
  }
} as const satisfies Record<string, Row>

/** What went wrong, for programs. A code never changes its meaning. */
export type Code = keyof typeof table
export const Code = Schema.Literals(Object.keys(table) as [Code, ...Array<Code>])

/** A place in the request and what is wrong with it; `pointer` is an RFC 6901 pointer such as `/body/delivery`. */
export const Fault = Schema.Struct({ pointer: Schema.String, detail: Schema.String })
export type Fault = typeof Fault.Type

/** A refusal on the wire. */
export class ApiError extends Schema.Error<ApiError>("server/ApiError")({
  /** `urn:turnstep:problem:<code>` */
  type: Schema.String,
  title: Schema.String,
  status: Schema.Int,
  detail: Schema.String,
  /** The path of the request. */
  instance: Schema.String,
  code: Code,
  /** What to do, in the imperative. */
  hint: Schema.String,
  errors: Schema.optionalKey(Schema.Array(Fault))
}) {
  /** For `Effect.catchTag`. The wire does not carry it. */
  get _tag() {
    return "ApiError" as const
  }

  override get message() {
    return `${this.detail} ${this.hint}`
  }
}

/** A problem of this code, about the request to `instance`. */
export const make = (code: Code, instance: string, detail: string, errors?: ReadonlyArray<Fault>): ApiError => {
  const { status, title, hint } = table[code]
  const type = `urn:turnstep:problem:${code}`
  return new ApiError({
    type,
    title,
    status,
    detail,
    instance,
    code,
    hint,
    ...(errors === undefined ? {} : { errors })
  })
}

/** The runtime's refusals a request can meet. */
export type Refusal =
  | TurnError.SessionNotFound
  | TurnError.SessionExists
  | TurnError.SessionIdInvalid
  | TurnError.AgentNotFound
  | TurnError.SessionBusy
  | TurnError.TurnNotRunning
  | TurnError.TurnNotFound
  | TurnError.ItemNotFound
  | TurnError.ItemSettled
  | TurnError.ClientKeyReused
  | TurnError.ContentUnreadable
  | TurnError.SessionNotEmpty
  | TurnError.Unavailable
  | HistoryFormatUnclear
  | HistoryEmpty
  | TurnError.WorkStopped
  | TurnError.FactTooLarge

/** The problem of a refusal; `parts` points to the parts of the message that the request sends. */
export const fromRefusal = (refusal: Refusal, instance: string, parts = "/body/parts"): ApiError => {
  const detail = refusal.message
  switch (refusal._tag) {
    case "SessionNotFound":
      return make("session-not-found", instance, detail)
    case "SessionExists":
      return make("session-exists", instance, detail)
    case "SessionIdInvalid":
      return make("invalid-request", instance, detail, [{ pointer: "/body/id", detail }])
    case "SessionNotEmpty":
      return make("session-not-empty", instance, detail)
    case "HistoryFormatUnclear":
      return make("invalid-request", instance, detail, [{ pointer: "/body/import/format", detail }])
    case "HistoryEmpty":
      return make("invalid-request", instance, detail, [{ pointer: "/body/import/messages", detail }])
    case "FactTooLarge":
      return make("too-large", instance, detail)
    case "WorkStopped":
      return make(
        refusal.reason === "time" || refusal.reason === "memory" ? "too-large" : "overloaded",
        instance,
        detail
      )
    case "StorageUnavailable":
      return make("storage-unavailable", instance, detail)
    case "RuntimeClosed":
      return make("shutting-down", instance, detail)
    case "AgentNotFound":
      return make("agent-not-found", instance, detail)
    case "SessionBusy":
      return make("turn-active", instance, detail)
    case "TurnNotRunning":
      return make(refusal.running === undefined ? "no-active-turn" : "turn-mismatch", instance, detail)
    case "TurnNotFound":
      return make("turn-not-found", instance, detail)
    case "ItemNotFound":
      return make("item-not-found", instance, detail)
    case "ItemSettled":
      return make(refusal.state === "applied" ? "inbox-already-applied" : "inbox-already-returned", instance, detail)
    case "ClientKeyReused":
      return make("idempotency-key-reused", instance, detail)
    case "ContentUnreadable":
      return make(
        "content-unreadable",
        instance,
        detail,
        refusal.faults.map((fault) => ({ pointer: parts + fault.pointer, detail: `${fault.reason}: ${fault.detail}` }))
      )
  }
}

/** The schema of problems with a status, for declaring what an endpoint can answer. */
export const at = (status: (typeof table)[Code]["status"]) =>
  ApiError.check(Schema.makeFilter((error: ApiError) => error.status === status)).pipe(
    Schema.annotate({ identifier: "Problem" }),
    HttpApiSchema.status(status),
    HttpApiSchema.asJson({ contentType: "application/problem+json" })
  )
