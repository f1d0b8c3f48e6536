/** How the command starts and ends as a process: where its compiled code comes from, and who it belongs to. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import { spawn } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import * as net from "node:net"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import * as Command from "../fixtures/Command.ts"
import * as Folder from "../fixtures/Folder.ts"
import * as McpServers from "../fixtures/McpServers.ts"
import * as Postgres from "../fixtures/Postgres.ts"
import * as Processes from "../fixtures/Processes.ts"

const bin = fileURLToPath(new URL("../../packages/server/bin/turnstep.mjs", import.meta.url))

it.live("keeps compiled code in a folder of its user alone, or nowhere", () =>
  Effect.gen(function* () {
    const cwd = yield* Folder.make({ "home/.keep": "", "tmp/.keep": "" })
    const run = Effect.gen(function* () {
      const env = { HOME: path.join(cwd, "home"), TMPDIR: path.join(cwd, "tmp") }
      const command = yield* Command.start(["--version"], { cwd, env })
      assert.strictEqual(yield* command.exit, 0)
    }).pipe(Effect.scoped)
    const cache = path.join(cwd, "home/.cache/turnstep/compiled")
    yield* run
    assert.deepStrictEqual(fs.readdirSync(path.join(cwd, "tmp")), [".keep"])
    assert.strictEqual(fs.statSync(cache).mode & 0o777, 0o700)
    assert.isNotEmpty(fs.readdirSync(cache))
    for (const folder of [cache, path.dirname(cache)]) {
      fs.rmSync(cache, { recursive: true })
      fs.mkdirSync(cache)
      fs.chmodSync(folder, 0o777)
      yield* run
      assert.isEmpty(fs.readdirSync(cache), "others could have put code there")
      fs.chmodSync(folder, 0o700)
    }
    fs.rmSync(cache, { recursive: true })
    fs.symlinkSync(path.join(cwd, "tmp"), cache)
    yield* run
    assert.deepStrictEqual(fs.readdirSync(path.join(cwd, "tmp")), [".keep"])
  }).pipe(Effect.provide(NodeServices.layer))
)

/** A server that is the child of a shell, as npm starts it; the shell is killed. */
const abandoned = Effect.fnUntraced(function* (env: Readonly<Record<string, string>>) {
  const cwd = yield* Folder.make({})
  const { HOME = "", PATH = "" } = process.env
  const shell = yield* Effect.acquireRelease(
    Effect.sync(() => {
      const command = '"$0" "$1" dev & echo $!; wait'
      return spawn("sh", ["-c", command, process.execPath, bin], {
        cwd,
        env: { HOME, PATH, TURNSTEP_PORT: "0", ...env },
        stdio: ["ignore", "pipe", "pipe"]
      })
    }),
    (shell) => Effect.sync(() => shell.kill("SIGKILL"))
  )
  let said = ""
  shell.stderr.on("data", (chunk) => (said += String(chunk)))
  const pid = Number(yield* Effect.promise(async () => String((await once(shell.stdout, "data"))[0])))
  yield* Effect.addFinalizer(() =>
    Effect.sync(() => {
      if (Processes.isAlive(pid)) process.kill(pid, "SIGKILL")
    })
  )
  const tick = { schedule: Schedule.spaced("20 millis") }
  yield* Effect.sync(() => said.includes("  stop")).pipe(Effect.repeat({ until: Boolean, ...tick }))
  shell.kill("SIGKILL")
  yield* Effect.sync(() => Processes.isAlive(shell.pid ?? 0)).pipe(Effect.repeat({ while: Boolean, ...tick }))
  const isGone = Effect.sync(() => !Processes.isAlive(pid)).pipe(Effect.repeat({ until: Boolean, ...tick }))
  return { pid, isGone, said: () => said }
})

it.live(
  "stops when the npm that started it is gone",
  () =>
    Effect.gen(function* () {
      const { isGone, said } = yield* abandoned({ npm_command: "exec" })
      yield* isGone
      assert.include(said(), "npm has ended")
      assert.notInclude(said(), "ERROR")
    }).pipe(Effect.provide(NodeServices.layer)),
  { timeout: 60_000 }
)

it.live(
  "goes on when a shell that started it is gone",
  () =>
    Effect.gen(function* () {
      const { pid } = yield* abandoned({})
      yield* Effect.sleep("1500 millis") // three looks later
      assert.isTrue(Processes.isAlive(pid))
    }).pipe(Effect.provide(NodeServices.layer)),
  { timeout: 60_000 }
)

it.live(
  "waits for a database that is not there yet, and says so",
  () =>
    Effect.gen(function* () {
      const cwd = yield* Folder.make({})
      const url = new URL(Redacted.value(yield* Postgres.freshUrl()))
      const directory = url.searchParams.get("host")
      const connect = () =>
        directory === null
          ? net.connect(Number(url.port), url.hostname)
          : net.connect(path.join(directory, ".s.PGSQL.5432"))
      const port = yield* McpServers.freePort
      const env = { TURNSTEP_PORT: "0", DATABASE_URL: `postgres://postgres@127.0.0.1:${port}${url.pathname}` }
      const command = yield* Command.start(["serve"], { cwd, env })
      yield* command.says("cannot be reached. Start it, or correct DATABASE_URL. Trying again for 30s.")
      yield* Effect.acquireRelease(
        Effect.sync(() =>
          net
            .createServer((socket) => {
              const upstream = connect()
              for (const [from, to] of [
                [socket, upstream],
                [upstream, socket]
              ] as const) {
                from.on("error", () => to.destroy())
                from.pipe(to)
              }
            })
            .listen(port, "127.0.0.1")
        ),
        (server) => Effect.sync(() => server.close())
      )
      yield* command.says("  stop")
      yield* command.signal("SIGTERM")
      assert.strictEqual(yield* command.exit, 0)
    }).pipe(Effect.provide(NodeServices.layer)),
  { timeout: 60_000 }
)
