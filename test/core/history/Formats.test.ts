import { assert, describe, it } from "@effect/vitest"
import type { Context, FormatName } from "../../../packages/core/src/history/Contract.ts"
import { repair } from "../../../packages/core/src/history/Repair.ts"
import { superseded } from "../../../packages/core/src/history/Synthetic.ts"
import { verify } from "../../../packages/core/src/history/Verify.ts"

const lines = (format: FormatName, messages: ReadonlyArray<unknown>, context?: Context) =>
  verify(format, messages, context).map(({ at, code, severity }) => `${severity} ${code} ${at}`)

const user = (content: string) => ({ role: "user", content })

describe("OpenAI Chat", () => {
  const call = { id: "c1", type: "function", function: { name: "ls", arguments: "{}" } }

  it("drops an orphan behind calls that wait, for text there would end their turn", () => {
    const waiting = [user("q"), { role: "assistant", content: null, tool_calls: [call] }]
    const orphan = { role: "tool", tool_call_id: "gone", content: "x" }
    const { changes, messages } = repair("openai-chat", [...waiting, orphan], { orphans: "text" })
    assert.deepStrictEqual(messages, waiting)
    assert.deepStrictEqual(changes[0]?.dropped, [orphan])
  })

  it("demands DeepSeek's reasoning on every answer of a round with calls, and takes an empty one", () => {
    const answer = { role: "tool", tool_call_id: "c1", content: "x" }
    const history = (first: object, last: object) => [
      user("q"),
      { role: "assistant", content: null, tool_calls: [call], ...first },
      answer,
      { role: "assistant", content: "a", ...last },
      user("n")
    ]
    const context = { profile: "deepseek", thinking: true } as const
    const missing = "error REASONING_REQUIRED_MISSING"
    assert.deepStrictEqual(lines("openai-chat", history({}, {}), context), [`${missing} /1`, `${missing} /3`])
    const half = history({ reasoning_content: "hm" }, {})
    assert.deepStrictEqual(lines("openai-chat", half, context), [`${missing} /3`])
    const whole = history({ reasoning_content: "hm" }, { reasoning_content: "" })
    assert.isEmpty(lines("openai-chat", whole, context))
    assert.isEmpty(lines("openai-chat", history({}, {}), { profile: "deepseek", thinking: false }))
  })

  it("mints no id that the history has", () => {
    const taken = { ...call, id: "call00001" }
    const blank = { ...call, id: "", function: { name: "ls", arguments: '{"all":true}' } }
    const history = [
      { role: "assistant", content: null, tool_calls: [blank, taken] },
      { role: "tool", tool_call_id: "", content: "a" },
      { role: "tool", tool_call_id: "call00001", content: "b" }
    ]
    const { messages } = repair("openai-chat", history)
    assert.deepStrictEqual(messages, [
      { role: "assistant", content: null, tool_calls: [{ ...blank, id: "call00002" }, taken] },
      { role: "tool", tool_call_id: "call00002", content: "a" },
      history[2]
    ])
  })

  it("lets an answer end the history that Mistral is to go on with", () => {
    const history = [user("q"), { role: "assistant", content: "It is" }]
    assert.deepStrictEqual(lines("openai-chat", history, { profile: "mistral" }), ["error ENDS_WITH_ASSISTANT /1"])
    assert.deepStrictEqual(
      lines("openai-chat", [user("q"), { ...history[1], prefix: true }], { profile: "mistral" }),
      []
    )
    assert.deepStrictEqual(lines("openai-chat", history, { profile: "mistral", purpose: "archive" }), [])
  })

  it("takes a list of calls away that is empty", () => {
    const answer = { role: "assistant", content: "hi" }
    assert.deepStrictEqual(lines("openai-chat", [user("q"), { ...answer, tool_calls: [] }]), [
      "error EMPTY_CONTENT /1/tool_calls"
    ])
    assert.deepStrictEqual(repair("openai-chat", [{ ...answer, tool_calls: [] }]).messages, [answer])
  })

  it("reports an id of 41 to 64 characters to other providers only", () => {
    const id = "x".repeat(41)
    const history = [
      { role: "assistant", content: null, tool_calls: [{ ...call, id }] },
      { role: "tool", tool_call_id: id, content: "a" }
    ]
    assert.deepStrictEqual(lines("openai-chat", history), ["portability ID_INVALID /0/tool_calls/0/id"])
  })
})

