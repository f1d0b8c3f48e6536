import { assert, describe, it } from "@effect/vitest"
import { SessionId } from "@turnstep/core/Ids"
import * as SpillStore from "@turnstep/core/SpillStore"
import * as SpillFolder from "@turnstep/runtime/spill/SpillFolder"
import * as SpillFiles from "@turnstep/runtime/spill/SpillFiles"
import * as SpillSearch from "@turnstep/runtime/spill/SpillSearch"
import * as TextPattern from "@turnstep/runtime/tools/TextPattern"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/testing/TestClock"
import * as fc from "fast-check"
import { spawnSync } from "node:child_process"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import * as Folder from "../../fixtures/Folder.ts"

const a = SessionId.make("a")
const b = SessionId.make("b")

/** A turn of the event loop, in which the disk may come further. */
const turn = Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))

/** A folder of the test's own. */
const scratch = Effect.provide(Folder.make({}), NodeServices.layer)

const bytes = (text: string): Buffer => Buffer.from(text)
const sha256 = (content: Uint8Array): string => createHash("sha256").update(content).digest("hex")

const store = Effect.flatMap(SpillStore.SpillStore, Effect.fromNullishOr).pipe(Effect.orDie)

const readAll = (kept: SpillStore.Spill, range?: SpillStore.Range) =>
  Effect.gen(function* () {
    return Buffer.concat(yield* Stream.runCollect((yield* store).read(a, kept.id, range)))
  })

/** Content in uneven pieces: none of them ends where a block or a line ends. */
const inPieces = (content: Buffer, size = 77_777): Stream.Stream<Uint8Array> =>
  Stream.fromIterable(
    Array.from({ length: Math.ceil(content.length / size) }, (_, n) => content.subarray(n * size, (n + 1) * size))
  )

/** Lines of every length, some of them longer than a block, with characters that blocks cut. */
const longText = Array.from(
  { length: 9_000 },
  (_, n) => `${n} ${"é👩‍👩‍👧 ".repeat(n % 7)}${n % 1000 === 0 ? "x".repeat(80_000) : ""}`
).join("\n")

const compiled = (source: string): TextPattern.TextPattern => {
  const pattern = TextPattern.compile(source)
  if ("fault" in pattern) throw new Error(pattern.fault)
  return pattern
}

const searching = (pattern: TextPattern.TextPattern) => (piece: Uint8Array, keep: number) =>
  Effect.sync(() => TextPattern.search(pattern, new TextDecoder().decode(piece), keep))

const stores: ReadonlyArray<readonly [string, Layer.Layer<never, unknown>]> = [
  ["memory", SpillStore.layerMemory()],
  ["files", Layer.unwrap(Effect.map(scratch, (folder) => SpillFiles.layer({ folder: path.join(folder, "spills") })))]
]

const quota = 3_000_000
const limited: typeof stores = [
  ["memory", SpillStore.layerMemory({ quota })],
  [
    "files",
    Layer.unwrap(
      Effect.map(scratch, (folder) =>
        SpillFiles.layer({ folder: path.join(folder, "spills"), quota, sessionQuota: quota })
      )
    )
  ]
]

for (const [name, layer] of limited) {
  it.effect(`a spill store of ${name} keeps within its quota, however many write at the same time`, () =>
    Effect.gen(function* () {
      const spills = yield* store
      const begun = yield* Latch.make()
      let count = 0
      const content = (n: number) =>
        Stream.concat(
          Stream.suspend(() => Stream.make(bytes(String(n)))),
          Stream.unwrap(
            Effect.suspend(() => (++count === 8 ? begun.open : begun.await)).pipe(
              // It comes to its end when all others have been written or refused so far.
              Effect.as(Stream.concat(Stream.make(Buffer.alloc(1_000_000)), Stream.drain(Stream.fromEffect(turns))))
            )
          )
        )
      const turns = Effect.repeat(turn, { times: 50 })
      const written = yield* Effect.forEach(
        Array.from({ length: 8 }).keys(),
        (n) => Effect.result(spills.write(a, content(n))),
        { concurrency: "unbounded" }
      )
      const kept = written.filter(Result.isSuccess).reduce((sum, { success }) => sum + success.bytes, 0)
      assert.isAtMost(kept, quota)
      assert.isAbove(kept, 0)
      // What was refused takes no room.
      for (let rest = kept; rest + 900_000 <= quota; rest += 900_000) {
        yield* spills.write(b, Stream.make(Buffer.alloc(900_000, rest)))
      }
    }).pipe(Effect.provide(layer))
  )
}

