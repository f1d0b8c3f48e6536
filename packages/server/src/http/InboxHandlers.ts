/**
 * Messages into a session, and what became of them.
 */
import { Sessions } from "@turnstep/runtime/Session"
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import { Api } from "../api/Api.ts"
import type * as Body from "../api/Body.ts"
import * as Entries from "./Entries.ts"
import * as Problem from "./Problem.ts"
import { admittedBody } from "./SessionHandlers.ts"
import { ItemId } from "@turnstep/core/Ids"

export const layer = HttpApiBuilder.group(
  Api,
  "inbox",
  Effect.fnUntraced(function* (handlers) {
    const sessions = yield* Sessions
    return handlers.handleAll({
      send: Effect.fn("InboxHandlers.send")(function* ({ headers, params, payload }) {
        const clientKey = yield* keyOf(payload, headers["idempotency-key"])
        const session = yield* Problem.refusing(sessions.get(params.session))
        const { delivery, expectedTurnId, ifNotApplied, parts, text } = payload
        const admission = yield* Problem.refusing(
          session.send(parts ?? text ?? "", { delivery, ifNotApplied, expectedTurnId, clientKey })
        )
        return admittedBody(admission)
      }),
      list: Effect.fn("InboxHandlers.list")(function* ({ params, query }) {
        const session = yield* Problem.refusing(sessions.get(params.session))
        const { state } = query
        return yield* Entries.page(session, Entries.inbox, query, (item) => state === undefined || item.state === state)
      }),
      move: Effect.fn("InboxHandlers.move")(function* ({ params, payload }) {
        const session = yield* Problem.refusing(sessions.get(params.session))
        const delivery = yield* Problem.refusing(session.move(params.item, payload.delivery))
        return { id: ItemId.make(params.item), delivery }
      }),
      withdraw: Effect.fn("InboxHandlers.withdraw")(function* ({ params }) {
        const session = yield* Problem.refusing(sessions.get(params.session))
        yield* Problem.refusing(session.withdraw(params.item))
      })
    })
  })
)

/** The client's key of a message: the header and the message's own id say the same thing, and must not differ. */
const keyOf = Effect.fnUntraced(function* ({ id }: typeof Body.SendMessage.Type, header: string | undefined) {
  if (id !== undefined && header !== undefined && id !== header) {
    const detail = "The id of the message and the Idempotency-Key differ; send one of them, or the same twice."
    return yield* Problem.refuse("invalid-request", detail, [{ pointer: "/body/id", detail }])
  }
  return header ?? id
})
