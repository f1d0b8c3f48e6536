/**
 * A PostgreSQL server that stops at once (`-m immediate`) and starts again, over and over, under several conversations.
 *
 * Each conversation has a database of its own on the one server; its process lives on.
 */
import { assert, it } from "@effect/vitest"
import * as Postgres from "@turnstep/runtime/database/Postgres"
import * as Migrations from "@turnstep/runtime/sql/Migrations"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Redacted from "effect/Redacted"
import { SqlClient } from "effect/sql/SqlClient"
import * as fs from "node:fs"
import * as path from "node:path"
import * as PostgresServer from "../fixtures/PostgresServer.ts"
import * as RunDirectory from "../fixtures/RunDirectory.ts"
import * as Cell from "./Cell.ts"
import * as Judge from "./Judge.ts"

const conversations = 3
const restarts = Number(process.env["RESTARTS"] ?? 8)

/** A server of one's own: others are not to suffer. */
const server = Effect.gen(function* () {
  const directory = fs.mkdtempSync(path.join(RunDirectory.runDirectory(), "server-"))
  fs.chmodSync(directory, 0o711)
  const address = yield* Effect.acquireRelease(
    Effect.promise(() => PostgresServer.start(directory)),
    () => Effect.promise(() => PostgresServer.stop(directory))
  )
  const urlOf = (database: string) =>
    "port" in address
      ? `postgres://postgres@127.0.0.1:${address.port}/${database}`
      : `postgres://postgres@localhost/${database}?host=${encodeURIComponent(address.socketDirectory)}`
  const restart = Effect.promise(async () => {
    await PostgresServer.stop(directory)
    await PostgresServer.restart(directory, address)
  })
  const create = Effect.fnUntraced(function* (name: string) {
    yield* Effect.flatMap(SqlClient, (sql) => sql`create database ${sql(name)}`).pipe(
      Effect.provide(Postgres.layer({ url: Redacted.make(urlOf("postgres")), maxConnections: 1 }))
    )
    const url = urlOf(name)
    yield* Effect.provide(Migrations.migrate, Postgres.layer({ url: Redacted.make(url) }))
    return { url }
  }, Effect.orDie)
  return { create, restart }
})

it.live(
  `a server that dies ${restarts} times under ${conversations} conversations loses no message and repeats none`,
  () =>
    Effect.gen(function* () {
      const { create, restart } = yield* server
      let died = 0
      // A quick machine is done with its conversations before the server has died so often: then there are others.
      for (let round = 0; died < restarts; round++) {
        const talking = yield* Effect.forEach(Array.from({ length: conversations }), (_, n) =>
          Effect.gen(function* () {
            const world = yield* Cell.makeOn(yield* create(`talk_${round}_${n}`))
            world.outside.relax()
            const process = yield* world.start()
            yield* process.until("ready")
            return { world, ended: yield* Effect.forkScoped(process.until("end"), { startImmediately: true }) }
          })
        )
        while (died < restarts && talking.some(({ ended }) => ended.pollUnsafe() === undefined)) {
          yield* Effect.sleep(`${Math.round(Math.random() * 1_000)} millis`)
          died++
          for (const { world } of talking) world.seen.crashes++
          yield* restart
        }
        for (const { ended, world } of talking) {
          const { end } = yield* Fiber.join(ended)
          if (end === undefined) return assert.fail(world.logged.join("; "))
          assert.deepStrictEqual(Judge.complaints(end, world.seen, world.provider, world.outside.starts), [])
        }
      }
    }).pipe(Effect.scoped),
  { timeout: 400_000 }
)
