/**
 * Messages of a session as input items of OpenAI Responses, and back.
 *
 * Owns: the form of each item. Does not own: order and pairing (`Verify`, `Repair`).
 *
 * - M1. Reasoning is written only as the item it was; the provider knows others by nothing.
 */
import type * as Prompt from "effect/ai/Prompt"
import type { PastPart, UserPart } from "../../Transcript.ts"
import type { Codec, Lose, Reading } from "../Codec.ts"
import {
  eachWith,
  json,
  members,
  optionsField,
  optionsOf,
  otherContent,
  reading,
  resultAsText,
  systemPrompt,
  textOfAny,
  unknownPart
} from "../Codec.ts"
import { textIn } from "../formats/Content.ts"
import { isObject, listOf, textOf, type JsonObject } from "../Json.ts"
import * as ToolArguments from "../ToolArguments.ts"
import { legal } from "../ToolName.ts"
import * as FileData from "./FileData.ts"

const write = (message: Prompt.Message, lose: Lose): ReadonlyArray<JsonObject> => {
  switch (message.role) {
    case "system":
      return [item("system", [{ type: "input_text", text: message.content.toWellFormed() }])]
    case "user":
      return [
        item(
          "user",
          message.content.map((part) => inputPart(part, lose))
        )
      ]
    case "assistant":
      return message.content.flatMap((part) => outputItem(part, lose))
    case "tool":
      return message.content.flatMap((part) =>
        part.type === "tool-result"
          ? [{ type: "function_call_output", call_id: part.id, output: resultAsText(part, lose, false) }]
          : []
      )
  }
}

const item = (role: string, content: ReadonlyArray<JsonObject>): JsonObject => ({ type: "message", role, content })

const inputPart = (part: Prompt.UserMessagePart, lose: Lose): JsonObject => {
  if (part.type === "text") return { type: "input_text", text: part.text.toWellFormed() }
  const url = FileData.urlOf(part)
  if (part.mediaType.startsWith("image/")) return { type: "input_image", image_url: url }
  if (part.mediaType === "application/pdf" && FileData.embedded(url) !== undefined) {
    return { type: "input_file", filename: part.fileName ?? "document.pdf", file_data: url }
  }
  lose("a file the format cannot carry", FileData.placeholder(part))
  return { type: "input_text", text: FileData.placeholder(part).toWellFormed() }
}

const outputItem = (part: Prompt.AssistantMessagePart, lose: Lose): ReadonlyArray<JsonObject> => {
  switch (part.type) {
    case "text":
      return part.text === "" ? [] : [item("assistant", [{ type: "output_text", text: part.text.toWellFormed() }])]
    case "reasoning": {
      const { itemId, reasoningEncryptedContent } = optionsOf(part.options, "openai")
      // Encrypted reasoning stands without an id as well.
      if (typeof itemId !== "string" && typeof reasoningEncryptedContent !== "string") {
        lose("reasoning that is no item of the provider", part.text) // M1
        return []
      }
      const summary = part.text === "" ? [] : [{ type: "summary_text", text: part.text.toWellFormed() }]
      const encrypted =
        typeof reasoningEncryptedContent === "string" ? { encrypted_content: reasoningEncryptedContent } : undefined
      const id = typeof itemId === "string" ? { id: itemId } : undefined
      return [{ type: "reasoning", ...id, summary, ...encrypted }]
    }
    case "file":
      lose("a file the format cannot carry", FileData.placeholder(part))
      return []
    case "tool-call":
      if (part.providerExecuted) return []
      return [
        {
          type: "function_call",
          call_id: part.id,
          name: legal(part.name),
          arguments: ToolArguments.write(part.params)
        }
      ]
    case "tool-result":
    case "tool-approval-request":
      return []
  }
}

