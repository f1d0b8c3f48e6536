import { assert, describe, it } from "@effect/vitest"
import * as Prompt from "effect/ai/Prompt"
import * as AiSdkModel from "../../../packages/core/src/history/codecs/AiSdkModel.ts"
import * as OpenAiChat from "../../../packages/core/src/history/codecs/OpenAiChat.ts"
import { unheard } from "../../../packages/core/src/history/Codec.ts"
import * as RequestGate from "../../../packages/core/src/history/RequestGate.ts"
import { verify } from "../../../packages/core/src/history/Verify.ts"

/** A wire that counts the messages it writes. */
const chat = (contract: RequestGate.Wire["contract"] = {}) => {
  const seen: Array<Prompt.Message> = []
  const wire: RequestGate.Wire = {
    format: "openai-chat",
    contract,
    write: (message) => {
      seen.push(message)
      return OpenAiChat.write(message, unheard, undefined)
    }
  }
  return { wire, seen, gate: RequestGate.make(wire) }
}

const system = Prompt.systemMessage({ content: "Be brief." })
const user = (text: string) => Prompt.userMessage({ content: [Prompt.textPart({ text })] })
const says = (text: string) => Prompt.assistantMessage({ content: [Prompt.textPart({ text })] })
const calls = (...ids: ReadonlyArray<string>) =>
  Prompt.assistantMessage({
    content: ids.map((id) => Prompt.toolCallPart({ id, name: "read", params: { path: id }, providerExecuted: false }))
  })
const results = (...ids: ReadonlyArray<string>) =>
  Prompt.toolMessage({
    content: ids.map((id) =>
      Prompt.toolResultPart({ id, name: "read", isFailure: false, result: `of ${id}`, providerExecuted: false })
    )
  })

const request = (window: ReadonlyArray<Prompt.Message>, tail: ReadonlyArray<Prompt.Message> = []) => ({
  lead: [system],
  window,
  tail
})

const codesOf = ({ findings }: RequestGate.Passed) => findings.map(({ at, code }) => `${code} ${at}`)

const sentBy = (wire: RequestGate.Wire, { messages }: RequestGate.Passed) => messages.flatMap(wire.write)

