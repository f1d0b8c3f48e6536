import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, layer } from "@effect/vitest"
import * as Canonical from "@turnstep/core/Canonical"
import type { Exported } from "@turnstep/core/history/Export"
import { FormatName } from "@turnstep/core/history/Contract"
import * as Import from "@turnstep/core/history/Import"
import { verify } from "@turnstep/core/history/Verify"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import * as path from "node:path"
import * as Command from "../fixtures/Command.ts"
import * as Folder from "../fixtures/Folder.ts"
import * as Server from "../fixtures/Server.ts"
import * as Sse from "../fixtures/Sse.ts"

const corpus = path.join(import.meta.dirname, "../corpus/history")

interface Case {
  readonly format: FormatName
  readonly input: ReadonlyArray<unknown>
}

const caseOf = (name: string) => JSON.parse(fs.readFileSync(path.join(corpus, `${name}.json`), "utf8")) as Case

interface Answer {
  readonly id: string
  readonly headSeq: number
  readonly imported: Import.ImportReport
  readonly code: string
  readonly errors: ReadonlyArray<{ readonly pointer: string }>
}

const answering: StrictProvider.Respond = ({ index }) => StrictProvider.text(`answer ${index}`)

const create = (server: Server.TestServer["Service"], body: unknown, headers: Record<string, string> = {}) =>
  server.json<Answer>("/api/sessions", { method: "POST", body, headers })

const plain = [
  { role: "user", content: "hello" },
  { role: "assistant", content: "hi" }
]

/** Runs a command to its end, against a server. */
const run = Effect.fnUntraced(function* (
  server: Server.TestServer["Service"],
  args: ReadonlyArray<string>,
  cwd: string
) {
  const env = { TURNSTEP_SERVER: server.url, TURNSTEP_TOKEN: Server.token }
  const command = yield* Command.start(args, { cwd, env })
  const code = yield* command.exit
  return { code, stdout: command.stdout(), stderr: command.stderr() }
}, Effect.scoped)

