import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import * as Transcript from "../../../packages/core/src/Transcript.ts"
import type { PastMessage } from "../../../packages/core/src/Transcript.ts"
import { FormatName } from "../../../packages/core/src/history/Contract.ts"
import * as Export from "../../../packages/core/src/history/Export.ts"
import * as Import from "../../../packages/core/src/history/Import.ts"
import { verify } from "../../../packages/core/src/history/Verify.ts"
import * as ChatContract from "../../../packages/runtime/src/testing/ChatContract.ts"
import * as fs from "node:fs"
import * as path from "node:path"
import { conversation, write } from "./Conversation.ts"
import { blows, damage } from "./Damage.ts"
import { judges } from "./Judges.ts"

const numRuns = Number(process.env["HISTORY_RUNS"] ?? 200)
const formats = FormatName.literals

const corpus = path.join(import.meta.dirname, "../../corpus/history")
const cases = fs
  .readdirSync(corpus)
  .map((name) => ({ name, ...(JSON.parse(fs.readFileSync(path.join(corpus, name), "utf8")) as Case) }))

interface Case {
  readonly format: FormatName
  readonly context?: Import.History["context"]
  readonly input: ReadonlyArray<unknown>
}

const imported = (history: Import.History): Import.Imported => {
  const found = Import.read(history)
  if ("_tag" in found) throw found
  return found
}

const promptsOf = (messages: ReadonlyArray<PastMessage>) => messages.map(Transcript.pastMessage)

const serious = (format: FormatName, messages: ReadonlyArray<unknown>) =>
  verify(format, messages, { purpose: "archive" }).filter(({ severity }) => severity === "error")

/** Every call has its one result right behind it; ids are unique and legal everywhere. */
const assertSound = (messages: ReadonlyArray<PastMessage>) => {
  const ids: Array<string> = []
  messages.forEach((message, index) => {
    const next = messages[index + 1]
    const calls =
      message.role === "assistant"
        ? message.parts.flatMap((part) => (part.type === "tool-call" ? [part.wireId] : []))
        : []
    ids.push(...calls)
    if (calls.length > 0) {
      assert.deepStrictEqual(next?.role === "tool" ? next.answers.map(({ wireId }) => wireId) : [], calls)
    } else assert.notStrictEqual(next?.role, "tool")
  })
  assert.strictEqual(new Set(ids).size, ids.length)
  for (const id of ids) assert.match(id, /^[A-Za-z0-9_-]{1,40}$/)
}

/** What a strict Chat provider says of the session's next request. */
const refusalOf = (messages: ReadonlyArray<PastMessage>) =>
  ChatContract.check({
    model: "strict",
    messages: [...Export.write("openai-chat", promptsOf(messages)).messages, { role: "user", content: "go on" }]
  })

