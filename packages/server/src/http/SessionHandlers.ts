/**
 * Creating, listing and reading sessions.
 *
 * - S1. A session created under an idempotency key has an id that follows from the key, unless it was given one, and the key is
 *   on record with its creation: the same request again finds the session it made, and sends the first message if the process
 *   died before it had; another request under the key finds a session that is not its own.
 */
import * as Canonical from "@turnstep/core/Canonical"
import * as FileContent from "@turnstep/core/FileContent"
import type * as Inbox from "@turnstep/core/Inbox"
import type * as Journal from "@turnstep/core/Journal"
import { ClientKeyReused, ContentUnreadable } from "@turnstep/core/TurnError"
import type * as HistoryTask from "@turnstep/runtime/HistoryTask"
import * as HistoryWork from "@turnstep/runtime/HistoryWork"
import { type Session, Sessions } from "@turnstep/runtime/Session"
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Schema from "effect/Schema"
import { Api } from "../api/Api.ts"
import * as Body from "../api/Body.ts"
import { bodyBytes } from "../api/Guard.ts"
import * as Page from "./Page.ts"
import * as Problem from "./Problem.ts"
import { Streams } from "./Streams.ts"

type CreateSession = typeof Body.CreateSession.Type

export const layer = HttpApiBuilder.group(
  Api,
  "sessions",
  Effect.fnUntraced(function* (handlers) {
    const sessions = yield* Sessions
    const streams = yield* Streams
    return handlers.handleAll({
      create: Effect.fn("SessionHandlers.create")(function* ({ headers, payload }) {
        const key = headers["idempotency-key"]
        const { import: _, ...rest } = payload
        if (JSON.stringify(rest).length > bodyBytes) {
          return yield* Problem.refuse(
            "too-large",
            `Without \`import\` the body has more than ${bodyBytes} characters.`
          )
        }
        const stream =
          payload.input !== undefined && Page.wantsStream(headers.accept) ? yield* streams.place : undefined
        // Read before anything is made, so that what cannot be read leaves nothing behind.
        const history =
          payload.import === undefined ? undefined : yield* Problem.refusing(HistoryWork.read(payload.import))
        yield* Problem.refusing(readable(payload.input), "/body/input")
        const { isReplayed, session } = yield* Problem.refusing(open(sessions, payload, key, history))
        const imported =
          history === undefined ? {} : { imported: yield* Problem.refusing(session.importHistory(history)) }
        const told = Problem.refusing(Effect.flatMap(session.summary, (summary) => sessionBody(session, summary)))
        if (payload.input === undefined) return yield* created({ ...(yield* told), ...imported }, isReplayed)
        const admission = yield* Problem.refusing(
          session.send(payload.input, { delivery: "start", ...(key === undefined ? {} : { clientKey: key }) })
        )
        if (stream !== undefined) {
          const until = { seq: Number.POSITIVE_INFINITY }
          return yield* stream({ session, after: 0, types: undefined, until, status: 201 })
        }
        const admitted = admittedBody(admission)
        return yield* created({ ...(yield* told), ...imported, admitted }, isReplayed)
      }),
      list: Effect.fn("SessionHandlers.list")(function* ({ query }) {
        const { after } = query
        if (after !== undefined) {
          const known = Effect.asVoid(sessions.get(after))
          yield* Problem.refusing(known).pipe(
            Effect.catchIf(
              ({ code }) => code === "session-not-found",
              () => Page.noEntry(after)
            )
          )
        }
        const limit = query.limit ?? Body.pageLimit.usual
        const found = yield* Problem.refusing(sessions.list({ before: after, limit: limit + 1 }))
        const data = found.slice(0, limit).map(summaryBody)
        return { data, next: found.length > limit ? (data.at(-1)?.id ?? null) : null }
      }),
      get: Effect.fn("SessionHandlers.get")(function* ({ params }) {
        const session = yield* Problem.refusing(sessions.get(params.session))
        return yield* Problem.refusing(Effect.flatMap(session.summary, (summary) => sessionBody(session, summary)))
      })
    })
  })
)

