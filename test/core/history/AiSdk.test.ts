/**
 * The AI SDK itself as the judge: what it checks of a prompt before it asks a model (`standardizePrompt`,
 * `convertToLanguageModelPrompt`), and how it reads UIMessages.
 */
import { convertToModelMessages, generateText, type ModelMessage, type UIMessage } from "ai"
import { MockLanguageModelV4 } from "ai/test"
import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import * as fs from "node:fs"
import * as path from "node:path"
import type { FormatName } from "../../../packages/core/src/history/Contract.ts"
import * as Export from "../../../packages/core/src/history/Export.ts"
import * as Import from "../../../packages/core/src/history/Import.ts"
import { repair } from "../../../packages/core/src/history/Repair.ts"
import * as Transcript from "../../../packages/core/src/Transcript.ts"
import { conversation, write } from "./Conversation.ts"
import { blows, damage } from "./Damage.ts"

const numRuns = Number(process.env["HISTORY_RUNS"] ?? 100)
const patience = 30_000 + numRuns * 50

const model = () =>
  new MockLanguageModelV4({
    doGenerate: {
      content: [{ type: "text", text: "ok" }],
      finishReason: { unified: "stop", raw: "stop" },
      usage: {
        inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
        outputTokens: { total: 1, text: 1, reasoning: 0 }
      },
      warnings: []
    }
  })

/** Why the SDK does not ask the model, if it does not. */
const refusalOf = async (messages: ReadonlyArray<unknown>): Promise<string | undefined> => {
  try {
    const asked = messages as ReadonlyArray<ModelMessage>
    await generateText({ model: model(), messages: [...asked], allowSystemInMessages: true, maxRetries: 0 })
    return undefined
  } catch (error) {
    return error instanceof Error ? `${error.name}: ${error.message}` : String(error)
  }
}

const refusalOfUi = async (messages: ReadonlyArray<unknown>): Promise<string | undefined> => {
  const converted = await convertToModelMessages([...(messages as ReadonlyArray<UIMessage>)])
  // An answer without parts is no message of the model.
  return converted.length === 0 ? undefined : refusalOf(converted)
}

const judges = { "ai-sdk-model": refusalOf, "ai-sdk-ui": refusalOfUi } as const

const inputOf = (name: string): ReadonlyArray<unknown> =>
  JSON.parse(fs.readFileSync(path.join(import.meta.dirname, `../../corpus/history/${name}.json`), "utf8")).input

const terminated = { turn: "terminated" } as const

describe("The AI SDK", () => {
  it("refuses calls without results, and takes them once they are repaired", async () => {
    const messages = inputOf("72-aisdk-missing-results-before-user")
    assert.match((await refusalOf(messages)) ?? "", /MissingToolResults/)
    assert.isUndefined(await refusalOf(repair("ai-sdk-model", messages, terminated).messages))
  })

  for (const [format, judge] of Object.entries(judges)) {
    it(
      `takes whatever was repaired: ${format}`,
      () =>
        fc.assert(
          fc.asyncProperty(conversation, blows, async (conversation, blows) => {
            const messages = damage(write(format as FormatName, conversation), blows)
            const repaired = repair(format as FormatName, messages, terminated)
            if (repaired.remaining.length > 0 || repaired.messages.length === 0) return
            assert.isUndefined(await judge(repaired.messages))
          }),
          { numRuns }
        ),
      patience
    )

    it(
      `takes what a session exports: ${format}`,
      () =>
        fc.assert(
          fc.asyncProperty(conversation, blows, async (conversation, blows) => {
            const read = Import.read({ format: "anthropic", messages: damage(write("anthropic", conversation), blows) })
            if ("_tag" in read) return
            const { messages } = Export.write(format as FormatName, read.messages.map(Transcript.pastMessage))
            assert.isUndefined(await judge(messages))
          }),
          { numRuns }
        ),
      patience
    )
  }
})
