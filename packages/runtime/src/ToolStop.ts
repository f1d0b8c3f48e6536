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

/** What happens around a tool that is stopped. */
export interface Stopping<A> {
  /** The time it may take. */
  readonly timeout: Duration.Duration
  /** It has not come to its end within the grace, and is left behind. */
  readonly onLeft?: ((fiber: Fiber.Fiber<A, unknown>) => Effect.Effect<void>) | undefined
  /**
   * This is what the tool has come to, by itself or within the grace. Told where nothing is interrupted: a caller that is told
   * to stop at this moment never sees the value.
   */
  readonly onEnded?: ((exit: Exit.Exit<A, unknown>, isStopped: boolean) => Effect.Effect<void>) | undefined
  /** What the tool has committed (`ToolCall.commit`): that counts, whatever its fiber then came to. */
  readonly committed?: (() => A | undefined) | undefined
}

/**
 * Runs a tool in a fiber of its own, so that neither a timeout nor an interruption of the Turn waits for one that does not
 * stop (`ToolRun` T2). `None` when its time is over.
 */
export const detached = <A, R>(
  tool: Effect.Effect<A, unknown, R>,
  { committed = () => undefined, onEnded = () => Effect.void, onLeft = () => Effect.void, timeout }: Stopping<A>
): Effect.Effect<Option.Option<Exit.Exit<A, unknown>>, never, R> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(Effect.forkDetach(Effect.interruptible(tool), { startImmediately: true }), (fiber) => {
      const exit = fiber.pollUnsafe()
      if (exit !== undefined) return Effect.as(onEnded(exit, false), Option.some(exit))
      const ended = Effect.andThen(stop(fiber), () =>
        Effect.as(fiber.pollUnsafe() === undefined ? onLeft(fiber) : Effect.void, lastMinute(fiber, committed()))
      ).pipe(Effect.tap((exit) => (Option.isSome(exit) ? onEnded(exit.value, true) : Effect.void)))
      return restore(Effect.timeoutOption(Fiber.await(fiber), timeout)).pipe(
        Effect.onInterrupt(() => ended),
        Effect.flatMap((exit) => (Option.isSome(exit) ? Effect.as(onEnded(exit.value, false), exit) : ended))
      )
    })
  )

/** The result of a tool that came to its end while it was being stopped: what is known is not called unknown. */
const lastMinute = <A>(
  fiber: Fiber.Fiber<A, unknown>,
  committed: A | undefined
): Option.Option<Exit.Exit<A, unknown>> => {
  const exit = fiber.pollUnsafe()
  if (exit !== undefined && !(Exit.isFailure(exit) && Cause.hasInterrupts(exit.cause))) return Option.some(exit)
  return committed === undefined ? Option.none() : Option.some(Exit.succeed(committed))
}

const stop = (fiber: Fiber.Fiber<unknown, unknown>) =>
  Effect.suspend(() => Effect.forkDetach(Fiber.interrupt(fiber))).pipe(
    Effect.flatMap((stopping) => Effect.timeoutOption(Effect.interruptible(Fiber.await(stopping)), stopGrace))
  )
