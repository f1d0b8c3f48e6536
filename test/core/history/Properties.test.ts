import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import type { Context, Finding, FormatName } from "../../../packages/core/src/history/Contract.ts"
import { repair } from "../../../packages/core/src/history/Repair.ts"
import { verify } from "../../../packages/core/src/history/Verify.ts"
import { conversation, write } from "./Conversation.ts"
import { blows, damage } from "./Damage.ts"
import { judges } from "./Judges.ts"

// HISTORY_RUNS=10000 for a long run. A failure prints its seed and path; HISTORY_SEED repeats it.
const seed = process.env["HISTORY_SEED"]
const numRuns = Number(process.env["HISTORY_RUNS"] ?? 200)
const patience = 30_000 + numRuns * 50
const options = { numRuns, ...(seed === undefined ? {} : { seed: Number(seed) }) }

const contexts: { readonly [K in FormatName]: ReadonlyArray<Context> } = {
  "openai-chat": [
    {},
    { turn: "terminated" },
    { profile: "openai" },
    { profile: "deepseek", thinking: true },
    { profile: "deepseek", thinking: true, flatten: true },
    { profile: "mistral" },
    { profile: "strict-alternation", turn: "terminated" },
    { profile: ["kimi", "strict-alternation"] },
    { orphans: "text" }
  ],
  "openai-responses": [{}, { turn: "terminated" }, { store: false }, { orphans: "text" }],
  anthropic: [
    {},
    { turn: "terminated" },
    { profile: "bedrock" },
    { profile: ["bedrock", "strict-alternation"], turn: "terminated" },
    { profile: "no-prefill" },
    { thinking: true },
    { thinking: true, flatten: true },
    { thinking: false },
    { tools: [] },
    { tools: [], flatten: true },
    { orphans: "text" }
  ],
  gemini: [{}, { turn: "terminated" }, { model: "gemini-3-pro" }, { purpose: "archive" }, { orphans: "text" }],
  "ai-sdk-model": [{}, { turn: "terminated" }, { profile: "strict-alternation" }, { orphans: "text" }],
  "ai-sdk-ui": [{}, { turn: "terminated" }]
}

const formats = Object.keys(contexts) as ReadonlyArray<FormatName>
const contextOf = (format: FormatName) => fc.constantFrom(...contexts[format])
const faulty = (findings: ReadonlyArray<Finding>) => findings.filter((found) => found.severity !== "info")
const mendable = (findings: ReadonlyArray<Finding>) => faulty(findings).filter((found) => found.choices === undefined)

/** How often each word of the conversation stands in a value. */
const words = (value: unknown): Map<string, number> => {
  const counts = new Map<string, number>()
  for (const [word] of JSON.stringify(value).matchAll(/[a-z]{3,6}\d+(x\d+)?z/g)) {
    counts.set(word, (counts.get(word) ?? 0) + 1)
  }
  return counts
}

for (const format of formats) {
  describe(`histories in ${format}`, () => {
    it(
      "are left alone, to the same object, when they are valid",
      () => {
        fc.assert(
          fc.property(conversation, (conversation) => {
            const messages = write(format, conversation)
            assert.deepStrictEqual(faulty(verify(format, messages)), [])
            const repaired = repair(format, messages)
            assert.strictEqual(repaired.messages, messages)
            assert.deepStrictEqual(repaired.changes, [])
            const verdict = judges[format](messages)
            assert.isUndefined(verdict)
          }),
          options
        )
      },
      patience
    )

    it(
      "are mended for good, whatever happened to them",
      () => {
        fc.assert(
          fc.property(conversation, blows, contextOf(format), (conversation, blows, context) => {
            const messages = damage(write(format, conversation), blows)
            const before = structuredClone(messages)
            const repaired = repair(format, messages, context)
            assert.deepStrictEqual(messages, before, "the input is not changed in place")
            assert.deepStrictEqual(mendable(verify(format, repaired.messages, context)), [])
            const again = repair(format, repaired.messages, context)
            assert.strictEqual(again.messages, repaired.messages)
            assert.deepStrictEqual(again.remaining, repaired.remaining)
            assert.deepStrictEqual(repair(format, before, context), repaired, "the same again for the same input")
            if (repaired.remaining.length === 0) assert.isUndefined(judges[format](repaired.messages))
          }),
          options
        )
      },
      patience
    )

    it(
      "lose no content that the report does not name",
      () => {
        fc.assert(
          fc.property(conversation, blows, contextOf(format), (conversation, blows, context) => {
            const messages = damage(write(format, conversation), blows)
            const repaired = repair(format, messages, context)
            const kept = words([repaired.messages, repaired.changes])
            for (const [word, count] of words(messages)) assert.isAtLeast(kept.get(word) ?? 0, count, word)
          }),
          options
        )
      },
      patience
    )

    it(
      "keep suspended calls as they are",
      () => {
        fc.assert(
          fc.property(conversation, blows, contextOf(format), (conversation, blows, context) => {
            const messages = damage(write(format, conversation), blows)
            const suspended = (list: ReadonlyArray<unknown>) =>
              verify(format, list, context).flatMap((found) =>
                found.code === "SUSPENDED_CALL" ? [JSON.stringify(pointed(list, found.at))] : []
              )
            const after = suspended(repair(format, messages, context).messages)
            for (const call of suspended(messages)) assert.include(after, call)
          }),
          options
        )
      },
      patience
    )
  })
}

const pointed = (value: unknown, pointer: string): unknown =>
  pointer
    .split("/")
    .slice(1)
    .reduce((current, key) => (current as { readonly [key: string]: unknown })[key], value)
