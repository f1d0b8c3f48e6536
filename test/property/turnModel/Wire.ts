/** A process's way to its storage. It can be cut at any moment: what waits behind a cut waits for ever, like a killed process. */
import * as Effect from "effect/Effect"

type Through = <A, E>(operation: Effect.Effect<A, E>) => Effect.Effect<A, E>

export interface Wire {
  isCut: boolean
  /** Cuts at the next write: before it is done, or before it is answered. */
  cutAt: "before" | "after" | undefined
  /** Operations that are on their way. */
  underWay: number
  readonly through: Through
  readonly write: Through
}

export const make = (): Wire => {
  const orNever: Through = (operation) => Effect.suspend(() => (wire.isCut ? Effect.never : operation))
  const cut = (when: Wire["cutAt"]) =>
    Effect.sync(() => {
      wire.isCut ||= wire.cutAt === when
    })
  const through: Through = (operation) =>
    orNever(
      Effect.suspend(() => {
        wire.underWay++
        return Effect.ensuring(
          operation,
          Effect.sync(() => wire.underWay--)
        )
      })
    ).pipe(Effect.exit, Effect.flatMap(orNever))
  const wire: Wire = {
    isCut: false,
    cutAt: undefined,
    underWay: 0,
    through,
    write: (operation) => Effect.andThen(cut("before"), through(Effect.tap(operation, cut("after"))))
  }
  return wire
}
