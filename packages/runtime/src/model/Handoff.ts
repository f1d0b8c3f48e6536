/**
 * Items on their way from a callback to the one stream that waits for them.
 *
 * Owns: what has arrived and is not yet taken. Does not own: where items come
 * from. It does for one reader what a queue does for many, at a fraction of the
 * cost: no fiber, no scheduler between the socket and the reader.
 *
 * - H1. Items come out in the order in which they went in, the ending last.
 * - H2. A waiting reader runs inside `put`: a producer finishes its own work first.
 * - H3. `stop` runs when the stream's scope closes, whatever the reason.
 */
import * as Arr from "effect/Array"
import * as Cause from "effect/Cause"
import * as Channel from "effect/Channel"
import * as Effect from "effect/Effect"
import type * as Pull from "effect/Pull"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"

/** The producer's end. */
export interface Sink<A, E> {
  /** Adds items and, with an `ending`, says that they were the last: an error, or `undefined` for a good end. */
  readonly put: (items: ReadonlyArray<A>, ending?: { readonly error: E | undefined }) => void
}

/** A stream of what `start` puts into its sink; `start` gives what stops it. */
export const stream = <A, E>(
  start: (sink: Sink<A, E>, scope: Scope.Scope) => Effect.Effect<() => void>
): Stream.Stream<A, E> =>
  Stream.fromChannel(
    Channel.fromTransform((_: Pull.Pull<unknown, unknown, unknown>, scope: Scope.Scope) => {
      const { pull, sink } = make<A, E>()
      return Effect.uninterruptible(
        Effect.flatMap(start(sink, scope), (stop) => Effect.as(Scope.addFinalizer(scope, Effect.sync(stop)), pull)) // H3
      )
    })
  )

type Items<A> = Arr.NonEmptyReadonlyArray<A>

const make = <A, E>(): { readonly sink: Sink<A, E>; readonly pull: Pull.Pull<Items<A>, E> } => {
  let waiting: ((taken: Effect.Effect<Items<A>, E | Cause.Done>) => void) | undefined
  let items: Array<A> = []
  let ending: Effect.Effect<never, E | Cause.Done> | undefined

  const take = (): Effect.Effect<Items<A>, E | Cause.Done> | undefined => {
    if (!Arr.isArrayNonEmpty(items)) return ending
    const taken = items
    items = []
    return Effect.succeed(taken)
  }

  return {
    sink: {
      put: (more, last) => {
        if (ending !== undefined) return // H1
        items = items.length === 0 ? [...more] : items.concat(more)
        if (last !== undefined) ending = last.error === undefined ? Cause.done() : Effect.fail(last.error)
        const taken = waiting === undefined ? undefined : take()
        if (taken === undefined) return
        const resume = waiting
        waiting = undefined
        resume?.(taken) // H2
      }
    },
    pull: Effect.suspend(
      () =>
        take() ??
        Effect.callback<Items<A>, E | Cause.Done>((resume) => {
          waiting = resume
        })
    )
  }
}
