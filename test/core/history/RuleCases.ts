/**
 * A history for each rule of the contract that no report of the corpus breaks.
 *
 * `found` are all findings that are not remarks, as `severity CODE pointer`. `repaired` is the history afterwards, or what
 * the owner is asked to choose from, where no rule may decide.
 */
import type { Choice, Context, FormatName } from "../../../packages/core/src/history/Contract.ts"
import * as Synthetic from "../../../packages/core/src/history/Synthetic.ts"

type Messages = ReadonlyArray<unknown>

export interface RuleCase {
  readonly rule: string
  readonly format: FormatName
  readonly context?: Context
  readonly messages: Messages
  readonly found: ReadonlyArray<string>
  readonly repaired: { readonly messages: Messages } | { readonly choices: ReadonlyArray<Choice> }
}

const user = { role: "user", content: "q" }

const chat = {
  calls: (args: unknown) => ({
    role: "assistant",
    content: null,
    tool_calls: [{ id: "a", type: "function", function: { name: "f", arguments: args } }]
  }),
  result: { role: "tool", tool_call_id: "a", content: "x" }
}
const chatWith = (args: unknown): Messages => [user, chat.calls(args), chat.result]

const responses = {
  call: { type: "function_call", call_id: "a", name: "f", arguments: "{}" },
  output: { type: "function_call_output", call_id: "a", output: "x" },
  said: { type: "message", role: "assistant", content: [] }
}

const anthropic = {
  use: { type: "tool_use", id: "a", name: "f", input: {} },
  result: { type: "tool_result", tool_use_id: "a", content: "x" },
  thinking: { type: "thinking", thinking: "t", signature: "s" },
  text: { type: "text", text: "t" },
  says: (...content: Messages) => ({ role: "assistant", content }),
  hears: (...content: Messages) => ({ role: "user", content })
}
const { hears, says, text, thinking, use } = anthropic

const gemini = {
  call: (name: string) => ({ functionCall: { name, args: {} } }),
  response: (name: string) => ({ functionResponse: { name, response: { output: "x" } } }),
  unknown: (name: string) => ({ functionResponse: { name, response: { output: Synthetic.outcomeUnknown } } }),
  asks: (...parts: Messages) => ({ role: "user", parts }),
  says: (...parts: Messages) => ({ role: "model", parts }),
  question: { role: "user", parts: [{ text: "q" }] }
}

const sdk = {
  call: { type: "tool-call", toolCallId: "a", toolName: "f", input: {} },
  result: { type: "tool-result", toolCallId: "a", toolName: "f", output: { type: "text", value: "x" } },
  says: (...content: Messages) => ({ role: "assistant", content }),
  tool: (...content: Messages) => ({ role: "tool", content }),
  said: { role: "assistant", content: "done" }
}

const ui = {
  question: { id: "m1", role: "user", parts: [{ type: "text", text: "q" }] },
  says: (...parts: Messages) => ({ id: "m2", role: "assistant", parts }),
  part: (fields: object) => ({ type: "tool-f", toolCallId: "a", input: {}, ...fields })
}

const link = { type: "image_url", image_url: { url: "https://x.test/a.png" } }

/** The first bytes of a JPEG. */
const jpeg = "/9j/4AAQ"

