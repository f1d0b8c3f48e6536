/**
 * Requests under way: how long each is waited for, and what is told to those that the end of the server cuts off.
 *
 * Owns: their number, their patience, and their last second. Does not own: streams, which end before (`Streams`), or
 * connections (`Server`).
 *
 * - U1. A request that reads is answered within ten seconds, though it be with the news that storage is silent.
 * - U2. When the server stops, requests under way have a second. Those that are left are refused in words, and not cut: their
 *   senders must know that what they asked for may have been recorded.
 * - U3. A request is answered before its work has ended where that cannot be interrupted; the work goes on to its end.
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as ApiError from "../api/ApiError.ts"
import { instanceOf } from "./Problem.ts"

export class UnderWay extends Context.Service<
  UnderWay,
  {
    /** Runs the handler of a request, and gives up waiting for it (U1, U2). */
    readonly waitFor: <A, E, R>(
      handled: Effect.Effect<A, E, R>
    ) => Effect.Effect<A, E | ApiError.ApiError, R | HttpServerRequest>
    /** Waits for the requests under way, and refuses those that are left after a second (U2). */
    readonly close: Effect.Effect<void>
  }
>()("server/UnderWay") {}

/** How long a request that reads is waited for (U1). */
const patience = Duration.seconds(10)

/** How long requests under way are waited for when the server stops (U2). */
const grace = Duration.seconds(1)

export const layer: Layer.Layer<UnderWay> = Layer.sync(UnderWay, () => {
  const cut = Latch.makeUnsafe(false)
  const isIdle = Latch.makeUnsafe(true)
  let count = 0
  const enter = Effect.sync(() => {
    if (count++ === 0) isIdle.closeUnsafe()
  })
  const leave = Effect.sync(() => {
    if (--count === 0) isIdle.openUnsafe()
  })
  const isCut = Effect.flatMap(HttpServerRequest, (request) =>
    Effect.andThen(
      cut.await,
      Effect.fail(ApiError.make("shutting-down", instanceOf(request), isReading(request) ? gone : maybe))
    )
  )
  const isSilent = Effect.flatMap(HttpServerRequest, (request) =>
    isReading(request)
      ? Effect.delay(Effect.fail(ApiError.make("storage-unavailable", instanceOf(request), silent)), patience)
      : Effect.never
  )
  return UnderWay.of({
    waitFor: (handled) =>
      Effect.uninterruptibleMask((restore) =>
        Effect.flatMap(Effect.andThen(enter, Effect.forkDetach(handled, { startImmediately: true })), (handling) =>
          restore(Effect.raceAllFirst([Fiber.join(handling), isCut, isSilent])).pipe(
            Effect.ensuring(
              Effect.andThen(
                leave,
                Effect.sync(() => handling.interruptUnsafe())
              )
            ) // U3
          )
        )
      ),
    close: Effect.andThen(Effect.timeoutOption(isIdle.await, grace), cut.open)
  })
})

const isReading = ({ method }: HttpServerRequest): boolean => method === "GET" || method === "HEAD"

const gone = "The server stops before it could answer."
const maybe =
  "The server stops before it could answer. What was asked for may have been recorded: sent again with the same idempotency key, nothing is done twice."
const silent = "The database did not answer within ten seconds."
