/** A real database that refuses what a Turn has to record, for the reasons it has. */
import { assert, describe, it } from "@effect/vitest"
import * as PostgresLayer from "@turnstep/runtime/database/Postgres"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as TurnPlan from "@turnstep/core/TurnPlan"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { SqlClient } from "effect/sql/SqlClient"
import * as Postgres from "../fixtures/Postgres.ts"
import * as Sound from "../fixtures/Sound.ts"
import * as Tools from "../fixtures/Tools.ts"
import * as World from "../fixtures/World.ts"
import * as Databases from "./Databases.ts"

const { calls, text } = StrictProvider

/** A database whose server role may do everything until something is taken from it. */
const prepared = Effect.gen(function* () {
  const url = yield* Postgres.freshUrl(Databases.template)
  const role = `refused_${new URL(Redacted.value(url)).pathname.slice(-8)}`
  const administer = (...texts: ReadonlyArray<string>) =>
    Effect.gen(function* () {
      const sql = yield* SqlClient
      yield* Effect.forEach(texts, (each) => sql.unsafe(each), { discard: true })
    }).pipe(Effect.provide(PostgresLayer.layer({ url, maxConnections: 1 })), Effect.orDie)
  yield* Effect.acquireRelease(
    administer(
      `create role ${role} login`,
      `grant usage on schema turnstep to ${role}`,
      `grant select, insert, update, delete on all tables in schema turnstep to ${role}`,
      `grant usage on all sequences in schema turnstep to ${role}`
    ),
    () => administer(`drop owned by ${role}`, `drop role ${role}`)
  )
  const server = Redacted.make(Redacted.value(url).replace("//postgres@", `//${role}@`))
  return { administer, role, ports: Databases.storage(Layer.orDie(PostgresLayer.layer({ url: server }))) }
})

describe("PostgreSQL that refuses a write", () => {
  it.live(
    "for want of a grant ends the Turn after a few requests, with its reason",
    () =>
      Effect.gen(function* () {
        const { administer, ports, role } = yield* prepared
        yield* Effect.gen(function* () {
          const world = yield* World.withTools({
            respond: ({ messages }) =>
              messages.at(-1)?.content === "go" ? calls([Tools.call("pay", "a")]) : text("done")
          })
          yield* administer(`revoke insert on turnstep.tool_calls from ${role}`)
          yield* world.session.send("go")
          const end = yield* World.ended(world.session, 1)
          assert.strictEqual(end.type === "turn.failed" && end.data.error.code, "write-refused")
          assert.lengthOf(world.provider.requests, TurnPlan.maxRefusals)
          assert.isEmpty(world.tools.started)
          yield* administer(`grant insert on turnstep.tool_calls to ${role}`)
          assert.strictEqual((yield* world.session.run("again"))._tag, "Answered")
          assert.isEmpty(yield* Sound.complaints(world.session, world.provider, world.tools))
        }).pipe(Effect.scoped, Effect.provide(ports))
      }).pipe(Effect.scoped),
    60_000
  )

  it.live(
    "for want of room asks no model for a Turn that cannot begin, and begins it when there is room",
    () =>
      Effect.gen(function* () {
        const { administer, ports } = yield* prepared
        yield* Effect.gen(function* () {
          const world = yield* World.withTools({ respond: () => text("done") })
          yield* administer(
            `create function no_room() returns trigger language plpgsql as $$ begin
             raise exception 'could not extend file' using errcode = 'disk_full'; end $$`,
            "create trigger no_room before insert on turnstep.turns execute function no_room()"
          )
          yield* world.session.send("go")
          yield* Effect.repeat(Effect.sleep("20 millis"), {
            until: () => world.logged.filter((line) => line.includes("left alone")).length === 2
          })
          assert.isEmpty(world.provider.requests)
          yield* administer("drop trigger no_room on turnstep.turns", "drop function no_room()")
          assert.strictEqual((yield* World.ended(world.session, 1)).type, "turn.completed")
          assert.lengthOf(world.provider.requests, 1)
        }).pipe(Effect.scoped, Effect.provide(ports))
      }).pipe(Effect.scoped),
    60_000
  )

  it.live(
    "takes the largest step limit there is",
    () =>
      Effect.gen(function* () {
        const { ports } = yield* prepared
        yield* Effect.gen(function* () {
          const world = yield* World.withTools({
            respond: () => text("done"),
            policy: { maxSteps: 2 ** 31 - 2 }
          })
          assert.strictEqual((yield* world.session.run("go"))._tag, "Answered")
        }).pipe(Effect.scoped, Effect.provide(ports))
      }).pipe(Effect.scoped),
    60_000
  )
})
