import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, layer } from "@effect/vitest"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as DataFolder from "@turnstep/server/DataFolder"
import * as Token from "@turnstep/server/Token"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import * as Command from "../fixtures/Command.ts"
import * as Folder from "../fixtures/Folder.ts"
import * as Server from "../fixtures/Server.ts"

/** A folder that a server has used: token and database are in it. */
const used = Effect.fnUntraced(function* (base: string, name = "data") {
  const data = path.join(base, name)
  yield* DataFolder.open(data)
  const token = yield* Token.ensure(data)
  fs.mkdirSync(path.join(data, "db"), { mode: 0o700 })
  return { data, token: Redacted.value(token) }
})

const problem = (data: string) => Effect.map(Effect.flip(DataFolder.open(data)), ({ message }) => message)

const git = (cwd: string, ...args: ReadonlyArray<string>) =>
  execFileSync("git", ["-c", "user.name=a", "-c", "user.email=a@b", ...args], { cwd, stdio: "ignore" })

/** Makes a repository in which git, asked for its files, fetches a folder by a command of its own; gives the name of what is missing. */
const armed = (folder: string, ran: string): string => {
  const read = (...args: ReadonlyArray<string>) => execFileSync("git", args, { cwd: folder, encoding: "utf8" }).trim()
  git(folder, "init")
  git(folder, "add", "--all")
  git(folder, "commit", "--message", "x")
  git(folder, "sparse-checkout", "init", "--cone", "--sparse-index")
  git(folder, "sparse-checkout", "set", "kept")
  const tree = read("rev-parse", "HEAD:left")
  const missing = path.join(tree.slice(0, 2), tree.slice(2))
  fs.rmSync(path.join(folder, ".git/objects", missing))
  for (const [name, value] of [
    ["core.repositoryFormatVersion", "1"],
    ["extensions.partialClone", "origin"],
    ["remote.origin.promisor", "true"],
    ["remote.origin.url", `ext::touch ${ran}`],
    ["protocol.ext.allow", "always"]
  ] as const) {
    git(folder, "config", name, value)
  }
  return missing
}

const environment = Layer.merge(NodeServices.layer, SecureRandom.layerWebCrypto)

