import { LLMock } from "@copilotkit/aimock"
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import { repair } from "../../../packages/core/src/history/Repair.ts"

// aimock in strict mode refuses tool rounds without their thinking block, as the real interface does.
const mock = new LLMock({ port: 0, strict: true })
let url = ""

beforeAll(async () => {
  mock.onMessage(/.*/, { content: "ok" })
  url = await mock.start()
})
afterAll(() => mock.stop())

const status = async (messages: ReadonlyArray<unknown>): Promise<number> => {
  const response = await fetch(`${url}/v1/messages`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-api-key": "test", "anthropic-version": "2023-06-01" },
    body: JSON.stringify({
      model: "claude-sonnet-4-5",
      max_tokens: 2048,
      thinking: { type: "enabled", budget_tokens: 1024 },
      messages
    })
  })
  await response.arrayBuffer()
  return response.status
}

const use = { type: "tool_use", id: "A", name: "Bash", input: { command: "ls" } }
const thinking = { type: "thinking", thinking: "t", signature: "sig" }
const history = [
  { role: "user", content: "q" },
  { role: "assistant", content: [use] },
  { role: "user", content: [{ type: "tool_result", tool_use_id: "A", content: "x" }] }
]

describe("a history without its thinking", () => {
  it("is refused as it is", async () => {
    assert.strictEqual(await status(history), 400)
  })

  it("is taken with the thinking from the record", async () => {
    const record = [{ role: "assistant", content: [thinking, use] }]
    assert.strictEqual(await status(repair("anthropic", history, { thinking: true, record }).messages), 200)
  })

  it("is taken with its round as text", async () => {
    assert.strictEqual(await status(repair("anthropic", history, { thinking: true, flatten: true }).messages), 200)
  })
})