for (const [name, layer] of stores) {
  describe(`a spill store of ${name}`, () => {
    it.effect("keeps a content under the digest of its bytes and gives it back whole and in ranges", () =>
      Effect.gen(function* () {
        const content = bytes(longText)
        const kept = yield* (yield* store).write(a, inPieces(content))
        assert.deepStrictEqual(kept, {
          id: sha256(content) as never,
          bytes: content.length,
          lines: longText.split("\n").length
        })
        assert.isTrue(content.equals(yield* readAll(kept)))
        const ranges = [
          [0, 1],
          [65_535, 65_537],
          [65_536, 131_072],
          [content.length - 3, content.length]
        ] as const
        for (const [start, end] of ranges) {
          assert.isTrue(content.subarray(start, end).equals(yield* readAll(kept, { start, end })), `${start}-${end}`)
        }
      }).pipe(Effect.provide(layer))
    )

    it.effect("finds a spill only for the session it was written for, and nothing by any other name", () =>
      Effect.gen(function* () {
        const spills = yield* store
        const kept = yield* spills.write(a, Stream.make(bytes("of a")))
        assert.strictEqual((yield* Effect.flip(spills.find(b, kept.id)))._tag, "SpillNotFound")
        assert.strictEqual((yield* Effect.flip(Stream.runCollect(spills.read(b, kept.id))))._tag, "SpillNotFound")
        const names = [
          "",
          "..",
          `../${sha256(bytes("a"))}/${kept.id}`,
          `${kept.id}.lines`,
          kept.id.toUpperCase(),
          "/etc/passwd",
          `${kept.id}\0`
        ]
        for (const name of names)
          assert.strictEqual((yield* Effect.flip(spills.find(a, name)))._tag, "SpillNotFound", name)
      }).pipe(Effect.provide(layer))
    )

    it.effect("keeps the same content once, also when two write it at the same time", () =>
      Effect.gen(function* () {
        const spills = yield* store
        const write = spills.write(a, inPieces(bytes("again\n".repeat(50_000)), 1000))
        const [one, two] = yield* Effect.all([write, write], { concurrency: 2 })
        assert.deepStrictEqual(one, two)
        assert.strictEqual((yield* readAll(one)).length, 300_000)
      }).pipe(Effect.provide(layer))
    )

    it.effect("leaves nothing of a content that fails or is interrupted", () =>
      Effect.gen(function* () {
        const spills = yield* store
        const broken = Stream.concat(Stream.make(bytes("begun")), Stream.fail("broken" as const))
        assert.strictEqual(yield* Effect.flip(spills.write(a, broken)), "broken")
        assert.strictEqual((yield* Effect.flip(spills.find(a, sha256(bytes("begun")))))._tag, "SpillNotFound")
        const isBegun = yield* Deferred.make<void>()
        const endless = Stream.concat(
          Stream.make(bytes("begun")),
          Stream.fromEffect(Effect.andThen(Deferred.succeed(isBegun, undefined), Effect.never))
        )
        const writing = yield* Effect.forkChild(spills.write(a, endless))
        yield* Deferred.await(isBegun)
        yield* Fiber.interrupt(writing)
        assert.strictEqual((yield* Effect.flip(spills.find(a, sha256(bytes("begun")))))._tag, "SpillNotFound")
      }).pipe(Effect.provide(layer))
    )

    it.effect("finds lines as a split of the whole text does", () =>
      Effect.gen(function* () {
        const spills = yield* store
        const kept = yield* spills.write(a, inPieces(bytes(longText)))
        const found = yield* spills.find(a, kept.id)
        const all = longText.split("\n")
        for (const startLine of [1, 2, 999, 1001, 4500, 8999, 9000]) {
          const { endLine, text } = yield* SpillSearch.lines(spills, a, found, {
            startLine,
            endLine: startLine + 2,
            room: 500_000
          })
          assert.strictEqual(text, all.slice(startLine - 1, startLine + 2).join("\n"), `line ${startLine}`)
          assert.strictEqual(endLine, Math.min(9000, startLine + 2))
        }
        for (const [source, startLine] of [
          ["4321 ", 1],
          ["8999 ", 1],
          ["👧 é", 1],
          ["xx", 1],
          ["xx", 5000],
          ["[89]99 é", 1]
        ] as const) {
          const pattern = compiled(source)
          const search = yield* SpillSearch.search(spills, a, found, { startLine, keep: 3 }, searching(pattern))
          const due = all.flatMap((line, n) => (n + 1 >= startLine && pattern.find(line) >= 0 ? [n + 1] : []))
          assert.strictEqual(search.count, due.length, source)
          assert.deepStrictEqual(
            search.first.map(({ line }) => line),
            due.slice(0, 3)
          )
        }
      }).pipe(Effect.provide(layer))
    )
  })
}

