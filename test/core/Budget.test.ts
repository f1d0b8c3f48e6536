import { assert, describe, it } from "@effect/vitest"
import * as Budget from "@turnstep/core/Budget"
import { addUsage, type Limit } from "@turnstep/core/TurnEvent"

const usage = (inputTokens: number, outputTokens: number) => ({ inputTokens, outputTokens })
const nothing = { steps: 0, usage: usage(0, 0), now: 0 }

describe("Budget", () => {
  it("is spent in steps after the last one and not before", () => {
    const limits = { maxSteps: Budget.defaultMaxSteps }
    assert.isUndefined(Budget.spent(limits, { ...nothing, steps: 14 }))
    assert.strictEqual(Budget.spent(limits, { ...nothing, steps: 15 }), "steps")
    assert.strictEqual(Budget.spent({ maxSteps: 0 }, nothing), "steps")
  })

  it("is spent in tokens, in and out together", () => {
    const limits = { maxSteps: 9, maxTokens: 100 }
    assert.isUndefined(Budget.spent(limits, { ...nothing, usage: usage(60, 39) }))
    assert.strictEqual(Budget.spent(limits, { ...nothing, usage: usage(60, 40) }), "tokens")
  })

  it("is spent in cost at the price of a million tokens, and never without a price", () => {
    const limits = { maxSteps: 9, maxCost: 2, price: { input: 1, output: 10 } }
    assert.isUndefined(Budget.spent(limits, { ...nothing, usage: usage(1_000_000, 99_999) }))
    assert.strictEqual(Budget.spent(limits, { ...nothing, usage: usage(1_000_000, 100_000) }), "cost")
    assert.isUndefined(Budget.spent({ maxSteps: 9, maxCost: 2 }, { ...nothing, usage: usage(1e9, 1e9) }))
  })

  it("counts cached input at its own price, and as input where it has none", () => {
    const used = { ...usage(1_000_000, 100_000), cachedInputTokens: 900_000, reasoningTokens: 50_000 }
    const price = { input: 10, output: 20 }
    assert.strictEqual(Budget.costOf({ maxSteps: 9, price }, used), 12)
    assert.strictEqual(Budget.costOf({ maxSteps: 9, price: { ...price, cachedInput: 1 } }, used), 1 + 0.9 + 2)
    const odd = { ...usage(10, 0), cachedInputTokens: 20 }
    assert.strictEqual(Budget.costOf({ maxSteps: 9, price: { input: 1, output: 1, cachedInput: 0 } }, odd), 0)
  })

  it("adds what one of two usages has, and tells nothing that none has", () => {
    const sum = addUsage(
      { ...usage(1, 2), cachedInputTokens: 3 },
      { ...usage(4, 5), cachedInputTokens: 6, reasoningTokens: 7 }
    )
    assert.deepStrictEqual(sum, { inputTokens: 5, outputTokens: 7, cachedInputTokens: 9, reasoningTokens: 7 })
    assert.deepStrictEqual(addUsage(usage(1, 1), usage(1, 1)), usage(2, 2))
  })

  it("is spent in time at the deadline", () => {
    const limits = { maxSteps: 9, deadline: 1000 }
    assert.isUndefined(Budget.spent(limits, { ...nothing, now: 999 }))
    assert.strictEqual(Budget.spent(limits, { ...nothing, now: 1000 }), "time")
  })

  it("is not spent in what has no limit", () => {
    assert.isUndefined(Budget.spent({ maxSteps: 9 }, { steps: 8, usage: usage(1e9, 1e9), now: 1e15 }))
  })

  it("asks for an honest hand-back and names what is spent", () => {
    const limits = { maxSteps: 7, maxTokens: 500, maxCost: 3 }
    const prompt = (limit: Limit) => Budget.handBackPrompt(Budget.reason(limits, limit))
    assert.include(prompt("steps"), "step budget of this turn (7)")
    assert.include(prompt("tokens"), "token budget of this turn (500)")
    assert.include(prompt("cost"), "cost budget of this turn (3)")
    assert.match(prompt("time"), /time of this turn/)
    assert.match(prompt("steps"), /still open/)
    assert.match(prompt("steps"), /Do not claim/)
  })

  it("counts answered and unanswered calls of each tool without claiming more", () => {
    const text = Budget.handBackText(Budget.reason({ maxSteps: 3 }, "steps"), [
      { tool: "read", outcome: "ok" },
      { tool: "read", outcome: "failed" },
      { tool: "pay", outcome: "unknown" }
    ])
    assert.match(text, /step budget of this turn \(3\) is spent; the work is not finished/)
    assert.match(text, /- read: 1 answered, 1 without success$/m)
    assert.match(text, /- pay: 0 answered, 1 with unknown outcome$/m)
  })

  it("says so when no tool was called", () => {
    assert.include(Budget.handBackText(Budget.reason({ maxSteps: 0 }, "steps"), []), "No tool was called.")
  })
})
