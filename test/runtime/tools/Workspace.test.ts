import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, layer } from "@effect/vitest"
import * as OffThread from "@turnstep/runtime/offthread/OffThread"
import * as Workspace from "@turnstep/runtime/tools/Workspace"
import * as WorkspaceTask from "@turnstep/runtime/tools/WorkspaceTask"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import { execFileSync } from "node:child_process"
import { createHash } from "node:crypto"
import * as path from "node:path"
import * as Folder from "../../fixtures/Folder.ts"

/** The tools on a fresh folder `root` with these files; `outside/secret.txt` lies beside it. */
const workspace = Effect.fn(function* (files: Readonly<Record<string, string | Uint8Array>>) {
  const base = yield* Folder.make({ "outside/secret.txt": "SECRET\n", "root-evil/secret.txt": "SECRET\n" })
  const root = path.join(base, "root")
  yield* Folder.write(root, files)
  const fs = yield* FileSystem.FileSystem
  yield* fs.makeDirectory(root, { recursive: true })
  const toolkit = yield* Effect.provide(Workspace.toolkit, Workspace.layer({ root }))
  const link = (target: string, name: string) => fs.symlink(path.resolve(root, target), path.join(root, name))
  return { root, toolkit, link }
})

const list = (toolkit: Kit, params: Tool.ParametersEncoded<typeof Workspace.ListFiles>) =>
  Effect.flatMap(Folder.call(toolkit, "list_files", params), success(Workspace.FileList))
const read = (toolkit: Kit, params: Tool.ParametersEncoded<typeof Workspace.ReadFiles>) =>
  Effect.flatMap(Folder.call(toolkit, "read_files", params), success(Workspace.FileTexts))
const grep = (toolkit: Kit, params: Tool.ParametersEncoded<typeof Workspace.Grep>) =>
  Effect.flatMap(Folder.call(toolkit, "grep", params), success(Workspace.Found))
type Kit = Effect.Success<ReturnType<typeof workspace>>["toolkit"]

const success =
  <A, I>(schema: Schema.Codec<A, I>) =>
  (result: { readonly isFailure: boolean; readonly encodedResult: unknown }) =>
    result.isFailure
      ? Effect.die(new Error(`failed: ${JSON.stringify(result.encodedResult)}`))
      : Schema.decodeUnknownEffect(schema)(result.encodedResult)

const where = (found: Workspace.Found) => found.lines.map(({ path, line }) => `${path}:${line}`)

/** A workspace with every kind of way out. */
class Leaky extends Context.Service<Leaky, Effect.Success<ReturnType<typeof workspace>>>()("test/Leaky") {}

const leaky = Layer.effect(
  Leaky,
  Effect.gen(function* () {
    const made = yield* workspace({ "a.txt": "inside", "sub/a.txt": "inside" })
    yield* made.link("../outside", "out")
    yield* made.link("../outside/secret.txt", "file-out")
    yield* made.link("../root-evil", "sub/out")
    return made
  })
)

