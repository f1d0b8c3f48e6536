/**
 * The HTTP API of the server, as a definition: usable by typed clients, without any of the server's code.
 *
 * Owns: paths, parameters and which bodies they take and give. Does not own: bodies (`Body`), problems (`ApiError`),
 * events (`EventEnvelope`), handlers (`http/`).
 *
 * - P1. Parameters and bodies are taken strictly: a name that is not known is refused, so that a misspelt one is noticed.
 */
import { FormatName } from "@turnstep/core/history/Contract"
import { CallState, CallView, ItemState, TurnView } from "@turnstep/core/SessionView"
import * as HttpApi from "effect/http-api/HttpApi"
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import * as OpenApi from "effect/http-api/OpenApi"
import * as Schema from "effect/Schema"
import * as SchemaTransformation from "effect/SchemaTransformation"
import * as ApiError from "./ApiError.ts"
import * as Body from "./Body.ts"
import { BodyLimit, Guard, historyBytes } from "./Guard.ts"
import * as HistoryBody from "./HistoryBody.ts"
import * as OpenApiDocument from "./OpenApiDocument.ts"

/** A whole number as text: nothing but digits. */
const numberWith = (check: (number: Schema.Int) => Schema.Int) =>
  Schema.String.check(Schema.isPattern(/^(0|[1-9][0-9]{0,14})$/, { expected: "a whole number" })).pipe(
    Schema.decodeTo(check(Schema.Int), SchemaTransformation.numberFromString)
  )

const Seq = numberWith((number) => number)
const Limit = numberWith((number) => number.check(Schema.isBetween({ minimum: 1, maximum: Body.pageLimit.most })))

const limit = Schema.optionalKey(Limit)
const after = Schema.optionalKey(Schema.String)
const accept = Schema.optionalKey(Schema.String)
const idempotencyKey = Schema.optionalKey(Body.ClientKey)

const session = { session: Schema.String }
const turn = { ...session, turn: Schema.String }
const item = { ...session, item: Schema.String }
const call = { ...session, call: Schema.String }
const spill = { ...session, spill: Schema.String }

/** Server-sent events; `EventStream.decode` reads them. */
const EventStream = HttpApiSchema.StreamUint8Array({ contentType: "text/event-stream" })

/** Problems of every endpoint that takes a body. */
const bodyErrors = [ApiError.at(413), ApiError.at(415)] as const

const Ok = Schema.Literal("ok").pipe(HttpApiSchema.asText())

const summary = (text: string) => OpenApi.annotations({ summary: text })

/** Whether the server is there and well. Needs no token and tells nothing else. */
export class Health extends HttpApiGroup.make("health")
  .add(
    HttpApiEndpoint.get("live", "/healthz", { success: Ok }).annotateMerge(summary("Whether the process answers")),
    HttpApiEndpoint.get("ready", "/readyz", { success: Ok, error: ApiError.at(503) }).annotateMerge(
      summary("Whether it can take requests: its storage answers and takes writes, and it is not stopping")
    )
  )
  .annotateMerge(OpenApi.annotations({ title: "Health" })) {}

/** What this server is. */
export class System extends HttpApiGroup.make("system")
  .add(HttpApiEndpoint.get("info", "/info", { success: Body.Info }).annotateMerge(summary("What this server is")))
  .prefix("/api")
  .middleware(Guard)
  .annotateMerge(OpenApi.annotations({ title: "System" })) {}

export class Sessions extends HttpApiGroup.make("sessions")
  .add(
    HttpApiEndpoint.post("create", "/", {
      headers: { accept, "idempotency-key": idempotencyKey },
      payload: Body.CreateSession,
      success: [Body.CreatedSession.pipe(HttpApiSchema.status(201)), EventStream.pipe(HttpApiSchema.status(201))],
      error: [...bodyErrors, ApiError.at(409), ApiError.at(422)]
    })
      .annotateMerge(
        OpenApi.annotations({
          summary: "Create a session",
          description:
            "With `input` the first Turn starts at once; with `accept: text/event-stream` the answer is that Turn's events until it ends. " +
            "With `import` the session goes on from a history of another system; `imported` names what was done to it."
        })
      )
      .annotate(BodyLimit, historyBytes),
    HttpApiEndpoint.get("list", "/", { query: { limit, after }, success: Body.SessionPage }).annotateMerge(
      summary("List sessions, newest first")
    ),
    HttpApiEndpoint.get("get", "/:session", {
      params: session,
      success: Body.Session,
      error: ApiError.at(404)
    }).annotateMerge(summary("Read a session"))
  )
  .prefix("/api/sessions")
  .middleware(Guard)
  .annotateMerge(OpenApi.annotations({ title: "Sessions" })) {}

