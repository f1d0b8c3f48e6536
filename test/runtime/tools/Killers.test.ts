/** Work that a model may choose to hold up a process: every tool answers each in words, and the serving thread goes on. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, layer } from "@effect/vitest"
import { CallId, SessionId } from "@turnstep/core/Ids"
import * as SpillStore from "@turnstep/core/SpillStore"
import * as LargeOutput from "@turnstep/runtime/LargeOutput"
import * as OffThread from "@turnstep/runtime/offthread/OffThread"
import * as ToolCall from "@turnstep/runtime/ToolCall"
import * as SpillTools from "@turnstep/runtime/tools/SpillTools"
import * as Workspace from "@turnstep/runtime/tools/Workspace"
import * as WorkspaceWrite from "@turnstep/runtime/tools/WorkspaceWrite"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as fs from "node:fs"
import * as path from "node:path"
import * as Folder from "../../fixtures/Folder.ts"

const corpus = JSON.parse(fs.readFileSync(path.join(import.meta.dirname, "../../corpus/killers.json"), "utf8")) as {
  readonly patterns: ReadonlyArray<readonly [name: string, pattern: string]>
  readonly globs: ReadonlyArray<readonly [name: string, glob: string]>
}

const sessionId = SessionId.make("killers")

/** Lines on which the patterns have most to try. */
const hostile = [
  `${"a".repeat(60)}X`,
  `${"ab".repeat(60)}`,
  `${"1-".repeat(40)}x`,
  `${" ".repeat(20_000)}x`,
  `${"a.b_".repeat(20)}@`,
  "=".repeat(60)
]

interface Result {
  readonly isFailure: boolean
  readonly encodedResult: unknown
}

class Kits extends Context.Service<
  Kits,
  {
    readonly workspace: Effect.Success<typeof Workspace.toolkit>
    readonly writing: Effect.Success<typeof WorkspaceWrite.toolkit>
    readonly spill: Effect.Success<typeof SpillTools.toolkit>
    readonly call: ToolCall.Current
    readonly spillId: string
  }
>()("test/Kits") {}

const kits = Layer.effect(
  Kits,
  Effect.gen(function* () {
    const root = yield* Folder.make({
      "hostile.txt": hostile.join("\n"),
      "long.txt": "a".repeat(3 * 1024 * 1024),
      "pairs.txt": "ab".repeat(1024 * 1024)
    })
    for (let folder = 0; folder < 20; folder++) {
      const name = path.join(root, `many/${"ab".repeat(20)}${folder}`)
      fs.mkdirSync(name, { recursive: true })
      for (let file = 0; file < 1_000; file++) fs.writeFileSync(path.join(name, `${"ab".repeat(20)}${file}.txt`), "")
    }
    const store = yield* Effect.fromNullishOr(yield* SpillStore.SpillStore)
    const bytes = Buffer.from(`${hostile.join("\n")}\n${"a".repeat(2 * 1024 * 1024)}`)
    const { id } = yield* store.write(sessionId, Stream.make(bytes))
    return {
      workspace: yield* Effect.provide(Workspace.toolkit, Workspace.layer({ root })),
      writing: yield* Effect.provide(WorkspaceWrite.toolkit, WorkspaceWrite.layer({ root })),
      spill: yield* Effect.provide(SpillTools.toolkit, SpillTools.layer),
      spillId: id,
      call: {
        sessionId,
        callId: CallId.make("cal_1_1_1"),
        attempt: 1,
        progress: () => Effect.void,
        keep: (() => Effect.die("nothing is kept")) as unknown as LargeOutput.Keep,
        recorded: () => Effect.undefined
      }
    }
  })
)

/**
 * The longest time, in processor milliseconds, that this thread worked in one turn of its event loop while an effect ran.
 * The clock of the wall would say how busy the machine is.
 */
const longestTurn = <A, E, R>(work: Effect.Effect<A, E, R>) =>
  Effect.acquireUseRelease(
    Effect.sync(() => {
      const spent = () => process.threadCpuUsage().user / 1000
      const seen = { longest: 0, turns: 0 }
      let last = spent()
      const timer = setInterval(() => {
        const now = spent()
        seen.longest = Math.max(seen.longest, now - last)
        seen.turns++
        last = now
      }, 1)
      return { seen, timer }
    }),
    ({ seen }) => Effect.map(work, (result) => [result, seen] as const),
    ({ timer }) => Effect.sync(() => clearInterval(timer))
  )

