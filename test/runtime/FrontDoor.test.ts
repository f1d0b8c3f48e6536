/** What every operation tells its caller while storage is away, and after the runtime has closed. */
import { assert, describe, it, layer } from "@effect/vitest"
import * as MemoryStore from "@turnstep/core/MemoryStore"
import { StorageUnavailable } from "@turnstep/core/TurnError"
import * as Agent from "@turnstep/runtime/Agent"
import * as Runtime from "@turnstep/runtime/Runtime"
import { type Session, Sessions } from "@turnstep/runtime/Session"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as Operations from "../fixtures/Operations.ts"
import * as Postgres from "../fixtures/Postgres.ts"
import * as Stores from "../fixtures/Stores.ts"
import * as World from "../fixtures/World.ts"
import * as Databases from "../sql/Databases.ts"
import * as Wire from "../sql/Wire.ts"

const { text } = StrictProvider

/** Does every operation, and gives the tags of their refusals. */
const refusals = Effect.fnUntraced(function* (sessions: Sessions["Service"], session: Session) {
  const told: Record<string, string> = {}
  const all = {
    ...Object.fromEntries(Object.entries(Operations.ofSession).map(([name, use]) => [name, use(session)])),
    ...Operations.ofSessions(sessions, session.id)
  }
  for (const [name, operation] of Object.entries(all)) {
    told[name] = yield* Effect.match(operation, { onSuccess: () => "done", onFailure: ({ _tag }) => _tag })
  }
  return told
})

const every = (tag: string) =>
  Object.fromEntries([...Object.keys(Operations.ofSession), "open", "get", "list"].map((name) => [name, tag] as const))

/** A runtime of its own, in a scope that can be closed. */
const runtimeOf = Effect.fnUntraced(function* <E, R>(runtime: Layer.Layer<Sessions, E, R>) {
  const scope = yield* Scope.fork(yield* Scope.Scope)
  const sessions = Context.get(yield* Layer.buildWithScope(runtime, scope), Sessions)
  return { sessions, close: Scope.close(scope, Exit.void) }
})

const agent = Agent.make("agent", { instructions: "Answer." })
const model = Layer.unwrap(Effect.map(StrictProvider.make({ respond: () => text("done") }), ({ layer }) => layer))

describe("A closed runtime", () => {
  const runtimes = {
    memory: Runtime.layerMemory([agent]),
    ...Object.fromEntries(
      Databases.migrated.map(({ layer, name }) => [name, Layer.provide(Runtime.layerSql([agent]), layer)] as const)
    )
  }
  for (const [name, runtime] of Object.entries(runtimes)) {
    it.live(`says so to every operation, on ${name}`, () =>
      Effect.gen(function* () {
        const { close, sessions } = yield* runtimeOf(Layer.provide(runtime, model))
        const session = yield* sessions.open()
        yield* session.run("go")
        yield* close
        assert.deepStrictEqual(yield* refusals(sessions, session), every("RuntimeClosed"))
      }).pipe(Effect.scoped)
    )
  }
})

layer(MemoryStore.layer, Stores.live)("Storage that is away", (it) => {
  it.effect("is a typed failure of every operation", () =>
    Effect.gen(function* () {
      let isAway = false
      const world = yield* World.withTools({
        respond: () => text("done"),
        around: (journal) => {
          const orAway = <A, E>(work: Effect.Effect<A, E>): Effect.Effect<A, E> =>
            Effect.suspend(() => (isAway ? Effect.die(new StorageUnavailable({ reason: "unreachable" })) : work))
          return {
            ...journal,
            create: (...asked) => orAway(journal.create(...asked)),
            admit: (...asked) => orAway(journal.admit(...asked)),
            read: (...asked) => orAway(journal.read(...asked)),
            summary: (id) => orAway(journal.summary(id)),
            list: (page) => orAway(journal.list(page))
          }
        }
      })
      yield* world.session.run("go")
      isAway = true
      assert.deepStrictEqual(yield* refusals(world.sessions, world.session), every("StorageUnavailable"))
      isAway = false
      assert.strictEqual((yield* world.session.run("again"))._tag, "Answered")
    })
  )
})

describe("A caller that is interrupted while the database is away", () => {
  it.live(
    "has left at once, and nothing comes of what had not been decided",
    () =>
      Effect.gen(function* () {
        const url = yield* Postgres.freshUrl(Databases.template)
        const wire = yield* Wire.make(url)
        const { sessions } = yield* runtimeOf(Layer.provide(Runtime.layerSql([agent]), [model, wire.layer]))
        const session = yield* sessions.open()
        yield* session.run("go")
        yield* wire.cutAt("question", 0)
        const reading = yield* Effect.forkChild(session.summary, { startImmediately: true })
        yield* wire.isCut
        yield* Fiber.interrupt(reading)
        const waiting = [
          ...Object.values(Operations.ofSession).map((use) => use(session)),
          ...Object.values(Operations.ofSessions(sessions, session.id))
        ]
        for (const operation of waiting) {
          const caller = yield* Effect.forkChild(operation, { startImmediately: true })
          yield* Effect.yieldNow
          yield* Fiber.interrupt(caller)
        }
        yield* wire.mend
        // After all that came before it.
        assert.strictEqual((yield* session.run("again"))._tag, "Answered")
        assert.lengthOf(yield* session.events({ after: 0, types: ["inbox.admitted"] }), 2)
      }).pipe(Effect.scoped),
    15_000
  )
})