describe("A history from elsewhere", () => {
  for (const { context, format, input, name } of cases) {
    it(`goes on in a session and out into every format: ${name}`, () => {
      const { messages, report } = imported({ format, messages: input, ...(context === undefined ? {} : { context }) })
      assert.strictEqual(report.messages, messages.length)
      assertSound(messages)
      assert.isUndefined(refusalOf(messages))
      for (const target of formats) {
        const { changes, messages: out } = Export.write(target, promptsOf(messages))
        assert.deepStrictEqual(serious(target, out), [])
        assert.isUndefined(judges[target](out))
        assert.deepStrictEqual(
          changes.filter(({ action }) => action === "drop" || action === "synthesise"),
          []
        )
      }
    })
  }

  for (const format of formats) {
    it(
      `is sound whatever happened to it: ${format}`,
      () => {
        fc.assert(
          fc.property(conversation, blows, (conversation, blows) => {
            const found = Import.read({ format, messages: damage(write(format, conversation), blows) })
            if ("_tag" in found) return assert.strictEqual(found._tag, "HistoryEmpty")
            assertSound(found.messages)
            assert.isUndefined(refusalOf(found.messages))
          }),
          { numRuns }
        )
      },
      30_000 + numRuns * 50
    )

    it(
      `says what it could not take along: ${format}`,
      () => {
        fc.assert(
          fc.property(conversation, (conversation) => {
            const messages = write(format, conversation)
            const found = Import.read({ format, messages })
            if ("_tag" in found) return
            const kept = JSON.stringify([found.messages, found.report])
            for (const [word] of JSON.stringify(messages).matchAll(/(?:usr|ans|txt|rea|arg|res|sys|web)\d+z/g)) {
              assert.include(kept, word)
            }
          }),
          { numRuns }
        )
      },
      30_000 + numRuns * 50
    )
  }

  const go = { role: "user", content: "go" }
  const chatCall = { id: "a", type: "function", function: { name: "f", arguments: "{}" } }
  const outputs = [
    { type: "input_text", text: "kept" },
    { type: "input_image", image_url: "https://x.test/word" }
  ]
  const thought = { type: "reasoning", id: "rs_1", summary: [], content: [{ type: "reasoning_text", text: "word" }] }
  const modelCall = { functionCall: { name: "f", args: {} } }
  const image = { inlineData: { mimeType: "image/png", data: "word" } }
  /** Messages with something that few histories have and messages of a session do not. */
  const rare: ReadonlyArray<readonly [what: string, FormatName, ReadonlyArray<unknown>]> = [
    [
      "a refusal as a part",
      "openai-chat",
      [go, { role: "assistant", content: [{ type: "refusal", refusal: "word" }] }]
    ],
    ["a refusal beside a text", "openai-chat", [go, { role: "assistant", content: "so", refusal: "word" }]],
    ["sound", "openai-chat", [go, { role: "assistant", content: "so", audio: { id: "word" } }]],
    ["who spoke", "openai-chat", [{ ...go, name: "word" }]],
    ["reasoning of a router", "openai-chat", [go, { role: "assistant", content: "so", reasoning_details: ["word"] }]],
    [
      "an image in a result",
      "openai-chat",
      [
        go,
        { role: "assistant", content: null, tool_calls: [chatCall] },
        { role: "tool", tool_call_id: "a", content: [{ type: "image_url", image_url: { url: "https://x.test/word" } }] }
      ]
    ],
    [
      "an image in a result",
      "openai-responses",
      [
        go,
        { type: "function_call", call_id: "a", name: "f", arguments: "{}" },
        { type: "function_call_output", call_id: "a", output: outputs }
      ]
    ],
    ["reasoning in the open", "openai-responses", [go, thought, { role: "assistant", content: "so" }]],
    [
      "sources",
      "openai-responses",
      [go, { role: "assistant", content: [{ type: "output_text", text: "so", annotations: [{ url: "word" }] }] }]
    ],
    [
      "sound",
      "openai-responses",
      [
        go,
        {
          role: "assistant",
          content: [
            { type: "output_text", text: "so" },
            { type: "output_audio", data: "word" }
          ]
        }
      ]
    ],
    ["sources", "anthropic", [go, { role: "assistant", content: [{ type: "text", text: "so", citations: ["word"] }] }]],
    [
      "an image in a result",
      "gemini",
      [
        { role: "user", parts: [{ text: "go" }] },
        { role: "model", parts: [modelCall] },
        { role: "user", parts: [{ functionResponse: { name: "f", response: { output: "r" }, parts: [image] } }] }
      ]
    ],
    ["options of a message", "ai-sdk-model", [{ ...go, providerOptions: { anthropic: { effort: "word" } } }]],
    ["metadata", "ai-sdk-ui", [{ id: "1", role: "user", parts: [{ type: "text", text: "go" }], metadata: ["word"] }]]
  ]
  for (const [what, format, messages] of rare) {
    it(`says that it could not take along ${what}: ${format}`, () => {
      const found = imported({ format, messages })
      assert.include(JSON.stringify([found.messages, found.report]), "word")
    })
  }

  it("costs what it is long, however many calls a batch has and in whatever order they are answered", () => {
    const ids = Array.from({ length: 50_000 }, (_, index) => `c${index}`)
    const batch: ReadonlyArray<readonly [FormatName, ReadonlyArray<unknown>]> = [
      [
        "anthropic",
        [
          { role: "assistant", content: ids.map((id) => ({ type: "tool_use", id, name: "f", input: {} })) },
          {
            role: "user",
            content: ids.toReversed().map((id) => ({ type: "tool_result", tool_use_id: id, content: "r" }))
          }
        ]
      ],
      [
        "gemini",
        [
          { role: "model", parts: ids.map((id) => ({ functionCall: { id, name: "f", args: {} } })) },
          {
            role: "user",
            parts: ids.toReversed().map((id) => ({ functionResponse: { id, name: "f", response: {} } }))
          }
        ]
      ]
    ]
    const begun = performance.now()
    for (const [format, messages] of batch) {
      const found = imported({ format, messages })
      assertSound(found.messages)
      assert.isEmpty(Export.write("ai-sdk-ui", promptsOf(found.messages)).lost)
    }
    // About two seconds; with a look at all others for each it is a minute.
    assert.isBelow(performance.now() - begun, 15_000)
  }, 60_000)

  it("needs no format where all that are possible mean the same", () => {
    const messages = [
      { role: "user", content: "hello" },
      { role: "assistant", content: "hi" }
    ]
    assert.deepStrictEqual(imported({ messages }).messages, [
      { role: "user", parts: [{ type: "text", text: "hello" }] },
      { role: "assistant", parts: [{ type: "text", text: "hi" }] }
    ])
  })

  it("is refused where its format matters and is not clear, and where nothing is in it", () => {
    const unclear = Import.read({
      messages: [
        { role: "assistant", tool_calls: [{ id: "a", type: "function", function: { name: "f", arguments: "{}" } }] },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "a", content: "x" }] }
      ]
    })
    assert.instanceOf(unclear, Import.HistoryFormatUnclear)
    assert.instanceOf(Import.read({ messages: [] }), Import.HistoryEmpty)
    assert.instanceOf(
      Import.read({ messages: [{ role: "system", content: "x" }], format: "openai-chat" }),
      Import.HistoryEmpty
    )
    assert.instanceOf(Import.read({ messages: [1, null, "x", []], format: "gemini" }), Import.HistoryEmpty)
  })
})

