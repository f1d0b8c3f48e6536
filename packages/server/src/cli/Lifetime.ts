/**
 * What it means when a command is told to stop.
 *
 * Owns: the exit code of a process that was interrupted, and the end of a server whose launcher is gone. Does not own: signals
 * (`main`).
 */
import * as Console from "effect/Console"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"

export class Lifetime extends Context.Service<
  Lifetime,
  {
    /** From now on, being told to stop is how the command is meant to end: the exit code is 0, not 130. */
    readonly endsBySignal: Effect.Effect<void>
  }
>()("server/Lifetime") {}

/**
 * Ends when npm, which started this process, has ended; never without npm. A signal to npm or `npx` ends npm and its shell
 * and does not reach this process, which would go on with port and folder held.
 */
export const orphaned: Effect.Effect<void> = Effect.suspend(() => {
  if (process.env["npm_command"] === undefined && process.env["npm_lifecycle_event"] === undefined) return Effect.never
  const parent = process.ppid
  return Effect.sync(() => process.ppid !== parent).pipe(
    Effect.repeat({ until: (isGone) => isGone, schedule: Schedule.spaced("500 millis") }),
    Effect.andThen(Console.error("turnstep: npm has ended, so the server stops."))
  )
})
