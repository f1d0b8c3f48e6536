/**
 * Tells in which format a history is written.
 *
 * Owns: the signs of each format. Does not own: whether the history is valid.
 */
import { FormatName } from "./Contract.ts"
import { isObject, listOf } from "./Json.ts"

/**
 * `Detected`: signs of one format only. `Ambiguous`: plain texts that several formats write alike, or signs of several
 * formats in one history; the candidates, most signs first. With no message at all, every format is one.
 */
export type Detection =
  | { readonly _tag: "Detected"; readonly format: FormatName }
  | { readonly _tag: "Ambiguous"; readonly candidates: ReadonlyArray<FormatName> }

/** Recognises the format by what only it writes. */
export const detect = (messages: ReadonlyArray<unknown>): Detection => {
  const signs = new Map<FormatName, number>()
  let possible: ReadonlyArray<FormatName> = FormatName.literals
  for (const message of messages) {
    const seen = signsOf(message)
    for (const format of seen.only) signs.set(format, (signs.get(format) ?? 0) + 1)
    possible = possible.filter((format) => seen.possible.includes(format))
  }
  const named = [...signs].toSorted(([, a], [, b]) => b - a).map(([format]) => format)
  if (named.length === 1) return { _tag: "Detected", format: named[0]! }
  if (named.length > 1) return { _tag: "Ambiguous", candidates: named }
  if (possible.length === 1) return { _tag: "Detected", format: possible[0]! }
  return { _tag: "Ambiguous", candidates: possible }
}

interface Signs {
  /** The formats this message is a sign of. */
  readonly only: ReadonlyArray<FormatName>
  /** The formats it may be written in. */
  readonly possible: ReadonlyArray<FormatName>
}

const sign = (format: FormatName): Signs => ({ only: [format], possible: [format] })
const among = (...possible: ReadonlyArray<FormatName>): Signs => ({ only: [], possible })

const signsOf = (message: unknown): Signs => {
  if (!isObject(message)) return { only: [], possible: FormatName.literals }
  const { content, role, type } = message
  if (Array.isArray(message["parts"])) return signsOfParts(listOf(message, "parts"), role)
  if (role === "model") return sign("gemini")
  if (typeof type === "string") return sign("openai-responses")
  if (message["tool_calls"] !== undefined || message["function_call"] !== undefined) return sign("openai-chat")
  if (role === "tool")
    return Array.isArray(content) && message["tool_call_id"] === undefined ? sign("ai-sdk-model") : sign("openai-chat")
  if (role === "function") return sign("openai-chat")
  if (role === "developer") return among("openai-chat", "openai-responses")
  if (role === "system") return among("openai-chat", "openai-responses", "ai-sdk-model")
  if (!Array.isArray(content)) {
    return content === null || content === undefined
      ? among("openai-chat", "anthropic", "ai-sdk-model")
      : among("openai-chat", "openai-responses", "anthropic", "ai-sdk-model")
  }
  const found = new Set(content.map((part: unknown) => (isObject(part) ? blocks.get(part["type"]) : undefined)))
  const only = [...found].filter((format) => format !== undefined)
  return only.length > 0 ? { only, possible: only } : among("openai-chat", "anthropic", "ai-sdk-model")
}

const signsOfParts = (parts: ReadonlyArray<unknown>, role: unknown): Signs => {
  if (role === "model" || role === "function") return sign("gemini")
  if (role === "assistant" || role === "system") return sign("ai-sdk-ui")
  if (parts.length === 0) return among("gemini", "ai-sdk-ui")
  return sign(parts.some((part) => isObject(part) && typeof part["type"] === "string") ? "ai-sdk-ui" : "gemini")
}

/** Types of content parts that one format only writes. */
const blocks = new Map<unknown, FormatName>([
  ["tool_use", "anthropic"],
  ["tool_result", "anthropic"],
  ["server_tool_use", "anthropic"],
  ["thinking", "anthropic"],
  ["redacted_thinking", "anthropic"],
  ["document", "anthropic"],
  ["tool-call", "ai-sdk-model"],
  ["tool-result", "ai-sdk-model"],
  ["tool-approval-request", "ai-sdk-model"],
  ["reasoning", "ai-sdk-model"],
  ["image_url", "openai-chat"],
  ["input_audio", "openai-chat"],
  ["refusal", "openai-chat"],
  ["input_text", "openai-responses"],
  ["input_image", "openai-responses"],
  ["input_file", "openai-responses"],
  ["output_text", "openai-responses"]
])
