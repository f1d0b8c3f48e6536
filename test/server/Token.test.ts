import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, layer } from "@effect/vitest"
import * as Token from "@turnstep/server/Token"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"
import * as Redacted from "effect/Redacted"
import { execFileSync } from "node:child_process"

const folder = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  return path.join(yield* fs.makeTempDirectoryScoped({ prefix: "turnstep-token-" }), "data")
})

const modeOf = (path: string) =>
  Effect.flatMap(FileSystem.FileSystem, (fs) => Effect.map(fs.stat(path), ({ mode }) => mode & 0o777))

layer(Layer.merge(NodeServices.layer, SecureRandom.layerWebCrypto))("Token", (it) => {
  it.effect("is made at the first start: 256 bits, in a file and a folder of their owner alone", () =>
    Effect.gen(function* () {
      const data = yield* folder
      const token = Redacted.value(yield* Token.ensure(data))
      assert.match(token, /^[A-Za-z0-9_-]{43}$/)
      assert.strictEqual(Buffer.from(token, "base64url").length, 32)
      assert.strictEqual(yield* modeOf(yield* Token.fileIn(data)), 0o600)
      assert.strictEqual(yield* modeOf(data), 0o700)
      const fs = yield* FileSystem.FileSystem
      assert.deepStrictEqual(yield* fs.readDirectory(data), ["token"])
    })
  )

  it.effect("stays the same, and is taken from others who may read it", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const data = yield* folder
      const first = yield* Token.ensure(data)
      const file = yield* Token.fileIn(data)
      yield* fs.chmod(file, 0o644)
      assert.strictEqual(Redacted.value(yield* Token.ensure(data)), Redacted.value(first))
      assert.strictEqual(yield* modeOf(file), 0o600)
      assert.strictEqual(Redacted.value(yield* Token.read(data)), Redacted.value(first))
    })
  )

  it.effect("is one, whoever starts at the same time", () =>
    Effect.gen(function* () {
      const data = yield* folder
      const tokens = yield* Effect.all(
        Array.from({ length: 8 }, () => Token.ensure(data)),
        { concurrency: "unbounded" }
      )
      assert.strictEqual(new Set(tokens.map(Redacted.value)).size, 1)
      const fs = yield* FileSystem.FileSystem
      assert.deepStrictEqual(yield* fs.readDirectory(data), ["token"])
    })
  )

  it.effect("is refused when its file holds none, without showing what it holds", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const data = yield* folder
      assert.strictEqual((yield* Effect.flip(Token.read(data)))._tag, "TokenMissing")
      yield* fs.makeDirectory(data)
      yield* fs.writeFileString(yield* Token.fileIn(data), "too-short")
      const { message } = yield* Effect.flip(Token.ensure(data))
      assert.match(message, /shorter than 32 characters/)
      assert.notInclude(message, "too-short")
    })
  )

  it.effect("is refused where a file is in the place of its folder, and says so", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const data = yield* folder
      yield* fs.writeFileString(data, "a file")
      for (const use of [Token.ensure, Token.read]) {
        assert.match((yield* Effect.flip(use(data))).message, /something else is in its place.*--data\.$/)
      }
      assert.strictEqual(yield* fs.readFileString(data), "a file")
    })
  )

  it.effect("is neither followed through a link nor waited for at a pipe", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const data = yield* folder
      yield* fs.makeDirectory(data)
      const file = yield* Token.fileIn(data)
      const victim = `${data}-victim`
      yield* fs.writeFileString(victim, "v".repeat(43), { mode: 0o644 })
      for (const target of [victim, `${data}-nowhere`]) {
        yield* fs.symlink(target, file)
        for (const use of [Token.ensure, Token.read]) {
          assert.match((yield* Effect.flip(use(data))).message, /it is a link.*TURNSTEP_TOKEN/)
        }
        yield* fs.remove(file)
      }
      assert.strictEqual(yield* modeOf(victim), 0o644)
      if (process.platform === "win32") return
      execFileSync("mkfifo", [file])
      for (const use of [Token.ensure, Token.read]) {
        assert.match((yield* Effect.flip(use(data))).message, /something else is in its place/)
      }
    })
  )

  it.effect("differs from start to start of another server", () =>
    Effect.gen(function* () {
      const [one, two] = [yield* Token.ensure(yield* folder), yield* Token.ensure(yield* folder)]
      assert.notStrictEqual(Redacted.value(one), Redacted.value(two))
    })
  )
})
