import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { readFileSync } from "node:fs"
import type { Context, FormatName } from "../../../packages/core/src/history/Contract.ts"
import { FormatName as Names } from "../../../packages/core/src/history/Contract.ts"
import { repair } from "../../../packages/core/src/history/Repair.ts"
import { mark, outcomeUnknown } from "../../../packages/core/src/history/Synthetic.ts"
import { refusals, verify } from "../../../packages/core/src/history/Verify.ts"

const caseOf = (name: string) =>
  JSON.parse(readFileSync(new URL(`../../corpus/history/${name}.json`, import.meta.url), "utf8")) as {
    readonly format: FormatName
    readonly context?: Context
    readonly input: ReadonlyArray<unknown>
  }

const lines = (format: FormatName, messages: ReadonlyArray<unknown>, context?: Context) =>
  verify(format, messages, context).map(({ at, code, severity }) => `${severity} ${code} ${at}`)

const user = (content: string) => ({ role: "user", content })
const call = (id: string, path = id, name = "read_file") => ({
  id,
  type: "function",
  function: { name, arguments: JSON.stringify({ path }) }
})
const calls = (...calls: ReadonlyArray<unknown>) => ({ role: "assistant", content: null, tool_calls: calls })
const tool = (tool_call_id: string, content: string) => ({ role: "tool", tool_call_id, content })
const uses = (...blocks: ReadonlyArray<unknown>) => ({ role: "assistant", content: blocks })
const use = (id: string, input: unknown = {}) => ({ type: "tool_use", id, name: "Bash", input })
const result = (tool_use_id: string, content: string) => ({ type: "tool_result", tool_use_id, content })
const thought = (thinking: string) => ({ type: "thinking", thinking, signature: `sig-${thinking}` })

describe("cases whose repair is a statement", () => {
  it("keeps truncated arguments as text inside a legal object", () => {
    const { format, input } = caseOf("18-chat-args-truncated-json")
    const { messages } = repair(format, input)
    const raw = '{"command":"grep -rn TODO src | sor'
    const kept = JSON.stringify(JSON.stringify({ INVALID_JSON: raw }))
    assert.strictEqual(JSON.stringify(messages), JSON.stringify(input).replace(JSON.stringify(raw), kept))
  })

  it("restores DeepSeek's reasoning from the record, or says what can be done", () => {
    const { context, format, input } = caseOf("26-chat-reasoning-content-dropped-deepseek")
    const without = repair(format, input, context)
    assert.strictEqual(without.messages, input)
    assert.deepStrictEqual(without.remaining[0]?.choices, ["restore-record", "flatten-tools", "disable-thinking"])
    const issued = { ...(input[1] as object), reasoning_content: "r1" }
    const restored = repair(format, input, { ...context, record: [issued] })
    assert.deepStrictEqual(restored.messages, [input[0], issued, ...input.slice(2)])
    assert.deepStrictEqual(restored.remaining, [])
    assert.deepStrictEqual(repair(format, input, { ...context, thinking: false }).remaining, [])
  })

  it("restores the thinking Anthropic signed, or says what can be done", () => {
    const { context, format, input } = caseOf("62-anth-thinking-dropped-before-call")
    assert.deepStrictEqual(repair(format, input, context).remaining[0]?.choices, [
      "restore-record",
      "flatten-tools",
      "disable-thinking"
    ])
    const issued = uses(thought("t"), ...(input[1] as { readonly content: ReadonlyArray<unknown> }).content)
    const restored = repair(format, input, { ...context, record: [issued] })
    assert.deepStrictEqual(restored.messages[1], issued)
    assert.deepStrictEqual(restored.remaining, [])
  })

  it("offers to declare tools or to have the rounds as text, and does so when asked", () => {
    const { context, format, input } = caseOf("70-anth-tools-not-declared")
    const asked = repair(format, input, context)
    assert.strictEqual(asked.messages, input)
    assert.deepStrictEqual(asked.remaining[0]?.choices, ["declare-tools", "flatten-tools"])
    const flat = repair(format, input, { ...context, flatten: true })
    assert.deepStrictEqual(flat.remaining, [])
    const text = JSON.stringify(flat.messages)
    assert.notMatch(text, /tool_use|tool_result/)
    assert.include(text, 'Bash({\\"command\\":\\"ls\\"}) -> x')
    assert.include(text, "summarise")
  })
})