describe("RequestGate", () => {
  const wires: ReadonlyArray<RequestGate.Wire> = [
    chat().wire,
    {
      format: "ai-sdk-model",
      contract: {},
      // The form in which providers of the AI SDK take files.
      write: (message) =>
        AiSdkModel.write(message, (data) =>
          data instanceof URL && data.protocol === "https:"
            ? { type: "url", url: data }
            : { type: "data", data: String(data).slice("data:image/png;base64,".length) }
        )
    }
  ]
  for (const wire of wires) {
    it(`sends words for an image that was recorded and cannot be read, and keeps the others: ${wire.format}`, () => {
      const image = (url: string) => Prompt.filePart({ mediaType: "image/png", data: new URL(url) })
      const window = [
        Prompt.userMessage({ content: [image("data:image/png;base64,AAAA"), image("https://example.org/a.png")] })
      ]
      const passed = RequestGate.make(wire).pass(request(window))
      assert.deepStrictEqual(
        passed.findings.map(({ code }) => code),
        ["UNREADABLE_IMAGE"]
      )
      const sent = JSON.stringify(sentBy(wire, passed))
      assert.include(sent, "unreadable image")
      assert.include(sent, "https://example.org/a.png")
      assert.notInclude(sent, "AAAA")
    })
  }

  it("lets a sound request pass as it is", () => {
    const { gate } = chat()
    const window = [user("a"), calls("1", "2"), results("2", "1")]
    const passed = gate.pass(request(window, [user("hand back")]))
    assert.deepStrictEqual(codesOf(passed), [])
    assert.deepStrictEqual(passed.messages.slice(1, 4), window)
    assert.strictEqual(passed.messages.length, 5)
  })

  it("looks at what is new and at the frontier, however long the history is", () => {
    const { gate, seen } = chat()
    const window: Array<Prompt.Message> = []
    for (let step = 0; step < 500; step++) window.push(user(`${step}`), calls(`${step}`), results(`${step}`))
    gate.pass(request(window))
    seen.length = 0
    window.push(calls("next"), results("next"))
    assert.deepStrictEqual(codesOf(gate.pass(request(window))), [])
    assert.sameMembers(seen, [system, ...window.slice(-2)])
  })

  /** Shows results in full to one request. */
  const inFull = (message: Prompt.Message): Prompt.Message =>
    message.role !== "tool"
      ? message
      : Prompt.toolMessage({
          ...message,
          content: message.content.map((part) =>
            part.type === "tool-result" ? Prompt.toolResultPart({ ...part, result: `all of ${part.id}` }) : part
          )
        })

  it("costs what is new of a history that is shown otherwise as well, and keeps none of what was shown", () => {
    const { gate, seen, wire } = chat()
    const window: Array<Prompt.Message> = []
    for (let step = 0; step < 500; step++) window.push(user(`${step}`), calls(`${step}`), results(`${step}`))
    gate.pass({ ...request(window), shown: inFull })
    seen.length = 0
    window.push(calls("next"), results("next"))
    const passed = gate.pass({ ...request(window), shown: inFull })
    assert.lengthOf(seen, 3)
    const sent = JSON.stringify(sentBy(wire, passed))
    assert.include(sent, "all of 0")
    assert.include(sent, "all of next")
    assert.notInclude(JSON.stringify(sentBy(wire, gate.pass(request(window)))), "all of")
  })

  it("tells a break of such a history once, and keeps none of what was shown", () => {
    const { gate, wire } = chat()
    const window = [user("a"), calls("0"), results("0"), user("b"), calls("1"), user("c")]
    const first = gate.pass({ ...request(window), shown: inFull })
    assert.deepStrictEqual(codesOf(first), ["DANGLING_CALL /5/tool_calls/0"])
    window.push(says("d"), user("e"))
    const second = gate.pass({ ...request(window), shown: inFull })
    assert.deepStrictEqual(codesOf(second), [])
    assert.include(JSON.stringify(sentBy(wire, second)), "all of 0")
    assert.notInclude(JSON.stringify(sentBy(wire, gate.pass(request(window)))), "all of")
  })

  it("repairs each kind of break, and what it sends keeps the contract", () => {
    const broken: ReadonlyArray<readonly [string, ReadonlyArray<Prompt.Message>]> = [
      ["DANGLING_CALL /2/tool_calls/0", [user("a"), calls("1"), user("b")]],
      ["DANGLING_CALL /2/tool_calls/1", [user("a"), calls("1", "2"), results("1")]],
      ["ORPHAN_RESULT /2", [user("a"), results("1"), says("x")]],
      ["DUPLICATE_RESULT /4", [user("a"), calls("1"), results("1"), results("1")]],
      ["RESULT_NOT_ADJACENT /4", [user("a"), calls("1"), user("b"), results("1")]],
      ["DUPLICATE_CALL_ID /2/tool_calls/1", [user("a"), calls("1", "1"), results("1", "1")]],
      ["ID_INVALID /2/tool_calls/0/id", [user("a"), calls("x".repeat(65)), results("x".repeat(65))]]
    ]
    for (const [finding, window] of broken) {
      const { gate, wire } = chat()
      const passed = gate.pass(request(window))
      assert.include(codesOf(passed), finding)
      assert.isNotEmpty(passed.changes)
      assert.deepStrictEqual(verify("openai-chat", sentBy(wire, passed), { turn: "terminated" }), [])
    }
  })

  it("finds a break that comes later, whatever has passed before it", () => {
    const { gate, wire } = chat()
    const window = [user("a"), calls("1"), results("1")]
    assert.deepStrictEqual(codesOf(gate.pass(request(window))), [])
    window.push(says("done"), results("1"))
    assert.deepStrictEqual(codesOf(gate.pass(request(window))), ["DUPLICATE_RESULT /5"])
    // What was repaired stays repaired: the same break is told once.
    window.push(calls("2"), results("2"))
    const next = gate.pass(request(window))
    assert.deepStrictEqual(codesOf(next), [])
    assert.deepStrictEqual(verify("openai-chat", sentBy(wire, next), { turn: "terminated" }), [])
  })

  it("keeps the objects of messages it did not have to change", () => {
    const { gate } = chat()
    const window = [user("a"), calls("1"), user("b"), says("c")]
    const { messages } = gate.pass(request(window))
    assert.includeMembers([...messages], [system, ...window])
    assert.strictEqual(messages.length, window.length + 2)
    assert.strictEqual(messages[3]?.role, "tool")
  })

  it("judges a window that is not the one that passed as a whole", () => {
    const { gate } = chat()
    const window = [user("a"), calls("1"), results("1"), user("b")]
    gate.pass(request(window))
    window.splice(1, 1)
    assert.deepStrictEqual(codesOf(gate.pass(request(window))), ["ORPHAN_RESULT /2"])
  })

  it("knows an id that was used long before", () => {
    const wire: RequestGate.Wire = {
      format: "ai-sdk-model",
      contract: {},
      write: (message) => AiSdkModel.write(message, AiSdkModel.jsonData)
    }
    const gate = RequestGate.make(wire)
    const window = [user("a"), calls("1"), results("1"), says("b"), user("c"), calls("2"), results("2")]
    assert.deepStrictEqual(codesOf(gate.pass(request(window))), [])
    window.push(calls("1"), results("1"))
    assert.deepStrictEqual(codesOf(gate.pass(request(window))), ["DUPLICATE_CALL_ID /8/content/0"])
  })

  it("keeps the rules of a profile", () => {
    const { gate, wire } = chat({ profile: "strict-alternation" })
    const window = [user("a"), says("b"), user("c")]
    assert.deepStrictEqual(codesOf(gate.pass(request(window))), [])
    window.push(user("d"))
    const passed = gate.pass(request(window))
    assert.deepStrictEqual(codesOf(passed), ["ROLE_ORDER /4"])
    const contract = { profile: "strict-alternation", turn: "terminated" } as const
    assert.deepStrictEqual(verify("openai-chat", sentBy(wire, passed), contract), [])
    window.push(says("e"), user("f"))
    assert.deepStrictEqual(codesOf(gate.pass(request(window))), [])
  })

  it("takes a result that comes later in place of the one it made up", () => {
    const { gate } = chat()
    const window: Array<Prompt.Message> = [user("a"), calls("1")]
    assert.deepStrictEqual(codesOf(gate.pass(request(window, [user("q")]))), ["DANGLING_CALL /2/tool_calls/0"])
    window.push(results("1"), says("b"))
    const next = gate.pass(request(window))
    assert.deepStrictEqual(codesOf(next), ["DUPLICATE_RESULT /3"])
    assert.include(JSON.stringify(next.messages), "of 1")
  })
})