/** What an honest call may take of the serving thread in one turn; a killer on it takes seconds. */
const honestMillis = 400

layer(Layer.provideMerge(kits, Layer.mergeAll(NodeServices.layer, SpillStore.layerMemory())), {
  excludeTestServices: true,
  timeout: 60_000
})("Killers", (it) => {
  /** Runs calls side by side, each as if it were of a session of its own: none is refused for what another one wasted. */
  const all = <R>(calls: ReadonlyArray<Effect.Effect<Result, unknown, R>>) =>
    Effect.gen(function* () {
      const { call } = yield* Kits
      const pool = OffThread.make({ idle: 500 })
      let lane = 0
      const alone: OffThread.Service = {
        run: (task, input, options) => pool.run(task, input, { ...options, lane: String(lane++) })
      }
      const [results, { longest, turns }] = yield* longestTurn(Effect.all(calls, { concurrency: "unbounded" })).pipe(
        Effect.provideService(OffThread.OffThread, alone),
        Effect.provideService(ToolCall.ToolCall, call)
      )
      assert.isBelow(longest, honestMillis)
      assert.isAbove(turns, 0)
      return results
    })

  it.effect(
    "are answered by grep and spill_grep, while the event loop turns",
    () =>
      Effect.gen(function* () {
        const { spill, spillId, workspace } = yield* Kits
        const params = corpus.patterns.map(([, pattern]) => ({ pattern, caseSensitive: false }))
        const results = yield* all([
          ...params.map((params) => Folder.call(workspace, "grep", params)),
          ...params.map((params) => Folder.call(spill, "spill_grep", { ...params, spill: spillId }))
        ])
        assert.strictEqual(results.length, 2 * corpus.patterns.length)
        for (const { encodedResult } of results) assert.isBelow(JSON.stringify(encodedResult).length, 100_000)
      }),
    180_000
  )

  it.effect(
    "are answered by list_files and grep over 20,000 files, while the event loop turns",
    () =>
      Effect.gen(function* () {
        const { workspace } = yield* Kits
        const results = yield* all([
          ...corpus.globs.map(([, pattern]) => Folder.call(workspace, "list_files", { pattern })),
          ...corpus.globs.map(([, glob]) => Folder.call(workspace, "grep", { pattern: "TODO", glob }))
        ])
        const refused = (name: string) => results[corpus.globs.findIndex(([known]) => known === name)]
        for (const name of ["ten braces", "thirteen braces", "nested braces", "a wide brace"]) {
          assert.include(JSON.stringify(refused(name)?.encodedResult), "more than 32 alternatives", name)
        }
        assert.isFalse(refused("thirty-two braces")?.isFailure)
      }),
    180_000
  )

  it.effect(
    "leave the memory of the process alone, however many files are read and folders listed at once",
    () =>
      Effect.gen(function* () {
        const { workspace } = yield* Kits
        const paths = Array.from({ length: 50 }, () => "long.txt")
        const before = process.memoryUsage().rss
        const results = yield* all([
          ...Array.from({ length: 16 }, () => Folder.call(workspace, "read_files", { paths })),
          ...Array.from({ length: 16 }, () => Folder.call(workspace, "list_files", { limit: 5_000 }))
        ])
        for (const { encodedResult, isFailure } of results) {
          assert.isFalse(isFailure)
          assert.isBelow(JSON.stringify(encodedResult).length, 2 * 1024 * 1024)
        }
        // 16 calls at once that hold what they read would hold 2.4 GB.
        assert.isBelow(process.memoryUsage().rss - before, 400 * 1024 * 1024)
      }),
    180_000
  )

  it.effect(
    "are answered by edit_file",
    () =>
      Effect.gen(function* () {
        const { writing } = yield* Kits
        const texts = [
          `b${"a".repeat(900_000)}`,
          "a".repeat(900_000),
          `${"ab".repeat(400_000)}c`,
          "a\n".repeat(400_000)
        ]
        const results = yield* all(
          texts.flatMap((old) =>
            ["long.txt", "pairs.txt"].map((path) => Folder.call(writing, "edit_file", { path, old, new: "" }))
          )
        )
        for (const { encodedResult, isFailure } of results) {
          assert.isTrue(isFailure)
          assert.match(JSON.stringify(encodedResult), /not in the file|more than once/)
        }
      }),
    180_000
  )
})