describe("OpenAI Responses", () => {
  it("points into the input after items were dropped in several passes", () => {
    const history = [
      { type: "function_call_output", call_id: "gone", output: "x" },
      { type: "reasoning", summary: [] },
      { type: "message", role: "assistant", id: "resp_1", content: [] }
    ]
    assert.deepStrictEqual(
      repair("openai-responses", history).changes.map(({ at, code }) => `${code} ${at}`),
      ["ORPHAN_RESULT /0", "REASONING_FIELD_MISSING /1/id", "ID_PREFIX /2/id"]
    )
  })

  it("takes reasoning and hosted items between parallel calls for parts of one answer", () => {
    const call = (id: string) => ({ type: "function_call", call_id: id, name: "ls", arguments: "{}" })
    const output = (id: string) => ({ type: "function_call_output", call_id: id, output: "x" })
    const reasoning = { type: "reasoning", id: "rs_1", summary: [] }
    const hosted = { type: "web_search_call", id: "ws_1", status: "completed" }
    const history = [call("a"), reasoning, call("b"), hosted, output("a"), output("b")]
    assert.deepStrictEqual(lines("openai-responses", history), [])
  })

  it("drops reasoning that nothing can be made of when nothing is stored, and references with a choice", () => {
    const message = { type: "message", role: "assistant", content: [] }
    const history = [
      { type: "reasoning", id: "rs_1", summary: [] },
      message,
      { type: "reasoning", summary: [], encrypted_content: "e" },
      message,
      { type: "item_reference", id: "msg_9" }
    ]
    const { messages, remaining } = repair("openai-responses", history, { store: false })
    assert.deepStrictEqual(messages, history.slice(1))
    assert.deepStrictEqual(remaining[0]?.choices, ["inline-item", "remove-message"])
  })

  it("drops a reference to an item that is given as well, not the item", () => {
    const item = { type: "message", role: "assistant", id: "msg_1", content: [] }
    const reference = { type: "item_reference", id: "msg_1" }
    assert.deepStrictEqual(repair("openai-responses", [reference, item]).messages, [item])
  })
})

describe("Anthropic", () => {
  it("keeps thinking of an answer whose calls wait, thinking or not", () => {
    const block = { type: "thinking", thinking: "t", signature: "s" }
    const history = [
      user("q"),
      { role: "assistant", content: [block, { type: "tool_use", id: "A", name: "x", input: {} }] }
    ]
    assert.strictEqual(repair("anthropic", history, { thinking: false }).messages, history)
  })

  it("keeps a provider-run tool at the very end, where the provider goes on with it", () => {
    const use = { type: "server_tool_use", id: "s", name: "web_search", input: {} }
    const history = [user("q"), { role: "assistant", content: [use] }]
    assert.deepStrictEqual(lines("anthropic", history), [])
    assert.deepStrictEqual(lines("anthropic", history, { turn: "terminated" }), [
      "error SERVER_TOOL_UNPAIRED /1/content/0"
    ])
  })

  it("moves calls behind text for Bedrock, but never over a thinking block", () => {
    const block = (thinking: string) => ({ type: "thinking", thinking, signature: "s" })
    const use = (id: string) => ({ type: "tool_use", id, name: "x", input: {} })
    const text = (text: string) => ({ type: "text", text })
    const content = [block("1"), use("A"), text("a"), block("2"), use("B"), text("b")]
    const results = ["A", "B"].map((id) => ({ type: "tool_result", tool_use_id: id, content: "r" }))
    const history = [user("q"), { role: "assistant", content }, { role: "user", content: results }]
    const { messages } = repair("anthropic", history, { profile: "bedrock" })
    assert.deepStrictEqual(messages[1], {
      role: "assistant",
      content: [block("1"), text("a"), use("A"), block("2"), text("b"), use("B")]
    })
  })

  it("reads arguments that are the text of an object", () => {
    const history = (input: unknown) => [
      { role: "assistant", content: [{ type: "tool_use", id: "A", name: "x", input }] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "A", content: "r" }] }
    ]
    assert.deepStrictEqual(repair("anthropic", history('{"a":1}')).messages, history({ a: 1 }))
    assert.deepStrictEqual(repair("anthropic", history("{a")).messages, history({ INVALID_JSON: "{a" }))
  })
})