describe("suspended calls", () => {
  const history = [user("q"), calls(call("c1"), call("c2")), tool("c1", "r1")]

  it("are told but not touched, unless the turn has ended", () => {
    assert.deepStrictEqual(lines("openai-chat", history), ["info SUSPENDED_CALL /1/tool_calls/1"])
    assert.strictEqual(repair("openai-chat", history).messages, history)
    assert.deepStrictEqual(lines("openai-chat", history, { turn: "terminated" }), [
      "error DANGLING_CALL /1/tool_calls/1"
    ])
    assert.deepStrictEqual(repair("openai-chat", history, { turn: "terminated" }).messages, [
      ...history,
      tool("c2", outcomeUnknown)
    ])
  })

  it("forbid a request, as the provider's refusals do and remarks for others do not", () => {
    const blocking = (history: ReadonlyArray<unknown>) =>
      refusals(verify("openai-chat", history)).map((found) => found.code)
    assert.deepStrictEqual(blocking(history), ["SUSPENDED_CALL"])
    assert.deepStrictEqual(blocking([...history, user("n")]), ["DANGLING_CALL"])
    const long = "x".repeat(50)
    assert.deepStrictEqual(blocking([calls(call(long)), tool(long, "r")]), [])
  })

  it("keep even a wrong id, arguments and text until they are answered", () => {
    const odd = { id: " ", type: "function", function: { name: "a b", arguments: "{\ud83d" } }
    const spoilt = [
      { role: "user", content: "q\ud83d" },
      { role: "assistant", content: "\ud83d", tool_calls: [odd] }
    ]
    const { messages, remaining } = repair("openai-chat", spoilt)
    assert.deepStrictEqual(messages, [user("q\ufffd"), { role: "assistant", content: "\ufffd", tool_calls: [odd] }])
    assert.isTrue(remaining.every((found) => found.choices?.[0] === "answer-call"))
    assert.sameMembers(
      remaining.map((found) => found.code),
      ["MALFORMED_UNICODE", "ID_INVALID", "NAME_INVALID", "ARGS_INVALID_JSON"]
    )
  })

  it("do not lose their turn to content that results cannot carry", () => {
    const image = { type: "image_url", image_url: { url: "data:image/png;base64,iVBORw0KGgo=" } }
    const shot = [history[0], history[1], { role: "tool", tool_call_id: "c1", content: [image] }]
    const { messages, remaining } = repair("openai-chat", shot)
    assert.strictEqual(messages, shot)
    assert.deepStrictEqual(remaining[0]?.choices, ["finish-batch"])
  })

  it("are not taken for copies of an answered call", () => {
    const again = [user("q"), calls(call("c1")), tool("c1", "r"), user("again"), calls(call("c1"))]
    assert.strictEqual(repair("openai-chat", again).messages, again)
  })
})

