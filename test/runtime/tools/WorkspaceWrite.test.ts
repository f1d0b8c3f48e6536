import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, layer } from "@effect/vitest"
import * as ToolPolicy from "@turnstep/core/ToolPolicy"
import * as WorkspaceWrite from "@turnstep/runtime/tools/WorkspaceWrite"
import * as Workspace from "@turnstep/runtime/tools/Workspace"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as fs from "node:fs"
import * as path from "node:path"
import * as Folder from "../../fixtures/Folder.ts"

const workspace = Effect.fn(function* (files: Readonly<Record<string, string | Uint8Array>>) {
  const base = yield* Folder.make({ "outside/secret.txt": "SECRET\n" })
  const root = path.join(base, "root")
  yield* Folder.write(root, { ".keep": "", ...files })
  const toolkit = yield* Effect.provide(WorkspaceWrite.toolkit, WorkspaceWrite.layer({ root }))
  const file = (name: string) => fs.readFileSync(path.join(root, name), "utf8")
  const told = (result: { readonly isFailure: boolean; readonly encodedResult: unknown }) =>
    [result.isFailure, result.encodedResult as { readonly message: string; readonly reason?: string }] as const
  const write = (name: string, content: string) =>
    Effect.map(Folder.call(toolkit, "write_file", { path: name, content }), told)
  const edit = (name: string, old: string, to: string) =>
    Effect.map(Folder.call(toolkit, "edit_file", { path: name, old, new: to }), told)
  const replace = (
    name: string,
    params: { readonly content: string; readonly version?: string; readonly exact?: boolean }
  ) => Effect.map(Folder.call(toolkit, "write_file", { path: name, ...params }), told)
  const drafts = () =>
    fs.readdirSync(root, { recursive: true, encoding: "utf8" }).filter((name) => name.includes("draft"))
  return { base, root, file, write, replace, edit, drafts }
})