/** Refuses a first message with files that no model can read, so that no session is made for it. */
const readable = (input: CreateSession["input"]): Effect.Effect<void, ContentUnreadable> => {
  const faults = typeof input === "object" ? FileContent.faultsOf(input) : []
  return faults.length === 0 ? Effect.void : Effect.fail(new ContentUnreadable({ faults }))
}

/** Opens the session asked for, or finds the one the same request opened before (S1). */
const open = Effect.fnUntraced(function* (
  sessions: Sessions["Service"],
  body: CreateSession,
  key: string | undefined,
  imported: HistoryTask.ReadHistory | undefined
) {
  const { agent, metadata, title } = body
  const history = imported === undefined ? {} : { history: imported.digest }
  const id = body.id ?? (key === undefined ? undefined : `ses_${Canonical.digestText(key).slice(0, 40)}`)
  return yield* Effect.map(
    sessions.open({ agent, id, title, clientKey: key, ...(metadata === undefined ? {} : { metadata }), ...history }),
    (session) => ({ session, isReplayed: false })
  ).pipe(
    Effect.catchTag("SessionExists", (exists) =>
      Effect.gen(function* () {
        const session = yield* Effect.catchTag(sessions.get(exists.sessionId), "SessionNotFound", Effect.die)
        if (key === undefined) return yield* exists
        const [first] = yield* session.events({ after: 0, limit: 1, types: ["inbox.admitted"] })
        const firstKey = first?.type === "inbox.admitted" ? first.data.clientKey : undefined
        const { clientKey, ...made } = yield* createdData(session)
        // Sessions of former versions tell their key with the first message alone.
        if (body.id !== undefined && clientKey !== key && firstKey !== key) return yield* exists
        const isSame =
          Canonical.digest({
            agent: made.agent,
            title,
            metadata,
            ...history,
            ...(body.agent === undefined ? {} : { agent })
          }) === Canonical.digest(made)
        const isWhole = body.input !== undefined || firstKey !== key
        if (!isSame || !isWhole) return yield* new ClientKeyReused({ sessionId: session.id, clientKey: key })
        return { session, isReplayed: true }
      })
    )
  )
})

const createdData = Effect.fnUntraced(function* (session: Session) {
  const [first] = yield* session.events({ after: 0, limit: 1 })
  return first?.type === "session.created"
    ? first.data
    : yield* Effect.die(new Error("a session begins with its creation"))
})

/** A session at a glance, as its body. */
const summaryBody = (summary: Journal.Summary): Body.SessionSummary => ({
  id: summary.sessionId,
  agent: summary.agent,
  // An application may have given a longer one than the API takes.
  ...(summary.title === undefined ? {} : { title: summary.title.slice(0, Body.maxTitle).toWellFormed() }),
  status: summary.status,
  headSeq: summary.seq,
  turns: summary.turns,
  ...(summary.activeTurn === undefined ? {} : { activeTurn: summary.activeTurn }),
  createdAt: summary.createdAt,
  updatedAt: summary.updatedAt
})

const sessionBody = (session: Session, summary: Journal.Summary) =>
  Effect.map(createdData(session), ({ metadata }) => ({
    ...summaryBody(summary),
    ...(metadata === undefined ? {} : { metadata })
  }))

/** What the sender of a message is told. */
export const admittedBody = (admission: Inbox.Admission): typeof Body.Admitted.Type => ({
  item: { id: admission.itemId, delivery: admission.delivery },
  effect: admission.effect,
  ...(admission.turnId === undefined ? {} : { turnId: admission.turnId }),
  after: admission.after
})

const encodeCreated = Schema.encodeEffect(Body.CreatedSession)

const created = (body: typeof Body.CreatedSession.Type, isReplayed: boolean) =>
  Effect.map(Effect.orDie(encodeCreated(body)), (json) =>
    HttpServerResponse.text(JSON.stringify(json), {
      status: 201,
      contentType: "application/json",
      headers: { location: `/api/sessions/${body.id}`, ...(isReplayed ? { "idempotent-replayed": "true" } : {}) }
    })
  )