describe("results", () => {
  it("come back to their batch from behind a later one, if their id is the only one of its kind", () => {
    const apart = [calls(call("c1")), calls(call("c2")), tool("c1", "one"), tool("c2", "two")]
    assert.deepStrictEqual(lines("openai-chat", apart), ["error RESULT_NOT_ADJACENT /2"])
    assert.deepStrictEqual(repair("openai-chat", apart).messages, [
      calls(call("c1")),
      tool("c1", "one"),
      calls(call("c2")),
      tool("c2", "two")
    ])
  })

  it("never answer a call that comes after them, nor one of several with their id", () => {
    const early = [tool("c1", "old"), user("q"), calls(call("c1"))]
    assert.deepStrictEqual(lines("openai-chat", early), [
      "error ORPHAN_RESULT /0",
      "info SUSPENDED_CALL /2/tool_calls/0"
    ])
    const recurring = [
      calls(call("x", "1")),
      tool("x", "a"),
      calls(call("x", "2")),
      user("u"),
      calls(call("y")),
      tool("y", "b"),
      tool("x", "?")
    ]
    assert.include(lines("openai-chat", recurring), "error ORPHAN_RESULT /6")
  })

  it("are kept if they are real, however late, in place of a synthetic one", () => {
    for (const placeholder of [outcomeUnknown, "[receipt: outcome unknown] read_file …", "aborted"]) {
      const both = [user("q"), calls(call("c1")), tool("c1", placeholder), tool("c1", "real")]
      assert.deepStrictEqual(lines("openai-chat", both), ["error DUPLICATE_RESULT /2"])
      assert.deepStrictEqual(repair("openai-chat", both).messages, [both[0], both[1], both[3]])
    }
  })

  it("stay as marked text when their call is gone and the owner wants it", () => {
    const orphan = [user("price?"), { role: "assistant", content: "I look" }, tool("c1", "12.5"), user("well?")]
    const { changes, messages } = repair("openai-chat", orphan, { orphans: "text" })
    assert.deepStrictEqual(messages[2], user(`${mark}result without its call] 12.5`))
    assert.deepStrictEqual(changes[0]?.dropped, [orphan[2]])
  })

  it("get the type their call asks for", () => {
    const custom = { type: "custom_tool_call", call_id: "c1", name: "patch", input: "x" }
    const output = { type: "function_call_output", call_id: "c1", output: "ok" }
    assert.deepStrictEqual(lines("openai-responses", [custom, output]), ["error DANGLING_CALL /0"])
    assert.deepStrictEqual(repair("openai-responses", [custom, output]).messages, [
      custom,
      { ...output, type: "custom_tool_call_output" }
    ])
  })

  it("are not made up where no form of them would be honest", () => {
    const click = { type: "computer_call", call_id: "c1", action: { type: "click" } }
    const next = { role: "user", content: "go on" }
    const left = repair("openai-responses", [click, next])
    assert.deepStrictEqual(left.remaining[0]?.choices, ["answer-call", "flatten-tools"])
    const flat = repair("openai-responses", [click, next], { flatten: true })
    assert.deepStrictEqual(flat.remaining, [])
    assert.include(JSON.stringify(flat.messages), "outcome of this call is unknown")
  })

  it("of a chain are known by the open calls it brings along", () => {
    const output = { type: "function_call_output", call_id: "earlier", output: "ok" }
    assert.deepStrictEqual(lines("openai-responses", [output]), ["error ORPHAN_RESULT /0"])
    assert.deepStrictEqual(lines("openai-responses", [output], { openCalls: ["earlier"] }), [])
  })
})

describe("copies of a call", () => {
  it("are collapsed wherever a replay put them, with the result behind the first", () => {
    const item = { type: "function_call", call_id: "c1", name: "refund", arguments: "{}" }
    const output = { type: "function_call_output", call_id: "c1", output: "done" }
    const yes = { role: "user", content: "approve" }
    assert.deepStrictEqual(repair("openai-responses", [item, yes, item, output]).messages, [item, output, yes])
  })

  it("are calls of their own when each has a result", () => {
    const twice = [calls(call("c1")), tool("c1", "a"), calls(call("c1")), tool("c1", "b")]
    const { messages } = repair("openai-chat", twice)
    assert.deepStrictEqual(messages.slice(0, 2), twice.slice(0, 2))
    assert.notStrictEqual((messages[3] as { readonly tool_call_id: string }).tool_call_id, "c1")
  })

  it("do not exist where ids count inside one message only", () => {
    const twice = [calls(call("c1")), tool("c1", "a"), calls(call("c1")), tool("c1", "b")]
    assert.deepStrictEqual(lines("openai-chat", twice, { profile: "kimi" }), [])
  })
})

