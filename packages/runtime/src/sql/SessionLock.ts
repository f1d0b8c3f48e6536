/**
 * One at a time for each session, inside this process: a courtesy between callers, never what correctness rests on.
 *
 * Owns: the queue of each session. Does not own: exclusion between processes (`Claim`, the gate of `schema/Append`).
 */
import type { SessionId } from "@turnstep/core/Ids"
import * as Effect from "effect/Effect"
import * as Semaphore from "effect/Semaphore"

export interface SessionLock {
  /** Runs when those who came before for the same session are done. */
  readonly withLock: <A, E, R>(sessionId: SessionId, effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
}

export const make: Effect.Effect<SessionLock> = Effect.sync(() => {
  const locks = new Map<SessionId, { readonly semaphore: Semaphore.Semaphore; users: number }>()
  return {
    withLock: (sessionId, effect) =>
      Effect.suspend(() => {
        const lock = locks.get(sessionId) ?? { semaphore: Semaphore.makeUnsafe(1), users: 0 }
        locks.set(sessionId, lock)
        lock.users++
        return lock.semaphore
          .withPermits(1)(effect)
          .pipe(
            Effect.ensuring(
              Effect.sync(() => {
                lock.users--
                if (lock.users === 0) locks.delete(sessionId)
              })
            )
          )
      })
  }
})
