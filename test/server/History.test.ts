import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import * as path from "node:path"
import * as Server from "../fixtures/Server.ts"

interface Case {
  readonly format: string
  readonly context?: unknown
  readonly input: ReadonlyArray<unknown>
  readonly expect: { readonly violations: ReadonlyArray<Finding>; readonly repaired: ReadonlyArray<unknown> }
}

interface Finding {
  readonly code: string
  readonly at: string
  readonly severity: string
}

interface Answer {
  readonly format: string
  readonly findings: ReadonlyArray<Finding>
  readonly messages: ReadonlyArray<unknown>
  readonly changes: ReadonlyArray<{ readonly code: string; readonly action: string; readonly dropped?: unknown }>
  readonly remaining: ReadonlyArray<Finding>
  readonly omitted?: number
  readonly code: string
  readonly detail: string
  readonly errors: ReadonlyArray<{ readonly pointer: string; readonly detail: string }>
}

const corpus = path.join(import.meta.dirname, "../corpus/history")
const caseOf = (name: string) => JSON.parse(fs.readFileSync(path.join(corpus, `${name}.json`), "utf8")) as Case

const ask = Effect.fnUntraced(function* (route: "verify" | "repair", body: unknown) {
  const server = yield* Server.TestServer
  return yield* server.json<Answer>(`/api/history/${route}`, { method: "POST", body })
})

layer(Server.layer(), { excludeTestServices: true })("The history API", (it) => {
  it.effect("tells what a provider refuses, and recognises the format", () =>
    Effect.gen(function* () {
      const { expect, format, input } = caseOf("46-anth-two-parallel-dangling")
      const { body, status } = yield* ask("verify", { messages: input })
      assert.strictEqual(status, 200)
      assert.hasAllKeys(body, ["format", "findings"])
      assert.strictEqual(body.format, format)
      const found = body.findings.map(({ at, code, severity }) => ({ code, at, severity }))
      assert.deepStrictEqual(found, expect.violations)
    })
  )

  it.effect("mends a history, names what it did, and leaves nothing to find", () =>
    Effect.gen(function* () {
      const { expect, input } = caseOf("55-anth-reminder-before-result")
      const { body, status } = yield* ask("repair", { messages: input })
      assert.strictEqual(status, 200)
      assert.hasAllKeys(body, ["format", "messages", "changes", "remaining"])
      assert.deepStrictEqual(body.messages, expect.repaired)
      assert.deepStrictEqual(
        body.changes.map(({ action, code }) => [action, code]),
        [["move", "RESULT_NOT_FIRST"]]
      )
      const again = yield* ask("verify", { messages: body.messages })
      assert.deepStrictEqual(again.body.findings, [])
    })
  )

  it.effect("gives dropped content back in the changes", () =>
    Effect.gen(function* () {
      const { input } = caseOf("07-chat-result-without-any-call")
      const { body } = yield* ask("repair", { messages: input })
      assert.isTrue(body.changes.some(({ dropped }) => Array.isArray(dropped) && dropped.length > 0))
    })
  )

  it.effect("goes by the format and the context it is given", () =>
    Effect.gen(function* () {
      const { context, expect, input } = caseOf("24-chat-user-after-tool-mistral")
      const strict = yield* ask("verify", { format: "openai-chat", messages: input, context })
      assert.deepStrictEqual(
        strict.body.findings.map(({ code }) => code),
        expect.violations.map(({ code }) => code)
      )
      const plain = yield* ask("verify", { format: "openai-chat", messages: input })
      assert.deepStrictEqual(plain.body.findings, [])
    })
  )

  it.effect("asks for the format where several write alike, and names them", () =>
    Effect.gen(function* () {
      const { body, status } = yield* ask("repair", { messages: [{ role: "user", content: "hello" }] })
      assert.deepStrictEqual([status, body.code], [400, "invalid-request"])
      assert.deepStrictEqual(
        body.errors.map(({ pointer }) => pointer),
        ["/body/format"]
      )
      assert.match(body.detail, /openai-chat, openai-responses, anthropic, ai-sdk-model/)
    })
  )

  it.effect("refuses a format, a profile and a field it does not know, and messages that are no list", () =>
    Effect.gen(function* () {
      const table = [
        [{ format: "cobol", messages: [] }, "/body/format"],
        [{ format: "gemini", messages: {} }, "/body/messages"],
        [{ format: "gemini", messages: [], context: { profile: "none" } }, "/body/context/profile"],
        [{ format: "gemini", messages: [], strict: true }, "/body/strict"]
      ] as const
      for (const [request, pointer] of table) {
        const { body, status } = yield* ask("verify", request)
        assert.deepStrictEqual([status, body.code], [400, "invalid-request"])
        assert.include(
          body.errors.map((error) => error.pointer),
          pointer
        )
      }
    })
  )

  it.effect("names a thousand findings at most, and says how many more there are", () =>
    Effect.gen(function* () {
      const messages = Array.from({ length: 1500 }, (_, index) => ({
        role: "tool",
        tool_call_id: `x${index}`,
        content: "lost"
      }))
      const { body } = yield* ask("verify", { format: "openai-chat", messages })
      assert.deepStrictEqual([body.findings.length, body.omitted], [1000, 500])
    })
  )

  it.effect("wants the token, and at most 16 MiB", () =>
    Effect.gen(function* () {
      const server = yield* Server.TestServer
      const headers = { authorization: "Bearer nobody" }
      const closed = yield* server.json("/api/history/verify", { method: "POST", headers, body: { messages: [] } })
      assert.strictEqual(closed.status, 401)
      const { body, status } = yield* ask("verify", { format: "gemini", messages: ["x".repeat(16 * 1024 * 1024)] })
      assert.deepStrictEqual([status, body.code], [413, "too-large"])
      const large = yield* ask("verify", {
        format: "openai-chat",
        messages: [{ role: "user", content: "x".repeat(15 * 1024 * 1024) }]
      })
      assert.deepStrictEqual([large.status, large.body.findings], [200, []])
    })
  )
})
