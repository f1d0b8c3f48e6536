/**
 * The rules about the shape of single messages and parts, by format. They belong to the book of their format (`RuleBook`).
 */
import { rule, type Rule } from "./Rule.ts"

/** OpenAI Chat Completions. */
export const openAiChat: ReadonlyArray<Rule> = [
  rule(
    "O12",
    "Content is a text or a list of parts that the role carries; images can be read.",
    ["PART_INVALID", "PART_MISPLACED", "UNREADABLE_IMAGE"],
    ["schema", "error"],
    "ChatCompletionRequestMessage, paseo#1930, jcode#848"
  ),
  rule("O13", "The name of a speaker has no blanks.", ["NAME_INVALID"], ["error"], "openai-python#1152")
]

/** OpenAI Responses. */
export const openAiResponses: ReadonlyArray<Rule> = [
  rule(
    "R10",
    "The model's content is output_text, all other is input; an output is a text or a list of input parts; images can be read.",
    ["PART_MISPLACED", "PART_INVALID", "UNSUPPORTED_RESULT_CONTENT", "UNREADABLE_IMAGE"],
    ["schema", "error"],
    "InputMessage, OutputMessage, deepagents#202"
  )
]

/** Anthropic Messages. */
export const anthropic: ReadonlyArray<Rule> = [
  rule(
    "A18",
    "The content of a tool_result is a text or a list of blocks, is_error is a boolean, a text is a text.",
    ["UNSUPPORTED_RESULT_CONTENT", "PART_INVALID"],
    ["schema"],
    "ToolResultBlockParam, deepagents#202"
  ),
  rule(
    "A19",
    "An assistant message at the end has no blank at its end.",
    ["TRAILING_BLANK"],
    ["error"],
    "docs: prefill Claude's response"
  ),
  rule(
    "A20",
    "A thinking block has the signature, a redacted one the data, it was issued with.",
    ["REASONING_NOT_SENDABLE"],
    ["schema", "error"],
    "ThinkingBlockParam, opencode#25005, dirge#821"
  )
]

/** Gemini generateContent. */
export const gemini: ReadonlyArray<Rule> = [
  rule(
    "G6",
    "A part has data: no part is empty, and a text is empty only beside a signature; images can be read.",
    ["PART_INVALID", "EMPTY_TEXT_BLOCK", "UNREADABLE_IMAGE"],
    ["schema", "error"],
    "Part, FLIT#69, CLIProxyAPI#1293"
  )
]

/** Vercel AI SDK. */
export const aiSdk: ReadonlyArray<Rule> = [
  rule(
    "V6",
    "Members of parts are of their types, an output is one of the SDK's kinds; images can be read.",
    ["PART_INVALID", "APPROVAL_MISMATCH", "RESULT_MISSING_OUTPUT", "UNREADABLE_IMAGE"],
    ["schema"],
    "modelMessageSchema, vercel/ai PR#7971, vercel/ai#8520"
  ),
  rule(
    "U6",
    "Members of parts are of their types; images can be read.",
    ["PART_INVALID", "UNREADABLE_IMAGE"],
    ["schema"],
    "vercel/ai uiMessagesSchema"
  )
]