describe("Gemini", () => {
  it("asks for signatures in the current turn only", () => {
    const round = [
      { role: "user", parts: [{ text: "q" }] },
      { role: "model", parts: [{ functionCall: { name: "ls", args: {} } }] },
      { role: "user", parts: [{ functionResponse: { name: "ls", response: { output: "x" } } }] }
    ]
    assert.deepStrictEqual(lines("gemini", [...round, ...round], { model: "gemini-3-pro" }), [
      "error SIGNATURE_MISSING /4/parts/0/thoughtSignature"
    ])
    assert.deepStrictEqual(lines("gemini", round, { model: "gemini-2.5-pro" }), [])
  })

  it("matches by id where both have one, else by name, else by position", () => {
    const call = (name: string, id?: string) => ({
      functionCall: { name, args: {}, ...(id === undefined ? {} : { id }) }
    })
    const response = (name: string, id?: string) => ({
      functionResponse: { name, response: { output: name }, ...(id === undefined ? {} : { id }) }
    })
    const history = (...responses: ReadonlyArray<unknown>) => [
      { role: "user", parts: [{ text: "q" }] },
      { role: "model", parts: [call("a", "1"), call("a", "2"), call("b")] },
      { role: "user", parts: responses }
    ]
    assert.deepStrictEqual(lines("gemini", history(response("b"), response("a", "2"), response("a", "1"))), [])
    assert.deepStrictEqual(lines("gemini", history(response("a", "2"), response("b"), response("c"))), [
      "error NAME_INVALID /2/parts/2/functionResponse/name"
    ])
    assert.deepStrictEqual(lines("gemini", history(response("a", "2"), response("b"), response("c", "3"))), [
      "info SUSPENDED_CALL /1/parts/0",
      "error ORPHAN_RESULT /2/parts/2"
    ])
  })
})

describe("AI SDK ModelMessages", () => {
  const call = (toolCallId: string, q: string) => ({ type: "tool-call", toolCallId, toolName: "refund", input: { q } })
  const asked = (approvalId: string, toolCallId: string) => ({ type: "tool-approval-request", approvalId, toolCallId })
  const result = (toolCallId: string) => ({
    type: "tool-result",
    toolCallId,
    toolName: "refund",
    output: { type: "text", value: "ok" }
  })

  it("lets the approval follow the call to its new id", () => {
    const history = [
      { role: "assistant", content: [call("t", "a")] },
      { role: "tool", content: [result("t")] },
      { role: "assistant", content: [call("t", "b"), asked("ap", "t")] },
      { role: "tool", content: [{ type: "tool-approval-response", approvalId: "ap", approved: true }, result("t")] }
    ]
    const { messages } = repair("ai-sdk-model", history)
    assert.deepStrictEqual(messages[2], {
      role: "assistant",
      content: [call("call00001", "b"), asked("ap", "call00001")]
    })
  })

  it("takes a call that was passed over while it waited for approval as denied", () => {
    const history = [{ role: "assistant", content: [call("t", "a"), asked("ap", "t")] }, user("only half")]
    assert.deepStrictEqual(lines("ai-sdk-model", history), ["error PENDING_APPROVAL /0/content/0"])
    const { messages } = repair("ai-sdk-model", history)
    assert.deepStrictEqual(messages[1], {
      role: "tool",
      content: [
        { type: "tool-approval-response", approvalId: "ap", approved: false, reason: superseded },
        {
          type: "tool-result",
          toolCallId: "t",
          toolName: "refund",
          output: { type: "execution-denied", reason: superseded }
        }
      ]
    })
  })

  it("takes a synthesised result of a provider-run call for a second one", () => {
    const history = [
      { role: "assistant", content: [{ ...call("p", "a"), providerExecuted: true }, result("p")] },
      { role: "tool", content: [result("p")] }
    ]
    assert.deepStrictEqual(lines("ai-sdk-model", history), ["error DUPLICATE_RESULT /1/content/0"])
    assert.deepStrictEqual(
      lines("ai-sdk-model", [{ role: "assistant", content: [{ ...call("p", "a"), providerExecuted: true }] }]),
      []
    )
  })
})

