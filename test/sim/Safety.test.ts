import { assert, describe, it } from "@effect/vitest"
import * as Batch from "./Batch.ts"
import * as History from "./History.ts"

describe("Simulation", () => {
  it("breaks no promise in histories that are broken off at any moment", { timeout: 300_000 }, () => {
    Batch.run("safety", Batch.seeds)
  })

  it("tells the same history again from the same seed", () => {
    for (let seed = 1; seed <= 30; seed++) {
      assert.deepStrictEqual(History.run(seed).trace, History.run(seed).trace, `seed ${seed}`)
    }
  })

  it("tells another history from another seed", () => {
    const digests = new Set(Array.from({ length: 50 }, (_, n) => History.run(n + 1).trace.at(-1)))
    assert.strictEqual(digests.size, 50)
  })
})