export class Inbox extends HttpApiGroup.make("inbox")
  .add(
    HttpApiEndpoint.post("send", "/messages", {
      params: session,
      headers: { "idempotency-key": idempotencyKey },
      payload: Body.SendMessage,
      success: Body.Admitted.pipe(HttpApiSchema.status(202)),
      error: [...bodyErrors, ApiError.at(404), ApiError.at(409), ApiError.at(422)]
    }).annotateMerge(
      OpenApi.annotations({
        summary: "Send a message: start a Turn, steer the running one, or queue a follow-up",
        description: "202 means that the message is durable; `effect` says what becomes of it."
      })
    ),
    HttpApiEndpoint.get("list", "/inbox", {
      params: session,
      query: { state: Schema.optionalKey(ItemState), limit, after },
      success: Body.ItemPage,
      error: ApiError.at(404)
    }).annotateMerge(summary("List messages sent to the session, and what became of them")),
    HttpApiEndpoint.patch("move", "/inbox/:item", {
      params: item,
      payload: Body.MoveItem,
      success: Body.MovedItem,
      error: [...bodyErrors, ApiError.at(404), ApiError.at(409)]
    }).annotateMerge(summary("Move a waiting message into the running Turn, or behind it")),
    HttpApiEndpoint.delete("withdraw", "/inbox/:item", {
      params: item,
      success: HttpApiSchema.NoContent,
      error: [ApiError.at(404), ApiError.at(409)]
    }).annotateMerge(summary("Take a waiting message back"))
  )
  .prefix("/api/sessions/:session")
  .middleware(Guard)
  .annotateMerge(OpenApi.annotations({ title: "Messages in" })) {}

export class Turns extends HttpApiGroup.make("turns")
  .add(
    HttpApiEndpoint.get("list", "/turns", {
      params: session,
      query: { limit, after },
      success: Body.TurnPage,
      error: ApiError.at(404)
    }).annotateMerge(summary("List Turns")),
    HttpApiEndpoint.get("get", "/turns/:turn", {
      params: turn,
      success: TurnView,
      error: ApiError.at(404)
    }).annotateMerge(summary("Read a Turn")),
    HttpApiEndpoint.post("cancel", "/turns/:turn/cancel", {
      params: turn,
      payload: [Body.CancelTurn, Schema.Undefined],
      success: Body.Cancelled.pipe(HttpApiSchema.status(202)),
      error: [...bodyErrors, ApiError.at(404)]
    }).annotateMerge(
      OpenApi.annotations({
        summary: "Tell a Turn to stop",
        description: "202 means that this is durable. Every call that is open gets a receipt, then the Turn ends."
      })
    )
  )
  .prefix("/api/sessions/:session")
  .middleware(Guard)
  .annotateMerge(OpenApi.annotations({ title: "Turns" })) {}

