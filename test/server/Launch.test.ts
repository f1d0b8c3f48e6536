import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, layer } from "@effect/vitest"
import * as DirectoryLock from "@turnstep/runtime/database/DirectoryLock"
import { noFlags } from "@turnstep/server/Config"
import type { Flags } from "@turnstep/server/Config"
import * as Database from "@turnstep/server/Database"
import * as Launch from "@turnstep/server/Launch"
import * as Cause from "effect/Cause"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Redacted from "effect/Redacted"
import * as SqlClient from "effect/sql/SqlClient"
import * as PgClient from "@effect/sql-pg/PgClient"
import { createServer } from "node:net"
import * as Postgres from "../fixtures/Postgres.ts"

const folder = Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped({ prefix: "turnstep-launch-" }))

/** Why a start fails: the one line a user reads. */
const refusal = Effect.fnUntraced(function* (
  flags: Partial<Flags>,
  env: Readonly<Record<string, string>> = {},
  command: "dev" | "serve" = "dev"
) {
  const data = Option.some(yield* folder)
  const exit = yield* Launch.run(command, { ...noFlags, data, port: Option.some(0), ...flags }).pipe(
    Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromEnv({ env: { ...env } })),
    Effect.provideService(Database.Patience, Duration.zero),
    Effect.exit
  )
  const failed = Exit.isFailure(exit) ? exit.cause : Cause.die("it started")
  assert.deepStrictEqual(
    failed.reasons.filter((reason) => !Cause.isFailReason(reason)),
    [],
    Cause.pretty(failed)
  )
  const error = Cause.squash(failed)
  const message = error instanceof Error ? error.message : String(error)
  assert.notInclude(message, "\n")
  return message
})

const busyPort = Effect.acquireRelease(
  Effect.callback<{ readonly port: number; readonly close: () => void }>((resume) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const address = server.address()
      const port = typeof address === "object" && address !== null ? address.port : 0
      resume(Effect.succeed({ port, close: () => server.close() }))
    })
  }),
  ({ close }) => Effect.sync(close)
)

layer(NodeServices.layer, { excludeTestServices: true })("A start that fails", (it) => {
  it.effect("says that the port is in use", () =>
    Effect.gen(function* () {
      const { port } = yield* busyPort
      const databaseUrl = Option.some(yield* Postgres.freshUrl())
      const message = yield* refusal({ port: Option.some(port), databaseUrl })
      assert.match(message, new RegExp(`127.0.0.1:${port} is in use .*--port, in code with the option .port.`))
    })
  )

  it.effect("says which process has the data folder", () =>
    Effect.gen(function* () {
      const path = yield* Path.Path
      const data = yield* folder
      yield* DirectoryLock.acquire(path.join(data, "db"))
      assert.match(yield* refusal({ data: Option.some(data) }), /already open in this process.*another data directory/)
    })
  )

  it.effect("says that a model is not known, and which providers are", () =>
    Effect.gen(function* () {
      const databaseUrl = Option.some(yield* Postgres.freshUrl())
      const message = yield* refusal({ model: Option.some("gpt"), databaseUrl })
      assert.match(message, /'gpt' is not a model.*provider\/model.*openai/)
    })
  )

  it.effect("says which key a provider needs", () =>
    Effect.gen(function* () {
      const databaseUrl = Option.some(yield* Postgres.freshUrl())
      const message = yield* refusal({ model: Option.some("openai/x"), databaseUrl })
      assert.match(message, /openai.*OPENAI_API_KEY/)
    })
  )

  it.effect("says where no database answers, without its password", () =>
    Effect.gen(function* () {
      const databaseUrl = Option.some(Redacted.make("postgres://user:pa55word@127.0.0.1:1/main"))
      const message = yield* refusal({ databaseUrl })
      assert.match(message, /127\.0\.0\.1:1\/main cannot be reached.*DATABASE_URL/)
      assert.notInclude(message, "pa55word")
    })
  )

  it.effect("says that a database is read-only", () =>
    Effect.gen(function* () {
      const url = yield* Postgres.freshUrl()
      yield* Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const name = new URL(Redacted.value(url)).pathname.slice(1)
        yield* sql.unsafe(`alter database "${name}" set default_transaction_read_only = on`)
      }).pipe(Effect.provide(PgClient.layer({ url, maxConnections: 1 })))
      assert.match(yield* refusal({ databaseUrl: Option.some(url) }), /is read-only, as a standby is.*primary/)
    })
  )

  it.effect("says that the data folder cannot be made, or be used for large outputs", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const base = yield* folder
      yield* fs.writeFileString(`${base}/file`, "")
      const unmade = yield* refusal({ data: Option.some(`${base}/file/data`) })
      assert.match(unmade, /data folder .*a file is in the place of a folder above it.*--data/)
      const databaseUrl = Option.some(yield* Postgres.freshUrl())
      yield* fs.writeFileString(`${base}/spills`, "")
      const message = yield* refusal({ data: Option.some(base), databaseUrl }, { TURNSTEP_ADOPT: "1" })
      assert.match(message, /large outputs.*no folder is in its place/)
    })
  )

  it.effect("says that the workspace lies in the data folder", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const data = yield* folder
      yield* fs.makeDirectory(`${data}/ws`)
      for (const workspace of [data, `${data}/ws`]) {
        const message = yield* refusal({ data: Option.some(data), workspace: Option.some(workspace) })
        assert.match(message, /^--workspace: .* lies in the data folder.*--workspace or --data/)
      }
    })
  )

  it.effect("says that a database URL is none", () =>
    Effect.gen(function* () {
      const databaseUrl = Option.some(Redacted.make("mysql://user:pa55word@h/d"))
      assert.match(yield* refusal({ databaseUrl }), /postgres:\/\//)
    })
  )

  it.effect("says that the workspace is not there", () =>
    Effect.gen(function* () {
      const databaseUrl = Option.some(yield* Postgres.freshUrl())
      assert.include(yield* refusal({ workspace: Option.some("/no/such/folder"), databaseUrl }), "/no/such/folder")
    })
  )

  it.effect("says that an address must be allowed when others can reach it", () =>
    Effect.gen(function* () {
      assert.match(yield* refusal({ host: Option.some("0.0.0.0") }), /--allow-remote/)
    })
  )

  it.effect("says that a server needs a storage to be named", () =>
    Effect.gen(function* () {
      assert.match(yield* refusal({ data: Option.none() }, {}, "serve"), /DATABASE_URL.*--data/)
    })
  )
})
