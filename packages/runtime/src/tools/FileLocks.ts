/**
 * One writer at a time for each file, among all tools of this process that change files.
 *
 * - L1. Calls of different sessions, and of different workspaces with a folder in common, take turns at one real path.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Semaphore from "effect/Semaphore"

export interface Service {
  /** Runs an effect while no other one holds the file's lock. `real`: absolute and free of links. */
  readonly withLock: (real: string) => <A, E, R>(work: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
}

/** The locks of the process (L1). */
export const FileLocks = Context.Reference<Service>("runtime/FileLocks", { defaultValue: () => make() })

/** Makes a set of locks. A lock is forgotten when nobody holds it or waits for it. */
export const make = (): Service => {
  const locks = new Map<string, { readonly door: Semaphore.Semaphore; users: number }>()
  const enter = (real: string) =>
    Effect.sync(() => {
      const lock = locks.get(real) ?? { door: Semaphore.makeUnsafe(1), users: 0 }
      lock.users++
      locks.set(real, lock)
      return lock
    })
  return {
    withLock: (real) => (work) =>
      Effect.acquireUseRelease(
        enter(real),
        ({ door }) => door.withPermits(1)(work),
        (lock) =>
          Effect.sync(() => {
            lock.users--
            if (lock.users === 0) locks.delete(real)
          })
      )
  }
}
