import { assert, describe, it } from "@effect/vitest"
import * as ToolPolicy from "@turnstep/core/ToolPolicy"
import * as Tool from "effect/ai/Tool"
import * as Duration from "effect/Duration"

const plain = Tool.make("plain")

describe("ToolPolicy", () => {
  it("takes a tool that says nothing of itself for one that must never run twice", () => {
    const policy = ToolPolicy.of(plain)
    assert.strictEqual(policy.effects, "once")
    assert.strictEqual(policy.output, "slim")
    assert.strictEqual(Duration.toMillis(policy.timeout), 120_000)
  })

  it("reads the annotations of effect/ai", () => {
    assert.strictEqual(ToolPolicy.of(plain.annotate(Tool.Readonly, true)).effects, "pure")
    assert.strictEqual(ToolPolicy.of(plain.annotate(Tool.Idempotent, true)).effects, "idempotent")
    assert.strictEqual(
      ToolPolicy.of(plain.annotate(Tool.Idempotent, true).annotate(Tool.Readonly, true)).effects,
      "pure"
    )
    assert.strictEqual(ToolPolicy.of(plain.annotate(Tool.Readonly, false)).effects, "once")
  })

  it("believes its own annotation before those of effect/ai", () => {
    const tool = plain.annotate(Tool.Readonly, true).annotate(ToolPolicy.Effects, "queryable")
    assert.strictEqual(ToolPolicy.of(tool).effects, "queryable")
  })

  it("reads time and output", () => {
    const tool = plain.annotate(ToolPolicy.Timeout, Duration.seconds(3)).annotate(ToolPolicy.Output, "exempt")
    const policy = ToolPolicy.of(tool)
    assert.strictEqual(Duration.toMillis(policy.timeout), 3000)
    assert.strictEqual(policy.output, "exempt")
  })
})
