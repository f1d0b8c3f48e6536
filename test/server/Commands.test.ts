import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, layer } from "@effect/vitest"
import { version } from "@turnstep/server/Version"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { tmpdir } from "node:os"
import * as Command from "../fixtures/Command.ts"
import * as Folder from "../fixtures/Folder.ts"
import * as Server from "../fixtures/Server.ts"

type Server = Server.TestServer["Service"]

const start = (server: Server, args: ReadonlyArray<string>) =>
  Command.start(args, { cwd: tmpdir(), env: { TURNSTEP_SERVER: server.url, TURNSTEP_TOKEN: Server.token } })

/** Runs a command to its end, against a server. */
const run = Effect.fnUntraced(function* (server: Server, ...args: ReadonlyArray<string>) {
  const command = yield* start(server, args)
  const code = yield* command.exit
  return { code, stdout: command.stdout(), stderr: command.stderr() }
}, Effect.scoped)

const standing = Effect.map(
  Server.scripted(({ messages }) => {
    const said = JSON.stringify(messages.at(-1))
    return StrictProvider.text(said.includes("trick") ? trick : said.includes("wait") ? ["fine", Effect.never] : "fine")
  }),
  ({ server }) => server
)

/** What would name the terminal's window, and write in red. */
const trick = "\u001b]0;owned\u0007\u001b[31mred"

layer(NodeServices.layer, { excludeTestServices: true })("The command line", (it) => {
  it.effect("shows a session whole, without what would drive the terminal", () =>
    Effect.gen(function* () {
      const server = yield* standing
      yield* server.json("/api/sessions", { method: "POST", body: { id: "s", title: trick } })
      const talked = yield* run(server, "chat", "--session", "s", "the trick")
      assert.deepStrictEqual([talked.code, talked.stdout.includes("\u001b")], [0, false])
      for (const args of [
        ["sessions", "ls"],
        ["sessions", "show", "s"]
      ]) {
        const shown = yield* run(server, ...args)
        assert.strictEqual(shown.code, 0, shown.stderr)
        assert.include(shown.stdout, "red")
        assert.notInclude(shown.stdout, "\u001b")
      }
      assert.match(
        (yield* run(server, "sessions", "show", "s")).stdout,
        /trn_1 {2}completed {2}\(\d+ tokens in, \d+ out\)/
      )
    }).pipe(Effect.scoped)
  )

  it.effect("says what to type, not what to send", () =>
    Effect.gen(function* () {
      const server = yield* standing
      const { code, stderr } = yield* run(server, "export", "none")
      assert.strictEqual(code, 1)
      assert.strictEqual(stderr, "turnstep: There is no session none. `turnstep sessions ls` lists those there are.\n")
    }).pipe(Effect.scoped)
  )

  it.effect("prints as JSON what the API sends", () =>
    Effect.gen(function* () {
      const server = yield* standing
      const talked = yield* run(server, "chat", "--session", "s", "--json", "hello")
      assert.strictEqual(talked.code, 0, talked.stderr)
      const told = talked.stdout.split("\n").flatMap((line) => (line.includes('"seq"') ? [JSON.parse(line)] : []))
      const { data } = (yield* server.json<{ data: ReadonlyArray<object> }>("/api/sessions/s/events")).body
      assert.deepStrictEqual(told, data.slice(-told.length))
      const listed = yield* run(server, "sessions", "ls", "--json")
      assert.deepStrictEqual(
        JSON.parse(listed.stdout),
        (yield* server.json<{ data: unknown }>("/api/sessions")).body.data
      )
      const shown = yield* run(server, "sessions", "show", "--json", "s")
      const { messages, session, turns } = JSON.parse(shown.stdout)
      for (const [path, value] of [
        ["", session],
        ["/turns", { data: turns, next: null }],
        ["/messages", { data: messages, next: null }]
      ]) {
        assert.deepStrictEqual((yield* server.json(`/api/sessions/s${path}`)).body, value)
      }
    }).pipe(Effect.scoped)
  )

  it.effect("tells what cannot be asked for, and what is no server, from what does not answer", () =>
    Effect.gen(function* () {
      const server = yield* standing
      assert.match(
        (yield* run(server, "sessions", "ls", "--limit", "5000")).stderr,
        /cannot be asked for: .* 1 and 1000/
      )
      const other = yield* StrictProvider.make({ respond: () => undefined })
      const { origin } = new URL(other.baseUrl)
      assert.match((yield* run(server, "sessions", "ls", "--server", origin)).stderr, /is not turnstep/)
      assert.match((yield* run(server, "sessions", "ls", "--server", "127.0.0.1:1")).stderr, /No server answers/)
    }).pipe(Effect.scoped)
  )

  it.effect("says where it looked for a server's token, and how to get one", () =>
    Effect.gen(function* () {
      const cwd = yield* Folder.make({})
      const command = yield* Command.start(["sessions", "ls"], { cwd })
      assert.strictEqual(yield* command.exit, 1)
      const file = `${cwd}/.turnstep/token`
      assert.match(
        command.stderr(),
        new RegExp(`^turnstep: There is no token in ${file}. Start a server here with .*\n$`)
      )
    }).pipe(Effect.scoped)
  )

  it.effect("ends quietly when nobody reads what it says any more", () =>
    Effect.gen(function* () {
      const server = yield* standing
      const talking = yield* start(server, ["chat", "wait"])
      yield* talking.deafen
      assert.strictEqual(yield* talking.exit, 141, talking.stderr())
      assert.notInclude(talking.stderr(), "Error")
    }).pipe(Effect.scoped)
  )

  it.effect("says once that its server is away, and waits for it until it is told not to", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const talking = yield* start(yield* Scope.provide(standing, scope), ["chat", "wait"])
      yield* talking.prints("fine")
      yield* Scope.close(scope, Exit.void)
      yield* talking.says("trying again")
      yield* Effect.sleep("1200 millis") // two tries later
      yield* talking.signal("SIGINT")
      assert.strictEqual(yield* talking.exit, 130)
      assert.strictEqual(talking.stderr().split("trying again").length, 2)
    }).pipe(Effect.scoped)
  )

  it.effect("finds nothing wrong with a port that its own server has, and something with one that another has", () =>
    Effect.gen(function* () {
      const server = yield* standing
      const { port } = new URL(server.url)
      const doctor = Effect.fnUntraced(function* (token: string) {
        const cwd = yield* Folder.make({})
        const command = yield* Command.start(["doctor", "--port", port], { cwd, env: { TURNSTEP_TOKEN: token } })
        return [yield* command.exit, command.stdout().match(/. port: .*/)?.[0]]
      })
      assert.deepStrictEqual(yield* doctor(Server.token), [
        0,
        `✓ port: 127.0.0.1:${port} has turnstep ${version} on it`
      ])
      assert.deepStrictEqual(yield* doctor("x".repeat(43)), [
        1,
        `✗ port: 127.0.0.1:${port} cannot be bound (EADDRINUSE)`
      ])
    }).pipe(Effect.scoped)
  )
})
