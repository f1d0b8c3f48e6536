import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, layer } from "@effect/vitest"
import * as ProtectedPath from "@turnstep/runtime/ProtectedPath"
import * as Pglite from "@turnstep/runtime/database/Pglite"
import * as SpillFiles from "@turnstep/runtime/spill/SpillFiles"
import * as RunCommand from "@turnstep/runtime/tools/RunCommand"
import * as Workspace from "@turnstep/runtime/tools/Workspace"
import * as WorkspacePath from "@turnstep/runtime/tools/WorkspacePath"
import * as WorkspaceWrite from "@turnstep/runtime/tools/WorkspaceWrite"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as path from "node:path"
import * as Folder from "../../fixtures/Folder.ts"

/** A workspace `base/ws` with a data folder, a file of MCP servers and a library under plain names. */
const scene = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const base = yield* Folder.make({
    "ws/notes.txt": "SECRET is not in here",
    "ws/state/token": "SECRET",
    "ws/state/db/pg/1": "SECRET",
    "ws/state/spills/aa/bb": "SECRET",
    "ws/conf/mcp.json": "SECRET",
    "ws/conf/other.json": "{}",
    "ws/lib/server.mjs": "export {}",
    "ws/real/config.json": "SECRET",
    "outside/token": "SECRET"
  })
  const ws = path.join(base, "ws")
  yield* fs.symlink("state", path.join(ws, "alias"))
  yield* fs.symlink("state/token", path.join(ws, "innocent.txt"))
  yield* fs.symlink(ws, path.join(ws, "round"))
  yield* fs.symlink("real/config.json", path.join(ws, "config.json"))
  yield* fs.link(path.join(ws, "state/token"), path.join(ws, "hard.txt"))
  yield* fs.link(path.join(ws, "conf/mcp.json"), path.join(ws, "hard.json"))
  yield* fs.symlink(ws, path.join(base, "by-link"))
  // As settings name them: relative, by a link, not made yet.
  yield* ProtectedPath.protect(path.relative(process.cwd(), path.join(base, "by-link/state")))
  yield* ProtectedPath.protect(path.join(ws, "state/token"))
  yield* ProtectedPath.protect(path.join(ws, "conf/mcp.json"))
  yield* ProtectedPath.protect(path.join(ws, "config.json"))
  yield* ProtectedPath.protect(path.join(ws, "later/data"))
  yield* ProtectedPath.protect(path.join(ws, "lib"), "read")
  return { base, ws, workspace: yield* WorkspacePath.make(ws) }
})

const reasonOf = <A>(asked: Effect.Effect<A, WorkspacePath.PathRefused>) =>
  Effect.match(asked, { onFailure: ({ reason }) => reason, onSuccess: () => "given" as const })

const toolkit = Toolkit.merge(Workspace.toolkit, WorkspaceWrite.toolkit, RunCommand.toolkit)

const toolsIn = (root: string) =>
  toolkit.pipe(Effect.provide([Workspace.layer({ root }), WorkspaceWrite.layer({ root }), RunCommand.layer({ root })]))

