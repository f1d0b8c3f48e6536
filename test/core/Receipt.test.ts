import { assert, describe, it } from "@effect/vitest"
import * as Receipt from "@turnstep/core/Receipt"

const effects = ["pure", "idempotent", "queryable", "once"] as const
const causes = ["cancelled", "timed-out", "failed", "lost"] as const

describe("Receipt", () => {
  it("says not started of a call that never ran, whatever the cause", () => {
    for (const effect of effects)
      for (const cause of causes)
        assert.strictEqual(Receipt.outcomeOf({ isStarted: false, effects: effect }, cause), "not-started")
  })

  it("says the outcome is unknown of every started call that may have had effects", () => {
    for (const effect of effects.slice(1))
      for (const cause of causes)
        assert.strictEqual(Receipt.outcomeOf({ isStarted: true, effects: effect }, cause), "outcome-unknown")
  })

  it("says why a pure call stopped", () => {
    const outcome = (cause: Receipt.Cause) => Receipt.outcomeOf({ isStarted: true, effects: "pure" }, cause)
    assert.deepStrictEqual(causes.map(outcome), ["cancelled", "timed-out", "cancelled", "cancelled"])
  })

  it("claims neither success nor failure in its words", () => {
    for (const outcome of ["not-started", "cancelled", "timed-out", "outcome-unknown"] as const) {
      const text = Receipt.textFor("pay", outcome)
      assert.include(text, "pay")
      assert.match(text, /^\[receipt: /)
      assert.notMatch(text, /succe|fail/i)
    }
    assert.match(Receipt.textFor("pay", "outcome-unknown"), /may or may not/)
    assert.match(Receipt.textFor("pay", "not-started"), /no effect/)
  })
})
