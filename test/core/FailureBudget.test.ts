import { assert, describe, it } from "@effect/vitest"
import * as FailureBudget from "@turnstep/core/FailureBudget"
import type { Domain } from "@turnstep/core/ToolPolicy"

/** `x` fails, `.` succeeds. */
const after = (domain: Domain, tape: string): FailureBudget.FailureBudget =>
  [...tape].reduce((budget, each) => FailureBudget.observe(budget, domain, each === "x"), FailureBudget.empty)

describe("FailureBudget", () => {
  it("is spent by five failures in a row, and not by four", () => {
    assert.isFalse(FailureBudget.isSpent(after("local", "xxxx"), "local"))
    assert.isTrue(FailureBudget.isSpent(after("local", "xxxxx"), "local"))
  })

  it("begins anew with a success, until it is spent", () => {
    assert.isFalse(FailureBudget.isSpent(after("desktop", "xxxx.xxxx.xxxx"), "desktop"))
    assert.isTrue(FailureBudget.isSpent(after("desktop", "xxxxx.."), "desktop"))
  })

  it("is one for each domain at the user's, and for no other", () => {
    const local = after("local", "xxxxx")
    assert.isFalse(FailureBudget.isSpent(local, "plugin"))
    for (const domain of ["server", "client", "mcp", "provider"] as const) {
      assert.isFalse(FailureBudget.isSpent(after(domain, "xxxxxxxxxx"), domain))
      assert.isFalse(FailureBudget.counts(domain))
    }
  })

  it("obeys the limit it is given, and says what is out of use", () => {
    assert.isTrue(FailureBudget.isSpent(after("plugin", "xx"), "plugin", 2))
    assert.isUndefined(FailureBudget.refused(after("plugin", "x"), "draw", "plugin", 2))
    assert.match(
      FailureBudget.refused(after("plugin", "xx"), "draw", "plugin", 2) ?? "",
      /2 calls of plugin tools have failed in a row.*draw/
    )
  })
})
