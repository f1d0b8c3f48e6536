/**
 * Turns: reading them, and telling one to stop.
 */
import * as SessionView from "@turnstep/core/SessionView"
import { TurnNotFound } from "@turnstep/core/TurnError"
import { type Session, Sessions } from "@turnstep/runtime/Session"
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import { Api } from "../api/Api.ts"
import * as Entries from "./Entries.ts"
import * as Page from "./Page.ts"
import * as Problem from "./Problem.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "turns",
  Effect.fnUntraced(function* (handlers) {
    const sessions = yield* Sessions
    return handlers.handleAll({
      list: Effect.fn("TurnHandlers.list")(function* ({ params, query }) {
        const session = yield* Problem.refusing(sessions.get(params.session))
        return yield* Page.of(yield* turnsOf(session), query)
      }),
      get: Effect.fn("TurnHandlers.get")(function* ({ params }) {
        const session = yield* Problem.refusing(sessions.get(params.session))
        const turn = (yield* turnsOf(session)).find(({ id }) => id === params.turn)
        const absent = new TurnNotFound({ sessionId: session.id, turnId: params.turn })
        return turn ?? (yield* Problem.refusing(Effect.fail(absent)))
      }),
      cancel: Effect.fn("TurnHandlers.cancel")(function* ({ params, payload }) {
        const session = yield* Problem.refusing(sessions.get(params.session))
        return yield* Problem.refusing(session.cancel(params.turn, payload?.reason))
      })
    })
  })
)

/** The Turn that is announced to the sender of a message and not open yet. */
const queuedOf = Effect.fnUntraced(function* (session: Session) {
  const { agent, status, turns } = yield* Problem.refusing(session.summary)
  if (status !== "queued") return undefined
  const { data } = yield* Entries.page(session, Entries.inbox, { limit: 1 }, ({ state }) => state === "waiting")
  const [item] = data
  return item === undefined ? undefined : SessionView.queued(turns + 1, agent, item.id)
})

/** The Turns, and the one that is queued. That is read first: should it begin meanwhile, it is among the others. */
const turnsOf = Effect.fnUntraced(function* (session: Session) {
  const queued = yield* queuedOf(session)
  const events = yield* Problem.refusing(session.events({ after: 0, types: SessionView.turnTypes }))
  const turns = SessionView.turns(events)
  return queued === undefined || turns.some(({ id }) => id === queued.id) ? turns : [...turns, queued]
})