/** What is on record. */
export class Record extends HttpApiGroup.make("record")
  .add(
    HttpApiEndpoint.get("messages", "/messages", {
      params: session,
      query: { limit, after },
      success: Body.MessagePage,
      error: ApiError.at(404)
    }).annotateMerge(summary("List the messages of the transcript")),
    HttpApiEndpoint.get("calls", "/calls", {
      params: session,
      query: { state: Schema.optionalKey(CallState), limit, after },
      success: Body.CallPage,
      error: ApiError.at(404)
    }).annotateMerge(summary("List tool calls and their answers")),
    HttpApiEndpoint.get("call", "/calls/:call", {
      params: call,
      success: CallView,
      error: ApiError.at(404)
    }).annotateMerge(summary("Read a tool call")),
    HttpApiEndpoint.get("export", "/export", {
      params: session,
      query: { format: FormatName },
      success: HistoryBody.Exported,
      error: [ApiError.at(404), ApiError.at(413)]
    }).annotateMerge(
      OpenApi.annotations({
        summary: "Write the session's messages in a format",
        description:
          "They are clean by the rules of the format. `lost` names what it cannot carry; the agent's instructions are not part of it."
      })
    ),
    HttpApiEndpoint.get("events", "/events", {
      params: session,
      headers: { accept, "last-event-id": Schema.optionalKey(Seq) },
      query: {
        after: Schema.optionalKey(Seq),
        limit,
        types: Schema.optionalKey(Schema.String),
        until: Schema.optionalKey(Schema.Literal("turn-end"))
      },
      success: [Body.EventPage, EventStream],
      error: ApiError.at(404)
    }).annotateMerge(
      OpenApi.annotations({
        summary: "Read events as a page, or follow them as a stream",
        description:
          "With `accept: text/event-stream` the events after `after` (or `Last-Event-ID`, which wins) are sent, then those that happen. " +
          "`types` is a comma-separated list. `until=turn-end` ends the stream after the end of a Turn, and at once when none runs and none is left to replay. `limit` is for pages."
      })
    )
  )
  .prefix("/api/sessions/:session")
  .middleware(Guard)
  .annotateMerge(OpenApi.annotations({ title: "Record" })) {}

/** Outputs of tools that are too large for the record; an event `spill.created` names each. */
export class Spills extends HttpApiGroup.make("spills")
  .add(
    HttpApiEndpoint.get("read", "/spills/:spill", {
      params: spill,
      headers: {
        range: Schema.optionalKey(Schema.String),
        "if-range": Schema.optionalKey(Schema.String),
        "if-none-match": Schema.optionalKey(Schema.String)
      },
      success: [HttpApiSchema.StreamUint8Array({ contentType: "application/octet-stream" }), HttpApiSchema.Empty(304)],
      error: [ApiError.at(404), ApiError.at(416)]
    }).annotateMerge(
      OpenApi.annotations({
        summary: "Download a large output, or a part of it",
        description:
          "The bytes as the tool gave them. The entity tag is their SHA-256; `Range` (one range of bytes), `If-Range` and `If-None-Match` are understood; a part comes with 206."
      })
    )
  )
  .prefix("/api/sessions/:session")
  .middleware(Guard)
  .annotateMerge(OpenApi.annotations({ title: "Large outputs" })) {}

/** Message histories of other systems; nothing of them is kept. */
export class History extends HttpApiGroup.make("history")
  .add(
    HttpApiEndpoint.post("verify", "/verify", {
      payload: HistoryBody.CheckHistory,
      success: HistoryBody.Verified,
      error: bodyErrors
    })
      .annotateMerge(summary("Say what a provider would refuse in a message history"))
      .annotate(BodyLimit, historyBytes),
    HttpApiEndpoint.post("repair", "/repair", {
      payload: HistoryBody.CheckHistory,
      success: HistoryBody.Repaired,
      error: bodyErrors
    })
      .annotateMerge(
        OpenApi.annotations({
          summary: "Mend a message history so that its provider takes it",
          description:
            "`changes` names everything that was done, with the content that left the messages; `remaining` what needs a decision."
        })
      )
      .annotate(BodyLimit, historyBytes)
  )
  .prefix("/api/history")
  .middleware(Guard)
  .annotateMerge(OpenApi.annotations({ title: "Histories" })) {}

/** The whole API. */
export class Api extends HttpApi.make("turnstep")
  .add(Sessions, Inbox, Turns, Record, Spills, History, System, Health)
  .annotate(HttpApi.PayloadParseOptions, { onExcessProperty: "error", errors: "all" }) // P1
  .annotate(HttpApi.QueryParseOptions, { onExcessProperty: "error", errors: "all" })
  .annotateMerge(OpenApiDocument.annotations) {}
