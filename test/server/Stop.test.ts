import { assert, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Redacted from "effect/Redacted"
import * as net from "node:net"
import * as Command from "../fixtures/Command.ts"
import * as Postgres from "../fixtures/Postgres.ts"
import * as Server from "../fixtures/Server.ts"
import * as Sse from "../fixtures/Sse.ts"

const timeout = { timeout: 120_000 }

/** A folder and a database of one's own, and a way to start servers on both. */
const place = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const cwd = yield* fs.makeTempDirectoryScoped({ prefix: "turnstep-stop-" })
  const url = yield* Postgres.freshUrl()
  const env = { DATABASE_URL: Redacted.value(url), TURNSTEP_TOKEN: Server.token, TURNSTEP_PORT: "0" }
  const start = Effect.gen(function* () {
    const command = yield* Command.start(["serve"], { cwd, env })
    yield* command.says("  stop")
    return { command, server: Server.at(Command.addressOf(command)) }
  })
  return { cwd, env, start }
})

it.live(
  "ends streams with a reason, lets a running Turn go and exits with 0; the Turn goes on after the next start",
  () =>
    Effect.gen(function* () {
      const { start } = yield* place
      const { command, server } = yield* start
      const body = { id: "s", input: "/slow 3" }
      const stream = yield* Sse.open(server, "/api/sessions", { method: "POST", body })
      yield* stream.until(Sse.isEvent("call.progress"))
      const stopping = performance.now()
      yield* command.signal("SIGTERM")
      const last = (yield* stream.rest).at(-1)
      assert.strictEqual(last?.event, "stream.closed")
      assert.deepStrictEqual(last?.data.data, { reason: "shutdown" })
      assert.strictEqual(yield* command.exit, 0)
      // About a second on an idle machine; tests run on busy ones.
      assert.isBelow(performance.now() - stopping, 10_000)
      assert.strictEqual(command.stdout(), "")
      assert.notInclude(command.stderr(), "ERROR")

      const next = yield* start
      const rest = yield* Sse.open(next.server, "/api/sessions/s/events?until=turn-end")
      const frames = yield* rest.rest
      assert.strictEqual(frames.at(-2)?.event, "turn.completed")
      assert.deepStrictEqual(
        frames.filter(Sse.isEvent("call.started")).map(({ data }) => data.data["attempt"]),
        [1, 2]
      )
      assert.strictEqual(frames.filter(Sse.isEvent("call.completed")).length, 1)
      yield* next.command.signal("SIGINT")
      assert.strictEqual(yield* next.command.exit, 0)
    }).pipe(Effect.provide(NodeServices.layer)),
  timeout
)

it.live(
  "exits at once when it is told a second time",
  () =>
    Effect.gen(function* () {
      const { start } = yield* place
      const { command, server } = yield* start
      // A request that never ends keeps the server for as long as its grace lasts.
      const socket = net.connect(server.port, "127.0.0.1")
      yield* Effect.addFinalizer(() => Effect.sync(() => socket.destroy()))
      const head = ["POST /api/sessions HTTP/1.1", `host: ${server.host}`, `authorization: Bearer ${Server.token}`]
      socket.write([...head, "content-type: application/json", "content-length: 9", "", "{"].join("\r\n"))
      yield* Effect.callback<void>((resume) => {
        if (socket.connecting) socket.once("connect", () => resume(Effect.void))
        else resume(Effect.void)
      })
      yield* server.fetch("/healthz")
      yield* command.signal("SIGTERM")
      // What repeats a signal is time: within half a second the same Ctrl-C may come twice.
      yield* Effect.sleep("600 millis")
      yield* command.signal("SIGTERM")
      assert.strictEqual(yield* command.exit, 143)
    }).pipe(Effect.provide(NodeServices.layer)),
  timeout
)

it.live(
  "exits with 2 when it is used wrongly and with 1 when it cannot start, in one line each",
  () =>
    Effect.gen(function* () {
      const { cwd } = yield* place
      const unknown = yield* Command.start(["serve", "--prot", "1"], { cwd })
      assert.strictEqual(yield* unknown.exit, 2)
      const missing = yield* Command.start(["serve"], { cwd })
      assert.strictEqual(yield* missing.exit, 2)
      assert.match(missing.stderr(), /^turnstep: .*DATABASE_URL.*\n$/)
      const away = yield* Command.start(["serve"], { cwd, env: { DATABASE_URL: "postgres://u:pw@127.0.0.1:1/d" } })
      assert.strictEqual(yield* away.exit, 1)
      assert.match(
        away.stderr(),
        /^turnstep: (The database at 127\.0\.0\.1:1\/d cannot be reached\..*) Trying again for 30s\.\nturnstep: \1\n$/
      )
    }).pipe(Effect.provide(NodeServices.layer)),
  timeout
)

it.live(
  "says what runs, where, and how to stop it, and names a key without using it",
  () =>
    Effect.gen(function* () {
      const { cwd, env } = yield* place
      const started = yield* Command.start(["serve"], { cwd, env: { ...env, OPENAI_API_KEY: "sk-secret" } })
      yield* started.says("  stop")
      const said = started.stderr()
      assert.match(said, /^turnstep \d+\.\d+\.\d+\n/)
      assert.match(said, /api +http:\/\/127\.0\.0\.1:\d+\/api\n/)
      assert.match(said, /docs +http:\/\/127\.0\.0\.1:\d+\/api\/docs\n/)
      assert.match(said, /model +demo \(scripted, not an LLM\)\n/)
      assert.match(said, /found +OPENAI_API_KEY: to use it, turnstep dev --model openai\/<model>\n/)
      assert.match(said, /storage +PostgreSQL at .*DATABASE_URL/)
      assert.match(said, /stop +Ctrl-C\n$/)
      assert.notInclude(said, "sk-secret")
      assert.notInclude(said, Server.token)
      assert.strictEqual(started.stdout(), "")
    }).pipe(Effect.provide(NodeServices.layer)),
  timeout
)