describe("lines of a spill", () => {
  it.effect("are those of a split of the text, whatever the text", () =>
    Effect.gen(function* () {
      const spills = yield* store
      const pieces = fc.array(
        fc.oneof(fc.constant("\n"), fc.constant("word"), fc.constant("y".repeat(40_000)), fc.constant("é👧")),
        { maxLength: 12 }
      )
      for (const parts of fc.sample(pieces, { numRuns: 150, seed: 7 })) {
        const text = parts.join("")
        const content = bytes(text)
        const kept = yield* spills.write(a, inPieces(content, 30_011))
        const lines = TextPattern.linesOf(text)
        assert.strictEqual(kept.lines, lines.length, JSON.stringify(parts))
        const found = yield* spills.find(a, kept.id)
        const wanted = { startLine: 1, keep: 99 }
        const search = yield* SpillSearch.search(spills, a, found, wanted, searching(compiled("word")))
        assert.deepStrictEqual(
          search.first.map(({ line }) => line),
          lines.flatMap((line, n) => (line.includes("word") ? [n + 1] : [])),
          JSON.stringify(parts)
        )
        const last = yield* SpillSearch.lines(spills, a, found, {
          startLine: Math.max(1, kept.lines),
          endLine: kept.lines,
          room: 1e6
        })
        assert.strictEqual(last.text, lines.at(-1) ?? "")
      }
    }).pipe(Effect.provide(SpillStore.layerMemory({ quota: 1e9 })))
  )
})

it.effect("a line of a spill is cut between characters", () =>
  Effect.gen(function* () {
    const family = "👨‍👩‍👧‍👦"
    const spills = yield* store
    const kept = yield* spills.write(a, Stream.make(bytes(family.repeat(8_000))))
    for (const room of [99, 100, 101, 102, 103]) {
      const found = yield* spills.find(a, kept.id)
      const { text } = yield* SpillSearch.lines(spills, a, found, { startLine: 1, endLine: 1, room })
      assert.strictEqual(text, `${family.repeat(Math.floor(room / family.length))}… [line cut]`)
    }
  }).pipe(Effect.provide(SpillStore.layerMemory()))
)

