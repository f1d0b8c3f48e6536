/**
 * Messages of a prompt as JSON text of the OpenAI Chat wire.
 *
 * Owns: the wire form of one message. Does not own: the order and pairing of
 * messages (the history contract) or the rest of the body (`ChatRequest`).
 *
 * - M1. A message is encoded once: decoded prompt messages never change, so their
 *   text is kept for as long as the message object lives.
 * - M2. Whatever is in the message, the text is JSON without lone surrogates, call
 *   arguments are a JSON object, and function names are legal.
 * - M3. A message with nothing the wire can carry is the empty text and is left out.
 */
import * as Prompt from "effect/ai/Prompt"
import * as ToolArguments from "../ToolArguments.ts"
import * as ToolName from "../ToolName.ts"
import * as WellFormedJson from "../WellFormedJson.ts"
import * as FileContent from "./FileContent.ts"

/** Field in which reasoning that led to calls is sent back; providers that want none refuse or bill it. */
export type ReasoningField = "reasoning_content" | "reasoning"

/** Encoder that keeps the text of every message it has seen (M1). */
export const encoder = (reasoning: ReasoningField | undefined): ((message: Prompt.Message) => string) => {
  const kept = new WeakMap<Prompt.Message, string>()
  return (message) => {
    const known = kept.get(message)
    if (known !== undefined) return known
    const text = encode(message, reasoning)
    kept.set(message, text)
    return text
  }
}

const encode = (message: Prompt.Message, reasoning: ReasoningField | undefined): string => {
  switch (message.role) {
    case "system":
      return WellFormedJson.stringify({ role: "system", content: message.content })
    case "user":
      return WellFormedJson.stringify({ role: "user", content: userContent(message.content) })
    case "assistant":
      return assistant(message.content, reasoning)
    case "tool":
      return message.content
        .filter((part) => part.type === "tool-result")
        .map((part) => WellFormedJson.stringify({ role: "tool", tool_call_id: part.id, content: resultText(part) }))
        .join(",")
  }
}

// Many compatible servers know text content only as a string, so an array is used for files alone.
const userContent = (parts: ReadonlyArray<Prompt.UserMessagePart>): unknown =>
  parts.every((part) => part.type === "text")
    ? parts.map((part) => part.text).join("\n")
    : parts.map((part) => (part.type === "text" ? { type: "text", text: part.text } : FileContent.encode(part)))

const assistant = (
  parts: ReadonlyArray<Prompt.AssistantMessagePart>,
  reasoning: ReasoningField | undefined
): string => {
  let text = ""
  let thought = ""
  const calls: Array<unknown> = []
  for (const part of parts) {
    if (part.type === "text") text += part.text
    else if (part.type === "file") text += FileContent.placeholder(part)
    else if (part.type === "reasoning") thought += part.text
    else if (part.type === "tool-call" && !part.providerExecuted) {
      const call = { name: ToolName.toLegal(part.name), arguments: ToolArguments.write(part.params) }
      calls.push({ id: part.id, type: "function", function: call })
    }
  }
  if (text === "" && calls.length === 0) return "" // M3
  return WellFormedJson.stringify({
    role: "assistant",
    content: text === "" ? null : text,
    ...(calls.length > 0 ? { tool_calls: calls } : undefined),
    // demanded with calls only; some models refuse it elsewhere
    ...(reasoning !== undefined && calls.length > 0 && thought !== "" ? { [reasoning]: thought } : undefined)
  })
}

/** The wire takes text only: what is not text is named, not sent. */
const resultText = (part: Prompt.ToolResultPart): string => {
  if (part.modelOutput !== undefined) return Prompt.toolModelOutputToText(part.modelOutput)
  return typeof part.result === "string" ? part.result : WellFormedJson.stringify(part.result)
}