describe("profiles", () => {
  it("give Mistral ids of nine letters and digits, the same for every longer history", () => {
    const short = [user("q"), calls(call("call_1")), tool("call_1", "r")]
    const long = [...short, { role: "assistant", content: "a" }, user("q"), calls(call("call_2")), tool("call_2", "r")]
    const [a, b] = [short, long].map((history) => repair("openai-chat", history, { profile: "mistral" }).messages)
    assert.deepStrictEqual(b!.slice(0, 3), a)
    assert.match((a![2] as { readonly tool_call_id: string }).tool_call_id, /^[A-Za-z0-9]{9}$/)
  })

  it("keep roles alternating with marked messages", () => {
    const history = [{ role: "system", content: "s" }, { role: "assistant", content: "a" }, user("b"), user("c")]
    const { messages } = repair("openai-chat", history, { profile: "strict-alternation" })
    assert.deepStrictEqual(
      messages.map((message) => (message as { readonly role: string }).role),
      ["system", "user", "assistant", "user", "assistant", "user"]
    )
    const gap = [user("a"), { role: "assistant", content: null }, user("b")]
    const held = repair("openai-chat", gap, { profile: "strict-alternation" }).messages
    assert.isTrue(String((held[1] as { readonly content: string }).content).startsWith(mark))
  })

  it("add up", () => {
    const history = [
      user("q"),
      uses(use("A"), { type: "text", text: "t" }),
      { role: "user", content: [result("A", "x")] }
    ]
    assert.deepStrictEqual(lines("anthropic", history), [])
    assert.deepStrictEqual(
      lines("anthropic", [...history, user("n")], { profile: ["bedrock", "strict-alternation"] }),
      ["error CONTENT_AFTER_CALL /1/content/1", "error ROLE_ORDER /3"]
    )
  })
})

describe("reasoning", () => {
  it("that was changed comes back from the record", () => {
    const issued = uses(thought("a"), { type: "text", text: "t" }, use("A"))
    const spoilt = [user("q"), uses({ ...thought("a"), thinking: "b" }, { type: "text", text: "t" }, use("A"))]
    const context: Context = { record: [issued] }
    assert.include(lines("anthropic", spoilt, context), "error REASONING_MODIFIED /1/content/0")
    assert.deepStrictEqual(repair("anthropic", spoilt, context).messages[1], issued)
  })

  it("leaves the latest answer when thinking is off, and is named", () => {
    const history = [user("q"), uses(thought("a"), use("A")), { role: "user", content: [result("A", "x")] }]
    const { changes, messages } = repair("anthropic", history, { thinking: false })
    assert.deepStrictEqual(messages[1], uses(use("A")))
    assert.deepStrictEqual(changes[0]?.dropped, [thought("a")])
    assert.deepStrictEqual(lines("anthropic", [...history, user("new turn")], { thinking: false }), [])
  })

  it("signed by Gemini is taken from the record before the sentinel", () => {
    const { context, format, input } = caseOf("85-gemini-signature-lost-on-approval")
    const model = input[1] as { readonly parts: ReadonlyArray<object> }
    const issued = { role: "model", parts: [{ ...model.parts[0], thoughtSignature: "sigA" }] }
    assert.deepStrictEqual(repair(format, input, { ...context, record: [issued] }).messages[1], issued)
  })
})

describe("images", () => {
  const image = (data: string, media_type = "image/png") => ({
    type: "image",
    source: { type: "base64", media_type, data }
  })

  it("that no server can read become a note, and are named", () => {
    const history = [{ role: "user", content: [image("bm90IGFuIGltYWdl"), { type: "text", text: "look" }] }]
    const { changes, messages } = repair("anthropic", history)
    assert.notInclude(JSON.stringify(messages), "bm90")
    assert.deepStrictEqual(changes[0]?.dropped, [image("bm90IGFuIGltYWdl")])
  })

  it("get the media type they have", () => {
    const history = [{ role: "user", content: [image("/9j/4AAQ")] }]
    assert.deepStrictEqual(repair("anthropic", history).messages, [
      { role: "user", content: [image("/9j/4AAQ", "image/jpeg")] }
    ])
  })
})

