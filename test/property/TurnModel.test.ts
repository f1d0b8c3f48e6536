/** Whatever is done to a session, in whatever order, it looks like a model of two hundred lines. */
import { assert, describe, it, layer } from "@effect/vitest"
import * as MemoryStore from "@turnstep/core/MemoryStore"
import type { Type } from "@turnstep/core/TurnEvent"
import type * as Pglite from "@turnstep/runtime/database/Pglite"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"
import * as fc from "fast-check"
import * as Databases from "../sql/Databases.ts"
import * as Commands from "./turnModel/Commands.ts"
import * as Model from "./turnModel/Model.ts"
import * as Room from "./turnModel/Room.ts"

let sessions = 0

/** Does the commands to a session of its own, and returns its log. */
const play = Effect.fnUntraced(function* (commands: Iterable<Commands.Command>, storage: Room.Storage) {
  const room = yield* Room.make(`s${++sessions}`, storage)
  const run = Effect.runPromiseWith(yield* Effect.context())
  const watcher = { seen: [], process: undefined, fiber: undefined }
  const setup = () => ({ model: Model.make(), real: { room, watcher, run } })
  yield* Effect.promise(() => fc.asyncModelRun(setup, commands))
  return yield* room.log
})

/** What hundreds of lists of commands must have led to, or they say nothing. */
const wanted: ReadonlyArray<Type> = [
  "inbox.moved",
  "inbox.returned",
  "call.completed",
  "call.receipt",
  "turn.completed",
  "turn.exhausted",
  "turn.cancelled",
  "turn.failed"
]

/**
 * Tries `runs` lists of commands, and returns the types of all that was recorded. A report has what repeats it: `seed` and
 * `path` go to `assert`, `replayPath` goes to `commands`.
 */
const check = (runs: number, storage: () => Room.Storage) =>
  Effect.promise(async () => {
    const seen = new Set<string>()
    const lists = fc.commands([...Commands.all], { maxCommands: 60, size: "max" })
    const property = fc.asyncProperty(lists, async (commands) => {
      const played = play(commands, storage()).pipe(Effect.scoped, Effect.provide(TestClock.layer()))
      for (const { type } of await Effect.runPromise(played)) seen.add(type)
    })
    await fc.assert(property, { numRuns: runs, interruptAfterTimeLimit: 150_000, markInterruptAsFailure: true })
    return [...seen]
  })

/** In memory, the processes of a session share a store that it has for itself. */
const inMemory = (): Room.Storage => {
  const store = Effect.runSync(Effect.scoped(Layer.build(MemoryStore.layer)))
  return Effect.succeed(store)
}

/** In a database, each process has a door of its own. */
const inDatabase = Effect.map(
  Effect.context<Pglite.Services>(),
  (context) => (): Room.Storage => Effect.provideContext(Layer.build(Databases.ports), context)
)

const title = "looks like its model, whatever is done to it"
const patience = 180_000

describe("A session in memory", () => {
  it.live(title, () => Effect.map(check(400, inMemory), (seen) => assert.includeMembers(seen, [...wanted])), patience)
})

for (const { layer: database, name } of Databases.migrated.filter((each) => each.name === "PGlite")) {
  layer(database, { excludeTestServices: true, timeout: "60 seconds" })(`A session on ${name}`, (it) => {
    it.effect(title, () => Effect.flatMap(inDatabase, (storage) => check(60, storage)), patience)
  })
}
