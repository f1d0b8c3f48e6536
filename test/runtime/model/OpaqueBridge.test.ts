/**
 * What Anthropic and Google issue beside text and calls comes back to them over the bridge to the AI SDK: conversations of two
 * Turns, with a takeover in between, over servers that refuse a history in which a signed part is missing or changed.
 */
import { assert, describe } from "@effect/vitest"
import * as Agent from "@turnstep/runtime/Agent"
import * as ModelPreset from "@turnstep/runtime/model/ModelPreset"
import * as Models from "@turnstep/runtime/model/Models"
import * as ChatServer from "@turnstep/runtime/testing/ChatServer"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Queue from "effect/Queue"
import * as Stores from "../../fixtures/Stores.ts"
import * as Tools from "../../fixtures/Tools.ts"
import * as World from "../../fixtures/World.ts"

type Json = { readonly [name: string]: unknown }

interface Provider {
  readonly preset: string
  /** The stream of an answer: signed parts, then a text or a call. */
  readonly answer: (last: Json) => string
  readonly signed: ReadonlyArray<Json>
  readonly call: (act: string) => Json
  readonly text: (text: string) => Json
  /** The parts of each answer in the history of a request. */
  readonly history: (body: never) => ReadonlyArray<ReadonlyArray<Json>>
  readonly refusal: Json
}

const event = (data: Json): string => `event: ${String(data["type"])}\ndata: ${JSON.stringify(data)}\n\n`

/** Anthropic's blocks in pieces, as they are streamed. */
const blocks = (content: ReadonlyArray<Json>): ReadonlyArray<string> =>
  content.flatMap((block, index) => {
    const start = (content_block: Json) => event({ type: "content_block_start", index, content_block })
    const delta = (delta: Json) => event({ type: "content_block_delta", index, delta })
    const pieces =
      block["type"] === "thinking"
        ? [
            start({ type: "thinking", thinking: "", signature: "" }),
            ...(block["thinking"] === "" ? [] : [delta({ type: "thinking_delta", thinking: block["thinking"] })]),
            delta({ type: "signature_delta", signature: block["signature"] })
          ]
        : block["type"] === "text"
          ? [start({ type: "text", text: "" }), delta({ type: "text_delta", text: block["text"] })]
          : block["type"] === "tool_use"
            ? [
                start({ ...block, input: {} }),
                delta({ type: "input_json_delta", partial_json: JSON.stringify(block["input"]) })
              ]
            : [start(block)]
    return [...pieces, event({ type: "content_block_stop", index })]
  })

const anthropic: Provider = {
  preset: "anthropic",
  signed: [
    { type: "thinking", thinking: "let me see", signature: "c2lnMQ==" },
    { type: "redacted_thinking", data: "cmVkYWN0ZWQ=" },
    { type: "thinking", thinking: "", signature: "c2lnMg==" }
  ],
  call: (act) => ({ type: "tool_use", id: `toolu_${act}`, name: "look", input: { act } }),
  text: (text) => ({ type: "text", text }),
  answer: (last) => {
    const usage = { input_tokens: 5, output_tokens: 1 }
    const message = { id: "msg_1", model: "m", role: "assistant", content: [], usage }
    const stop_reason = last["type"] === "tool_use" ? "tool_use" : "end_turn"
    return [
      event({ type: "message_start", message }),
      ...blocks([...anthropic.signed, last]),
      event({ type: "message_delta", delta: { stop_reason, stop_sequence: null }, usage: { output_tokens: 9 } }),
      event({ type: "message_stop" })
    ].join("")
  },
  history: ({ messages }: { readonly messages: ReadonlyArray<Json> }) =>
    messages.flatMap(({ content, role }) => (role === "assistant" ? [content as ReadonlyArray<Json>] : [])),
  refusal: { type: "error", error: { type: "invalid_request_error", message: "thinking blocks cannot be modified" } }
}