layer(NodeServices.layer, { excludeTestServices: true })("Import and export", (it) => {
  it.effect("refuse a history whose numbers would grow beyond what can be read again, and make no session of it", () =>
    Effect.gen(function* () {
      const { server } = yield* Server.scripted(answering)
      const history = (numbers: number) => {
        const call = { name: "sum", arguments: `{"of":[${Array.from({ length: numbers }, () => "1e20").join(",")}]}` }
        return {
          format: "openai-chat",
          messages: [
            { role: "user", content: "add them" },
            { role: "assistant", content: null, tool_calls: [{ id: "c1", type: "function", function: call }] },
            { role: "tool", tool_call_id: "c1", content: "Infinity" }
          ]
        }
      }
      const refused = yield* create(server, { id: "grown", import: history(1_600_000) })
      assert.deepStrictEqual([refused.status, refused.body.code], [413, "too-large"])
      assert.strictEqual((yield* server.json("/api/sessions/grown")).status, 404)
      const taken = yield* create(server, { id: "grown", import: history(50_000) })
      assert.strictEqual(taken.status, 201)
      assert.strictEqual((yield* server.json("/api/sessions/grown/messages")).status, 200)
    })
  )

  it.effect("heal a history that its provider refused, and its session goes on with a strict one", () =>
    Effect.gen(function* () {
      const { provider, server } = yield* Server.scripted(answering)
      const { format, input } = caseOf("46-anth-two-parallel-dangling")
      const body = { title: "Brought in", import: { messages: input }, input: "go on" }
      const stream = yield* Sse.open(server, "/api/sessions", { method: "POST", body })
      const frames = yield* stream.rest
      assert.strictEqual(frames.at(-2)?.event, "turn.completed")
      const imported = frames.find(({ event }) => event === "history.imported")
      assert.include(JSON.stringify(imported?.data), `"format":"${format}"`)
      assert.isUndefined(frames.find(({ event }) => event === "transcript.repaired"))
      assert.isEmpty(provider.refusals)
      assert.isAbove(provider.requests[0]?.messages.length ?? 0, input.length)
    }).pipe(Effect.scoped)
  )

  it.effect("tell what was done, and give the messages back in every format", () =>
    Effect.gen(function* () {
      const { server } = yield* Server.scripted(answering)
      const { input } = caseOf("46-anth-two-parallel-dangling")
      const { body, status } = yield* create(server, { import: { messages: input } })
      assert.strictEqual(status, 201)
      assert.strictEqual(body.imported.format, "anthropic")
      assert.deepStrictEqual(
        body.imported.changes.map(({ code }) => code),
        ["DANGLING_CALL", "DANGLING_CALL"]
      )
      assert.deepStrictEqual([body.imported.remaining, body.imported.lost], [[], []])
      const shown = yield* server.json<{ readonly data: ReadonlyArray<{ readonly role: string }> }>(
        `/api/sessions/${body.id}/messages`
      )
      assert.deepStrictEqual(
        shown.body.data.map(({ role }) => role),
        ["user", "assistant", "tool", "user"]
      )
      for (const format of FormatName.literals) {
        const exported = yield* server.json<Exported>(`/api/sessions/${body.id}/export?format=${format}`)
        assert.strictEqual(exported.status, 200)
        assert.deepStrictEqual(verify(format, exported.body.messages, { purpose: "archive" }), [])
      }
      const unknown = yield* server.json<Answer>(`/api/sessions/${body.id}/export?format=cobol`)
      assert.deepStrictEqual([unknown.status, unknown.body.code], [400, "invalid-request"])
      const nobody = yield* server.json<Answer>("/api/sessions/none/export?format=gemini")
      assert.deepStrictEqual([nobody.status, nobody.body.code], [404, "session-not-found"])
    }).pipe(Effect.scoped)
  )

  it.effect("take a history once under a key, and no other one", () =>
    Effect.gen(function* () {
      const { server } = yield* Server.scripted(answering)
      const headers = { "idempotency-key": "k" }
      const first = yield* create(server, { import: { messages: plain } }, headers)
      const again = yield* create(server, { import: { messages: plain } }, headers)
      assert.deepStrictEqual([first.status, again.status], [201, 201])
      assert.deepStrictEqual(again.body, first.body)
      for (const body of [{}, { import: { messages: plain.slice(1) } }]) {
        const { body: problem, status } = yield* create(server, body, headers)
        assert.deepStrictEqual([status, problem.code], [422, "idempotency-key-reused"])
      }
      const bare = { "idempotency-key": "bare" }
      assert.strictEqual((yield* create(server, {}, bare)).status, 201)
      assert.strictEqual((yield* create(server, { import: { messages: plain } }, bare)).status, 422)
      assert.strictEqual((yield* server.json("/api/sessions")).status, 200)
    }).pipe(Effect.scoped)
  )

  it.effect("bring in under its key what a process died over", () =>
    Effect.gen(function* () {
      const { server, sessions } = yield* Server.scripted(answering)
      // As it is left between the two writes: created for the history, which is not there.
      const history = Import.read({ messages: plain })
      if ("_tag" in history) return assert.fail(history.message)
      const id = `ses_${Canonical.digestText("k").slice(0, 40)}`
      yield* Effect.orDie(sessions.open({ id, history: Import.digestOf(history) }))
      const { body, status } = yield* create(server, { import: { messages: plain } }, { "idempotency-key": "k" })
      assert.deepStrictEqual([status, body.id, body.imported.messages, body.headSeq], [201, id, 2, 2])
    }).pipe(Effect.scoped)
  )

  it.effect("refuse what nothing can be made of, and make no session for it", () =>
    Effect.gen(function* () {
      const { server } = yield* Server.scripted(answering)
      const mixed = [
        { role: "assistant", tool_calls: [{ id: "a", type: "function", function: { name: "f", arguments: "{}" } }] },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "a", content: "x" }] }
      ]
      const table = [
        [{ messages: [] }, "/body/import/messages"],
        [{ messages: mixed }, "/body/import/format"],
        [{ messages: "hi" }, "/body/import/messages"],
        [{ format: "cobol", messages: plain }, "/body/import/format"],
        [{ messages: plain, turn: "terminated" }, "/body/import/turn"]
      ] as const
      for (const [given, pointer] of table) {
        const { body, status } = yield* create(server, { import: given })
        assert.deepStrictEqual([status, body.code], [400, "invalid-request"])
        assert.include(
          body.errors.map((error) => error.pointer),
          pointer
        )
      }
      const sessions = yield* server.json<{ readonly data: ReadonlyArray<unknown> }>("/api/sessions")
      assert.isEmpty(sessions.body.data)
    }).pipe(Effect.scoped)
  )

  it.effect("take a history of many megabytes, and nothing else that is as long", () =>
    Effect.gen(function* () {
      const { server } = yield* Server.scripted(answering)
      const text = "x".repeat(100_000)
      const messages = Array.from({ length: 100 }, (_, index) => ({
        role: index % 2 === 0 ? "user" : "assistant",
        content: text
      }))
      const { body, status } = yield* create(server, { import: { format: "openai-chat", messages } })
      assert.deepStrictEqual([status, body.imported.messages], [201, 100])
      const long = yield* create(server, { input: "x".repeat(1024 * 1024) })
      assert.deepStrictEqual([long.status, long.body.code], [413, "too-large"])
    }).pipe(Effect.scoped)
  )

  it.effect(
    "are commands: a poisoned file in, a session that goes on, any format out",
    () =>
      Effect.gen(function* () {
        const { provider, server, sessions } = yield* Server.scripted(answering)
        const { input } = caseOf("02-chat-parallel-middle-missing")
        const cwd = yield* Folder.make({
          "poisoned.json": JSON.stringify({ model: "m", messages: input }),
          "many.jsonl": `${JSON.stringify(plain)}\n${JSON.stringify(plain)}\n`,
          "broken.json": "["
        })
        const [imported, many, broken] = yield* Effect.all(
          [
            run(server, ["import", "--session", "healed", "--title", "Healed", "poisoned.json"], cwd),
            run(server, ["import", "many.jsonl"], cwd),
            run(server, ["import", "broken.json"], cwd)
          ],
          { concurrency: 3 }
        )
        assert.deepStrictEqual([imported.code, imported.stdout], [0, "healed\n"], imported.stderr)
        assert.match(
          imported.stderr,
          /^✓ poisoned\.json: openai-chat, \d+ messages brought in: 1 change\n +synthesise DANGLING_CALL/
        )
        assert.deepStrictEqual([many.code, broken.code], [1, 1])
        assert.match(many.stderr, /^turnstep: many\.jsonl holds several histories\./)
        const session = yield* Effect.orDie(sessions.get("healed"))
        assert.strictEqual((yield* session.run("go on"))._tag, "Answered")
        assert.isEmpty(provider.refusals)

        const [anthropic, json, twice] = yield* Effect.all(
          [
            run(server, ["export", "--format", "anthropic", "healed"], cwd),
            run(server, ["export", "--json", "healed"], cwd),
            run(server, ["import", "--session", "healed", "--json", "poisoned.json"], cwd)
          ],
          { concurrency: 3 }
        )
        assert.strictEqual(anthropic.code, 0, anthropic.stderr)
        const out = JSON.parse(anthropic.stdout) as ReadonlyArray<unknown>
        assert.deepStrictEqual(verify("anthropic", out, { purpose: "archive" }), [])
        assert.deepStrictEqual(Object.keys(JSON.parse(json.stdout)), ["format", "messages", "changes", "lost"])
        assert.strictEqual(twice.code, 1)
        assert.match(twice.stderr, /exists already/)
      }).pipe(Effect.scoped),
    { timeout: 60_000 }
  )
})
