/** Repaired reports are taken by servers that know nothing of the rules: our strict provider, and aimock in strict mode. */
import { LLMock } from "@copilotkit/aimock"
import { assert, describe, it } from "@effect/vitest"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Effect from "effect/Effect"
import { readFileSync, readdirSync } from "node:fs"
import type { Context, FormatName } from "../../../packages/core/src/history/Contract.ts"
import { repair } from "../../../packages/core/src/history/Repair.ts"
import { judges } from "./Judges.ts"

interface Case {
  readonly id: string
  readonly format: FormatName
  readonly context?: Context
  readonly input: ReadonlyArray<unknown>
}

const folder = new URL("../../corpus/history/", import.meta.url)
const casesOf = (format: FormatName) =>
  readdirSync(folder)
    .map((name) => JSON.parse(readFileSync(new URL(name, folder), "utf8")) as Case)
    .filter((one) => one.format === format)

/** Nothing is open any more, and what needs a decision becomes text. */
const healed = ({ context, format, input }: Case) =>
  repair(format, input, { ...context, turn: "terminated", flatten: true }).messages

/** The status with which a server answers a request with these messages. */
const statusOf = (url: string, body: object) =>
  Effect.promise(async () => {
    const response = await fetch(url, {
      method: "POST",
      headers: { "content-type": "application/json", "x-api-key": "k", "anthropic-version": "2023-06-01" },
      body: JSON.stringify({ model: "m", max_tokens: 2048, ...body })
    })
    await response.arrayBuffer()
    return response.status
  })

const aimock = Effect.acquireRelease(
  Effect.promise(async () => {
    const mock = new LLMock({ port: 0, strict: true })
    mock.on({ predicate: () => true }, { content: "ok" })
    return { mock, url: await mock.start() }
  }),
  ({ mock }) => Effect.promise(() => mock.stop())
)

describe("repaired reports", () => {
  it.live("are taken by strict providers of OpenAI Chat, and most not as they were", () =>
    Effect.gen(function* () {
      const strict = yield* StrictProvider.make({ respond: () => StrictProvider.text("ok") })
      const { url } = yield* aimock
      const refused: Array<string> = []
      for (const one of casesOf("openai-chat")) {
        const ask = (messages: ReadonlyArray<unknown>) => statusOf(`${strict.baseUrl}/chat/completions`, { messages })
        if ((yield* ask(one.input)) === 400) refused.push(one.id)
        assert.strictEqual(yield* ask(healed(one)), 200, `${one.id}: ${strict.refusals.at(-1)?.message}`)
        assert.strictEqual(yield* statusOf(`${url}/v1/chat/completions`, { messages: healed(one) }), 200, one.id)
      }
      assert.isAtLeast(refused.length, 11, refused.join())
    })
  )

  it.live("are taken by strict providers of Anthropic Messages, and not all as they were", () =>
    Effect.gen(function* () {
      const { url } = yield* aimock
      const refused: Array<string> = []
      for (const one of casesOf("anthropic")) {
        if (judges.anthropic(one.input) !== undefined) refused.push(one.id)
        assert.isUndefined(judges.anthropic(healed(one)), one.id)
        const thinking = one.context?.thinking === true ? { thinking: { type: "enabled", budget_tokens: 1024 } } : {}
        const body = { model: "claude-sonnet-4-5", messages: healed(one), ...thinking }
        assert.strictEqual(yield* statusOf(`${url}/v1/messages`, body), 200, one.id)
      }
      assert.isAtLeast(refused.length, 6, refused.join())
    })
  )
})