describe("spill files", () => {
  const world = (options?: Partial<SpillFiles.Options>) =>
    Effect.map(scratch, (parent) => {
      const folder = path.join(parent, "spills")
      return { folder, layer: Layer.fresh(SpillFiles.layer({ folder, ...options })) }
    })
  const files = (folder: string): ReadonlyArray<string> =>
    fs
      .readdirSync(folder, { recursive: true, encoding: "utf8", withFileTypes: true })
      .flatMap((each) => (each.isFile() ? [path.join(each.parentPath, each.name)] : []))

  it.effect("belong to the user of the server alone, and their names say nothing of the session", () =>
    Effect.gen(function* () {
      const { folder, layer } = yield* world()
      yield* Effect.provide(
        Effect.flatMap(store, (spills) => spills.write(a, Stream.make(bytes("secret\n")))),
        layer
      )
      assert.lengthOf(files(folder), 2)
      for (const file of files(folder)) assert.strictEqual(fs.statSync(file).mode & 0o777, 0o600)
      for (const home of [folder, ...files(folder).map(path.dirname)])
        assert.strictEqual(fs.statSync(home).mode & 0o777, 0o700)
    })
  )

  it.effect("are not read through a link", () =>
    Effect.gen(function* () {
      const { folder, layer } = yield* world()
      yield* Effect.gen(function* () {
        const spills = yield* store
        const kept = yield* spills.write(a, Stream.make(bytes("mine\n")))
        const file = path.join(folder, sha256(bytes("a")), kept.id)
        fs.rmSync(file)
        fs.symlinkSync("/etc/hostname", file)
        assert.strictEqual((yield* Effect.flip(spills.find(a, kept.id)))._tag, "SpillNotFound")
        assert.strictEqual((yield* Effect.flip(Stream.runCollect(spills.read(a, kept.id))))._tag, "SpillNotFound")
      }).pipe(Effect.provide(layer))
    })
  )

  it.effect("outlive the process, and what a dead one left half-written does not", () =>
    Effect.gen(function* () {
      const { folder, layer } = yield* world()
      const kept = yield* Effect.provide(
        Effect.flatMap(store, (spills) => spills.write(a, Stream.make(bytes("kept\n")))),
        layer
      )
      const [name = ""] = [`${sha256(bytes(""))}`]
      const half = path.join(folder, "half")
      const host = sha256(bytes(os.hostname())).slice(0, 12)
      fs.writeFileSync(path.join(half, `${host}.4194300.${name}`), "left")
      fs.writeFileSync(path.join(half, `${host}.${process.ppid}.${name}`), "still written")
      fs.writeFileSync(path.join(half, `otherhost.1.${name}`), "of another host")
      // Its number is another process's by now.
      fs.writeFileSync(path.join(half, `${host}.${process.ppid}.old`), "left long ago")
      fs.utimesSync(path.join(half, `${host}.${process.ppid}.old`), 0, 0)
      const content = yield* Effect.provide(readAll(kept), layer)
      assert.strictEqual(content.toString(), "kept\n")
      assert.sameMembers(fs.readdirSync(half), [`${host}.${process.ppid}.${name}`, `otherhost.1.${name}`])
    })
  )

  it.effect("are swept when their time is over", () =>
    Effect.gen(function* () {
      const { folder, layer } = yield* world({ keep: Duration.days(1) })
      yield* TestClock.setTime(fs.statSync(path.dirname(folder)).mtimeMs)
      yield* Effect.gen(function* () {
        const spills = yield* store
        const old = yield* spills.write(a, Stream.make(bytes("old\n")))
        const young = yield* spills.write(a, Stream.make(bytes("young\n")))
        const only = yield* spills.write(b, Stream.make(bytes("old\n")))
        for (const file of files(folder)) if (file.includes(old.id)) fs.utimesSync(file, 0, 0)
        yield* TestClock.adjust("1 hour")
        // The sweep works on the disk: it is waited for by what it leaves. A folder may go away while it is listed.
        const left = Effect.orElseSucceed(
          Effect.try(() => files(folder).length),
          () => Infinity
        )
        yield* Effect.repeat(Effect.andThen(turn, left), { until: (count) => count === 2 })
        assert.strictEqual((yield* Effect.flip(spills.find(a, old.id)))._tag, "SpillNotFound")
        assert.strictEqual((yield* Effect.flip(spills.find(b, only.id)))._tag, "SpillNotFound")
        assert.strictEqual((yield* spills.find(a, young.id)).bytes, 6)
      }).pipe(Effect.provide(layer))
    })
  )

  it.effect("are refused when the disk takes no more, without a path, and leave nothing half-written", () =>
    Effect.gen(function* () {
      const { folder } = yield* world()
      const script = path.resolve(import.meta.dirname, "../../fixtures/children/fillDisk.ts")
      // The shell counts in blocks of 512 or 1024 bytes: two or four mebibytes, less than the eight that are written.
      const limited = `ulimit -f 4096 && exec "$0" -C @turnstep/source "$@"`
      const ran = spawnSync("sh", ["-c", limited, process.execPath, script, folder], { encoding: "utf8" })
      const { left, refused, small } = JSON.parse(ran.stdout)
      assert.deepInclude(refused, { reason: "disk-full", message: "There is no room left on the disk to keep it." })
      assert.strictEqual(small, "Success")
      assert.isEmpty(left)
    })
  )

  it.effect("are not kept where the folder cannot be used, and the words say why", () =>
    Effect.gen(function* () {
      const { folder } = yield* world()
      const base = path.dirname(folder)
      const file = path.join(base, "a-file")
      fs.writeFileSync(file, "precious", { mode: 0o644 })
      const outside = path.join(base, "outside")
      fs.mkdirSync(outside, { mode: 0o755 })
      const link = path.join(base, "a-link")
      fs.symlinkSync(outside, link)
      const cases: ReadonlyArray<readonly [string, RegExp]> = [
        [file, /no folder is in its place/],
        [link, /it is a link\. Name the folder itself/]
      ]
      for (const [place, words] of cases) {
        const error = yield* Effect.flip(Effect.scoped(Layer.build(SpillFiles.layer({ folder: place }))))
        assert.strictEqual(error._tag, "SpillFolderUnusable")
        assert.match(error.message, words)
      }
      assert.strictEqual(fs.statSync(outside).mode & 0o777, 0o755)
      assert.isEmpty(fs.readdirSync(outside))
    })
  )

  it.effect("leave nothing when they cannot be put in their place", () =>
    Effect.gen(function* () {
      const { folder, layer } = yield* world()
      yield* Effect.gen(function* () {
        const spills = yield* store
        const content = bytes("no place\n")
        fs.mkdirSync(path.join(folder, sha256(bytes("a")), `${sha256(content)}.lines`, "full"), { recursive: true })
        assert.strictEqual((yield* Effect.flip(spills.write(a, Stream.make(content)))).reason, "unavailable")
        assert.isEmpty(files(folder))
      }).pipe(Effect.provide(layer))
    })
  )

  it.effect("are not swept when they are written anew at that moment", () =>
    Effect.gen(function* () {
      const root = yield* scratch
      const folder = SpillFolder.make(root)
      yield* Effect.promise(async () => {
        await folder.prepare()
        const home = folder.homeOf(a)
        const meter = SpillStore.meter()
        meter.add(bytes("again\n"))
        const kept = meter.end()
        const settle = async (name: string) => {
          fs.writeFileSync(folder.temporary(name), "again\n")
          await folder.settle(home, kept, folder.temporary(name))
        }
        for (let round = 0; round < 300; round++) {
          await settle("old")
          for (const file of [kept.id, `${kept.id}.lines`]) fs.utimesSync(path.join(home, file), 0, 0)
          await Promise.all([settle("new"), folder.sweep(1_000)])
          assert.strictEqual((await folder.find(home, kept.id)).bytes, 6, `round ${round}`)
        }
      })
    })
  )

  it.effect("are refused beyond the quota of the session and of the store, and what is refused takes no room", () =>
    Effect.gen(function* () {
      const { folder, layer } = yield* world({ quota: 3_000_000, sessionQuota: 2_000_000 })
      yield* Effect.gen(function* () {
        const spills = yield* store
        const write = (session: typeof a, of: string) =>
          Effect.result(spills.write(session, inPieces(bytes(of.repeat(1_100_000)))))
        const told = (written: Result.Result<unknown, SpillStore.SpillRefused>) =>
          Result.isFailure(written) ? written.failure.message : "kept"
        assert.strictEqual(told(yield* write(a, "1")), "kept")
        assert.match(told(yield* write(a, "2")), /outputs of this session may have 2000000 bytes/)
        assert.strictEqual(told(yield* write(b, "3")), "kept")
        assert.match(told(yield* write(SessionId.make("c"), "4")), /outputs of this store may have 3000000 bytes/)
        assert.lengthOf(files(folder), 4)
      }).pipe(Effect.provide(layer))
      // What is on the disk counts after a new start as well.
      yield* Effect.gen(function* () {
        const refused = yield* Effect.flip((yield* store).write(a, inPieces(bytes("5".repeat(1_100_000)))))
        assert.strictEqual(refused.reason, "quota")
      }).pipe(Effect.provide(layer))
    })
  )
})
