/**
 * Messages of a session as Anthropic Messages, and back.
 *
 * Owns: the form of each message. Does not own: order and pairing (`Verify`, `Repair`).
 *
 * - M1. Thinking is written only with the signature that came with it; without one the provider refuses it.
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
  readEach,
  resultAsText,
  systemPrompt,
  textOfAny,
  unknownPart,
  wellFormedJson
} from "../Codec.ts"
import { textIn, textPart } from "../formats/Content.ts"
import { isObject, listOf, textOf, type JsonObject } from "../Json.ts"
import * as ToolArguments from "../ToolArguments.ts"
import { legal } from "../ToolName.ts"
import * as FileData from "./FileData.ts"

const write = (message: Prompt.Message, lose: Lose): ReadonlyArray<JsonObject> => {
  switch (message.role) {
    case "system":
      lose("a system message, which the format has beside the messages", message.content)
      return []
    case "user":
      return some(
        "user",
        message.content.flatMap((part) => userBlock(part, lose))
      )
    case "assistant":
      return some(
        "assistant",
        message.content.flatMap((part) => assistantBlock(part, lose))
      )
    case "tool":
      return some(
        "user",
        message.content.flatMap((part) => (part.type === "tool-result" ? [result(part, lose)] : []))
      )
  }
}

const some = (role: string, content: ReadonlyArray<JsonObject>): ReadonlyArray<JsonObject> =>
  content.length === 0 ? [] : [{ role, content }]

/** Blank text blocks are refused. */
const text = (value: string): ReadonlyArray<JsonObject> => (value.trim() === "" ? [] : [textPart(value.toWellFormed())])

const userBlock = (part: Prompt.UserMessagePart, lose: Lose): ReadonlyArray<JsonObject> => {
  if (part.type === "text") return text(part.text)
  const url = FileData.urlOf(part)
  const embedded = FileData.embedded(url)
  const type = part.mediaType.startsWith("image/")
    ? "image"
    : part.mediaType === "application/pdf"
      ? "document"
      : undefined
  if (type === undefined) {
    lose("a file the format cannot carry", FileData.placeholder(part))
    return text(FileData.placeholder(part))
  }
  const source =
    embedded === undefined
      ? { type: "url", url }
      : { type: "base64", media_type: embedded.mediaType, data: embedded.base64 }
  return [{ type, source }]
}

const assistantBlock = (part: Prompt.AssistantMessagePart, lose: Lose): ReadonlyArray<JsonObject> => {
  switch (part.type) {
    case "text":
      return text(part.text)
    case "reasoning": {
      const { redactedData, signature } = optionsOf(part.options, "anthropic")
      if (typeof redactedData === "string") return [{ type: "redacted_thinking", data: redactedData }]
      if (typeof signature === "string") return [{ type: "thinking", thinking: part.text, signature }]
      lose("reasoning without a signature", part.text) // M1
      return []
    }
    case "file":
      lose("a file the format cannot carry", FileData.placeholder(part))
      return text(FileData.placeholder(part))
    case "tool-call":
      if (part.providerExecuted) return []
      return [
        {
          type: "tool_use",
          id: part.id,
          name: legal(part.name),
          input: wellFormedJson(ToolArguments.toObject(part.params))
        }
      ]
    case "tool-result":
    case "tool-approval-request":
      return []
  }
}

const result = (part: Prompt.ToolResultPart, lose: Lose): JsonObject => ({
  type: "tool_result",
  tool_use_id: part.id,
  content: resultAsText(part, lose, true),
  ...(part.isFailure ? { is_error: true } : undefined)
})

const read = readEach((message, index, into) => {
  const { content, role } = message
  if (role === "assistant") return into.assistant(assistantParts(content, index, into))
  if (role === "user") return readUser(content, index, into)
  return into.lose(index, role === "system" ? systemPrompt : unknownPart, message)
})

/** Results stand in front of what the user says. */
const readUser = (content: unknown, index: number, into: Reading): void => {
  if (!Array.isArray(content)) return into.user([{ type: "text", text: textOfAny(content) }])
  for (const block of content as ReadonlyArray<unknown>) {
    if (!isObject(block) || block["type"] !== "tool_result") continue
    into.answer({
      wireId: textOf(block, "tool_use_id") ?? "",
      isFailure: block["is_error"] === true,
      result: textIn(block["content"])
    })
  }
  into.user(
    content.flatMap((block: unknown, slot): ReadonlyArray<UserPart> => {
      if (isObject(block) && block["type"] === "tool_result") {
        const inner = listOf(block, "content").filter((part) => isObject(part) && part["type"] !== "text")
        if (inner.length > 0) into.lose(index, otherContent, inner, `/content/${slot}/content`)
        return []
      }
      const part = isObject(block) ? userPart(block) : undefined
      if (isObject(block) && part !== undefined) {
        into.rest(index, block, known, `/content/${slot}`)
        return [part]
      }
      into.lose(index, unknownPart, block, `/content/${slot}`)
      return []
    })
  )
}

const known = members("text", "source", "title", "thinking", "signature", "data", "name", "input")

const userPart = (block: JsonObject): UserPart | undefined => {
  if (block["type"] === "text") return { type: "text", text: textOfAny(block["text"]) }
  const source = block["source"]
  if ((block["type"] !== "image" && block["type"] !== "document") || !isObject(source)) return undefined
  const fallback = block["type"] === "image" ? "image/*" : "application/pdf"
  const data = textOf(source, "data") ?? textOf(source, "url")
  if (data === undefined || source["type"] === "text") return undefined
  return FileData.filePart(data, textOf(source, "media_type") ?? fallback, block["title"])
}

const assistantParts = (content: unknown, index: number, into: Reading): ReadonlyArray<PastPart> => {
  if (!Array.isArray(content)) return content === "" ? [] : [{ type: "text", text: textOfAny(content) }]
  return content.flatMap((block: unknown, slot): ReadonlyArray<PastPart> => {
    const part = isObject(block) ? assistantPart(block) : undefined
    if (isObject(block) && part !== undefined) {
      into.rest(index, block, known, `/content/${slot}`)
      return [part]
    }
    into.lose(index, unknownPart, block, `/content/${slot}`)
    return []
  })
}

const assistantPart = (block: JsonObject): PastPart | undefined => {
  switch (block["type"]) {
    case "text":
      return { type: "text", text: textOfAny(block["text"]) }
    case "thinking":
      return {
        type: "reasoning",
        text: textOfAny(block["thinking"]),
        ...optionsField("anthropic", { signature: textOf(block, "signature") })
      }
    case "redacted_thinking":
      return { type: "reasoning", text: "", ...optionsField("anthropic", { redactedData: textOf(block, "data") }) }
    case "tool_use": {
      const params = json(ToolArguments.toObject(block["input"]))
      return { type: "tool-call", wireId: textOf(block, "id") ?? "", name: textOf(block, "name") ?? "", params }
    }
    default:
      return undefined
  }
}

export const Anthropic: Codec = { write: eachWith(write), read }
