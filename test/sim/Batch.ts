/** Many histories for a test, told as a test tells it. */
import { assert } from "@effect/vitest"
import * as History from "./History.ts"

/** Runs the histories of a kind among so many seeds, and returns what was seen in them. */
export const run = (kind: History.Kind, seeds: number): ReadonlySet<string> => {
  const broken: Array<string> = []
  const seen = new Set<string>()
  for (let seed = 1; seed <= seeds; seed++) {
    if (History.kindOf(seed) !== kind) continue
    const report = History.run(seed)
    for (const each of report.seen) seen.add(each)
    const [violation] = report.violations
    if (violation !== undefined) broken.push(`SIM_SEED=${seed} npm run test:sim   # ${violation}`)
  }
  assert.deepStrictEqual(broken, [], "replay a broken history with the command")
  return seen
}

/** How many seeds the suite tries; the two kinds share them. */
export const seeds = Number(process.env["SIM_HISTORIES"] ?? 2_000)