layer(NodeServices.layer, { excludeTestServices: true })("ProtectedPath", (it) => {
  it.effect("is neither read nor written by any trick", () =>
    Effect.gen(function* () {
      const { base, workspace, ws } = yield* scene
      const tricks = [
        "state",
        "state/",
        "./state/token",
        "notes.txt/../state/token",
        "state/token",
        "state/db/pg/1",
        "state/spills/aa/bb",
        "state/none-yet",
        "state/new/deep/file",
        "alias",
        "alias/token",
        "alias/new",
        "innocent.txt",
        "hard.txt",
        "round/state/token",
        "round/round/alias/token",
        path.join(ws, "state/token"),
        path.join(ws, "round/state/db"),
        "conf/mcp.json",
        "hard.json",
        "round/conf/mcp.json",
        "config.json",
        "real/config.json",
        "later/data",
        "later/data/token",
        "Later/DATA/token",
        "later/data/deep/er"
      ]
      for (const trick of tricks) {
        const read = yield* reasonOf(workspace.locate(trick))
        assert.include(["private", "missing", "unreadable"], read, `read ${trick}`)
        const written = yield* reasonOf(workspace.place(trick))
        assert.include(["private", "unreadable"], written, `write ${trick}`)
      }
      const byLink = yield* WorkspacePath.make(path.join(base, "by-link"))
      assert.strictEqual(yield* reasonOf(byLink.locate("state/token")), "private")
      assert.strictEqual(yield* reasonOf(byLink.place("state/new")), "private")
    })
  )

  it.effect("leaves everything else as it was", () =>
    Effect.gen(function* () {
      const { workspace } = yield* scene
      for (const name of [
        "notes.txt",
        "conf",
        "conf/other.json",
        "round/notes.txt",
        ".",
        "stateful",
        "conf/mcp.jsonc"
      ]) {
        assert.include(["given", "missing"], yield* reasonOf(workspace.locate(name)), name)
      }
      for (const name of [
        "notes.txt",
        "conf/new.json",
        "conf/other.json",
        "later/other",
        "stateful",
        "conf/mcp.jsonc"
      ]) {
        assert.strictEqual(yield* reasonOf(workspace.place(name)), "given", name)
      }
    })
  )

  it.effect("may be one that is read and never written", () =>
    Effect.gen(function* () {
      const { workspace } = yield* scene
      assert.strictEqual(yield* reasonOf(workspace.locate("lib/server.mjs")), "given")
      for (const name of ["lib/server.mjs", "lib/new.mjs", "round/lib/server.mjs", "lib/new/er.mjs"]) {
        assert.strictEqual(yield* reasonOf(workspace.place(name)), "protected", name)
      }
    })
  )

  it.effect("stays protected when its file is replaced, and is released with its owner", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const base = yield* Folder.make({ "mcp.json": "{}", "next.json": "{}" })
      const workspace = yield* WorkspacePath.make(base)
      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* ProtectedPath.protect(path.join(base, "mcp.json"))
          yield* fs.rename(path.join(base, "next.json"), path.join(base, "mcp.json"))
          assert.strictEqual(yield* reasonOf(workspace.locate("mcp.json")), "private")
          yield* fs.remove(path.join(base, "mcp.json"))
          assert.strictEqual(yield* reasonOf(workspace.place("mcp.json")), "private")
          assert.strictEqual(yield* reasonOf(workspace.place("MCP.json")), "private")
        })
      )
      assert.strictEqual(yield* reasonOf(workspace.place("mcp.json")), "given")
    })
  )

  it.effect("covers a workspace that lies inside it", () =>
    Effect.gen(function* () {
      const base = yield* Folder.make({ "data/ws/a.txt": "SECRET" })
      yield* ProtectedPath.protect(path.join(base, "data"))
      const workspace = yield* WorkspacePath.make(path.join(base, "data/ws"))
      assert.strictEqual(yield* reasonOf(workspace.locate("a.txt")), "private")
      assert.strictEqual(yield* reasonOf(workspace.place("b.txt")), "private")
    })
  )

  it.effect("is nothing that a tool tells of, finds, runs in or replaces", () =>
    Effect.gen(function* () {
      const { ws } = yield* scene
      const tools = yield* toolsIn(ws)
      const listed = yield* Folder.call(tools, "list_files", {})
      const found = yield* Folder.call(tools, "grep", { pattern: "SECRET" })
      const names = JSON.stringify([listed.encodedResult, found.encodedResult])
      for (const secret of ["token", "mcp.json", "state/", "spills", "real/config.json"])
        assert.notInclude(names, secret)
      assert.deepInclude(found.encodedResult, { matches: 1, files: 1 })
      const read = yield* Folder.call(tools, "read_files", {
        paths: ["state/token", "hard.txt", "alias/token", "config.json"]
      })
      assert.isTrue(read.isFailure)
      assert.notInclude(JSON.stringify(read.encodedResult), "SECRET")
      const ran = yield* Folder.call(tools, "run_command", { command: "ls", folder: "state" })
      assert.deepInclude(ran.encodedResult, { reason: "private" })
      for (const file of ["state/token", "conf/mcp.json", "hard.json", "lib/server.mjs"]) {
        const written = yield* Folder.call(tools, "write_file", { path: file, content: "mine" })
        assert.isTrue(written.isFailure, file)
        const edited = yield* Folder.call(tools, "edit_file", { path: file, old: "SECRET", new: "mine" })
        assert.isTrue(edited.isFailure, file)
      }
    })
  )

  it.effect("is what the storage of a program uses, whatever its name", () =>
    Effect.gen(function* () {
      const base = yield* Folder.make({ "notes.txt": "plain" })
      const storage = Layer.merge(
        Pglite.layer({ dataDir: path.join(base, "things"), sync: false }),
        SpillFiles.layer({ folder: path.join(base, "big") })
      )
      yield* Effect.gen(function* () {
        const workspace = yield* WorkspacePath.make(base)
        for (const name of [
          "things",
          "things/pg",
          "things/turnstep.lock",
          "big",
          "big/half",
          "things/no",
          "big/no/ne"
        ]) {
          assert.include(["private", "missing"], yield* reasonOf(workspace.locate(name)), name)
          assert.strictEqual(yield* reasonOf(workspace.place(name)), "private", name)
        }
        const tools = yield* toolsIn(base)
        const listed = yield* Folder.call(tools, "list_files", {})
        assert.deepInclude(listed.encodedResult, { total: 1 })
      }).pipe(Effect.provide(storage))
    })
  )
})
