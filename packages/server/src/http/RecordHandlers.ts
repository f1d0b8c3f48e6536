/**
 * What is on record: messages, calls, and the events themselves, as pages or as a stream.
 */
import type { Type } from "@turnstep/core/TurnEvent"
import { type Session, Sessions } from "@turnstep/runtime/Session"
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import { Api } from "../api/Api.ts"
import { pageLimit } from "../api/Body.ts"
import { DurableEvent, type EphemeralEvent, StreamEvent } from "../api/EventEnvelope.ts"
import * as Entries from "./Entries.ts"
import * as EventWriter from "./EventWriter.ts"
import * as Page from "./Page.ts"
import * as Problem from "./Problem.ts"
import { Streams } from "./Streams.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "record",
  Effect.fnUntraced(function* (handlers) {
    const sessions = yield* Sessions
    const streams = yield* Streams
    return handlers.handleAll({
      messages: Effect.fn("RecordHandlers.messages")(function* ({ params, query }) {
        const session = yield* Problem.refusing(sessions.get(params.session))
        return yield* Entries.page(session, Entries.messages, query)
      }),
      calls: Effect.fn("RecordHandlers.calls")(function* ({ params, query }) {
        const session = yield* Problem.refusing(sessions.get(params.session))
        const { state } = query
        return yield* Entries.page(session, Entries.calls, query, (call) => state === undefined || call.state === state)
      }),
      call: Effect.fn("RecordHandlers.call")(function* ({ params }) {
        const session = yield* Problem.refusing(sessions.get(params.session))
        const [call] = yield* Entries.chosen(session, Entries.calls, new Set([params.call]))
        return (
          call ?? (yield* Problem.refuse("call-not-found", `Session ${params.session} has no call ${params.call}.`))
        )
      }),
      export: Effect.fn("RecordHandlers.export")(function* ({ params, query }) {
        const session = yield* Problem.refusing(sessions.get(params.session))
        return yield* Problem.refusing(session.exportHistory(query.format))
      }),
      events: Effect.fn("RecordHandlers.events")(function* ({ headers, params, query }) {
        const session = yield* Problem.refusing(sessions.get(params.session))
        const after = headers["last-event-id"] ?? query.after ?? 0
        if (!Page.wantsStream(headers.accept)) {
          const types = yield* typesOf(query.types, durableTypes)
          return yield* eventPage(session, { after, limit: query.limit ?? pageLimit.usual, types })
        }
        const types = yield* typesOf(query.types, streamTypes)
        const until = query.until === undefined ? undefined : { seq: yield* idleSeq(session) }
        yield* notAhead(
          session,
          after,
          headers["last-event-id"] === undefined ? "/query/after" : "/headers/last-event-id"
        )
        const wanted = types === undefined ? undefined : new Set(types)
        const open = yield* streams.place
        return yield* open({ session, after, types: wanted, until, status: 200 })
      })
    })
  })
)

const durableTypes = DurableEvent.members.map((member) => member.fields.type.schema.literal)
const streamTypes = StreamEvent.members.map((member) => member.fields.type.schema.literal)

/** The types of a comma-separated list. */
const typesOf = Effect.fnUntraced(function* <T extends Type | EphemeralEvent["type"]>(
  list: string | undefined,
  known: ReadonlyArray<T>
) {
  if (list === undefined) return undefined
  const types: Array<T> = []
  for (const name of list.split(",")) {
    const type = known.find((each) => each === name)
    if (type === undefined) {
      const detail = `There are no events of the type "${name}" here. Types: ${known.join(", ")}.`
      return yield* Problem.refuse("invalid-request", detail, [{ pointer: "/query/types", detail }])
    }
    types.push(type)
  }
  return types
})

const eventPage = Effect.fnUntraced(function* (
  session: Session,
  page: { readonly after: number; readonly limit: number; readonly types: ReadonlyArray<Type> | undefined }
) {
  const events = yield* Problem.refusing(session.events({ ...page, limit: page.limit + 1, bytes: Page.pageBytes }))
  const texts: Array<string> = []
  let size = 0
  for (const event of events.slice(0, page.limit)) {
    const text = EventWriter.json(session.id, event)
    size += Buffer.byteLength(text)
    if (size > Page.pageBytes && texts.length > 0) break
    texts.push(text)
  }
  // Storage cuts a page at the same number of bytes, and the text of an event is longer than its data.
  const isCut = texts.length < events.length || size >= Page.pageBytes
  const next = isCut ? events[texts.length - 1]?.seq : undefined
  return HttpServerResponse.text(`{"data":[${texts.join(",")}],"next":${next ?? null}}`, {
    contentType: "application/json"
  })
})

/**
 * Where a stream that is to end with a Turn ends at the latest: at the last event when no Turn runs or is queued, else nowhere.
 */
const idleSeq = Effect.fnUntraced(function* (session: Session) {
  const { seq, status } = yield* Problem.refusing(session.summary)
  return status === "idle" ? seq : Number.POSITIVE_INFINITY
})

/** A reader cannot have seen what has not happened: its position is another session's. */
const notAhead = Effect.fnUntraced(function* (session: Session, after: number, pointer: string) {
  const { seq } = yield* Problem.refusing(session.summary)
  if (after <= seq) return
  const detail = `The session's last event is ${seq}, so nothing can follow ${after}.`
  return yield* Problem.refuse("invalid-request", detail, [{ pointer, detail }])
})
