/**
 * Stopping a tool that nobody can be made to wait for.
 *
 * Owns: the fiber a tool runs in, its time limit, and the grace it has when it is told to stop. Does not own: what its end is
 * called (`ToolRun`).
 */
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"

/** How long a tool may take to stop when it is told to (T2). */
export const stopGrace = Duration.seconds(2)

/**
 * Runs a tool in a fiber of its own, so that neither a timeout nor an interruption of the Turn waits for one that does not
 * stop (`ToolRun` T2): `left` is told of that one. `None` when its time is over.
 */
export const detached = <A>(
  tool: Effect.Effect<A, unknown>,
  timeout: Duration.Duration,
  left: (fiber: Fiber.Fiber<A, unknown>) => Effect.Effect<void>
) =>
  Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(Effect.forkDetach(tool, { startImmediately: true }), (fiber) => {
      const exit = fiber.pollUnsafe()
      if (exit !== undefined) return Effect.succeedSome(exit)
      const ended = Effect.andThen(stop(fiber), () =>
        Effect.as(fiber.pollUnsafe() === undefined ? left(fiber) : Effect.void, lastMinute(fiber))
      )
      return restore(Effect.timeoutOption(Fiber.await(fiber), timeout)).pipe(
        Effect.onInterrupt(() => ended),
        Effect.filterOrElse(Option.isSome, () => ended)
      )
    })
  )

/** The result of a tool that came to its end while it was being stopped: what is known is not called unknown. */
const lastMinute = <A>(fiber: Fiber.Fiber<A, unknown>): Option.Option<Exit.Exit<A, unknown>> => {
  const exit = fiber.pollUnsafe()
  return exit === undefined || (Exit.isFailure(exit) && Cause.hasInterrupts(exit.cause))
    ? Option.none()
    : Option.some(exit)
}

const stop = (fiber: Fiber.Fiber<unknown, unknown>) =>
  Effect.suspend(() => Effect.forkDetach(Fiber.interrupt(fiber))).pipe(
    Effect.flatMap((stopping) => Effect.timeoutOption(Effect.interruptible(Fiber.await(stopping)), stopGrace))
  )