describe("AI SDK UIMessages", () => {
  const done = { type: "tool-ls", toolCallId: "t1", state: "output-available", input: {}, output: "a" }
  const text = (text: string) => ({ type: "text", text })

  it("drops the copied call alone when the parts in front of it differ", () => {
    const history = [
      { id: "1", role: "assistant", parts: [text("First"), done] },
      { id: "2", role: "assistant", parts: [text("Other"), done, text("Second")] }
    ]
    assert.deepStrictEqual(repair("ai-sdk-ui", history).messages, [
      history[0],
      { id: "2", role: "assistant", parts: [text("Other"), text("Second")] }
    ])
  })

  it("renames a call that has the id of another", () => {
    const other = { ...done, output: "b" }
    const history = [{ id: "1", role: "assistant", parts: [done, other] }]
    assert.deepStrictEqual(repair("ai-sdk-ui", history).messages, [
      { id: "1", role: "assistant", parts: [done, { ...other, toolCallId: "call00001" }] }
    ])
  })

  it("closes a call the model went on without, though it is in the last message", () => {
    const open = { type: "tool-ls", toolCallId: "t1", state: "input-available", input: {} }
    const live = [{ id: "1", role: "assistant", parts: [open] }]
    assert.deepStrictEqual(lines("ai-sdk-ui", live), ["info SUSPENDED_CALL /0/parts/0"])
    const passed = [{ id: "1", role: "assistant", parts: [open, { type: "step-start" }, text("done")] }]
    assert.deepStrictEqual(lines("ai-sdk-ui", passed), ["error DANGLING_CALL /0/parts/0"])
  })

  it("never makes a call approved by mending its state", () => {
    const part = { type: "tool-pay", toolCallId: "t1", state: "approval-responded", input: {}, approval: { id: "ap" } }
    const history = [
      { id: "1", role: "assistant", parts: [part] },
      { id: "2", role: "user", parts: [text("n")] }
    ]
    assert.deepStrictEqual(lines("ai-sdk-ui", history), ["error APPROVAL_MISMATCH /0/parts/0"])
    const [first] = repair("ai-sdk-ui", history).messages
    assert.notInclude(JSON.stringify(first), '"approved":true')
    assert.include(JSON.stringify(first), '"state":"output-error"')
  })

  it("drops a step with nothing but empty text", () => {
    const parts = [{ type: "step-start" }, text("a"), { type: "step-start" }, text("")]
    const history = [
      { id: "1", role: "assistant", parts },
      { id: "2", role: "user", parts: [text("n")] }
    ]
    assert.deepStrictEqual(lines("ai-sdk-ui", history), ["portability EMPTY_TEXT_BLOCK /0/parts/3"])
    assert.deepStrictEqual(repair("ai-sdk-ui", history).messages[0], {
      id: "1",
      role: "assistant",
      parts: parts.slice(0, 3)
    })
  })
})