/** The items of one answer of the model are one message, until its results or somebody else's words come. */
const read: Codec["read"] = (messages) => {
  const into = reading()
  let answer: Array<PastPart> = []
  const flush = () => {
    into.assistant(answer)
    answer = []
  }
  messages.forEach((value, index) => {
    if (!isObject(value)) return into.lose(index, unknownPart, value)
    const part = answerPart(value, index, into)
    if (part !== undefined) {
      into.rest(index, value, known)
      return void answer.push(...part)
    }
    if (value["type"] === "function_call_output" || value["type"] === "custom_tool_call_output") {
      if (answer.length > 0) flush()
      const others = listOf(value, "output").filter((part) => isObject(part) && textOf(part, "text") === undefined)
      if (others.length > 0) into.lose(index, otherContent, others, "/output")
      return into.answer({
        wireId: textOf(value, "call_id") ?? "",
        isFailure: false,
        result: textIn(value["output"])
      })
    }
    const { role, type } = value
    if (type !== undefined && type !== "message") return into.lose(index, unknownPart, value)
    if (role === "system" || role === "developer") return into.lose(index, systemPrompt, value["content"])
    if (role !== "user") return into.lose(index, unknownPart, value)
    if (answer.length > 0) flush()
    return into.user(userParts(value["content"], index, into))
  })
  if (answer.length > 0) flush()
  return into.done()
}

const known = members("content", "summary", "encrypted_content", "call_id", "name", "arguments", "input", "phase")
const knownText = members("text", "refusal", "logprobs")

/** What an item adds to the answer of the model; `undefined` for an item that is no part of one. */
const answerPart = (value: JsonObject, index: number, into: Reading): ReadonlyArray<PastPart> | undefined => {
  const { content, role, type } = value
  if (role === "assistant" && (type === undefined || type === "message")) {
    const text = Array.isArray(content)
      ? content
          .map((part: unknown, slot) => {
            const text = isObject(part) ? (textOf(part, "text") ?? textOf(part, "refusal")) : undefined
            if (isObject(part) && (text !== undefined || part["text"] === "")) {
              into.rest(index, part, knownText, `/content/${slot}`)
            } else into.lose(index, unknownPart, part, `/content/${slot}`)
            return text ?? ""
          })
          .join("")
      : textOfAny(content)
    return text === "" ? [] : [{ type: "text", text }]
  }
  if (type === "reasoning") {
    const thoughts = listOf(value, "content")
    if (thoughts.length > 0) into.lose(index, unknownPart, thoughts, "/content")
    const text = listOf(value, "summary").map((part) => (isObject(part) ? (textOf(part, "text") ?? "") : ""))
    const ids = { itemId: textOf(value, "id"), reasoningEncryptedContent: textOf(value, "encrypted_content") }
    return [{ type: "reasoning", text: text.join("\n"), ...optionsField("openai", ids) }]
  }
  if (type !== "function_call" && type !== "custom_tool_call") return undefined
  const params = type === "function_call" ? ToolArguments.toObject(value["arguments"]) : { input: value["input"] }
  const name = textOf(value, "name") ?? ""
  return [{ type: "tool-call", wireId: textOf(value, "call_id") ?? "", name, params: json(params) }]
}

const userParts = (content: unknown, index: number, into: Reading): ReadonlyArray<UserPart> => {
  if (!Array.isArray(content)) return [{ type: "text", text: textOfAny(content) }]
  return content.flatMap((part: unknown, slot): ReadonlyArray<UserPart> => {
    const type = isObject(part) ? part["type"] : undefined
    if (isObject(part) && type === "input_text") return [{ type: "text", text: textOfAny(part["text"]) }]
    const url = isObject(part) && type === "input_image" ? textOf(part, "image_url") : undefined
    if (url !== undefined) return [FileData.filePart(url, FileData.embedded(url)?.mediaType)]
    const data = isObject(part) && type === "input_file" ? textOf(part, "file_data") : undefined
    if (isObject(part) && data !== undefined) {
      return [FileData.filePart(data, FileData.embedded(data)?.mediaType ?? "application/pdf", part["filename"])]
    }
    into.lose(index, unknownPart, part, `/content/${slot}`)
    return []
  })
}

export const OpenAiResponses: Codec = { write: eachWith(write), read }
