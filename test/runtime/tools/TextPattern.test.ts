import { assert, describe, it } from "@effect/vitest"
import * as TextPattern from "@turnstep/runtime/tools/TextPattern"

/** A search in which every mebibyte takes so long, on a clock of its own; gives how many were searched. */
const searched = (millis: number, portions: number): number => {
  let now = 0
  const limit = TextPattern.makePatience({
    now: () => now,
    limit: (most, work) => {
      now += Math.min(most, millis)
      return millis <= most ? work() : undefined
    }
  })
  for (let portion = 0; portion < portions; portion++) {
    if (limit.search(1024 * 1024, () => true) === undefined) return portion
  }
  return portions
}

describe("The patience with a pattern", () => {
  it("ends in the portion that takes longer than a second", () => {
    assert.strictEqual(searched(5_000, 10), 0)
  })

  it("ends for one that holds up every portion for a little less", () => {
    assert.isAtMost(searched(900, 1_000), 4)
  })

  it("lasts for gigabytes under a pattern that is merely slow", () => {
    assert.strictEqual(searched(90, 4_096), 4_096)
  })
})
