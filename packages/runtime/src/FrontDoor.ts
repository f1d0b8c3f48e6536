/**
 * Where the callers of a runtime meet it: what they ask for is done in a fiber of the runtime, and they wait for it as long as
 * they want.
 *
 * Owns: what a caller is told when the runtime or its storage cannot answer. Does not own: what is asked for
 * (`LocalSessions`).
 *
 * - F1. Interrupting a caller ends its wait at once, however long storage takes. What is asked for is interrupted too; a write
 *   that is on its way is carried to its end.
 * - F2. A caller that is interrupted in its own name is the main program of a process that is told to stop (`runMain`): what it
 *   asked for ends when the runtime closes, and not as something that nobody wants any more.
 * - F3. Storage that cannot answer and a runtime that is closed are typed failures of every operation. Every other defect
 *   stays one.
 */
import type { SessionId } from "@turnstep/core/Ids"
import { RuntimeClosed, storageTroubleIn, type Unavailable } from "@turnstep/core/TurnError"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"

export interface Asking {
  /** The session it is about. */
  readonly sessionId?: SessionId | undefined
  /** How long an interrupted caller waits for the end of what it asked for. Default: not at all. */
  readonly patience?: Duration.Duration | undefined
}

export class FrontDoor extends Context.Service<
  FrontDoor,
  {
    /** Does what is asked for, and says how it went (F1, F2, F3). */
    readonly ask: <A, E>(work: Effect.Effect<A, E>, asking?: Asking) => Effect.Effect<A, E | Unavailable>
    /** Streams what is asked for; a runtime that closes meanwhile ends the stream. */
    readonly stream: <A>(work: Stream.Stream<A>, asking?: Asking) => Stream.Stream<A, Unavailable>
  }
>()("runtime/FrontDoor") {}

export const layer: Layer.Layer<FrontDoor> = Layer.effect(
  FrontDoor,
  Effect.gen(function* () {
    const scope = yield* Effect.scope
    let isClosed = false
    yield* Effect.addFinalizer(() => Effect.sync(() => void (isClosed = true)))
    return FrontDoor.of({
      ask: (work, asking = {}) =>
        Effect.suspend(() => (isClosed ? closed(asking) : answered(Effect.forkIn(work, scope, atOnce), asking))),
      stream: (work, asking = {}) =>
        Stream.suspend(() => (isClosed ? Stream.fromEffect(closed(asking)) : work)).pipe(
          Stream.catchCause((cause) => Stream.fromEffect(refusal(cause, asking)))
        )
    })
  })
)

const atOnce = { startImmediately: true } as const

/** Waits for the end of what was asked for (F1, F2). */
const answered = <A, E>(asked: Effect.Effect<Fiber.Fiber<A, E>>, asking: Asking): Effect.Effect<A, E | Unavailable> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(asked, (fiber) =>
      restore(Fiber.await(fiber)).pipe(
        Effect.onInterrupt((by) =>
          Effect.withFiber(({ id }) => (by.has(id) ? Effect.void : leave(fiber, asking.patience)))
        ),
        Effect.flatMap((exit): Effect.Effect<A, E | Unavailable> =>
          Exit.isSuccess(exit) ? exit : refusal(exit.cause, asking)
        )
      )
    )
  )

const leave = (fiber: Fiber.Fiber<unknown, unknown>, patience: Duration.Duration = Duration.zero) => {
  const told = Effect.sync(() => fiber.interruptUnsafe())
  if (Duration.isZero(patience)) return told
  return Effect.andThen(told, Effect.timeoutOption(Effect.interruptible(Fiber.await(fiber)), patience))
}

/** What a caller is told of a cause (F3). An interruption that is not the caller's is that of a runtime that closes. */
const refusal = <E>(cause: Cause.Cause<E>, asking: Asking): Effect.Effect<never, E | Unavailable> => {
  if (Cause.hasInterruptsOnly(cause)) return closed(asking)
  const trouble = storageTroubleIn(cause)
  return trouble === undefined ? Effect.failCause(cause) : Effect.fail(trouble)
}

const closed = ({ sessionId }: Asking): Effect.Effect<never, RuntimeClosed> =>
  Effect.fail(new RuntimeClosed(sessionId === undefined ? {} : { sessionId }))