const google: Provider = {
  preset: "gemini",
  signed: [{ text: "let me see", thought: true, thoughtSignature: "c2lnMQ==" }],
  call: (act) => ({ functionCall: { name: "look", args: { act } }, thoughtSignature: "c2lnMg==" }),
  text: (text) => ({ text, thoughtSignature: "c2lnMw==" }),
  answer: (last) => {
    const candidate = { content: { role: "model", parts: [...google.signed, last] }, finishReason: "STOP", index: 0 }
    const usageMetadata = { promptTokenCount: 5, candidatesTokenCount: 3, totalTokenCount: 8 }
    return `data: ${JSON.stringify({ candidates: [candidate], usageMetadata })}\n\n`
  },
  history: ({ contents }: { readonly contents: ReadonlyArray<Json> }) =>
    contents.flatMap(({ parts, role }) => (role === "model" ? [parts as ReadonlyArray<Json>] : [])),
  refusal: { error: { code: 400, status: "INVALID_ARGUMENT", message: "missing a thought_signature" } }
}

const envelope = { id: "x", model: "m", promptTokens: 0, includeUsage: false }

/** A server that takes a history only with all that it has issued, as it was. */
const strict = Effect.fnUntraced(function* (provider: Provider) {
  const { arrivals, port } = yield* ChatServer.make
  const lasts = [provider.call("a"), provider.text("one"), provider.call("b"), provider.text("two")]
  const refused: Array<unknown> = []
  let answered = 0
  yield* Queue.take(arrivals).pipe(
    Effect.flatMap(({ response, text }) => {
      const seen = provider.history(JSON.parse(text) as never)
      const wanted = lasts.slice(0, answered).map((last) => [...provider.signed, last])
      const isSame = JSON.stringify(seen.map(sorted)) === JSON.stringify(wanted.map(sorted))
      if (!isSame) {
        refused.push(seen)
        return ChatServer.reply(response, { status: 400, body: provider.refusal }, envelope, true)
      }
      return ChatServer.reply(response, { raw: [provider.answer(lasts[answered++]!)] }, envelope, true)
    }),
    Effect.forever,
    Effect.forkScoped
  )
  return { url: `http://127.0.0.1:${port}`, refused, count: () => answered }
})

/** Members in one order: providers do not mind it. */
const sorted = (value: unknown): unknown =>
  Array.isArray(value)
    ? value.map(sorted)
    : typeof value === "object" && value !== null
      ? Object.fromEntries(
          Object.entries(value)
            .filter(([name]) => name !== "id")
            .toSorted(([a], [b]) => (a < b ? -1 : 1))
            .map(([name, member]) => [name, sorted(member)])
        )
      : value

const suite: Parameters<typeof Stores.run>[1][number] = (it) => {
  describe("what a provider issues comes back over the bridge", () => {
    for (const provider of [anthropic, google]) {
      it.effect(`to ${provider.preset}`, () =>
        Effect.gen(function* () {
          const server = yield* strict(provider)
          const { baseUrlVariable, keyVariables } = ModelPreset.find(provider.preset)!
          const environment = { [baseUrlVariable]: `${server.url}/v1`, [keyVariables[0]!]: "key-of-the-test" }
          const config = ConfigProvider.layer(ConfigProvider.fromUnknown(environment))
          const { sessions, start, stop } = yield* World.make({
            agents: [Agent.make("hand", { instructions: "Use the tools.", toolkit: Tools.toolkit })],
            services: Tools.make().handlers,
            respond: () => StrictProvider.text("never asked"),
            model: () => Layer.orDie(Layer.provide(Models.layer(`${provider.preset}/m`), config))
          })
          const session = yield* sessions.open()
          const first = yield* session.run("one")
          assert.strictEqual(first._tag === "Answered" && first.text, "one")
          yield* stop
          const next = yield* (yield* start).sessions.get(session.id)
          const second = yield* next.run("two")
          assert.strictEqual(second._tag === "Answered" && second.text, "two")
          assert.isEmpty(server.refused)
          assert.strictEqual(server.count(), 4)
        })
      )
    }
  })
}

Stores.run("memory", [suite])
