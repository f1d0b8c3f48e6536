/**
 * Two processes that both believe they own a session: the first is stopped at a place of `CrashPoint`, the second takes
 * over, has the conversation to its end, and only then the first goes on exactly where it stood.
 *
 * Owns: the order of these things. Does not own: what must hold (`Judge`).
 */
import { assert, it } from "@effect/vitest"
import type { Boundary, Cut } from "@turnstep/core/CrashPoint"
import * as Effect from "effect/Effect"
import * as Cell from "./Cell.ts"
import * as Judge from "./Judge.ts"
import { placeOf } from "./Told.ts"

/** Longer than it takes to stop a process that has said where it stands. */
const pause = 5_000

/** `isPatient`: the lease runs out by itself, as in production. */
export const suite = (boundary: Boundary, cut: Cut, isPatient: boolean): void =>
  it.live(
    `a process that sleeps at ${placeOf(boundary, cut)}${isPatient ? " past its lease" : ""} writes nothing when it wakes`,
    () =>
      Effect.gen(function* () {
        const world = yield* Cell.make("PostgreSQL")
        const zombie = yield* world.start({ stop: { boundary, cut, nth: 1, pause } })
        assert.isDefined((yield* zombie.until("stopped")).stopped)
        process.kill(zombie.pid, "SIGSTOP")
        world.outside.relax()
        world.seen.crashes++
        world.seen.zombies++
        const next = yield* world.start({ endLeases: !isPatient })
        const { end } = yield* next.until("end")
        assert.isDefined(end, world.logged.join("; "))
        const before = world.logged.length
        process.kill(zombie.pid, "SIGCONT")
        const after = (yield* zombie.until("end")).end
        if (end === undefined || after === undefined) return assert.fail(world.logged.join("; "))
        assert.deepStrictEqual(after.events, end.events)
        for (const each of [end, after]) {
          assert.deepStrictEqual(Judge.complaints(each, world.seen, world.provider, world.outside.starts), [])
        }
        assert.deepStrictEqual(Cell.errorsOf(world), [])
        const said = world.logged.slice(before)
        // It has tried, was refused, and let go.
        const refusal = /has a new owner|has another owner|was not settled here|a write failed|the lease ran out/
        assert.isTrue(
          said.some((line) => refusal.test(line)),
          `it said: ${said.join("; ")}`
        )
      }).pipe(Effect.scoped),
    { timeout: 180_000 }
  )
