// Delay of the event loop under work of a model's choosing: `node -C @turnstep/source bench/killers.mjs`.
// Each line is compared with the idle loop of the same run; the last one runs a single expression where it is asked for.
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as HistoryWork from "@turnstep/runtime/HistoryWork"
import * as Workspace from "@turnstep/runtime/tools/Workspace"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { monitorEventLoopDelay, performance } from "node:perf_hooks"
import { setTimeout as sleep } from "node:timers/promises"
import * as vm from "node:vm"

const root = mkdtempSync(join(tmpdir(), "turnstep-bench-killers-"))
const line = `${"a".repeat(60)}X\n`
writeFileSync(join(root, "hostile.txt"), line)
writeFileSync(join(root, "long.txt"), "a".repeat(3 * 1024 * 1024))
for (let folder = 0; folder < 20; folder++) {
  mkdirSync(join(root, `many/${folder}`), { recursive: true })
  for (let file = 0; file < 1_000; file++)
    writeFileSync(join(root, `many/${folder}/${"ab".repeat(20)}${file}.txt`), "x\n")
}

const toolkit = await Effect.runPromise(
  Effect.provide(Workspace.toolkit, Workspace.layer({ root })).pipe(Effect.provide(NodeServices.layer))
)
const call = (name, params) => Effect.flatMap(toolkit.handle(name, params, "call"), Stream.runCollect)
const at = (count, work) =>
  Effect.runPromise(
    Effect.all(
      Array.from({ length: count }, (_, n) => work(n)),
      { concurrency: "unbounded" }
    )
  )

const history = Array.from({ length: 40_000 }, (_, n) => [
  { role: "user", content: `question ${n} ${"e".repeat(100)}` },
  {
    role: "assistant",
    tool_calls: [{ id: `call_${n}`, type: "function", function: { name: "look", arguments: `{"n":${n}}` } }]
  }
]).flat()

const jobs = {
  idle: () => sleep(2_000),
  "20 greps that backtrack": () => at(20, (n) => call("grep", { pattern: `^(a+)+${"$".repeat(n + 1)}` })),
  "20 honest greps over 20,000 files": () => at(20, (n) => call("grep", { pattern: `[a-z]${n}z` })),
  "20 lists with 2^5 braces": () => at(20, () => call("list_files", { pattern: `${"*{a,b}".repeat(5)}*` })),
  "16 lists of 20,000 files": () => at(16, () => call("list_files", { limit: 5_000 })),
  "16 reads of 50 files of 3 MiB": () =>
    at(16, () => call("read_files", { paths: Array.from({ length: 50 }, () => "long.txt") })),
  "repair of a history of 9 MiB": () =>
    Effect.runPromise(HistoryWork.repair({ messages: history, format: "openai-chat", context: undefined })),
  "one grep on the serving thread": async () => {
    try {
      vm.runInNewContext("search()", { search: () => line.search(/^(a+)+$/) }, { timeout: 1_000 })
    } catch {
      // the time limit
    }
    await sleep(50)
  }
}

let idle
console.log("| work | took | p50 | p99 | longest | times idle |\n|---|---|---|---|---|---|")
try {
  for (const [name, job] of Object.entries(jobs)) {
    const delay = monitorEventLoopDelay({ resolution: 5 })
    delay.enable()
    await sleep(50)
    delay.reset()
    await sleep(50) // the first interval after a reset is not counted
    const began = performance.now()
    await job()
    const took = performance.now() - began
    delay.disable()
    const millis = (nanos) => Math.max(0, nanos / 1e6 - 5)
    const longest = millis(delay.max)
    idle ??= Math.max(1, longest)
    const [p50, p99] = [50, 99].map((share) => millis(delay.percentile(share)).toFixed(1))
    console.log(
      `| ${name} | ${(took / 1000).toFixed(1)} s | ${p50} ms | ${p99} ms | ${longest.toFixed(1)} ms | ${(longest / idle).toFixed(1)} |`
    )
  }
} finally {
  rmSync(root, { recursive: true, force: true })
}