export const cases: ReadonlyArray<RuleCase> = [
  {
    rule: "O6",
    format: "openai-chat",
    messages: [user, chat.calls("{}"), { role: "tool", tool_call_id: "a" }],
    found: ["error RESULT_MISSING_OUTPUT /2"],
    repaired: { messages: [user, chat.calls("{}"), { ...chat.result, content: Synthetic.noOutput }] }
  },
  {
    rule: "O9",
    format: "openai-chat",
    messages: chatWith(""),
    found: ["error ARGS_EMPTY /1/tool_calls/0/function/arguments"],
    repaired: { messages: chatWith("{}") }
  },
  {
    rule: "O9",
    format: "openai-chat",
    context: { profile: "openai" },
    messages: chatWith("[1]"),
    found: ["portability ARGS_NOT_OBJECT /1/tool_calls/0/function/arguments"],
    repaired: { messages: chatWith('{"INVALID_JSON":"[1]"}') }
  },
  {
    rule: "O11",
    format: "openai-chat",
    messages: [{ role: "user", content: "a\ud800b" }],
    found: ["error MALFORMED_UNICODE /0/content"],
    repaired: { messages: [{ role: "user", content: "a\ufffdb" }] }
  },
  {
    rule: "R5",
    format: "openai-responses",
    messages: [responses.call, responses.output, { ...responses.output, output: "y" }],
    found: ["error DUPLICATE_RESULT /2"],
    repaired: { messages: [responses.call, responses.output] }
  },
  {
    rule: "R7",
    format: "openai-responses",
    messages: [responses.call, { ...responses.output, output: "x".repeat(10_485_761) }],
    found: ["error RESULT_TOO_LONG /1/output"],
    repaired: { choices: ["shorten-output"] }
  },
  {
    rule: "R9",
    format: "openai-responses",
    context: { store: false },
    messages: [user, { type: "reasoning", id: "rs_1", summary: [] }, responses.said],
    found: ["error REASONING_NOT_SENDABLE /1"],
    repaired: { messages: [user, responses.said] }
  },
  {
    rule: "R9",
    format: "openai-responses",
    messages: [user, { type: "item_reference", id: "fc_1" }],
    found: ["error REFERENCE_NOT_SENDABLE /1"],
    repaired: { choices: ["inline-item", "remove-message"] }
  },
  {
    rule: "A1",
    format: "anthropic",
    messages: [user, says(use), hears(text), says(text), hears(anthropic.result)],
    found: ["error RESULT_NOT_ADJACENT /4/content/0"],
    repaired: { messages: [user, says(use), hears(anthropic.result, text), says(text)] }
  },
  {
    rule: "A10",
    format: "anthropic",
    messages: [hears(text, { type: "text", text: "" })],
    found: ["error EMPTY_TEXT_BLOCK /0/content/1"],
    repaired: { messages: [hears(text)] }
  },
  {
    rule: "A11",
    format: "anthropic",
    context: { profile: "bedrock" },
    messages: [user, says({ ...use, name: "a.b" }), hears(anthropic.result)],
    found: ["error NAME_INVALID /1/content/0/name"],
    repaired: { messages: [user, says({ ...use, name: "a_b" }), hears(anthropic.result)] }
  },
  {
    rule: "A12",
    format: "anthropic",
    context: { thinking: true, record: [user, says(thinking, use)] },
    messages: [user, says({ ...thinking, thinking: "other" }, use), hears(anthropic.result)],
    found: ["error REASONING_MODIFIED /1/content/0"],
    repaired: { messages: [user, says(thinking, use), hears(anthropic.result)] }
  },
  {
    rule: "A12",
    format: "anthropic",
    context: { thinking: false },
    messages: [user, says(thinking, use), hears(anthropic.result)],
    found: ["error REASONING_NOT_ALLOWED /1/content/0"],
    repaired: { messages: [user, says(use), hears(anthropic.result)] }
  },
  {
    rule: "A16",
    format: "anthropic",
    messages: [hears({ type: "image", source: { type: "base64", media_type: "image/png", data: "bm90IGFuIGltYWdl" } })],
    found: ["error UNREADABLE_IMAGE /0/content/0"],
    repaired: { messages: [hears({ type: "text", text: Synthetic.unreadableImage })] }
  },
  {
    rule: "A17",
    format: "anthropic",
    messages: [hears(text, thinking)],
    found: ["error PART_MISPLACED /0/content/1"],
    repaired: { messages: [hears(text)] }
  },
  {
    rule: "G1",
    format: "gemini",
    context: { turn: "terminated" },
    messages: [gemini.question, gemini.says(gemini.call("f"), gemini.call("g")), gemini.asks(gemini.response("f"))],
    found: ["error DANGLING_CALL /1/parts/1"],
    repaired: {
      messages: [
        gemini.question,
        gemini.says(gemini.call("f"), gemini.call("g")),
        gemini.asks(gemini.response("f"), gemini.unknown("g"))
      ]
    }
  },
  {
    rule: "G1",
    format: "gemini",
    messages: [
      gemini.question,
      gemini.says(gemini.call("f")),
      gemini.asks(gemini.response("f")),
      gemini.asks(gemini.response("f"))
    ],
    found: ["error DUPLICATE_RESULT /3/parts/0"],
    repaired: { messages: [gemini.question, gemini.says(gemini.call("f")), gemini.asks(gemini.response("f"))] }
  },
  {
    rule: "G1",
    format: "gemini",
    messages: [
      gemini.question,
      gemini.says(gemini.call("f"), gemini.call("g")),
      gemini.asks(gemini.response("f")),
      gemini.asks(gemini.response("g"))
    ],
    found: ["error RESULT_SPLIT /3"],
    repaired: {
      messages: [
        gemini.question,
        gemini.says(gemini.call("f"), gemini.call("g")),
        gemini.asks(gemini.response("f"), gemini.response("g"))
      ]
    }
  },
  {
    rule: "G1",
    format: "gemini",
    context: { purpose: "archive" },
    messages: [
      gemini.question,
      gemini.says(gemini.call("f")),
      gemini.asks({ text: "and?" }),
      gemini.says({ text: "wait" }),
      gemini.asks(gemini.response("f"))
    ],
    found: ["error RESULT_NOT_ADJACENT /4/parts/0"],
    repaired: {
      messages: [
        gemini.question,
        gemini.says(gemini.call("f")),
        gemini.asks(gemini.response("f"), { text: "and?" }),
        gemini.says({ text: "wait" })
      ]
    }
  },
  {
    rule: "G3",
    format: "gemini",
    messages: [gemini.question, gemini.says({ text: "a" })],
    found: ["error ENDS_WITH_ASSISTANT /1"],
    repaired: {
      messages: [gemini.question, gemini.says({ text: "a" }), gemini.asks({ text: Synthetic.proceed })]
    }
  },
  {
    rule: "G5",
    format: "gemini",
    messages: [gemini.question, gemini.says(gemini.call("")), gemini.asks(gemini.response(""))],
    found: ["error NAME_INVALID /1/parts/0/functionCall/name", "error NAME_INVALID /2/parts/0/functionResponse/name"],
    repaired: {
      messages: [
        gemini.question,
        gemini.says(gemini.call("unnamed_tool")),
        gemini.asks(gemini.response("unnamed_tool"))
      ]
    }
  },
  {
    rule: "G5",
    format: "gemini",
    messages: [gemini.asks({ text: "q" }, gemini.call("f"))],
    found: ["error PART_MISPLACED /0/parts/1"],
    repaired: { messages: [gemini.asks({ text: "q" }, { text: Synthetic.strayCall("f", "{}") })] }
  },
  {
    rule: "V1",
    format: "ai-sdk-model",
    messages: [{ role: "user", content: [text, sdk.call] }],
    found: ["error PART_MISPLACED /0/content/1"],
    repaired: {
      messages: [{ role: "user", content: [text, { type: "text", text: Synthetic.strayCall("f", "{}") }] }]
    }
  },
  {
    rule: "V2",
    format: "ai-sdk-model",
    messages: [user, sdk.says(sdk.call), sdk.said, sdk.tool(sdk.result)],
    found: ["error RESULT_NOT_ADJACENT /3/content/0"],
    repaired: { messages: [user, sdk.says(sdk.call), sdk.tool(sdk.result), sdk.said] }
  },
  {
    rule: "V2",
    format: "ai-sdk-model",
    messages: [user, sdk.tool(sdk.result), sdk.said],
    found: ["error ORPHAN_RESULT /1/content/0"],
    repaired: { messages: [user, sdk.said] }
  },
  {
    rule: "V2",
    format: "ai-sdk-model",
    messages: [user, sdk.says(sdk.call), sdk.tool(sdk.result), sdk.tool(sdk.result), sdk.said],
    found: ["error DUPLICATE_RESULT /3/content/0"],
    repaired: { messages: [user, sdk.says(sdk.call), sdk.tool(sdk.result), sdk.said] }
  },
  {
    rule: "V4",
    format: "ai-sdk-model",
    messages: [
      user,
      sdk.says({ ...sdk.call, providerExecuted: true }, { ...sdk.result, providerExecuted: true }),
      sdk.tool(sdk.result),
      sdk.said
    ],
    found: ["error DUPLICATE_RESULT /2/content/0"],
    repaired: {
      messages: [
        user,
        sdk.says({ ...sdk.call, providerExecuted: true }, { ...sdk.result, providerExecuted: true }),
        sdk.said
      ]
    }
  },
  {
    rule: "V3",
    format: "ai-sdk-model",
    messages: [user, sdk.says({ type: "tool-approval-request", approvalId: "p", toolCallId: "gone" }), user],
    found: ["error APPROVAL_MISMATCH /1/content/0"],
    repaired: { messages: [user, user] }
  },
  {
    rule: "V5",
    format: "ai-sdk-model",
    messages: [user, { role: "assistant", content: [] }],
    found: ["portability EMPTY_CONTENT /1"],
    repaired: { messages: [user] }
  },
  {
    rule: "U1",
    format: "ai-sdk-ui",
    messages: [ui.question, ui.says(ui.part({ state: "output-error" }))],
    found: ["error RESULT_MISSING_OUTPUT /1/parts/0"],
    repaired: {
      messages: [ui.question, ui.says(ui.part({ state: "output-error", errorText: Synthetic.noOutput }))]
    }
  },
  {
    rule: "U3",
    format: "ai-sdk-ui",
    messages: [ui.question, ui.says({ type: "step-start" }, { type: "text", text: "" })],
    found: ["portability EMPTY_TEXT_BLOCK /1/parts/1"],
    repaired: { messages: [ui.question] }
  },
  {
    rule: "U4",
    format: "ai-sdk-ui",
    messages: [{ ...ui.question, parts: [] }],
    found: ["error EMPTY_CONTENT /0"],
    repaired: { messages: [] }
  },
  {
    rule: "U4",
    format: "ai-sdk-ui",
    messages: [
      ui.question,
      ui.says(ui.part({ state: "output-available", output: "x", approval: { id: "p", approved: false } }))
    ],
    found: ["error APPROVAL_MISMATCH /1/parts/0"],
    repaired: { messages: [ui.question, ui.says(ui.part({ state: "output-available", output: "x" }))] }
  },
  // The shape of single parts
  {
    rule: "O12",
    format: "openai-chat",
    messages: [{ role: "user", content: { a: 1 } }],
    found: ["error PART_INVALID /0/content"],
    repaired: { messages: [{ role: "user", content: '{"a":1}' }] }
  },
  {
    rule: "O12",
    format: "openai-chat",
    messages: [{ role: "user", content: [{ type: "text", text: 7 }] }],
    found: ["error PART_INVALID /0/content/0/text"],
    repaired: { messages: [{ role: "user", content: [{ type: "text", text: "7" }] }] }
  },
  {
    rule: "O12",
    format: "openai-chat",
    messages: [user, { role: "assistant", content: [{ type: "text", text: "see" }, link] }, user],
    found: ["error PART_MISPLACED /1/content/1"],
    repaired: { messages: [user, { role: "assistant", content: [{ type: "text", text: "see" }] }, user] }
  },
  {
    rule: "O12",
    format: "openai-chat",
    messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } }] }],
    found: ["error UNREADABLE_IMAGE /0/content/0/image_url/url"],
    repaired: { messages: [{ role: "user", content: [{ type: "text", text: Synthetic.unreadableImage }] }] }
  },
  {
    rule: "O12",
    format: "openai-chat",
    messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: `data:image/png;base64,${jpeg}` } }] }],
    found: ["error UNREADABLE_IMAGE /0/content/0/image_url/url"],
    repaired: {
      messages: [
        { role: "user", content: [{ type: "image_url", image_url: { url: `data:image/jpeg;base64,${jpeg}` } }] }
      ]
    }
  },
  {
    rule: "O13",
    format: "openai-chat",
    messages: [{ ...user, name: "Ada L" }],
    found: ["error NAME_INVALID /0/name"],
    repaired: { messages: [{ ...user, name: "Ada_L" }] }
  },
  {
    rule: "O6",
    format: "openai-chat",
    messages: [user, chat.calls("{}"), { ...chat.result, content: { open: [17] } }],
    found: ["error UNSUPPORTED_RESULT_CONTENT /2/content"],
    repaired: { messages: [user, chat.calls("{}"), { ...chat.result, content: '{"open":[17]}' }] }
  },
  {
    rule: "O6",
    format: "openai-chat",
    messages: [user, chat.calls("{}"), { ...chat.result, content: [{ id: 17 }, { id: 21 }] }],
    found: ["error UNSUPPORTED_RESULT_CONTENT /2/content"],
    repaired: { messages: [user, chat.calls("{}"), { ...chat.result, content: '[{"id":17},{"id":21}]' }] }
  },
  {
    rule: "R10",
    format: "openai-responses",
    messages: [{ type: "message", role: "assistant", content: [{ type: "input_text", text: "a" }] }],
    found: ["error PART_MISPLACED /0/content/0/type"],
    repaired: { messages: [{ type: "message", role: "assistant", content: [{ type: "output_text", text: "a" }] }] }
  },
  {
    rule: "R10",
    format: "openai-responses",
    messages: [{ type: "message", role: "user", content: [{ type: "output_text", text: "a", annotations: [] }] }],
    found: ["error PART_MISPLACED /0/content/0/type"],
    repaired: { messages: [{ type: "message", role: "user", content: [{ type: "input_text", text: "a" }] }] }
  },
  {
    rule: "R10",
    format: "openai-responses",
    messages: [{ role: "user", content: [{ type: "input_text", text: null }] }],
    found: ["error PART_INVALID /0/content/0/text"],
    repaired: { messages: [{ role: "user", content: [{ type: "input_text", text: "" }] }] }
  },
  {
    rule: "R10",
    format: "openai-responses",
    messages: [responses.call, { ...responses.output, output: [{ id: 17 }] }],
    found: ["error UNSUPPORTED_RESULT_CONTENT /1/output"],
    repaired: { messages: [responses.call, { ...responses.output, output: '[{"id":17}]' }] }
  },
  {
    rule: "R10",
    format: "openai-responses",
    messages: [responses.call, { ...responses.output, output: [{ type: "input_text", text: "a" }, { id: 17 }] }],
    found: ["error UNSUPPORTED_RESULT_CONTENT /1/output"],
    repaired: {
      messages: [
        responses.call,
        {
          ...responses.output,
          output: [
            { type: "input_text", text: "a" },
            { type: "input_text", text: '{"id":17}' }
          ]
        }
      ]
    }
  },
  {
    rule: "R10",
    format: "openai-responses",
    messages: [{ role: "user", content: [{ type: "input_image", image_url: "data:image/png;base64,AAAA" }] }],
    found: ["error UNREADABLE_IMAGE /0/content/0/image_url"],
    repaired: { messages: [{ role: "user", content: [{ type: "input_text", text: Synthetic.unreadableImage }] }] }
  },
  {
    rule: "A18",
    format: "anthropic",
    messages: [user, says(use), hears({ ...anthropic.result, content: { open: [17] } })],
    found: ["error UNSUPPORTED_RESULT_CONTENT /2/content/0/content"],
    repaired: { messages: [user, says(use), hears({ ...anthropic.result, content: '{"open":[17]}' })] }
  },
  {
    rule: "A18",
    format: "anthropic",
    messages: [user, says(use), hears({ ...anthropic.result, is_error: "true" })],
    found: ["error PART_INVALID /2/content/0/is_error"],
    repaired: { messages: [user, says(use), hears({ ...anthropic.result, is_error: true })] }
  },
  {
    rule: "A18",
    format: "anthropic",
    messages: [hears({ type: "text", text: { a: 1 } })],
    found: ["error PART_INVALID /0/content/0/text"],
    repaired: { messages: [hears({ type: "text", text: '{"a":1}' })] }
  },
  {
    rule: "A19",
    format: "anthropic",
    messages: [user, says({ type: "text", text: "so \n" })],
    found: ["error TRAILING_BLANK /1/content/0"],
    repaired: { messages: [user, says({ type: "text", text: "so" })] }
  },
  {
    rule: "A20",
    format: "anthropic",
    messages: [user, says({ type: "thinking", thinking: "t", signature: "" }, text), user],
    found: ["error REASONING_NOT_SENDABLE /1/content/0"],
    repaired: { messages: [user, says(text), user] }
  },
  {
    rule: "G6",
    format: "gemini",
    messages: [gemini.asks({ text: "q" }, {})],
    found: ["error PART_INVALID /0/parts/1"],
    repaired: { messages: [gemini.question] }
  },
  {
    rule: "G6",
    format: "gemini",
    messages: [gemini.asks({ text: "q" }, { text: "" })],
    found: ["error EMPTY_TEXT_BLOCK /0/parts/1"],
    repaired: { messages: [gemini.question] }
  },
  {
    rule: "G6",
    format: "gemini",
    messages: [gemini.asks({ inlineData: { mimeType: "image/png", data: "AAAA" } })],
    found: ["error UNREADABLE_IMAGE /0/parts/0/inlineData"],
    repaired: { messages: [gemini.asks({ text: Synthetic.unreadableImage })] }
  },
  {
    rule: "G5",
    format: "gemini",
    messages: [
      gemini.question,
      gemini.says(gemini.call("f"), gemini.call("g")),
      gemini.asks(gemini.response("x"), gemini.response("y"))
    ],
    found: [
      "error NAME_INVALID /2/parts/0/functionResponse/name",
      "error NAME_INVALID /2/parts/1/functionResponse/name"
    ],
    repaired: {
      messages: [
        gemini.question,
        gemini.says(gemini.call("f"), gemini.call("g")),
        gemini.asks(gemini.response("f"), gemini.response("g"))
      ]
    }
  },
  {
    rule: "V6",
    format: "ai-sdk-model",
    messages: [user, sdk.says({ ...sdk.call, providerExecuted: null }), sdk.tool(sdk.result), user],
    found: ["error PART_INVALID /1/content/0/providerExecuted"],
    repaired: { messages: [user, sdk.says(sdk.call), sdk.tool(sdk.result), user] }
  },
  {
    rule: "V6",
    format: "ai-sdk-model",
    messages: [user, sdk.says(sdk.call), sdk.tool({ ...sdk.result, output: { rows: 3 } }), user],
    found: ["error PART_INVALID /2/content/0/output/type"],
    repaired: {
      messages: [
        user,
        sdk.says(sdk.call),
        sdk.tool({ ...sdk.result, output: { type: "json", value: { rows: 3 } } }),
        user
      ]
    }
  },
  {
    rule: "V6",
    format: "ai-sdk-model",
    messages: [user, sdk.says(sdk.call), sdk.tool({ ...sdk.result, output: null }), user],
    found: ["error RESULT_MISSING_OUTPUT /2/content/0"],
    repaired: {
      messages: [
        user,
        sdk.says(sdk.call),
        sdk.tool({ ...sdk.result, output: { type: "error-text", value: Synthetic.noOutput } }),
        user
      ]
    }
  },
  {
    rule: "V6",
    format: "ai-sdk-model",
    messages: [
      user,
      sdk.says(sdk.call, { type: "tool-approval-request", toolCallId: "a" }),
      sdk.tool(sdk.result),
      user
    ],
    found: ["error APPROVAL_MISMATCH /1/content/1/approvalId"],
    repaired: { messages: [user, sdk.says(sdk.call), sdk.tool(sdk.result), user] }
  },
  {
    rule: "V6",
    format: "ai-sdk-model",
    messages: [{ role: "user", content: [{ type: "file", mediaType: "image/png", data: "AAAA" }] }],
    found: ["error UNREADABLE_IMAGE /0/content/0/data"],
    repaired: { messages: [{ role: "user", content: [{ type: "text", text: Synthetic.unreadableImage }] }] }
  },
  {
    rule: "U6",
    format: "ai-sdk-ui",
    messages: [{ ...ui.question, parts: [{ type: "text", text: "q", providerMetadata: null }] }],
    found: ["error PART_INVALID /0/parts/0/providerMetadata"],
    repaired: { messages: [ui.question] }
  },
  {
    rule: "U6",
    format: "ai-sdk-ui",
    messages: [
      { ...ui.question, parts: [{ type: "file", mediaType: "image/png", url: "data:image/png;base64,AAAA" }] }
    ],
    found: ["error UNREADABLE_IMAGE /0/parts/0/url"],
    repaired: { messages: [{ ...ui.question, parts: [{ type: "text", text: Synthetic.unreadableImage }] }] }
  }
]