describe("the report", () => {
  it("points into the messages that were given, whatever moved since", () => {
    const history = [
      tool("gone", "old"),
      user("q"),
      { role: "assistant", content: null },
      calls(call("c1", "a", "bad name")),
      user("n"),
      tool("c1", "r\ud83d")
    ]
    const { changes } = repair("openai-chat", history)
    assert.deepStrictEqual(
      changes.map(({ action, at, code }) => `${action} ${code} ${at}`),
      [
        "rewrite MALFORMED_UNICODE /5/content",
        "move RESULT_NOT_ADJACENT /5",
        "drop ORPHAN_RESULT /0",
        "drop EMPTY_CONTENT /2",
        "rewrite NAME_INVALID /3/tool_calls/0/function/name"
      ]
    )
  })

  it("leaves untouched messages the same objects", () => {
    const history = [user("a"), calls(call("c1")), user("b")]
    const { messages } = repair("openai-chat", history)
    assert.strictEqual(messages[0], history[0])
    assert.strictEqual(messages[1], history[1])
    assert.strictEqual(messages[3], history[2])
  })
})

describe("nonsense", () => {
  it("of any length is borne", () => {
    const count = 150_000
    const results = Array.from({ length: count }, () => tool("c1", "r"))
    assert.strictEqual(verify("openai-chat", results).length, count)
    assert.strictEqual(verify("openai-chat", [calls(call("c1")), ...results, user("n")]).length, count - 1)
    const items = results.map((_, index) => ({
      type: "function_call",
      call_id: `c${index}`,
      name: "ls",
      arguments: "{}"
    }))
    assert.strictEqual(verify("openai-responses", items, { turn: "terminated" }).length, count)
  })

  it("takes out of a list of calls what is none", () => {
    const call = { id: "a", type: "function", function: { name: "f", arguments: "{}" } }
    const history = (calls: ReadonlyArray<unknown>) => [
      { role: "user", content: "go" },
      { role: "assistant", content: "so", tool_calls: calls },
      { role: "tool", tool_call_id: "a", content: "r" },
      { role: "user", content: "and" }
    ]
    const { changes, messages, remaining } = repair("openai-chat", history([null, call, "x", 3, []]))
    assert.deepStrictEqual(messages, history([call]))
    assert.isEmpty(remaining)
    assert.deepStrictEqual(
      changes.flatMap(({ dropped = [] }) => dropped),
      [null, "x", 3, []]
    )
    const none = [
      { role: "user", content: "go" },
      { role: "assistant", content: "so", tool_calls: [null] }
    ]
    assert.deepStrictEqual(repair("openai-chat", none).messages, [none[0], { role: "assistant", content: "so" }])
  })

  it("never makes verify or repair throw, and is repaired once", () => {
    const json = fc.jsonValue({ maxDepth: 4 }) as fc.Arbitrary<unknown>
    const field = fc.constantFrom(
      "role",
      "content",
      "parts",
      "tool_calls",
      "type",
      "id",
      "call_id",
      "state",
      "input",
      "output"
    )
    const word = fc.constantFrom<unknown>(
      "user",
      "assistant",
      "tool",
      "model",
      "tool_use",
      "tool_result",
      "reasoning",
      "text"
    )
    const message = fc.oneof(json, fc.dictionary(field, fc.oneof(word, json, fc.array(fc.dictionary(field, word)))))
    fc.assert(
      fc.property(fc.constantFrom(...Names.literals), fc.array(message), (format, messages) => {
        const { messages: repaired, remaining } = repair(format, messages)
        assert.strictEqual(repair(format, repaired).messages, repaired)
        assert.isTrue(remaining.every((found) => found.choices !== undefined))
      }),
      { numRuns: Number(process.env["HISTORY_RUNS"] ?? 500) }
    )
  })
})
