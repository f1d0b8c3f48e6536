import { assert, describe, it, layer } from "@effect/vitest"
import { Journal } from "@turnstep/core/Journal"
import type { Fact } from "@turnstep/core/TurnEvent"
import * as Postgres from "@turnstep/runtime/database/Postgres"
import * as AppendBatch from "@turnstep/runtime/sql/AppendBatch"
import * as Migrations from "@turnstep/runtime/sql/Migrations"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import { SqlClient } from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import * as Owned from "../contract/Owned.ts"
import * as TestPostgres from "../fixtures/Postgres.ts"
import * as Databases from "./Databases.ts"

type Held = Effect.Success<typeof Owned.make>
type Sent = Effect.Effect<ReadonlyArray<object>, SqlError>

const status = (name: "idle" | "running"): Fact => ({ type: "session.status", data: { status: name } })

/** No Turn is open for this to settle. */
const illegal = { type: "step.completed", data: { turnId: "trn_1", step: 1 } } as Fact

const asked = ({ fence, sessionId }: Held, facts: ReadonlyArray<Fact>): AppendBatch.Asked => ({
  sessionId,
  fence,
  expectedSeq: undefined,
  facts,
  digest: undefined
})

/** A batch whose statements pass through `handle`. */
const batch = (handle: (send: Sent) => Sent) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient
    const unsafe = (text: string, params?: ReadonlyArray<unknown>) => handle(sql.unsafe(text, params))
    const client = { unsafe, literal: sql.literal, withoutTransforms: () => client } as unknown as SqlClient
    return yield* AppendBatch.make.pipe(
      Effect.provideService(SqlClient, client),
      Effect.provide(SecureRandom.layerWebCrypto)
    )
  })

const fork = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.forkChild(effect, { startImmediately: true })

/** A fact with a value that is as large as it likes. */
const imported = (value: unknown): Fact =>
  ({
    type: "history.imported",
    data: {
      format: "openai-chat",
      messages: [
        {
          role: "assistant",
          parts: [{ type: "tool-call", callId: "cal_past_1_1", wireId: "w", name: "n", params: { value } }]
        }
      ]
    }
  }) as unknown as Fact

