import { assert, describe, it } from "@effect/vitest"
import * as ToolRules from "@turnstep/core/ToolRules"
import * as ToolPolicy from "@turnstep/core/ToolPolicy"
import * as Tool from "effect/ai/Tool"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"

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

describe("ToolRules", () => {
  const found = (key: Parameters<typeof plain.annotate>[0], value: unknown) =>
    ToolRules.problemOf(plain.annotate(key, value))

  it("finds every value that an annotation cannot have, and names what it may be", () => {
    assert.match(
      found(ToolPolicy.Effects, "onec") ?? "",
      /tool "plain": .*Effects is "onec".* pure, idempotent, queryable, once/
    )
    const wrong: ReadonlyArray<readonly [Parameters<typeof plain.annotate>[0], ReadonlyArray<unknown>]> = [
      [ToolPolicy.Effects, ["", "Once", 1, null]],
      [ToolPolicy.Domain, ["serv", true]],
      [ToolPolicy.Output, ["slime"]],
      [ToolPolicy.Timeout, ["soon", 0, -1, Duration.zero, NaN, {}]],
      [ToolPolicy.Exclusive, ["", 7]],
      [ToolPolicy.Retry, [3, "thrice"]],
      [ToolPolicy.Normalise, ["noise"]],
      [ToolPolicy.DurableRead, ["path"]],
      [ToolPolicy.Query, ["ask", () => Effect.succeedNone]]
    ]
    for (const [key, values] of wrong) for (const value of values) assert.isDefined(found(key, value), String(value))
    assert.match(found(ToolPolicy.Effects, "queryable") ?? "", /Query is missing/)
  })

  it("takes what the functions write", () => {
    const query = () => Effect.succeedNone
    for (const tool of [
      plain,
      ToolPolicy.pure(plain),
      ToolPolicy.once(plain),
      ToolPolicy.idempotent(plain),
      ToolPolicy.queryable(plain, query),
      ToolPolicy.annotate(plain, { timeout: "5 seconds", exclusive: () => undefined, retry: Schedule.recurs(1) })
    ]) {
      assert.isUndefined(ToolRules.problemOf(tool))
    }
    assert.strictEqual(ToolPolicy.of(ToolPolicy.idempotent(plain)).effects, "idempotent")
    assert.strictEqual(ToolPolicy.of(ToolPolicy.queryable(plain, query)).query, query)
    const policy = ToolPolicy.of(ToolPolicy.annotate(plain, { output: "exempt", exclusive: "one", domain: "mcp" }))
    assert.deepInclude(policy, { output: "exempt", domain: "mcp", effects: "once" })
    assert.strictEqual(policy.exclusive({}), "one")
  })
})
