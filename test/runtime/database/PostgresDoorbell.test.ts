/** Two processes on one database, on a clock that stands still: what happens here is not the sweep's doing. */
import { assert, describe, it } from "@effect/vitest"
import { Doorbell } from "@turnstep/core/Doorbell"
import * as Ids from "@turnstep/core/Ids"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as PostgresLayer from "@turnstep/runtime/database/Postgres"
import * as Drivers from "@turnstep/runtime/Drivers"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { SqlClient } from "effect/sql/SqlClient"
import { TestClock } from "effect/testing"
import * as Postgres from "../../fixtures/Postgres.ts"
import * as Tools from "../../fixtures/Tools.ts"
import * as World from "../../fixtures/World.ts"
import * as Databases from "../../sql/Databases.ts"

const { calls, script, text } = StrictProvider

const database = Layer.unwrap(
  Effect.map(Postgres.freshUrl(Databases.template), (url) => PostgresLayer.layer({ url }))
).pipe(Layer.orDie)

/** A database of one's own, there until all that used it is closed. */
const onDatabase = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.provide(Effect.scoped(effect), database)

/** Waits until so many hear the doorbell of the database: a ring before that is nobody's. */
const heardBy = Effect.fnUntraced(function* (listeners: number) {
  const sql = yield* SqlClient
  yield* sql`select from pg_stat_activity where query like 'LISTEN%' and datname = current_database()`.pipe(
    Effect.orDie,
    Effect.repeat({ until: (rows) => rows.length >= listeners })
  )
})

describe("PostgresDoorbell", () => {
  it.effect("is heard by all who listen, and again after the connection was cut", () =>
    Effect.gen(function* () {
      const { ring, rings } = yield* Doorbell
      const sql = yield* SqlClient
      const first = yield* Effect.forkChild(Stream.runHead(rings))
      const second = yield* Effect.forkChild(Stream.runHead(Stream.filter(rings, (id) => id === "two")))
      yield* heardBy(2)
      yield* Effect.repeat(ring(Ids.SessionId.make("one")), { until: () => first.pollUnsafe() !== undefined })
      yield* sql`select pg_terminate_backend(pid) from pg_stat_activity
        where query like 'LISTEN%' and datname = current_database()`
      yield* Effect.repeat(Effect.andThen(TestClock.adjust("1 second"), ring(Ids.SessionId.make("two"))), {
        until: () => second.pollUnsafe() !== undefined
      })
      assert.deepStrictEqual(yield* Fiber.join(first), Option.some("one"))
    }).pipe(onDatabase)
  )

  it.effect("wakes the process that holds the session a message is for", () =>
    Effect.gen(function* () {
      const ports = yield* Layer.build(Databases.ports)
      const holder = yield* World.withTools({ respond: script([text("one"), text("two")]) }).pipe(Effect.provide(ports))
      yield* heardBy(1)
      yield* holder.session.run("go")
      const other = yield* holder.startOn(yield* Layer.build(Databases.ports))
      const session = yield* other.sessions.get(holder.session.id)
      yield* session.send("again")
      yield* World.ended(holder.session, 2)
    }).pipe(onDatabase)
  )

  it.effect("wakes a process with workers for what one without workers admits", () =>
    Effect.gen(function* () {
      const admitting = yield* World.withTools({ respond: script([text("done")]) }).pipe(
        Effect.provideService(Drivers.Workers, 0),
        Effect.provide(yield* Layer.build(Databases.ports))
      )
      const working = yield* admitting.startOn(yield* Layer.build(Databases.ports))
      yield* heardBy(1)
      yield* admitting.session.send("go")
      yield* World.ended(yield* working.sessions.get(admitting.session.id), 1)
    }).pipe(onDatabase)
  )

  it.effect("hands the Turn of a process that is told to stop to one that waits", () =>
    Effect.gen(function* () {
      const gate = yield* Tools.gate
      const stopping = yield* World.withTools({
        respond: script([calls([Tools.call("look", "a")]), text("done")])
      }).pipe(Effect.provide(yield* Layer.build(Databases.ports)))
      stopping.tools.on("a", Effect.as(gate.pass, "seen"))
      yield* stopping.session.send("go")
      yield* gate.reached
      const waiting = yield* stopping.startOn(yield* Layer.build(Databases.ports))
      yield* heardBy(2)
      yield* stopping.stop
      yield* gate.open
      yield* World.ended(yield* waiting.sessions.get(stopping.session.id), 1)
    }).pipe(onDatabase)
  )
})
