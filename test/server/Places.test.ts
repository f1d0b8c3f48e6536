/** What the agent of a server can reach of the server's own files, on a real start with plain names. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, it } from "@effect/vitest"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import * as path from "node:path"
import * as Command from "../fixtures/Command.ts"
import * as Folder from "../fixtures/Folder.ts"
import * as Server from "../fixtures/Server.ts"
import * as Sse from "../fixtures/Sse.ts"

const tricks: ReadonlyArray<StrictProvider.Call> = [
  { name: "read_files", arguments: { paths: ["var/state/token"] } },
  { name: "read_files", arguments: { paths: ["alias/token"] } },
  { name: "read_files", arguments: { paths: ["hard.txt"] } },
  { name: "write_file", arguments: { path: "hard.txt", content: "mine" } },
  { name: "list_files", arguments: { path: "var/state" } },
  { name: "grep", arguments: { pattern: ".", path: "var/state" } },
  { name: "read_files", arguments: { paths: ["tools.json"] } },
  { name: "write_file", arguments: { path: "var/state/token", content: "t".repeat(43) } },
  { name: "write_file", arguments: { path: "var/state/db/pg/PG_VERSION", content: "1" } },
  { name: "write_file", arguments: { path: "tools.json", content: "{}" } },
  { name: "write_file", arguments: { path: "alias/spills/new", content: "x" } },
  { name: "edit_file", arguments: { path: "tools.json", old: "mcpServers", new: "x" } },
  { name: "write_file", arguments: { path: "packages/effect/index.js", content: "x" } }
]

it.live(
  "keeps its token, database, spills, MCP file and packages from the agent, whatever they are called",
  () =>
    Effect.gen(function* () {
      const provider = yield* StrictProvider.make({
        respond: StrictProvider.script([StrictProvider.calls(tricks), StrictProvider.text("done")])
      })
      const cwd = yield* Folder.make({ "tools.json": JSON.stringify({ mcpServers: {} }), "notes.txt": "plain" })
      fs.symlinkSync("var/state", path.join(cwd, "alias"))
      fs.symlinkSync(path.resolve("node_modules"), path.join(cwd, "packages"))
      const env = { TURNSTEP_PORT: "0", TURNSTEP_DATA: "var/state", TURNSTEP_BASE_URL: provider.baseUrl }
      const args = ["dev", "--mcp", "tools.json", "--model", "custom/m", "--allow-writes"]
      const command = yield* Command.start(args, { cwd, env })
      yield* command.says("  stop")
      const token = fs.readFileSync(path.join(cwd, "var/state/token"), "utf8").trim()
      fs.linkSync(path.join(cwd, "var/state/token"), path.join(cwd, "hard.txt"))
      const body = { id: "a", input: "go" }
      const init = { method: "POST", body, headers: { authorization: `Bearer ${token}` } }
      const stream = yield* Sse.open(Server.at(Command.addressOf(command)), "/api/sessions", init)
      const completed = (yield* stream.rest).filter(Sse.isEvent("call.completed"))
      assert.lengthOf(completed, tricks.length)
      for (const { data } of completed) {
        assert.strictEqual(data.data["isFailure"], true, JSON.stringify(data.data))
        assert.notInclude(JSON.stringify(data.data), token)
      }
      assert.strictEqual(fs.readFileSync(path.join(cwd, "var/state/token"), "utf8").trim(), token)
      assert.strictEqual(fs.readFileSync(path.join(cwd, "tools.json"), "utf8"), '{"mcpServers":{}}')
    }).pipe(Effect.provide(NodeServices.layer)),
  { timeout: 60_000 }
)
