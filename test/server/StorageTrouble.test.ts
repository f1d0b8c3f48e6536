/** A server on a database that stays silent, or that takes no writes: what is told, and when. */
import { assert, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as PostgresLayer from "@turnstep/runtime/database/Postgres"
import * as Demo from "@turnstep/runtime/model/Demo"
import * as Runtime from "@turnstep/runtime/Runtime"
import * as DemoTools from "@turnstep/runtime/tools/DemoTools"
import * as Workspace from "@turnstep/runtime/tools/Workspace"
import * as DefaultAgent from "@turnstep/server/DefaultAgent"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Redacted from "effect/Redacted"
import { SqlClient } from "effect/sql/SqlClient"
import * as Command from "../fixtures/Command.ts"
import * as Postgres from "../fixtures/Postgres.ts"
import * as Proxy from "../fixtures/Proxy.ts"
import * as Server from "../fixtures/Server.ts"

const timeout = { timeout: 120_000 }

const serverOn = Effect.fnUntraced(function* (url: Redacted.Redacted) {
  const lines: Array<string> = []
  const logger = Logger.make(({ logLevel, message }) => lines.push(`${logLevel} ${String(message)}`))
  const runtime = Runtime.layerSql([DefaultAgent.demoAgent]).pipe(
    Layer.provide([Demo.layerInstant, DemoTools.layer, Workspace.layer({ root: "." })]),
    Layer.provide([PostgresLayer.layer({ url }), NodeServices.layer])
  )
  const context = yield* Layer.build(Layer.provideMerge(Server.layer(runtime), Logger.layer([logger])))
  return { server: Context.get(context, Server.TestServer), lines }
})

it.live(
  "answers 503 to whoever asks a silent database, and goes on when it speaks again",
  () =>
    Effect.gen(function* () {
      const proxy = yield* Proxy.make(yield* Postgres.freshUrl())
      const { server } = yield* serverOn(proxy.url)
      const sent = yield* server.json("/api/sessions", { method: "POST", body: { id: "s", input: "/time" } })
      assert.strictEqual(sent.status, 201)
      yield* proxy.silence
      const asked = yield* Effect.forEach(
        ["/api/sessions/s", "/api/sessions", "/api/sessions/s/messages", "/readyz"],
        (path) => server.json(path),
        { concurrency: "unbounded" }
      )
      for (const { body, status } of asked) {
        assert.deepStrictEqual([status, body["code"]], [503, "storage-unavailable"])
      }
      assert.strictEqual((yield* server.fetch("/healthz")).status, 200)
      yield* proxy.heal
      const healed = Effect.map(server.json("/api/sessions/s"), ({ status }) => status)
      yield* Effect.repeat(healed, { until: (status) => status === 200 })
    }),
  timeout
)

it.live(
  "tells that a database takes no writes as 503 in one line of the log, and says that it is ready when one was taken",
  () =>
    Effect.gen(function* () {
      const url = yield* Postgres.freshUrl()
      const { lines, server } = yield* serverOn(url)
      const sql = Context.get(yield* Layer.build(PostgresLayer.layer({ url, maxConnections: 1 })), SqlClient)
      const [row] = yield* sql<{ readonly name: string }>`select current_database() as name`
      const database = row?.name ?? ""
      const write = server.json("/api/sessions", { method: "POST", body: {} })
      const turn = Effect.fnUntraced(function* (mode: "on" | "off") {
        yield* sql`set default_transaction_read_only = off`
        yield* sql.unsafe(`alter database ${database} set default_transaction_read_only = ${mode}`)
        yield* sql`select pg_terminate_backend(pid) from pg_stat_activity
          where datname = ${database} and pid <> pg_backend_pid()`
      })
      assert.strictEqual((yield* write).status, 201)
      yield* turn("on")
      for (let count = 0; count < 5; count++) {
        const { body, status } = yield* write
        assert.deepStrictEqual([status, body["code"]], [503, "storage-unavailable"])
      }
      assert.deepInclude((yield* server.json("/readyz")).body, { status: 503, code: "storage-unavailable" })
      assert.strictEqual((yield* server.fetch("/api/sessions")).status, 200)
      yield* turn("off")
      yield* Effect.repeat(write, { until: ({ status }) => status === 201 })
      assert.strictEqual((yield* server.fetch("/readyz")).status, 200)
      const told = lines.filter((line) => line.includes("storage "))
      assert.deepStrictEqual(told, [
        "Warn storage fails, and requests are told to come again: The database takes no writes at the moment. Nothing was written. (25006)",
        "Info storage takes writes again"
      ])
    }),
  timeout
)

it.live(
  "ends when it is told to, though its database is silent",
  () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const cwd = yield* fs.makeTempDirectoryScoped({ prefix: "turnstep-silent-" })
      const proxy = yield* Proxy.make(yield* Postgres.freshUrl())
      const env = { DATABASE_URL: Redacted.value(proxy.url), TURNSTEP_TOKEN: Server.token, TURNSTEP_PORT: "0" }
      const command = yield* Command.start(["serve"], { cwd, env })
      yield* command.says("  stop")
      const server = Server.at(Command.addressOf(command))
      yield* server.json("/api/sessions", { method: "POST", body: { id: "s", input: "/slow 600" } })
      yield* proxy.silence
      yield* Effect.forkChild(server.json("/api/sessions/s/messages", { method: "POST", body: { text: "x" } }))
      yield* command.signal("SIGTERM")
      assert.strictEqual(yield* command.exit, 0)
      assert.include(command.stderr(), "the database does not let go")
    }).pipe(Effect.provide(NodeServices.layer)),
  timeout
)
