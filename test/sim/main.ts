/**
 * Runs many histories on all cores, or one again with its trace.
 *
 *     npm run test:sim                          10,000 histories
 *     SIM_HISTORIES=200000 npm run test:sim     as many as you like
 *     SIM_SEED=4711 npm run test:sim            one, told from beginning to end
 *
 * Ends with 1 when a promise was broken.
 */
import * as os from "node:os"
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads"
import * as History from "./History.ts"

interface Share {
  readonly first: number
  readonly last: number
  readonly stride: number
}

/** What a thread tells: a broken history, or how far it has come. */
type Told =
  | { readonly type: "broken"; readonly seed: number; readonly violation: string }
  | { readonly type: "done"; readonly figures: History.Figures; readonly histories: number }

const runShare = ({ first, last, stride }: Share, tell: (told: Told) => void): void => {
  let figures: History.Figures = { turns: 0, events: 0, calls: 0, faults: 0, millis: 0 }
  let histories = 0
  for (let seed = first; seed <= last; seed += stride) {
    const report = History.run(seed)
    figures = add(figures, report.figures)
    histories++
    const [violation] = report.violations
    if (violation !== undefined) tell({ type: "broken", seed, violation })
  }
  tell({ type: "done", figures, histories })
}

const add = (a: History.Figures, b: History.Figures): History.Figures => ({
  turns: a.turns + b.turns,
  events: a.events + b.events,
  calls: a.calls + b.calls,
  faults: a.faults + b.faults,
  millis: a.millis + b.millis
})

const replay = (seed: number): void => {
  const report = History.run(seed)
  for (const line of report.trace) console.log(line)
  console.log(`seed ${seed}, ${report.kind}:`, report.figures)
  for (const violation of report.violations) console.log(`broken: ${violation}`)
  process.exitCode = report.violations.length > 0 ? 1 : 0
}

const runAll = async (histories: number): Promise<void> => {
  const threads = Math.min(os.availableParallelism(), histories)
  const began = performance.now()
  let figures: History.Figures = { turns: 0, events: 0, calls: 0, faults: 0, millis: 0 }
  let broken = 0
  const hear = (told: Told) => {
    if (told.type === "done") figures = add(figures, told.figures)
    else {
      broken++
      console.log(`broken: ${told.violation}\n  replay it with: SIM_SEED=${told.seed} npm run test:sim`)
    }
  }
  await Promise.all(
    Array.from({ length: threads }, (_, thread) => {
      const share: Share = { first: thread + 1, last: histories, stride: threads }
      const worker = new Worker(new URL(import.meta.url), { workerData: share })
      worker.on("message", hear)
      return new Promise<void>((resolve, reject) => worker.on("error", reject).on("exit", () => resolve()))
    })
  )
  const seconds = (performance.now() - began) / 1_000
  console.log(
    `${histories} histories, ${broken} broken, in ${seconds.toFixed(1)} s (${(histories / seconds).toFixed(0)} a second):`,
    `${figures.turns} Turns, ${figures.calls} calls, ${figures.events} events, ${figures.faults} faults,`,
    `${(figures.millis / 3_600_000).toFixed(0)} hours of their time`
  )
  process.exitCode = broken > 0 ? 1 : 0
}

if (!isMainThread) runShare(workerData as Share, (told) => parentPort?.postMessage(told, []))
else if (process.env["SIM_SEED"] !== undefined) replay(Number(process.env["SIM_SEED"]))
else await runAll(Number(process.env["SIM_HISTORIES"] ?? 10_000))
