/**
 * A thousand Turns with tools that do what tools should not: hang, throw, flood, fork, ignore being stopped, answer too late.
 * What is left of them is counted: fibers, open files, processes.
 */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, it } from "@effect/vitest"
import * as SpillStore from "@turnstep/core/SpillStore"
import * as ToolPolicy from "@turnstep/core/ToolPolicy"
import * as Agent from "@turnstep/runtime/Agent"
import * as Runtime from "@turnstep/runtime/Runtime"
import type { Session } from "@turnstep/runtime/Session"
import { Sessions } from "@turnstep/runtime/Session"
import * as RunCommand from "@turnstep/runtime/tools/RunCommand"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Metric from "effect/Metric"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as Folder from "../fixtures/Folder.ts"
import * as World from "../fixtures/World.ts"

const kinds = ["ok", "hang", "defect", "stubborn", "late", "promise", "flood", "fork"] as const
type Kind = (typeof kinds)[number]

const short = Duration.millis(10)
const tool = <const Name extends Kind>(name: Name) =>
  Tool.make(name, { success: Schema.String }).annotate(ToolPolicy.Timeout, short)
const kit = Toolkit.make(tool("ok"), tool("hang"), tool("defect"), tool("stubborn"), tool("late"), tool("promise"))

const handlers = kit.toLayer({
  ok: () => Effect.succeed("fine"),
  hang: () => Effect.never,
  defect: () => Effect.die(new Error("a bug")),
  // Longer than the grace it is given.
  stubborn: () => Effect.uninterruptible(Effect.as(Effect.sleep("2500 millis"), "at last")),
  late: () => Effect.uninterruptible(Effect.as(Effect.sleep("30 millis"), "after the timeout")),
  // Goes on whoever interrupts it, and nobody hears of its end.
  promise: () => Effect.promise(() => new Promise<string>((resolve) => setTimeout(() => resolve("unheard"), 50)))
})

/** Told apart from everybody else's by the process of this test. */
const sleep = `sleep 1000.${process.pid}`

const commands: Partial<Record<Kind, string>> = {
  flood: "yes | head -c 1200000",
  fork: `${sleep} & ${sleep} & (${sleep} & ${sleep}) & echo forked; exit 1`
}

/** Asks for the tool that the message names, then ends. */
const model = Layer.effect(
  LanguageModel.LanguageModel,
  LanguageModel.make({
    generateText: () => Effect.die("not used"),
    streamText: ({ prompt }) => {
      const last = prompt.content.at(-1)
      const asked =
        last?.role === "user" ? last.content.flatMap((part) => (part.type === "text" ? [part.text] : [])) : []
      const usage = { inputTokens: { total: 1, uncached: 1, cacheRead: 0 }, outputTokens: { total: 1, text: 1 } }
      const [kind] = asked
      if (kind === undefined) {
        return Stream.make(
          { type: "text-start", id: "t" } as const,
          { type: "text-delta", id: "t", delta: "done" } as const,
          { type: "text-end", id: "t" } as const,
          { type: "finish", reason: "stop", usage } as const
        )
      }
      const command = commands[kind as Kind]
      const call = command === undefined ? { name: kind, params: {} } : { name: "run_command", params: { command } }
      return Stream.make(
        { type: "tool-call", id: `c${prompt.content.length}`, ...call } as const,
        { type: "finish", reason: "tool-calls", usage } as const
      )
    }
  })
)

const openFiles = (): number => fs.readdirSync(process.platform === "linux" ? "/proc/self/fd" : "/dev/fd").length

/** Processes of ours that live: those below this one, and those that forks have left elsewhere. */
const processes = (): number =>
  execFileSync("ps", ["-A", "-o", "ppid=,stat=,args="], { encoding: "utf8" })
    .split("\n")
    .filter((row) => {
      const [parent, state = "", ...args] = row.trim().split(/\s+/)
      if (state.startsWith("Z") || args[0] === "ps") return false
      return Number(parent) === process.pid || args.join(" ") === sleep
    }).length

/** Waits for a count to come down to what it was; gives the count it ended with. */
const settled = (now: () => number, due: number) =>
  Effect.sync(now).pipe(
    Effect.repeat({ schedule: Schedule.spaced("50 millis"), until: (count) => count <= due }),
    Effect.timeoutOption("15 seconds"),
    Effect.map(now)
  )

it.live(
  "a thousand Turns with tools that misbehave leave no fiber, no open file and no process behind",
  () =>
    Effect.gen(function* () {
      let fibers = 0
      const counting: Metric.FiberRuntimeMetricsService = {
        recordFiberStart: () => void fibers++,
        recordFiberEnd: () => void fibers--
      }
      const root = yield* Folder.make({})
      const scope = yield* Scope.make()
      const agent = Agent.make("a", { instructions: "i", toolkit: Toolkit.merge(kit, RunCommand.toolkit) })
      const runtime = Runtime.layerMemory([agent]).pipe(
        Layer.provide([handlers, model, RunCommand.layer({ root })]),
        Layer.provide(SpillStore.layerMemory()),
        Layer.provide(Logger.layer([]))
      )
      const context = yield* Layer.buildWithScope(runtime, scope).pipe(
        Effect.provideService(Metric.FiberRuntimeMetrics, counting)
      )
      const sessions = Context.get(context, Sessions)
      const open = Effect.fnUntraced(function* (n: number) {
        const session = yield* sessions.open({ id: `s${n}` })
        yield* session.run("ok")
        return session
      })
      const all = yield* Effect.forEach(
        Array.from({ length: 50 }, (_, n) => n),
        open
      )
      const before = { fibers, files: openFiles(), processes: processes() }
      assert.isAbove(before.fibers, all.length, "fibers are counted")

      // Every kind in every session, the cheap ones more often; commands cost a process each.
      const plan = kinds.flatMap((kind) =>
        kind in commands ? [kind] : kind === "stubborn" ? [kind] : [kind, kind, kind]
      )
      const rounds = [...plan, "ok", "hang"] as ReadonlyArray<Kind>
      assert.strictEqual(all.length * rounds.length, 1000)
      const work = (session: Session) => Effect.forEach(rounds, (kind) => session.run(kind), { discard: true })
      yield* Effect.forEach(all, work, { concurrency: "unbounded", discard: true })

      const answers: Record<string, number> = {}
      for (const session of all) {
        for (const event of yield* World.events(session)) {
          const what =
            event.type === "call.receipt" ? event.data.outcome : event.type === "call.late" ? event.type : undefined
          if (what !== undefined) answers[what] = (answers[what] ?? 0) + 1
        }
      }
      assert.strictEqual(answers["call.late"], 50, "each stubborn tool's end is on record")
      assert.isAtLeast(answers["outcome-unknown"] ?? 0, 50 * 8)

      assert.strictEqual(yield* settled(() => fibers, before.fibers), before.fibers, "fibers")
      assert.isAtMost(yield* settled(openFiles, before.files), before.files, "open files")
      assert.isAtMost(yield* settled(processes, before.processes), before.processes, "processes")
      yield* Scope.close(scope, Exit.void)
      assert.strictEqual(fibers, 0, "fibers of a runtime that is closed")
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer)),
  { timeout: 120_000 }
)
