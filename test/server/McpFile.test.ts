import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as McpFile from "@turnstep/server/McpFile"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Command from "../fixtures/Command.ts"
import * as Folder from "../fixtures/Folder.ts"
import * as McpServers from "../fixtures/McpServers.ts"
import * as Server from "../fixtures/Server.ts"
import * as Sse from "../fixtures/Sse.ts"

const read = Effect.fnUntraced(function* (file: unknown, env: Readonly<Record<string, string>> = {}) {
  const folder = yield* Folder.make({ "mcp.json": typeof file === "string" ? file : JSON.stringify(file) })
  return yield* McpFile.read({ value: `${folder}/mcp.json`, source: "flag", name: "--mcp" }).pipe(
    Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromEnv({ env: { ...env } }))
  )
})

const refused = (file: unknown) => Effect.map(Effect.flip(read(file)), ({ message }) => message)
const server = (entry: unknown) => ({ mcpServers: { s: entry } })

describe("The file of MCP servers", () => {
  it.live("takes the customary form, with variables of the environment, and names what it does not read", () =>
    Effect.gen(function* () {
      const scripted = yield* McpServers.scripted()
      const { args, command, env } = scripted.endpoint
      const entry = {
        command: "${NODE}",
        args: [args[0], "${FOLDER:-" + scripted.folder + "}"],
        env: { ...env, SECRET: "${KEY}" },
        autoApprove: ["echo"]
      }
      const file = yield* read(
        { mcpServers: { one: entry, off: { ...entry, disabled: true } }, inputs: [] },
        { NODE: command, KEY: "from the environment" }
      )
      assert.deepStrictEqual(file.ignored, ["one.autoApprove", "off.autoApprove"])
      assert.deepStrictEqual(
        file.toolkits.map(({ name }) => name),
        ["one"]
      )
      const [toolkit] = file.toolkits
      const output = yield* Effect.gen(function* () {
        const tools = yield* toolkit?.tools ?? assert.fail("no toolkit")
        const environment = tools.find(({ tool }) => tool.name === "one__environment")
        const { output } = yield* environment?.handler.run({}, "key", () => Effect.void) ?? assert.fail("no tool")
        return output
      }).pipe(Effect.provide(file.layer))
      assert.include(String(output), '"SECRET":"from the environment"')
    }).pipe(Effect.provide(NodeServices.layer))
  )

  it.live("says which server is wrong, and how, and tells no value", () =>
    Effect.gen(function* () {
      assert.match(yield* refused("{"), /^--mcp: .*mcp\.json is not JSON/)
      assert.match(yield* refused({ servers: {} }), /no "mcpServers".*Write \{ "mcpServers"/)
      assert.match(yield* refused(server({})), /server s: It has neither a command nor a url/)
      assert.match(yield* refused(server({ command: "a", url: "http://b" })), /a command and a url/)
      assert.match(yield* refused(server({ type: "sse", url: "http://b/sse" })), /"sse".*Streamable HTTP/)
      assert.match(yield* refused(server({ url: "file:///etc/passwd" })), /no http or https address/)
      assert.match(yield* refused(server({ command: "a", env: { KEY: "${NOT_THERE}" } })), /NOT_THERE is not set/)
      assert.match(yield* refused({ mcpServers: { "a b": { command: "x" } } }), /server a b: A server's name has/)
      assert.match(yield* refused(server("secret-word")), /server s: It is not an object/)
      const wrong = yield* refused(server({ command: "a", env: { KEY: ["secret-word"] } }))
      assert.match(wrong, /server s: What stands at \["env"\]\["KEY"\]/)
      assert.notInclude(wrong, "secret-word")
      const missing = McpFile.read({ value: "/no/such.json", source: "environment", name: "TURNSTEP_MCP" })
      assert.match((yield* Effect.flip(missing)).message, /^TURNSTEP_MCP: \/no\/such.json cannot be read/)
    }).pipe(Effect.provide(NodeServices.layer))
  )

  it.live(
    "gives a server that is started with it their tools, and leaves no process when it stops",
    () =>
      Effect.gen(function* () {
        const scripted = yield* McpServers.scripted()
        const provider = yield* StrictProvider.make({
          respond: StrictProvider.script([
            StrictProvider.calls([{ name: "s__echo", arguments: { text: "over HTTP" } }]),
            StrictProvider.text("done")
          ])
        })
        const mcpServers = { s: { ...scripted.endpoint, tools: ["echo"] }, away: { command: "/no/such/command" } }
        const cwd = yield* Folder.make({ "mcp.json": JSON.stringify({ mcpServers }) })
        const env = { TURNSTEP_TOKEN: Server.token, TURNSTEP_PORT: "0", TURNSTEP_BASE_URL: provider.baseUrl }
        const command = yield* Command.start(["dev", "--mcp", "mcp.json", "--model", "custom/m"], { cwd, env })
        yield* command.says("  stop")
        assert.match(command.stderr(), / mcp +s, away/)
        const body = { id: "a", input: "go" }
        const stream = yield* Sse.open(Server.at(Command.addressOf(command)), "/api/sessions", { method: "POST", body })
        const frames = yield* stream.rest
        const [completed] = frames.filter(Sse.isEvent("call.completed"))
        assert.strictEqual(completed?.data.data["output"], 'echo {"text":"over HTTP"}')
        assert.include(provider.requests[0]?.toolNames ?? [], "s__echo")
        assert.notInclude(provider.requests[0]?.toolNames ?? [], "s__die")
        assert.lengthOf(McpServers.processesOf(scripted.folder), 1)
        yield* command.signal("SIGTERM")
        assert.strictEqual(yield* command.exit, 0)
        assert.isEmpty(McpServers.processesOf(scripted.folder))
        assert.include(command.stderr(), "MCP server away cannot be used")
        assert.notInclude(command.stderr(), McpServers.secret)
      }).pipe(Effect.provide(NodeServices.layer)),
    { timeout: 120_000 }
  )

  it.live(
    "is checked by turnstep doctor, server by server",
    () =>
      Effect.gen(function* () {
        const scripted = yield* McpServers.scripted()
        const { endpoint } = yield* McpServers.scripted({ MCP_MANY: "1000" })
        const url = `http://127.0.0.1:${yield* McpServers.freePort}/mcp?key=sk-0123456789`
        const mcpServers = { s: scripted.endpoint, away: { url }, many: endpoint }
        const cwd = yield* Folder.make({ "mcp.json": JSON.stringify({ mcpServers }) })
        const env = { TURNSTEP_MCP: "mcp.json", TURNSTEP_PORT: "0" }
        const command = yield* Command.start(["doctor", "--json"], { cwd, env })
        assert.strictEqual(yield* command.exit, 1)
        const findings = (JSON.parse(command.stdout()) as ReadonlyArray<Record<string, unknown>>).filter(({ check }) =>
          String(check).startsWith("mcp")
        )
        assert.deepStrictEqual(
          findings.map(({ check, isWell }) => [check, isWell]),
          [
            ["mcp", true],
            ["mcp s", true],
            ["mcp away", false],
            ["mcp many", true]
          ]
        )
        assert.match(String(findings[1]?.["found"]), /^scripted 1\.0\.0, \d+ tools, digest [0-9a-f]{12}$/)
        assert.match(String(findings[2]?.["found"]), /ECONNREFUSED/)
        assert.match(
          String(findings[3]?.["found"]),
          / 1000 tools, .*; \d+ tools are left out: one server may have 1000; 1 tool/
        )
        assert.notInclude(command.stdout() + command.stderr(), "sk-0123456789")
        assert.isEmpty(McpServers.processesOf(scripted.folder))
        assert.isFalse(yield* FileSystem.FileSystem.use((fs) => fs.exists(`${cwd}/.turnstep`)))
      }).pipe(Effect.provide(NodeServices.layer)),
    { timeout: 60_000 }
  )

  it.live(
    "is approved once: a server that is new or has changed is refused, and so are tools that have",
    () =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const scripted = yield* McpServers.scripted()
        const cwd = yield* Folder.make({})
        const start = Effect.fnUntraced(function* (entry: object, ...args: ReadonlyArray<string>) {
          yield* fs.writeFileString(`${cwd}/mcp.json`, JSON.stringify({ mcpServers: { s: entry } }))
          const command = yield* Command.start(["dev", "--mcp", "mcp.json", ...args], {
            cwd,
            env: { TURNSTEP_PORT: "0" }
          })
          return command
        })
        const stop = Effect.fnUntraced(function* (command: Command.Running) {
          yield* command.signal("SIGTERM")
          assert.strictEqual(yield* command.exit, 0, command.stderr())
        })
        const first = yield* start(scripted.endpoint)
        yield* first.says("MCP server s is ready")
        yield* stop(first)

        const refused = yield* start({ ...scripted.endpoint, args: [...scripted.endpoint.args, "--more"] })
        assert.strictEqual(yield* refused.exit, 2)
        assert.match(refused.stderr(), /--mcp: mcp\.json: s is new or has changed.*--trust-mcp/)

        // The program behind the entry is the same; what it offers is not.
        const file = `${cwd}/.turnstep/mcp-approved.json`
        const approved = JSON.parse(yield* fs.readFileString(file)) as { readonly s: { readonly entry: string } }
        const tools = "0".repeat(64)
        yield* fs.writeFileString(file, JSON.stringify({ s: { entry: approved.s.entry, tools } }))
        const other = yield* start(scripted.endpoint)
        yield* other.says("its tools are not those that were approved")
        yield* other.says("MCP server s is ready with 0 tools")
        yield* stop(other)

        const trusted = yield* start(scripted.endpoint, "--trust-mcp")
        yield* trusted.says("MCP server s is ready with ")
        assert.notInclude(trusted.stderr(), "with 0 tools")
        yield* stop(trusted)
      }).pipe(Effect.provide(NodeServices.layer)),
    { timeout: 120_000 }
  )
})