layer(NodeServices.layer, { excludeTestServices: true })("WorkspaceWrite", (it) => {
  it.effect("writes a new file with the folders it needs, and replaces one with its mode kept", () =>
    Effect.gen(function* () {
      const { drafts, file, root, write } = yield* workspace({ "run.sh": "old" })
      fs.chmodSync(path.join(root, "run.sh"), 0o755)
      assert.deepStrictEqual(yield* write("a/b/ü.txt", "é\n"), [
        false,
        { path: "a/b/ü.txt", bytes: 3, created: true } as never
      ])
      assert.strictEqual(file("a/b/ü.txt"), "é\n")
      assert.deepStrictEqual(yield* write("./run.sh", "new"), [
        false,
        { path: "run.sh", bytes: 3, created: false } as never
      ])
      assert.strictEqual(file("run.sh"), "new")
      assert.strictEqual(fs.statSync(path.join(root, "run.sh")).mode & 0o777, 0o755)
      assert.isEmpty(drafts())
    })
  )

  it.effect("edits a text that is there exactly once, and no other", () =>
    Effect.gen(function* () {
      const { edit, file } = yield* workspace({
        "a.ts": "\ufeffone\r\ntwo\r\ntwo\r\nthree $& x\r\n",
        bin: new Uint8Array([1, 0, 2]),
        latin: new Uint8Array([0xe9, 0x61])
      })
      assert.isFalse((yield* edit("a.ts", "one\r\n", "1\r\n"))[0])
      assert.isFalse((yield* edit("a.ts", "three $&", "$& $1 three"))[0])
      assert.strictEqual(file("a.ts"), "\ufeff1\r\ntwo\r\ntwo\r\n$& $1 three x\r\n")
      assert.match((yield* edit("a.ts", "two", "2"))[1].message, /more than once/)
      assert.match((yield* edit("a.ts", "four", "4"))[1].message, /not in the file/)
      assert.match((yield* edit("bin", "x", "y"))[1].message, /not text/)
      assert.match((yield* edit("latin", "a", "y"))[1].message, /not text in UTF-8/)
      assert.strictEqual((yield* edit("none", "x", "y"))[1].reason, "missing")
      assert.strictEqual(file("a.ts"), "\ufeff1\r\ntwo\r\ntwo\r\n$& $1 three x\r\n")
    })
  )

  it.effect("counts a text that overlaps itself as more than one", () =>
    Effect.gen(function* () {
      const { edit } = yield* workspace({ a: "aaa" })
      assert.match((yield* edit("a", "aa", "b"))[1].message, /more than once/)
    })
  )

  it.effect("writes nothing outside, nothing of the runtime's and nothing of git's, by no name and no link", () =>
    Effect.gen(function* () {
      const { base, root, write } = yield* workspace({ "sub/a.txt": "a" })
      fs.symlinkSync(path.join(base, "outside"), path.join(root, "out"))
      fs.symlinkSync(path.join(base, "outside/secret.txt"), path.join(root, "file-out"))
      fs.symlinkSync(path.join(base, "outside/new.txt"), path.join(root, "dangling"))
      fs.mkdirSync(path.join(root, ".git/hooks"), { recursive: true })
      fs.symlinkSync(path.join(root, ".git"), path.join(root, "sub/g"))
      const refused = {
        "../outside/secret.txt": "outside",
        "../outside/new.txt": "outside",
        [path.join(base, "outside/x")]: "outside",
        "out/secret.txt": "outside",
        "out/new.txt": "outside",
        "out/deep/new.txt": "outside",
        "file-out": "outside",
        dangling: "not-a-file",
        ".turnstep/token": "private",
        "sub/.Turnstep/x": "private",
        ".git/hooks/pre-commit": "protected",
        "new/.GIT/config": "protected",
        "sub/g/config": "protected",
        sub: "not-a-file",
        ".": "not-a-file",
        "sub/a.txt/b": "unreadable",
        "a\0b": "malformed"
      }
      for (const [name, reason] of Object.entries(refused)) {
        const [isFailure, result] = yield* write(name, "EVIL")
        assert.deepStrictEqual([name, isFailure, result.reason], [name, true, reason])
        assert.notInclude(result.message, root)
      }
      assert.strictEqual(fs.readFileSync(path.join(base, "outside/secret.txt"), "utf8"), "SECRET\n")
      assert.deepStrictEqual(fs.readdirSync(path.join(base, "outside")), ["secret.txt"])
      assert.isEmpty(fs.readdirSync(path.join(root, ".git/hooks")))
    })
  )

  it.effect("writes through a link that stays inside, into the file it means", () =>
    Effect.gen(function* () {
      const { file, root, write } = yield* workspace({ "real/a.txt": "a" })
      fs.symlinkSync("real", path.join(root, "link"))
      assert.isFalse((yield* write("link/a.txt", "b"))[0])
      assert.isFalse((yield* write("link/new.txt", "c"))[0])
      assert.deepStrictEqual([file("real/a.txt"), file("real/new.txt")], ["b", "c"])
      assert.isTrue(fs.lstatSync(path.join(root, "link")).isSymbolicLink())
    })
  )

  it.effect("does not load a file that is too large to be edited", () =>
    Effect.gen(function* () {
      const { edit, root } = yield* workspace({ "huge.txt": "x" })
      // Sparse, and more than could be loaded at all.
      fs.truncateSync(path.join(root, "huge.txt"), 3 * 1024 ** 3)
      const [isFailure, result] = yield* edit("huge.txt", "x", "y")
      assert.isTrue(isFailure)
      assert.match(result.message, /too large to be edited/)
    })
  )

  it.effect("says that the disk did not take a file, without the root's path", () =>
    Effect.gen(function* () {
      const { root, write } = yield* workspace({})
      const [isFailure, result] = yield* write(`${"n".repeat(250)}/${"m".repeat(300)}`, "x")
      assert.isTrue(isFailure)
      assert.notInclude(result.message, root)
    })
  )

  it.effect(
    "keeps all edits of one file that are made at the same time, whichever session and toolkit they are of",
    () =>
      Effect.gen(function* () {
        const { edit, file, root } = yield* workspace({ "a.txt": "one\ntwo\nthree\nfour\n" })
        const other = yield* Effect.provide(
          WorkspaceWrite.toolkit,
          WorkspaceWrite.layer({ root: path.join(root, "..") })
        )
        for (let round = 0; round < 10; round++) {
          fs.writeFileSync(path.join(root, "a.txt"), "one\ntwo\nthree\nfour\n")
          const results = yield* Effect.all(
            [
              edit("a.txt", "one", "1"),
              edit("./a.txt", "two", "2"),
              Effect.map(Folder.call(other, "edit_file", { path: "root/a.txt", old: "three", new: "3" }), (told) => [
                told.isFailure
              ]),
              edit("a.txt", "four", "4")
            ],
            { concurrency: "unbounded" }
          )
          assert.deepStrictEqual(
            results.map(([isFailure]) => isFailure),
            [false, false, false, false]
          )
          assert.strictEqual(file("a.txt"), "1\n2\n3\n4\n")
        }
      })
  )

  it.effect("makes an edit again from what another program wrote meanwhile, and refuses it when its text is gone", () =>
    Effect.gen(function* () {
      const { drafts, file, root } = yield* workspace({ "a.txt": "one\ntwo\n" })
      const real = yield* FileSystem.FileSystem
      const meanwhile: Array<() => void> = []
      // Between the edit and the rename: when the draft gets its mode.
      const watched = FileSystem.FileSystem.of({
        ...real,
        chmod: (path, mode) =>
          Effect.andThen(
            Effect.sync(() => meanwhile.shift()?.()),
            real.chmod(path, mode)
          )
      })
      const toolkit = yield* WorkspaceWrite.toolkit.pipe(
        Effect.provide(WorkspaceWrite.layer({ root })),
        Effect.provideService(FileSystem.FileSystem, watched)
      )
      const write = (text: string) => () => fs.writeFileSync(path.join(root, "a.txt"), text)
      meanwhile.push(write("ONE\ntwo\n"))
      assert.isFalse((yield* Folder.call(toolkit, "edit_file", { path: "a.txt", old: "two", new: "2" })).isFailure)
      assert.strictEqual(file("a.txt"), "ONE\n2\n")

      meanwhile.push(write("else\n"))
      const gone = yield* Folder.call(toolkit, "edit_file", { path: "a.txt", old: "ONE", new: "1" })
      assert.include(JSON.stringify(gone.encodedResult), "not in the file")
      assert.strictEqual(file("a.txt"), "else\n")

      meanwhile.push(...["1", "2", "3", "4"].map((text) => write(`else ${text}\n`)))
      const overtaken = yield* Folder.call(toolkit, "edit_file", { path: "a.txt", old: "else", new: "x" })
      assert.include(JSON.stringify(overtaken.encodedResult), "at the same time, again and again")
      assert.strictEqual(file("a.txt"), "else 3\n")
      assert.isEmpty(drafts())
    })
  )

  it.effect("edits over CRLF line ends as read_files shows them", () =>
    Effect.gen(function* () {
      const { edit, file } = yield* workspace({ "a.ts": "\ufeffone\r\ntwo\r\nthree\n" })
      assert.isFalse((yield* edit("a.ts", "one\ntwo\n", "one\n2\nII\n"))[0])
      assert.strictEqual(file("a.ts"), "\ufeffone\r\n2\r\nII\r\nthree\n")
      assert.include((yield* edit("a.ts", "2\n II", "x"))[1].message, "white space at line 3")
    })
  )

  it.effect("replaces a file with its CRLF line ends and its byte order mark, unless it is told not to", () =>
    Effect.gen(function* () {
      const crlf = "\ufeffone\r\ntwo\r\n"
      const { file, replace } = yield* workspace({ "a.txt": crlf, "mixed.txt": "one\r\ntwo\n", "lf.txt": "one\n" })
      const [, told] = yield* replace("a.txt", { content: "1\n2\n3" })
      assert.deepInclude(told as object, { lineEnds: "crlf", bytes: 10 })
      assert.strictEqual(file("a.txt"), "\ufeff1\r\n2\r\n3")
      assert.notProperty((yield* replace("a.txt", { content: "1\n2\n", exact: true }))[1], "lineEnds")
      assert.strictEqual(file("a.txt"), "1\n2\n")
      yield* replace("mixed.txt", { content: "1\n2\n" })
      yield* replace("lf.txt", { content: "1\r\n2\n" })
      assert.deepStrictEqual([file("mixed.txt"), file("lf.txt")], ["1\n2\n", "1\r\n2\n"])
    })
  )

  it.effect("replaces the version it was given, and no other", () =>
    Effect.gen(function* () {
      const { file, replace, root } = yield* workspace({ "a.txt": "one\n" })
      const reading = yield* Effect.provide(Workspace.toolkit, Workspace.layer({ root }))
      const { encodedResult } = yield* Folder.call(reading, "read_files", { paths: ["a.txt"] })
      const [read] = (encodedResult as typeof Workspace.FileTexts.Encoded).files
      const version = read !== undefined && "version" in read ? read.version : ""
      assert.isFalse((yield* replace("a.txt", { content: "two\n", version }))[0])
      const [isFailure, told] = yield* replace("a.txt", { content: "three\n", version })
      assert.isTrue(isFailure)
      assert.include(told.message, "Read it again")
      assert.isTrue((yield* replace("new.txt", { content: "x", version }))[0])
      assert.strictEqual(file("a.txt"), "two\n")
      assert.isFalse(fs.existsSync(path.join(root, "new.txt")))
    })
  )

  it.effect("runs once, and one after the other", () =>
    Effect.sync(() => {
      for (const tool of [WorkspaceWrite.WriteFile, WorkspaceWrite.EditFile]) {
        const policy = ToolPolicy.of(tool)
        assert.strictEqual(policy.effects, "once")
        assert.strictEqual(policy.exclusive({ path: "a" }), policy.exclusive({ path: "b" }))
        assert.isDefined(policy.exclusive({}))
      }
    })
  )
})