layer(environment, { excludeTestServices: true })("The data folder", (it) => {
  it.effect("is made for its owner alone, and kept out of git", () =>
    Effect.gen(function* () {
      const base = yield* Folder.make({})
      git(base, "init")
      const data = path.join(base, "deep/er/data")
      assert.deepStrictEqual(yield* DataFolder.open(data), { path: data, origin: "new" })
      assert.strictEqual(fs.statSync(data).mode & 0o777, 0o700)
      yield* Token.ensure(data)
      assert.strictEqual(execFileSync("git", ["status", "--porcelain"], { cwd: base, encoding: "utf8" }), "")
      assert.strictEqual((yield* DataFolder.open(data)).origin, "own")
    })
  )

  it.effect("is closed to others, and refused where they may have written", () =>
    Effect.gen(function* () {
      const base = yield* Folder.make({})
      const { data } = yield* used(base)
      fs.chmodSync(data, 0o755)
      assert.strictEqual((yield* DataFolder.open(data)).origin, "own")
      assert.strictEqual(fs.statSync(data).mode & 0o777, 0o700)
      for (const [mode, words] of [
        [0o777, /every user of this machine may write there.*chmod 700.*--data/],
        [0o770, /users of its group may write there.*chmod 700/]
      ] as const) {
        fs.chmodSync(data, mode)
        assert.match(yield* problem(data), words)
        assert.strictEqual(fs.statSync(data).mode & 0o777, mode)
      }
    })
  )

  it.effect("is never a link, and holds none in the place of a file of the server", () =>
    Effect.gen(function* () {
      const base = yield* Folder.make({ "victim/file": "precious" })
      const victim = path.join(base, "victim/file")
      fs.chmodSync(victim, 0o644)
      const { data } = yield* used(base)
      fs.symlinkSync(data, path.join(base, "link"))
      assert.match(yield* problem(path.join(base, "link")), /it is a link/)
      for (const name of ["token", "db/turnstep.lock", "db/turnstep.pid", "spills", "identity", ".gitignore", "db"]) {
        const file = path.join(data, name)
        fs.rmSync(file, { recursive: true, force: true })
        fs.symlinkSync(victim, file)
        assert.match(yield* problem(data), new RegExp(`: ${name} in it is a link`), name)
        fs.rmSync(file)
      }
      assert.strictEqual(fs.readFileSync(victim, "utf8"), "precious")
      assert.strictEqual(fs.statSync(victim).mode & 0o777, 0o644)
    })
  )

  it.effect("is refused when git tracks it", () =>
    Effect.gen(function* () {
      const base = yield* Folder.make({})
      git(base, "init")
      const { data } = yield* used(base)
      git(base, "add", "--force", "data/token")
      assert.match(yield* problem(data), /git tracks it.*git rm -r --cached.*--data/)
      git(base, "rm", "-r", "--cached", "data")
      assert.strictEqual((yield* DataFolder.open(data)).origin, "own")
    })
  )

  it.effect("is looked at without running what its repository names", () =>
    Effect.gen(function* () {
      const base = yield* Folder.make({ "source/kept/file": "kept", "source/left/another": "left" })
      const source = path.join(base, "source")
      const ran = path.join(base, "ran")
      const missing = armed(source, ran)
      // As a clone brings it: the data folder itself is what git takes for a repository.
      const data = path.join(base, "clone/.turnstep")
      fs.mkdirSync(path.dirname(data))
      fs.cpSync(path.join(source, ".git"), data, { recursive: true })
      fs.chmodSync(data, 0o700)
      git(base, "config", "--file", path.join(data, "config"), "core.bare", "false")
      git(base, "config", "--file", path.join(data, "config"), "core.worktree", ".")
      fs.writeFileSync(path.join(data, "token"), "known to its author")
      assert.isFalse(fs.existsSync(path.join(data, "objects", missing)))
      yield* Effect.exit(DataFolder.inspect(data))
      // As an archive brings it: the data folder is the work tree of such a repository.
      fs.writeFileSync(path.join(source, "token"), "known to its author")
      yield* Effect.exit(DataFolder.inspect(source))
      assert.isFalse(fs.existsSync(ran))
    })
  )

  it.effect("is known when it was moved, foreign when it was copied or cloned, and adopted with another token", () =>
    Effect.gen(function* () {
      const base = yield* Folder.make({})
      const { data, token } = yield* used(base)
      const moved = path.join(base, "moved")
      fs.renameSync(data, moved)
      assert.strictEqual((yield* DataFolder.open(moved)).origin, "own")
      const copied = path.join(base, "copied")
      execFileSync("cp", ["-a", moved, copied])
      const folder = yield* DataFolder.inspect(copied)
      assert.strictEqual(folder.origin, "foreign")
      fs.rmSync(path.join(copied, "identity"))
      assert.strictEqual((yield* DataFolder.open(copied)).origin, "foreign")
      yield* DataFolder.adopt(folder)
      assert.strictEqual((yield* DataFolder.open(copied)).origin, "own")
      assert.notStrictEqual(Redacted.value(yield* Token.ensure(copied)), token)
    })
  )

  it.effect("says why it cannot be made, and does not wait", () =>
    Effect.gen(function* () {
      const base = yield* Folder.make({ file: "" })
      assert.match(yield* problem(path.join(base, "file")), /no folder is in its place/)
      assert.match(yield* problem(path.join(base, "file/data")), /a file is in the place of a folder above it/)
      if (process.platform === "linux") assert.match(yield* problem("/proc/x"), /takes no folders/)
    })
  )

  it.effect(
    "runs nothing that somebody else has recorded before a human agrees",
    () =>
      Effect.gen(function* () {
        const provider = yield* StrictProvider.make({ respond: () => StrictProvider.text("obeyed") })
        const base = yield* Folder.make({})
        const cwd = path.join(base, "author")
        fs.mkdirSync(cwd)
        const start = (cwd: string, args: ReadonlyArray<string>, env = {}) =>
          Command.start(["dev", "--model", "custom/m", ...args], {
            cwd,
            env: { TURNSTEP_PORT: "0", TURNSTEP_BASE_URL: provider.baseUrl, ...env }
          })
        const author = yield* start(cwd, ["--workers", "0"])
        yield* author.says("  stop")
        const token = fs.readFileSync(path.join(cwd, ".turnstep/token"), "utf8").trim()
        const headers = { authorization: `Bearer ${token}` }
        const server = Server.at(Command.addressOf(author))
        const body = { id: "s", input: "run a command" }
        assert.strictEqual((yield* server.json("/api/sessions", { method: "POST", headers, body })).status, 201)
        yield* author.signal("SIGTERM")
        assert.strictEqual(yield* author.exit, 0)

        const victim = path.join(base, "victim")
        execFileSync("cp", ["-r", cwd, victim])
        const refused = yield* start(victim, [])
        assert.strictEqual(yield* refused.exit, 1)
        assert.match(
          refused.stderr(),
          /was not made here.*would run at once: 0 unfinished turns, 1 waiting message\. .*--adopt/
        )
        assert.isEmpty(provider.requests)

        const adopted = yield* start(victim, ["--adopt", "--workers", "0"])
        yield* adopted.says("  stop")
        assert.match(adopted.stderr(), / resumes +0 unfinished turns, 1 waiting message\n/)
        const asked = yield* Server.at(Command.addressOf(adopted)).json("/api/sessions", { headers })
        assert.strictEqual(asked.status, 401)
        yield* adopted.signal("SIGTERM")
        assert.strictEqual(yield* adopted.exit, 0)
      }),
    { timeout: 120_000 }
  )
})
