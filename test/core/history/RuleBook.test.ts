import { assert, describe, it } from "@effect/vitest"
import { readFileSync, readdirSync } from "node:fs"
import { Code } from "../../../packages/core/src/history/Contract.ts"
import { rules } from "../../../packages/core/src/history/RuleBook.ts"

const source = new URL("../../../packages/core/src/history/", import.meta.url)
const files = readdirSync(source, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".ts"))

describe("the rule book", () => {
  it("has a rule for every code a provider is the reason of", () => {
    const founded = new Set(rules.flatMap((rule) => rule.codes))
    const own = Code.literals.filter((code) => !founded.has(code))
    assert.deepStrictEqual(own, ["MESSAGE_UNKNOWN", "SUSPENDED_CALL"])
  })

  it("names each rule once, with its evidence", () => {
    assert.strictEqual(new Set(rules.map((rule) => rule.id)).size, rules.length)
    for (const rule of rules) {
      if (!rule.grades.includes("inference")) assert.notStrictEqual(rule.evidence, "", rule.id)
    }
  })

  it("has every rule the formats cite", () => {
    const known = new Set(rules.map((rule) => rule.id))
    const cited = files
      .filter((name) => name.startsWith("formats") || name === "Contract.ts")
      .flatMap((name) =>
        readFileSync(new URL(name, source), "utf8")
          .split("\n")
          .filter((line) => /\/\/|\*/.test(line))
          .flatMap((line) => [...line.matchAll(/\b([OARGVU]\d+)\b/g)].map(([, id]) => id!))
      )
    assert.isAbove(cited.length, 30)
    for (const id of cited) assert.isTrue(known.has(id), id)
  })
})
