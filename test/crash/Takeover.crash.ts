/** How long a Turn stands still when its process goes: measured on real leases and real sweeps. */
import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Cell from "./Cell.ts"

/** The lease and one sweep, in milliseconds. */
const longest = 15_000 + 2_000

/** What a busy machine may add. */
const slack = 3_000

/** A Turn whose owner waits for a call, and the number of times that call has been started. */
const scene = Effect.gen(function* () {
  const world = yield* Cell.make("PostgreSQL", true)
  let owner = yield* world.start()
  yield* world.outside.heard("hold-1", 1)
  yield* owner.until("release")
  let started = 1
  /** Ends the owner while the next one is there already, and measures until the call runs again. */
  const handOver = (end: (pid: number) => void) =>
    Effect.gen(function* () {
      const next = yield* world.start({ role: "worker" })
      yield* next.until("ready")
      // Somewhere between two of its sweeps.
      yield* Effect.sleep(`${Math.round(Math.random() * 2_000)} millis`)
      const began = performance.now()
      end(owner.pid)
      yield* world.outside.heard("hold-1", ++started)
      owner = next
      return Math.round(performance.now() - began)
    })
  return {
    world,
    handOver,
    start: world.start,
    owner: () => owner,
    heardAgain: () => world.outside.heard("hold-1", ++started)
  }
})

const rounds = Number(process.env["TAKEOVERS"] ?? 5)

it.live(
  "a process that is told to stop hands its Turn to another that is there",
  () =>
    Effect.gen(function* () {
      const { handOver } = yield* scene
      const times: Array<number> = []
      for (let n = 0; n < rounds; n++) times.push(yield* handOver((pid) => process.kill(pid, "SIGTERM")))
      console.log(`clean stop, the next process waits: ${times.join(", ")} ms`)
      assert.isBelow(Math.max(...times), 1_000 + slack)
    }).pipe(Effect.scoped),
  { timeout: 300_000 }
)

it.live(
  "a process that is told to stop leaves its Turn to the next start, which goes on at once",
  () =>
    Effect.gen(function* () {
      const { heardAgain, owner, start } = yield* scene
      const times: Array<number> = []
      let current = owner()
      for (let n = 0; n < rounds; n++) {
        process.kill(current.pid, "SIGTERM")
        yield* current.until("ended")
        const next = yield* start({ role: "worker" })
        yield* next.until("found")
        const began = performance.now()
        yield* heardAgain()
        times.push(Math.round(performance.now() - began))
        current = next
      }
      console.log(`clean stop, then a start: ${times.join(", ")} ms from the database being there`)
      assert.isBelow(Math.max(...times), 1_000 + slack)
    }).pipe(Effect.scoped),
  { timeout: 300_000 }
)

it.live(
  "a process that is killed is followed when its lease is over",
  () =>
    Effect.gen(function* () {
      const times: Array<number> = []
      // Two scenes: a call that two processes died over is not begun a third time.
      for (let n = 0; n < 2; n++) {
        const killed = Effect.flatMap(scene, ({ handOver }) => handOver((pid) => process.kill(pid, "SIGKILL")))
        times.push(yield* Effect.scoped(killed))
      }
      console.log(`kill -9: ${times.join(", ")} ms`)
      assert.isBelow(Math.max(...times), longest + slack)
    }).pipe(Effect.scoped),
  { timeout: 300_000 }
)
