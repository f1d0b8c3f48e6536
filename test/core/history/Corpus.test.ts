import { assert, describe, it } from "@effect/vitest"
import { readFileSync, readdirSync } from "node:fs"
import type { Context, FormatName, Severity } from "../../../packages/core/src/history/Contract.ts"
import { detect } from "../../../packages/core/src/history/Detect.ts"
import { repair } from "../../../packages/core/src/history/Repair.ts"
import { verify } from "../../../packages/core/src/history/Verify.ts"
import { difference } from "./Expectation.ts"

interface Case {
  readonly id: string
  readonly source: { readonly url: string; readonly title: string }
  readonly format: FormatName
  readonly context?: Context
  readonly input: ReadonlyArray<unknown>
  readonly expect: {
    readonly violations: ReadonlyArray<{ readonly code: string; readonly at: string; readonly severity: Severity }>
    readonly repaired: ReadonlyArray<unknown> | string
  }
}

const folder = new URL("../../corpus/history/", import.meta.url)
const cases = readdirSync(folder).map((name) => JSON.parse(readFileSync(new URL(name, folder), "utf8")) as Case)

const line = ({ at, code, severity }: { readonly at: string; readonly code: string; readonly severity: Severity }) =>
  `${code} ${at} ${severity}`

describe("history corpus", () => {
  it("holds the cases of every format", () => {
    assert.isAtLeast(cases.length, 64)
    assert.strictEqual(new Set(cases.map((one) => one.format)).size, 6)
  })

  for (const one of cases) {
    describe(`${one.id}: ${one.source.title}`, () => {
      const context = one.context ?? {}
      const before = JSON.stringify(one.input)

      it("has exactly the expected findings", () => {
        const findings = verify(one.format, one.input, context).filter((found) => found.severity !== "info")
        assert.deepStrictEqual(findings.map(line).toSorted(), one.expect.violations.map(line).toSorted())
      })

      it("is repaired as expected, once and for all", () => {
        const repaired = repair(one.format, one.input, context)
        if (typeof one.expect.repaired !== "string") {
          assert.isUndefined(difference(repaired.messages, one.expect.repaired))
          assert.deepStrictEqual(repaired.remaining, [])
        }
        assert.strictEqual(JSON.stringify(one.input), before, "the input is not changed in place")
        const again = repair(one.format, repaired.messages, context)
        assert.strictEqual(again.messages, repaired.messages)
        assert.deepStrictEqual(again.changes, [])
        assert.isTrue(repaired.remaining.every((found) => found.choices !== undefined))
        if (one.expect.violations.length === 0) assert.strictEqual(repaired.messages, one.input)
      })

      it("is recognised as its format, or as ambiguous with it", () => {
        const found = detect(one.input)
        if (found._tag === "Detected") assert.strictEqual(found.format, one.format)
        else assert.include(found.candidates, one.format)
      })
    })
  }
})