layer(NodeServices.layer, { excludeTestServices: true })("Workspace", (it) => {
  it.effect("declares every tool readonly and described", () =>
    Effect.sync(() => {
      for (const tool of Object.values(Workspace.toolkit.tools)) {
        assert.isTrue(Context.get(tool.annotations, Tool.Readonly), tool.name)
        assert.isAbove(Tool.getDescription(tool)?.length ?? 0, 80)
        assert.strictEqual(tool.failureMode, "return")
      }
    })
  )

  it.effect("lists the tree sorted, with kinds and sizes, without the skipped folders", () =>
    Effect.gen(function* () {
      const { toolkit, link } = yield* workspace({
        "b.txt": "12345",
        "a/z.txt": "1",
        "a-b.txt": "",
        ".hidden": "x",
        ".git/config": "x",
        "a/node_modules/m/index.js": "x",
        "dist/out.js": "x",
        ".turnstep/token": "x"
      })
      yield* link("../outside", "a/out")
      const listed = yield* list(toolkit, {})
      assert.deepStrictEqual(listed.entries, [
        { path: ".hidden", kind: "file", size: 1 },
        { path: "a", kind: "folder" },
        { path: "a-b.txt", kind: "file", size: 0 },
        { path: "a/out", kind: "link" },
        { path: "a/z.txt", kind: "file", size: 1 },
        { path: "b.txt", kind: "file", size: 5 }
      ])
      assert.deepInclude(listed, { path: ".", total: 6, files: 4, truncated: false, unreadable: 0 })
    })
  )

  it.effect("tells the whole figures when the list is cut", () =>
    Effect.gen(function* () {
      const files = Object.fromEntries(Array.from({ length: 30 }, (_, n) => [`f${n}.ts`, "x"]))
      const { toolkit } = yield* workspace(files)
      const listed = yield* list(toolkit, { limit: 7 })
      assert.strictEqual(listed.entries.length, 7)
      assert.deepInclude(listed, { total: 30, files: 30, truncated: true })
    })
  )

  it.effect("matches a glob by name at any depth, and by path from the folder or from the root", () =>
    Effect.gen(function* () {
      const { toolkit } = yield* workspace({ "src/a.ts": "", "src/in/b.ts": "", "src/in/c.md": "", "d.ts": "" })
      const paths = (pattern: string, from?: string) =>
        Effect.map(list(toolkit, { pattern, ...(from === undefined ? {} : { path: from }) }), (listed) =>
          listed.entries.map((entry) => entry.path)
        )
      assert.deepStrictEqual(yield* paths("*.ts"), ["d.ts", "src/a.ts", "src/in/b.ts"])
      assert.deepStrictEqual(yield* paths("src/*.ts"), ["src/a.ts"])
      assert.deepStrictEqual(yield* paths("src/**/*.ts", "src"), ["src/a.ts", "src/in/b.ts"])
      assert.deepStrictEqual(yield* paths("in/*", "src"), ["src/in/b.ts", "src/in/c.md"])
    })
  )

  it.effect("reads several files and says per file what is wrong with it", () =>
    Effect.gen(function* () {
      const { toolkit, link } = yield* workspace({
        "a.txt": "one\ntwo\r\nthree\n",
        "empty.txt": "",
        "bin.dat": Uint8Array.of(80, 75, 0, 1),
        "big.txt": "x".repeat(5 * 1024 * 1024)
      })
      yield* link("../outside/secret.txt", "out.txt")
      yield* link("a.txt", "in.txt")
      const paths = ["a.txt", "in.txt", "empty.txt", "bin.dat", "big.txt", "out.txt", "none.txt", "."]
      const { files } = yield* read(toolkit, { paths })
      assert.deepStrictEqual(files[0], {
        path: "a.txt",
        text: "one\ntwo\nthree",
        startLine: 1,
        endLine: 3,
        lines: 3,
        truncated: false,
        version: createHash("sha256").update("one\ntwo\r\nthree\n").digest("hex").slice(0, 16)
      })
      assert.deepInclude(files[1], { path: "in.txt", text: "one\ntwo\nthree" })
      assert.deepInclude(files[2], { text: "", lines: 0 })
      assert.deepStrictEqual(
        files.slice(3).map((file) => ("reason" in file ? file.reason : "read")),
        ["binary", "too-large", "outside", "missing", "not-a-file"]
      )
    })
  )

  it.effect("gives the lines asked for, and tells where a long file was cut", () =>
    Effect.gen(function* () {
      const line = "y".repeat(99)
      const { toolkit } = yield* workspace({
        "a.txt": "1\n2\n3\n4\n5",
        "long.txt": `${line}\n`.repeat(2000),
        "one.txt": "z".repeat(100_000)
      })
      const only = (params: { readonly paths: ReadonlyArray<string>; startLine?: number; endLine?: number }) =>
        Effect.map(read(toolkit, params), ({ files }) => files[0])
      assert.deepInclude(yield* only({ paths: ["a.txt"], startLine: 2, endLine: 3 }), { text: "2\n3", lines: 5 })
      assert.deepInclude(yield* only({ paths: ["a.txt"], startLine: 4, endLine: 90 }), { text: "4\n5", endLine: 5 })
      assert.deepInclude(yield* only({ paths: ["long.txt"] }), { endLine: 600, lines: 2000, truncated: true })
      assert.deepInclude(yield* only({ paths: ["long.txt"], startLine: 1999 }), { endLine: 2000, truncated: false })
      const one = yield* only({ paths: ["one.txt"] })
      assert.isTrue(one !== undefined && "text" in one && one.text.endsWith("[line cut]") && one.text.length < 60_100)
      const full = yield* read(toolkit, { paths: Array.from({ length: 6 }, () => "long.txt") })
      assert.deepStrictEqual(
        full.files.map((file) => ("reason" in file ? file.reason : "read")),
        ["read", "read", "read", "read", "answer-full", "answer-full"]
      )
    })
  )

  it.effect("fails when nothing could be read, with the reasons", () =>
    Effect.gen(function* () {
      const { root, toolkit, link } = yield* workspace({ "a.txt": "1" })
      yield* link("../outside/secret.txt", "out.txt")
      for (const [asked, range, reason] of [
        ["out.txt", {}, "outside"],
        ["../root-evil/secret.txt", {}, "outside"],
        ["a.txt", { startLine: 2 }, "no-such-line"]
      ] as const) {
        const result = yield* Folder.call(toolkit, "read_files", { paths: [asked], ...range })
        assert.isTrue(result.isFailure, asked)
        const failure = yield* Schema.decodeUnknownEffect(Workspace.NothingRead)(result.encodedResult)
        assert.strictEqual(failure.files[0]?.reason, reason)
        assert.notInclude(JSON.stringify(result.encodedResult), root)
      }
    })
  )

  it.effect("does not wait on a pipe that nobody writes", () =>
    Effect.gen(function* () {
      const { root, toolkit } = yield* workspace({ "a.txt": "TODO" })
      execFileSync("mkfifo", [path.join(root, "pipe")])
      const result = yield* Folder.call(toolkit, "read_files", { paths: ["pipe"] })
      assert.include(JSON.stringify(result.encodedResult), "not-a-file")
      assert.deepInclude(yield* grep(toolkit, { pattern: "TODO" }), { matches: 1, searched: 1 })
      assert.deepInclude((yield* list(toolkit, {})).entries[1], { path: "pipe", kind: "other" })
    })
  )

  it.effect("finds lines with their numbers and counts the whole tree, also when the list is cut", () =>
    Effect.gen(function* () {
      const { toolkit, link } = yield* workspace({
        "a.ts": "x TODO y TODO\nnone\r\n// TODO\r\n",
        "sub/b.md": "TODO\n".repeat(50),
        "sub/c.md": "todo\n",
        "bin.dat": new TextEncoder().encode("TODO\0"),
        "node_modules/m.js": "TODO",
        "dist/o.js": "TODO"
      })
      yield* link("../outside", "out")
      yield* link("a.ts", "again.ts")
      const found = yield* grep(toolkit, { pattern: "TODO", limit: 4 })
      assert.deepStrictEqual(where(found), ["a.ts:1", "a.ts:3", "sub/b.md:1", "sub/b.md:2"])
      assert.strictEqual(found.lines[1]?.text, "// TODO")
      assert.deepInclude(found, { matches: 52, files: 2, searched: 3, truncated: true })
      assert.deepStrictEqual(found.skipped, { binary: 1, large: 0, unreadable: 0 })
      assert.deepInclude(yield* grep(toolkit, { pattern: "todo", caseSensitive: false }), { matches: 53, files: 3 })
      assert.deepInclude(yield* grep(toolkit, { pattern: "TODO", glob: "*.ts" }), { matches: 2, truncated: false })
      assert.deepInclude(yield* grep(toolkit, { pattern: "TODO", path: "sub/b.md" }), { matches: 50, searched: 1 })
    })
  )

  it.effect("takes a pattern as a regular expression per line, or as fixed text", () =>
    Effect.gen(function* () {
      const { toolkit } = yield* workspace({ "a.txt": "f(x)\nfx\n\nf(y)\n" })
      const count = (pattern: string, literal?: boolean) =>
        Effect.map(grep(toolkit, { pattern, ...(literal === undefined ? {} : { literal }) }), (found) => found.matches)
      assert.strictEqual(yield* count("f(x)"), 1)
      assert.strictEqual(yield* count("f(x)", true), 1)
      assert.strictEqual(yield* count("^f\\(.\\)$"), 2)
      assert.strictEqual(yield* count("^$"), 1) // the end of the file opens no further line
      assert.strictEqual(yield* count("q*"), 4)
      assert.strictEqual(yield* count("x.*f"), 0)
    })
  )

  it.effect("cuts long lines around the match", () =>
    Effect.gen(function* () {
      const { toolkit } = yield* workspace({ "a.min.js": `${"a".repeat(5000)}NEEDLE${"b".repeat(5000)}` })
      const text = (yield* grep(toolkit, { pattern: "NEEDLE" })).lines[0]?.text ?? ""
      assert.include(text, "NEEDLE")
      assert.isBelow(text.length, 250)
    })
  )

  it.effect("cuts no character in two where it cuts a line", () =>
    Effect.gen(function* () {
      const family = "👨‍👩‍👧‍👦"
      for (const before of ["", "x", "xx", "xxx"]) {
        const line = `${before}${family.repeat(8_000)}`
        const { toolkit } = yield* workspace({ "a.txt": line })
        const found = yield* grep(toolkit, { pattern: family })
        const shown = found.lines[0]?.text.replaceAll("…", "").replace(before, "") ?? ""
        assert.strictEqual(shown, family.repeat(shown.length / family.length), "the grep")
        const { encodedResult } = yield* Folder.call(toolkit, "read_files", { paths: ["a.txt"] })
        const [file] = (encodedResult as typeof Workspace.FileTexts.Encoded).files
        const read =
          file !== undefined && "text" in file ? file.text.replace("… [line cut]", "").replace(before, "") : ""
        assert.strictEqual(read, family.repeat(read.length / family.length), "the file")
      }
    })
  )

  it.effect("tells the model what is wrong with a pattern", () =>
    Effect.gen(function* () {
      const { toolkit } = yield* workspace({ "a.txt": "x" })
      const result = yield* Folder.call(toolkit, "grep", { pattern: "(unclosed" })
      assert.isTrue(result.isFailure)
      assert.include(JSON.stringify(result.encodedResult), "Unterminated group")
    })
  )

  it.effect("stops a pattern that would backtrack for ever", () =>
    Effect.gen(function* () {
      const { toolkit } = yield* workspace({ "a.txt": `${"a".repeat(60)}b\n` })
      const result = yield* Folder.call(toolkit, "grep", { pattern: "^(a+)+$" })
      assert.isTrue(result.isFailure)
      assert.include(JSON.stringify(result.encodedResult), "backtracks too much")
      assert.deepInclude(yield* grep(toolkit, { pattern: "^a+b$" }), { matches: 1 })
    })
  )

  it.effect("stops a pattern for which the engine has no room", () =>
    Effect.gen(function* () {
      const { toolkit } = yield* workspace({ "a.min.js": "ab".repeat(2_000_000) })
      const result = yield* Folder.call(toolkit, "grep", { pattern: "(?:(a)|(b))*c" })
      assert.isTrue(result.isFailure)
      assert.include(JSON.stringify(result.encodedResult), "backtracks too much")
    })
  )

  it.effect("reads no link and no pipe that took a file's place after it was found", () =>
    Effect.gen(function* () {
      const { root, link } = yield* workspace({ "a.txt": "TODO" })
      yield* link("a.txt", "b.txt")
      execFileSync("mkfifo", [path.join(root, "pipe")])
      const hidden = { paths: new Set<string>(), ids: new Set<string>() }
      assert.strictEqual(WorkspaceTask.textOf(path.join(root, "a.txt"), hidden), "TODO")
      for (const name of ["b.txt", "pipe", "gone"]) {
        assert.deepStrictEqual(WorkspaceTask.textOf(path.join(root, name), hidden), { skipped: "unreadable" }, name)
      }
    })
  )

  it.effect("can be interrupted in the middle of a search", () =>
    Effect.gen(function* () {
      const pool = OffThread.make({ processes: 1 })
      const begun = yield* Deferred.make<void>()
      const told = OffThread.OffThread.context({
        run: (task, input, options) =>
          Effect.andThen(Deferred.succeed(begun, undefined), pool.run(task, input, options))
      })
      const { toolkit } = yield* workspace({ "a.txt": `${"a".repeat(60)}b\n`.repeat(1000) })
      const slow = Folder.call(toolkit, "grep", { pattern: "^(a+)+$" })
      const fiber = yield* Effect.forkChild(Effect.provide(slow, told))
      yield* Deferred.await(begun)
      yield* Fiber.interrupt(fiber)
      assert.isTrue(Exit.hasInterrupts(yield* Fiber.await(fiber)))
      const next = Folder.call(toolkit, "grep", { pattern: "^a+b$" })
      assert.isFalse((yield* Effect.provide(next, told)).isFailure, "the place is free again")
    })
  )

  const segments = [
    "..",
    ".",
    "",
    "a.txt",
    "out",
    "file-out",
    "outside",
    "root-evil",
    "secret.txt",
    "root",
    "sub",
    "\0"
  ]
  const Segments = Schema.Array(Schema.Literals(segments)).check(Schema.isMaxLength(6))

  it.layer(leaky)((it) => {
    it.effect.prop(
      "never tells anything from outside, for any path and tool",
      { segments: Segments, isAbsolute: Schema.Boolean },
      ({ segments, isAbsolute }) =>
        Effect.gen(function* () {
          const { root, toolkit } = yield* Leaky
          const asked = (isAbsolute ? `${path.dirname(root)}/` : "") + segments.join("/")
          const told = yield* Effect.all([
            Folder.call(toolkit, "read_files", { paths: [asked] }),
            Folder.call(toolkit, "list_files", { path: asked }),
            Folder.call(toolkit, "grep", { pattern: "SECRET|inside", path: asked })
          ])
          for (const { encodedResult, isFailure } of told) {
            const entries = JSON.stringify(encodedResult).replaceAll(JSON.stringify(asked).slice(1, -1), "")
            assert.notInclude(entries, '"text":"SECRET')
            if (!isFailure) assert.notInclude(entries, "secret.txt")
          }
        }),
      { arbitrary: { runs: 200 } }
    )
  })
})
