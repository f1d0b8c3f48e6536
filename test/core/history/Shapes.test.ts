/**
 * Histories whose parts have lost their shape: members missing, of another type, or added, anywhere in the messages.
 */
import { assert, describe, it } from "@effect/vitest"
import { modelMessageSchema } from "ai"
import * as fc from "fast-check"
import type { Change, FormatName } from "../../../packages/core/src/history/Contract.ts"
import * as Export from "../../../packages/core/src/history/Export.ts"
import * as Import from "../../../packages/core/src/history/Import.ts"
import { repair } from "../../../packages/core/src/history/Repair.ts"
import { pastMessage } from "../../../packages/core/src/Transcript.ts"
import { verify } from "../../../packages/core/src/history/Verify.ts"
import { conversation, write } from "./Conversation.ts"

const formats: ReadonlyArray<FormatName> = [
  "openai-chat",
  "openai-responses",
  "anthropic",
  "gemini",
  "ai-sdk-model",
  "ai-sdk-ui"
]

const numRuns = Number(process.env["HISTORY_RUNS"] ?? 200)
const patience = 30_000 + numRuns * 50

/** What a member becomes. */
const values: ReadonlyArray<unknown> = [
  undefined,
  null,
  0,
  7,
  "",
  " ",
  "x",
  true,
  false,
  [],
  {},
  [{ id: 17 }],
  [null],
  { type: "x" },
  [[]]
]

const blow = fc.record({ at: fc.nat(100_000), to: fc.nat(100_000), how: fc.nat(3) })
type Blow = { readonly at: number; readonly to: number; readonly how: number }

/** Every object and list of a value, from the outside in. */
const holders = (value: unknown): ReadonlyArray<Record<string, unknown> | Array<unknown>> => {
  if (typeof value !== "object" || value === null) return []
  const own = value as Record<string, unknown>
  return [own, ...Object.values(own).flatMap(holders)]
}

const strike = (messages: Array<unknown>, { at, how, to }: Blow): void => {
  const all = holders(messages).slice(1)
  const holder = all[at % Math.max(1, all.length)]
  if (holder === undefined) return
  const keys = Object.keys(holder)
  const key = keys[to % Math.max(1, keys.length)]
  const value = structuredClone(values[(at + to) % values.length])
  if (Array.isArray(holder)) holder.splice(to % (holder.length + 1), how % 2, value)
  else if (how === 0 && key !== undefined) Reflect.deleteProperty(holder, key)
  else if (how === 1) holder[`extra${to % 3}`] = value
  else if (key !== undefined) holder[key] = how === 2 ? value : [holder[key]]
}

const broken = (format: FormatName) =>
  fc.tuple(conversation, fc.array(blow, { minLength: 1, maxLength: 4 })).map(([conversation, blows]) => {
    const messages: Array<unknown> = structuredClone([...write(format, conversation)])
    for (const each of blows) strike(messages, each)
    return messages
  })

for (const format of formats) {
  describe(`histories in ${format} whose parts have lost their shape`, () => {
    for (const turn of ["suspended", "terminated"] as const) {
      it(
        `are repaired without an accident, as far as rules go (${turn})`,
        () => {
          fc.assert(
            fc.property(broken(format), (messages) => {
              const before = structuredClone(messages)
              const repaired = repair(format, messages, { turn })
              assert.deepStrictEqual(messages, before, "the input is not changed in place")
              const left = verify(format, repaired.messages, { turn }).filter(({ severity }) => severity !== "info")
              assert.deepStrictEqual(left, repaired.remaining)
              assert.isEmpty(left.filter(({ choices }) => choices === undefined))
              const again = repair(format, repaired.messages, { turn })
              assert.strictEqual(again.messages, repaired.messages)
              assert.doesNotThrow(() => JSON.stringify(repaired))
            }),
            { numRuns }
          )
        },
        patience
      )
    }

    it(
      "can be brought into a session and out of it in every format",
      () => {
        fc.assert(
          fc.property(broken(format), fc.constantFrom(...formats), (messages, other) => {
            const read = Import.read({ format, messages })
            if ("_tag" in read) return
            const { messages: exported } = Export.write(other, read.messages.map(pastMessage))
            assert.isEmpty(
              verify(other, exported, { purpose: "archive" }).filter(
                ({ choices, severity }) => severity === "error" && choices === undefined
              )
            )
          }),
          { numRuns: Math.ceil(numRuns / 4) }
        )
      },
      patience
    )
  })
}

describe("ModelMessages whose parts have lost their shape", () => {
  it(
    "are taken by the schema of the ai package when nothing remains to be decided",
    () => {
      fc.assert(
        fc.property(broken("ai-sdk-model"), (messages) => {
          const repaired = repair("ai-sdk-model", messages, { turn: "terminated" })
          // Kinds of parts that a later version may know are left alone.
          if (repaired.remaining.length > 0 || JSON.stringify(repaired.messages).includes('"type":"x"')) return
          for (const message of repaired.messages) {
            const { error } = modelMessageSchema.safeParse(message)
            assert.isUndefined(error, JSON.stringify(message))
          }
        }),
        { numRuns }
      )
    },
    patience
  )
})

describe("results", () => {
  /** Codes under which a result may leave the messages: it answers nothing, or what is answered. */
  const mayGo = new Set(["ORPHAN_RESULT", "DUPLICATE_RESULT", "DUPLICATE_CALL_ID", "MESSAGE_UNKNOWN"])
  const words = (value: unknown) => new Set(JSON.stringify(value ?? null).match(/res\d+(?:x\d+)?z/g) ?? [])
  const gone = (changes: ReadonlyArray<Change>, code: boolean) =>
    words(changes.filter((change) => mayGo.has(change.code) === code).map(({ dropped }) => dropped))

  for (const format of formats) {
    it(
      `in ${format} leave no text behind while they have a call to answer`,
      () => {
        fc.assert(
          fc.property(broken(format), (messages) => {
            const repaired = repair(format, messages, { turn: "terminated" })
            const kept = words(repaired.messages)
            const excused = gone(repaired.changes, true)
            for (const word of words(messages)) {
              assert.isTrue(
                kept.has(word) || excused.has(word),
                `${word} is gone: ${JSON.stringify(repaired.changes.filter((change) => JSON.stringify(change).includes(word)))}`
              )
            }
          }),
          { numRuns }
        )
      },
      patience
    )
  }
})
