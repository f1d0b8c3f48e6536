/**
 * A conversation over a connection that is cut again and again, before a statement is sent or before its answer arrives.
 *
 * Owns: how often. Does not own: the wire (`sql/Wire`), or what must hold (`Judge`).
 */
import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Cell from "./Cell.ts"
import * as Judge from "./Judge.ts"

export const suite = (conversations: number, cuts: number): void => {
  for (let n = 1; n <= conversations; n++) {
    it.live(
      `a connection that is cut up to ${cuts} times loses no message and repeats none (${n})`,
      () =>
        Effect.gen(function* () {
          const world = yield* Cell.make("PostgreSQL")
          world.outside.relax()
          const process = yield* world.start({ cuts })
          const { end } = yield* process.until("end")
          if (end === undefined) return assert.fail(world.logged.join("; "))
          console.log(`cut ${world.seen.crashes} times`)
          assert.isAtLeast(world.seen.crashes, 2)
          assert.deepStrictEqual(Judge.complaints(end, world.seen, world.provider, world.outside.starts), [])
        }).pipe(Effect.scoped),
      { timeout: 180_000 }
    )
  }
}