const text = fc.string({ minLength: 1, maxLength: 8, unit: "grapheme" }).filter((value) => value.trim() !== "")
const result = fc.record({ isFailure: fc.boolean(), result: fc.oneof(text, fc.record({ n: fc.integer() })) })

/** Messages as a session has them. */
const past: fc.Arbitrary<ReadonlyArray<PastMessage>> = fc
  .array(
    fc.record({
      user: text,
      image: fc.boolean(),
      steps: fc.array(
        fc.record({
          text: fc.option(text),
          reasoning: fc.option(text),
          results: fc.array(result, { minLength: 1, maxLength: 3 })
        }),
        { maxLength: 2 }
      ),
      answer: text
    }),
    { minLength: 1, maxLength: 4 }
  )
  .map((turns) => {
    let count = 0
    return turns.flatMap(({ answer, image, steps, user }): ReadonlyArray<PastMessage> => [
      {
        role: "user",
        parts: [
          { type: "text", text: user },
          ...(image
            ? [{ type: "file", mediaType: "image/png", data: "data:image/png;base64,iVBORw0KGgo=" } as const]
            : [])
        ]
      },
      ...steps.flatMap(({ reasoning, results, text }): ReadonlyArray<PastMessage> => {
        const calls = results.map((each) => ({ ...each, wireId: `c${++count}`, name: "look" }))
        return [
          {
            role: "assistant",
            parts: [
              ...(reasoning === null ? [] : [{ type: "reasoning", text: reasoning } as const]),
              ...(text === null ? [] : [{ type: "text", text } as const]),
              ...calls.map(({ name, wireId }) => ({ type: "tool-call", wireId, name, params: { n: count } }) as const)
            ]
          },
          { role: "tool", answers: calls }
        ]
      }),
      { role: "assistant", parts: [{ type: "text", text: answer }] }
    ])
  })

/** What of the messages a format carries without a signature, by hand. */
const carried = (format: FormatName, messages: ReadonlyArray<PastMessage>): ReadonlyArray<PastMessage> => {
  const hasReasoning = format === "gemini" || format.startsWith("ai-sdk")
  const hasFailure = !format.startsWith("openai")
  const hasJson = format === "gemini" || format.startsWith("ai-sdk")
  return messages.map((message): PastMessage => {
    if (message.role === "assistant") {
      return { ...message, parts: message.parts.filter(({ type }) => type !== "reasoning" || hasReasoning) }
    }
    if (message.role !== "tool") return message
    const answers = message.answers.map((answer) => ({
      ...answer,
      isFailure: answer.isFailure && hasFailure,
      result:
        typeof answer.result === "string" || (hasJson && !(format === "ai-sdk-ui" && answer.isFailure))
          ? answer.result
          : JSON.stringify(answer.result)
    }))
    return { ...message, answers }
  })
}

describe("A session's history", () => {
  for (const format of formats) {
    it(
      `comes back from ${format} as it went, but for what is named`,
      () => {
        fc.assert(
          fc.property(past, (messages) => {
            const out = Export.write(format, promptsOf(messages))
            assert.deepStrictEqual(out.changes, [])
            assert.deepStrictEqual(verify(format, out.messages, { purpose: "archive" }), [])
            assert.isUndefined(judges[format](out.messages))
            const back = imported({ format, messages: out.messages })
            assert.deepStrictEqual(plain(back.messages), plain(carried(format, messages)))
            assert.deepStrictEqual(back.report.changes, [])
            const told = out.lost.map(({ content }) => JSON.stringify(content)).join()
            for (const message of messages) {
              if (message.role !== "assistant" || format === "gemini" || format.startsWith("ai-sdk")) continue
              for (const part of message.parts) {
                if (part.type === "reasoning") assert.include(told, JSON.stringify(part.text))
              }
            }
            if (JSON.stringify(carried(format, messages)) === JSON.stringify(messages))
              assert.deepStrictEqual(out.lost, [])
          }),
          { numRuns }
        )
      },
      30_000 + numRuns * 50
    )
  }

  it("keeps signatures where the format has a place for them", () => {
    const signed = (
      format: FormatName,
      options: { readonly [provider: string]: { readonly [key: string]: string } }
    ) => {
      const messages: ReadonlyArray<PastMessage> = [
        { role: "user", parts: [{ type: "text", text: "a" }] },
        {
          role: "assistant",
          parts: [
            { type: "reasoning", text: "hm", options },
            { type: "text", text: "b" }
          ]
        }
      ]
      const out = Export.write(format, promptsOf(messages))
      assert.deepStrictEqual(out.lost, [])
      assert.deepStrictEqual(plain(imported({ format, messages: out.messages }).messages), plain(messages))
    }
    signed("anthropic", { anthropic: { signature: "sig" } })
    signed("openai-responses", { openai: { itemId: "rs_1", reasoningEncryptedContent: "abc" } })
    signed("gemini", { google: { thoughtSignature: "sig" } })
    signed("ai-sdk-model", { anthropic: { signature: "sig" } })
    signed("ai-sdk-ui", { anthropic: { signature: "sig" } })
  })
})

const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value))
