/**
 * Health and information.
 *
 * - H1. Health says a constant: nothing of sessions, versions or storage.
 * - H2. Ready is who can read and write: storage answers within two seconds, and has not refused the last write.
 */
import { StorageUnavailable } from "@turnstep/core/TurnError"
import { Sessions } from "@turnstep/runtime/Session"
import * as Cause from "effect/Cause"
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
    const answers = Effect.andThen(sessions.takesWrites, sessions.list({ limit: 1 })).pipe(
      Effect.timeout(patience),
      Effect.catchCause((cause) => {
        const error = Cause.squash(cause)
        const detail = error instanceof StorageUnavailable ? error.message : "The database did not answer."
        return Problem.refuse("storage-unavailable", detail)
      })
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
