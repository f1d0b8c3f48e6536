import { assert, describe, it } from "@effect/vitest"
import { readFileSync, readdirSync } from "node:fs"
import { repair } from "../../../packages/core/src/history/Repair.ts"
import * as RuleBook from "../../../packages/core/src/history/RuleBook.ts"
import { verify } from "../../../packages/core/src/history/Verify.ts"
import { cases } from "./RuleCases.ts"

const books = {
  "openai-chat": RuleBook.openAiChat,
  "openai-responses": RuleBook.openAiResponses,
  anthropic: RuleBook.anthropic,
  gemini: RuleBook.gemini,
  "ai-sdk": RuleBook.aiSdk
}

/** What the corpus shows, as `book CODE`. */
const corpus = new URL("../../corpus/history/", import.meta.url)
const shown = readdirSync(corpus).flatMap((name) => {
  const { expect, format } = JSON.parse(readFileSync(new URL(name, corpus), "utf8"))
  return expect.violations.map(({ code }: { readonly code: string }) => `${format.replace(/-(model|ui)$/, "")} ${code}`)
})

describe("the rules of the contract", () => {
  it("have each a report or a case that breaks them, by every code", () => {
    const known = new Set(shown)
    const made = new Set(cases.flatMap(({ found, rule }) => found.map((line) => `${rule} ${line.split(" ")[1]}`)))
    const missing = Object.entries(books).flatMap(([book, rules]) =>
      rules.flatMap(({ codes, id }) =>
        codes
          .filter((code) => !known.has(`${book} ${code}`) && !made.has(`${id} ${code}`))
          .map((code) => `${id} ${code}`)
      )
    )
    assert.deepStrictEqual(missing, [])
  })

  for (const { context = {}, format, found, messages, repaired, rule } of cases) {
    it(`are kept: ${rule}, ${found.join(", ")}`, () => {
      const findings = verify(format, messages, context).filter(({ severity }) => severity !== "info")
      assert.deepStrictEqual(
        findings.map(({ at, code, severity }) => `${severity} ${code} ${at}`),
        found
      )
      const healed = repair(format, messages, context)
      if ("choices" in repaired) {
        assert.strictEqual(healed.messages, messages)
        assert.deepStrictEqual(healed.remaining[0]?.choices, repaired.choices)
      } else {
        assert.deepStrictEqual(healed.messages, repaired.messages)
        assert.deepStrictEqual(healed.remaining, [])
        assert.deepStrictEqual(
          [...new Set(healed.changes.map(({ code }) => code))],
          [...new Set(findings.map(({ code }) => code))]
        )
      }
      assert.deepStrictEqual(repair(format, healed.messages, context).changes, [])
    })
  }
})
