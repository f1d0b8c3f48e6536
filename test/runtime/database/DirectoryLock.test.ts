import { assert, describe, it } from "@effect/vitest"
import * as DirectoryLock from "@turnstep/runtime/database/DirectoryLock"
import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import * as path from "node:path"
import * as Child from "../../fixtures/Child.ts"
import * as Pglite from "../../fixtures/Pglite.ts"

const held = (directory: string) => Effect.isSuccess(Effect.scoped(DirectoryLock.acquire(directory)))

describe("DirectoryLock", () => {
  it.effect("makes the directory, closed to other users", () =>
    Effect.gen(function* () {
      const directory = path.join(yield* Pglite.emptyDirectory, "a", "b")
      yield* DirectoryLock.acquire(directory)
      assert.strictEqual(fs.statSync(directory).mode & 0o777, 0o700)
    })
  )

  it.effect("leaves the mode of a directory that was there", () =>
    Effect.gen(function* () {
      const directory = yield* Pglite.emptyDirectory
      fs.chmodSync(directory, 0o755)
      yield* DirectoryLock.acquire(directory)
      assert.strictEqual(fs.statSync(directory).mode & 0o777, 0o755)
    })
  )

  it.effect("refuses a second opener in the same process, by whatever path it comes", () =>
    Effect.gen(function* () {
      const directory = yield* Pglite.emptyDirectory
      const alias = `${yield* Pglite.emptyDirectory}/alias`
      fs.symlinkSync(directory, alias)
      yield* DirectoryLock.acquire(directory)
      const refusal = yield* Effect.flip(DirectoryLock.acquire(alias))
      assert.deepStrictEqual(refusal, new DirectoryLock.DataDirLocked({ dir: alias, pid: process.pid }))
      assert.isFalse(yield* held(directory))
    })
  )

  it.live("names the process that holds the directory and says what to do", () =>
    Effect.gen(function* () {
      const directory = yield* Pglite.emptyDirectory
      const child = yield* Child.start("holdDirectory", directory)
      assert.strictEqual(yield* child.line, "held")
      const refusal = yield* Effect.flip(DirectoryLock.acquire(directory))
      assert.deepStrictEqual(refusal, new DirectoryLock.DataDirLocked({ dir: directory, pid: child.pid }))
      assert.include(refusal.message, `process ${child.pid}`)
      assert.include(refusal.message, "stop that process")
    })
  )

  it.live("falls free when its owner is killed", () =>
    Effect.gen(function* () {
      const directory = yield* Pglite.emptyDirectory
      const child = yield* Child.start("holdDirectory", directory)
      assert.strictEqual(yield* child.line, "held")
      yield* child.kill
      assert.strictEqual(Number(fs.readFileSync(path.join(directory, "turnstep.pid"), "utf8")), child.pid)
      yield* DirectoryLock.acquire(directory)
      assert.strictEqual(Number(fs.readFileSync(path.join(directory, "turnstep.pid"), "utf8")), process.pid)
    })
  )

  it.effect("falls free when its scope closes, and leaves no process id behind", () =>
    Effect.gen(function* () {
      const directory = yield* Pglite.emptyDirectory
      yield* Effect.scoped(DirectoryLock.acquire(directory))
      assert.deepStrictEqual(fs.readdirSync(directory), ["turnstep.lock"])
      assert.isTrue(yield* held(directory))
    })
  )

  it.effect("is not fooled by a left-over process id that belongs to somebody else by now", () =>
    Effect.gen(function* () {
      const directory = yield* Pglite.emptyDirectory
      fs.writeFileSync(path.join(directory, "turnstep.pid"), String(process.ppid))
      assert.isTrue(yield* held(directory))
    })
  )

  it.live("lets exactly one of many processes in that start together", () =>
    Effect.gen(function* () {
      const directory = yield* Pglite.emptyDirectory
      const children = yield* Effect.forEach([1, 2, 3, 4, 5], () => Child.start("holdDirectory", directory))
      const answers = yield* Effect.forEach(children, (child) => child.line, { concurrency: "unbounded" })
      assert.deepStrictEqual(answers.toSorted(), [...Array.from({ length: 4 }, () => "DataDirLocked"), "held"])
    })
  )

  it.live("says why a directory cannot be used, and never waits for one that can never be made", () =>
    Effect.gen(function* () {
      const directory = yield* Pglite.emptyDirectory
      const file = path.join(directory, "file")
      fs.writeFileSync(file, "")
      const cases: ReadonlyArray<readonly [string, RegExp]> = [
        [file, /no folder is in its place. Move that away/],
        [path.join(file, "deeper"), /file is in the place of a folder above it/],
        ...(process.platform === "linux" ? [["/proc/x/y", /its file system takes no folders/] as const] : [])
      ]
      for (const [dir, words] of cases) {
        const refusal = yield* Effect.flip(DirectoryLock.acquire(dir))
        assert.strictEqual(refusal._tag, "DataDirUnusable")
        assert.include(refusal.message, dir)
        assert.match(refusal.message, words)
      }
    })
  )

  it.effect("refuses a directory that every user may write", () =>
    Effect.gen(function* () {
      const directory = yield* Pglite.emptyDirectory
      fs.chmodSync(directory, 0o777)
      assert.match((yield* Effect.flip(DirectoryLock.acquire(directory))).message, /every user.*chmod 700/)
      assert.isEmpty(fs.readdirSync(directory))
    })
  )

  it.effect("writes nothing through a link", () =>
    Effect.gen(function* () {
      const directory = yield* Pglite.emptyDirectory
      const victim = path.join(yield* Pglite.emptyDirectory, "victim")
      fs.writeFileSync(victim, "precious", { mode: 0o644 })
      fs.symlinkSync(victim, path.join(directory, "turnstep.pid"))
      yield* Effect.scoped(
        Effect.andThen(
          DirectoryLock.acquire(directory),
          Effect.sync(() => assert.isFalse(fs.lstatSync(path.join(directory, "turnstep.pid")).isSymbolicLink()))
        )
      )
      fs.rmSync(path.join(directory, "turnstep.lock"))
      fs.symlinkSync(victim, path.join(directory, "turnstep.lock"))
      assert.match((yield* Effect.flip(DirectoryLock.acquire(directory))).message, /turnstep\.lock is a link/)
      assert.strictEqual(fs.readFileSync(victim, "utf8"), "precious")
      assert.strictEqual(fs.statSync(victim).mode & 0o777, 0o644)
    })
  )
})
