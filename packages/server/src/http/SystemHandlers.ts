/**
 * Health and information.
 *
 * - H1. Health says a constant: nothing of sessions, versions or storage.
 */
import { Sessions } from "@turnstep/runtime/Session"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as Layer from "effect/Layer"
import { Api } from "../api/Api.ts"
import { About } from "./About.ts"
import * as Problem from "./Problem.ts"

/** How long storage may take to answer before it counts as away. */
const patience = Duration.seconds(2)

const health = HttpApiBuilder.group(
  Api,
  "health",
  Effect.fnUntraced(function* (handlers) {
    const sessions = yield* Sessions
    const answers = sessions.list({ limit: 1 }).pipe(
      Effect.timeout(patience),
      Effect.catchCause((cause) =>
        Effect.andThen(
          Effect.logWarning("storage does not answer", cause),
          Problem.refuse("storage-unavailable", "The database did not answer.")
        )
      )
    )
    return handlers.handleAll({
      live: () => Effect.succeed("ok" as const),
      ready: () => Effect.as(answers, "ok" as const)
    })
  })
)

const system = HttpApiBuilder.group(
  Api,
  "system",
  Effect.fnUntraced(function* (handlers) {
    const about = yield* About
    return handlers.handleAll({ info: () => Effect.succeed(about) })
  })
)

export const layer = Layer.mergeAll(health, system)
