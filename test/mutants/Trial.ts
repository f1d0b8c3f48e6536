/**
 * Suites run in a copy of the repository.
 *
 * Owns: running them and reading what came of it. Does not own: the copy (`Copy`), or what should come of it (`main`).
 */
import { spawn } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import type { Copy } from "./Copy.ts"

/** What came of it. `failed` is the first test that failed. */
export interface Trial {
  readonly passed: number
  readonly failed: string | undefined
  /** Why nothing can be said: no test was run at all, or they took too long. */
  readonly problem: string | undefined
  readonly seconds: number
}

/** How long the suites of one mutant may take, in milliseconds. */
const patience = 300_000

interface Report {
  readonly testResults: ReadonlyArray<{
    readonly status: string
    readonly message: string
    readonly assertionResults: ReadonlyArray<{ readonly status: string; readonly fullName: string }>
  }>
}

/** Runs suites until the first test fails, or until told to stop. */
export const run = async (copy: Copy, suites: ReadonlyArray<string>, stop: AbortSignal): Promise<Trial> => {
  const began = performance.now()
  const report = path.join(copy.directory, "report.json")
  const vitest = path.join(copy.directory, "node_modules/vitest/vitest.mjs")
  const options = ["run", "--bail=1", "--reporter=json", `--outputFile=${report}`]
  const signal = AbortSignal.any([stop, AbortSignal.timeout(patience)])
  const child = spawn(process.execPath, [vitest, ...options, ...suites], {
    cwd: copy.directory,
    stdio: "ignore",
    signal
  })
  await new Promise((resolve) => child.on("error", () => {}).on("close", resolve))
  stop.throwIfAborted()
  const seconds = (performance.now() - began) / 1_000
  if (!fs.existsSync(report)) return { passed: 0, failed: undefined, problem: "nothing was reported", seconds }
  const { testResults } = JSON.parse(fs.readFileSync(report, "utf8")) as Report
  const tests = testResults.flatMap(({ assertionResults }) => assertionResults)
  const passed = tests.filter(({ status }) => status === "passed").length
  const failed = tests.find(({ status }) => status === "failed")?.fullName
  const broken = testResults.find(
    ({ assertionResults, status }) => status === "failed" && assertionResults.length === 0
  )
  const problem = failed !== undefined ? undefined : (broken?.message ?? (passed === 0 ? "no test was run" : undefined))
  return { passed, failed, problem, seconds }
}