for (const database of Databases.migrated) {
  const storage = Databases.storage(database.layer)
  layer(storage, { excludeTestServices: true, timeout: "60 seconds" })(`AppendBatch on ${database.name}`, (it) => {
    it.effect("sends a lone write at once, and what waits meanwhile in as few statements as it can", () =>
      Effect.gen(function* () {
        const gate = yield* Deferred.make<void>()
        let statements = 0
        const { append } = yield* batch((send) => {
          statements++
          return Effect.andThen(Deferred.await(gate), send)
        })
        const held = yield* Effect.forEach(Array.from({ length: 130 }), () => Owned.make)
        const writes = yield* Effect.forEach(held, (one) => fork(append(asked(one, [status("idle")]))))
        assert.strictEqual(statements, 2)
        yield* Deferred.succeed(gate, undefined)
        const verdicts = yield* Effect.forEach(writes, Fiber.join)
        assert.isTrue(verdicts.every(({ verdict }) => verdict === "written"))
        assert.strictEqual(statements, 4)
      })
    )

    it.effect("writes what can be read again, and refuses what is larger on record before it is sent", () =>
      Effect.gen(function* () {
        const journal = yield* Journal
        let statements = 0
        const { append } = yield* batch((send) =>
          Effect.andThen(
            Effect.sync(() => void statements++),
            send
          )
        )
        for (const large of ["x".repeat(33 * 2 ** 20), Array.from({ length: 1_600_000 }, () => 1e20)]) {
          const exit = yield* Effect.exit(append(asked(yield* Owned.make, [imported(large)])))
          assert.match(Exit.isFailure(exit) ? Cause.pretty(exit.cause) : "", /can be read again/)
        }
        assert.strictEqual(statements, 0)
        for (const fitting of ["x".repeat(30 * 2 ** 20), Array.from({ length: 1_400_000 }, () => 1e20)]) {
          const held = yield* Owned.make
          yield* append(asked(held, [imported(fitting)]))
          const [event] = yield* journal.read(held.sessionId, { after: held.state.seq })
          const [message] = event?.type === "history.imported" ? event.data.messages : []
          const [part] = message?.role === "assistant" ? message.parts : []
          assert.isTrue(
            part?.type === "tool-call" && JSON.stringify(part.params) === JSON.stringify({ value: fitting })
          )
        }
      })
    )

    it.effect("keeps the order of a session's writes", () =>
      Effect.gen(function* () {
        const journal = yield* Journal
        const { append } = yield* batch((send) => send)
        const held = yield* Owned.make
        const names = Array.from({ length: 40 }, (_, index) => (index % 3 === 0 ? "idle" : "running"))
        const writes = yield* Effect.forEach(names, (name) => fork(append(asked(held, [status(name)]))))
        yield* Effect.forEach(writes, Fiber.join)
        const events = yield* journal.read(held.sessionId, { after: held.state.seq })
        assert.deepStrictEqual(
          events.map((event) => event.type === "session.status" && event.data.status),
          names
        )
      })
    )

    it.effect("lets no interruption return before its write is done", () =>
      Effect.gen(function* () {
        const journal = yield* Journal
        const gate = yield* Deferred.make<void>()
        const { append } = yield* batch((send) => Effect.andThen(Deferred.await(gate), send))
        const held = yield* Owned.make
        const writer = yield* fork(append(asked(held, [status("idle")])))
        const interruption = yield* fork(Fiber.interrupt(writer))
        assert.isUndefined(writer.pollUnsafe())
        yield* Deferred.succeed(gate, undefined)
        yield* Fiber.join(interruption)
        assert.lengthOf(yield* journal.read(held.sessionId, { after: held.state.seq }), 1)
      })
    )

    it.effect("lets an illegal write fail alone", () =>
      Effect.gen(function* () {
        const journal = yield* Journal
        const gate = yield* Deferred.make<void>()
        const { append } = yield* batch((send) => Effect.andThen(Deferred.await(gate), send))
        const held = yield* Effect.forEach(Array.from({ length: 20 }), () => Owned.make)
        const writes = yield* Effect.forEach(held, (one, index) =>
          fork(append(asked(one, [status("running"), index === 7 ? illegal : status("idle")])))
        )
        yield* Deferred.succeed(gate, undefined)
        const exits = yield* Effect.forEach(writes, Fiber.await)
        assert.deepStrictEqual(
          exits.flatMap((exit, index) => (Exit.hasDies(exit) ? [index] : [])),
          [7]
        )
        const written = yield* Effect.forEach(held, ({ sessionId, state }) =>
          journal.read(sessionId, { after: state.seq })
        )
        assert.deepStrictEqual(
          written.map((events) => events.length),
          held.map((_, index) => (index === 7 ? 0 : 2))
        )
      })
    )

    it.effect("tells each write of a statement its own verdict", () =>
      Effect.gen(function* () {
        const gate = yield* Deferred.make<void>()
        const { append } = yield* batch((send) => Effect.andThen(Deferred.await(gate), send))
        const first = yield* Effect.forEach([1, 2], () => Owned.make)
        const [stale, behind, fine, gone] = yield* Effect.forEach([1, 2, 3, 4], () => Owned.make)
        const facts = [status("idle")]
        const asks = [
          ...first.map((one) => asked(one, facts)),
          { ...asked(stale as Held, facts), fence: 7 },
          { ...asked(behind as Held, facts), expectedSeq: 9 },
          asked(fine as Held, facts),
          { ...asked(gone as Held, facts), sessionId: Owned.freshId() }
        ]
        const writes = yield* Effect.forEach(asks, (ask) => fork(append(ask)))
        yield* Deferred.succeed(gate, undefined)
        const verdicts = yield* Effect.forEach(writes, Fiber.join)
        assert.deepStrictEqual(
          verdicts.map(({ verdict }) => verdict),
          ["written", "written", "fence-lost", "behind", "written", "fence-lost"]
        )
        assert.deepInclude(verdicts[3], { seq: 1 })
        assert.deepInclude(verdicts[4], { seq: 2 })
      })
    )
  })
}

describe("AppendBatch", () => {
  it.live("does every write once while its connections are killed again and again", () =>
    Effect.gen(function* () {
      const url = yield* TestPostgres.freshUrl({ name: "turnstep", migrate: Migrations.migrate })
      const killer = yield* Layer.build(Postgres.layer({ url, maxConnections: 1 }))
      const kill = Effect.flatMap(
        SqlClient,
        (sql) => sql`select pg_terminate_backend(pid) from pg_stat_activity
          where datname = current_database() and pid <> pg_backend_pid()`
      ).pipe(Effect.provide(killer), Effect.delay("40 millis"), Effect.repeat({ times: 15 }))
      const writes = Effect.gen(function* () {
        const journal = yield* Journal
        const held = yield* Effect.forEach(Array.from({ length: 8 }), () => Owned.make)
        const killing = yield* Effect.forkChild(kill)
        const counts = yield* Effect.forEach(
          held,
          ({ fence, sessionId }) =>
            Effect.gen(function* () {
              let count = 0
              while (killing.pollUnsafe() === undefined) {
                const write = { sessionId, fence, expectedSeq: undefined, facts: [status("running"), status("idle")] }
                count += (yield* journal.append(write)).length
              }
              return count
            }),
          { concurrency: "unbounded" }
        )
        const logs = yield* Effect.forEach(held, ({ sessionId, state }) =>
          journal.read(sessionId, { after: state.seq })
        )
        assert.deepStrictEqual(
          logs.map((events) => events.length),
          counts
        )
        assert.isTrue(counts.every((count) => count > 0))
      })
      yield* Effect.provide(writes, Databases.ports.pipe(Layer.provideMerge(Postgres.layer({ url }))))
    }).pipe(Effect.scoped)
  )
})
