/**
 * What it means when a command is told to stop.
 *
 * Owns: the exit code of a process that was interrupted. Does not own: signals (`main`).
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"

export class Lifetime extends Context.Service<
  Lifetime,
  {
    /** From now on, being told to stop is how the command is meant to end: the exit code is 0, not 130. */
    readonly endsBySignal: Effect.Effect<void>
  }
>()("server/Lifetime") {}
