/**
 * Messages of a session as ModelMessages of the Vercel AI SDK, and back.
 *
 * The bridge to AI SDK providers, the request gate and the export write with this one encoder.
 *
 * Owns: the form of each message. Does not own: order and pairing (`Verify`, `Repair`), or what a provider package makes of it.
 *
 * - M1. Options of a part come back as `providerOptions`: signatures of thinking and of calls return to their provider.
 * - M2. No lone surrogates, no empty text parts, call inputs are objects. Reasoning is not mended: a signature covers it.
 */
import type * as Prompt from "effect/ai/Prompt"
import * as Base64 from "effect/encoding/Base64"
import type { Json } from "../../Canonical.ts"
import type { PastPart, UserPart } from "../../Transcript.ts"
import type { Codec, Reading } from "../Codec.ts"
import { eachWith, json, members, readEach, systemPrompt, textOfAny, unknownPart, wellFormedJson } from "../Codec.ts"
import { isObject, listOf, step, textOf, type JsonObject } from "../Json.ts"
import * as ToolArguments from "../ToolArguments.ts"
import { legal } from "../ToolName.ts"
import * as FileData from "./FileData.ts"

/** The data of a file: the package's messages and its providers take it in different forms. */
export type FileForm = (data: Prompt.FilePart["data"]) => unknown

/** A message as the SDK has it; none for one with nothing to send. */
export const write = (message: Prompt.Message, fileForm: FileForm): ReadonlyArray<JsonObject> => {
  const file = (part: Prompt.FilePart): JsonObject => ({
    type: "file",
    mediaType: part.mediaType,
    data: fileForm(part.data),
    ...(part.fileName === undefined ? undefined : { filename: part.fileName }),
    ...options(part)
  })
  const some = (role: string, content: ReadonlyArray<JsonObject>) =>
    content.length === 0 ? [] : [{ role, content, ...options(message) }]
  switch (message.role) {
    case "system":
      return [{ role: "system", content: message.content.toWellFormed(), ...options(message) }]
    case "user": {
      const content = message.content.map((part) =>
        part.type === "text" ? { type: "text", text: part.text.toWellFormed(), ...options(part) } : file(part)
      )
      return [{ role: "user", content, ...options(message) }]
    }
    case "assistant":
      return some(
        "assistant",
        message.content.flatMap((part) => assistantPart(part, file))
      )
    case "tool":
      return some(
        "tool",
        message.content.flatMap((part) => (part.type === "tool-result" ? [result(part, file)] : []))
      )
  }
}

type WriteFile = (part: Prompt.FilePart) => JsonObject

const assistantPart = (part: Prompt.AssistantMessagePart, file: WriteFile): ReadonlyArray<JsonObject> => {
  switch (part.type) {
    case "text":
      return part.text === "" ? [] : [{ type: "text", text: part.text.toWellFormed(), ...options(part) }]
    case "reasoning": // M2
      return [{ type: "reasoning", text: part.text, ...options(part) }]
    case "file":
      return [file(part)]
    case "tool-call":
      return [
        {
          type: "tool-call",
          toolCallId: part.id,
          toolName: legal(part.name),
          input: wellFormedJson(ToolArguments.toObject(part.params)),
          ...(part.providerExecuted ? { providerExecuted: true } : undefined),
          ...options(part)
        }
      ]
    case "tool-result":
      return [result(part, file)]
    case "tool-approval-request":
      return [] // approvals are the runtime's own
  }
}

const result = (part: Prompt.ToolResultPart, file: WriteFile): JsonObject => ({
  type: "tool-result",
  toolCallId: part.id,
  toolName: legal(part.name),
  output: output(part, file),
  ...options(part)
})

const output = (part: Prompt.ToolResultPart, file: WriteFile): JsonObject => {
  if (part.modelOutput !== undefined) {
    return {
      type: "content",
      value: part.modelOutput.map((item) =>
        item.type === "text" ? { type: "text", text: item.text.toWellFormed() } : file(item)
      )
    }
  }
  if (typeof part.result === "string") {
    return { type: part.isFailure ? "error-text" : "text", value: part.result.toWellFormed() }
  }
  return { type: part.isFailure ? "error-json" : "json", value: wellFormedJson(part.result) }
}

/** Options under a provider's name that are objects; the AI SDK knows no others (M1). */
const options = (from: { readonly options: Prompt.ProviderOptions }): JsonObject => {
  const entries = Object.entries(from.options).filter(([, value]) => typeof value === "object" && value !== null)
  return entries.length === 0 ? {} : { providerOptions: wellFormedJson(Object.fromEntries(entries)) }
}

const read = readEach((message, index, into) => {
  const { content, role } = message
  if (role === "user" || role === "assistant" || role === "tool") into.rest(index, message, known)
  switch (role) {
    case "user":
      return into.user(userParts(content, index, into))
    case "assistant":
      return into.assistant(assistantParts(content, index, into))
    case "tool":
      return listOf(message, "content").forEach((part, slot) => readResult(part, index, slot, into))
    case "system":
      return into.lose(index, systemPrompt, content)
    default:
      return into.lose(index, unknownPart, message)
  }
})

const known = members("content")

const userParts = (content: unknown, index: number, into: Reading): ReadonlyArray<UserPart> => {
  if (!Array.isArray(content)) return [{ type: "text", text: textOfAny(content) }]
  return content.flatMap((part: unknown, slot): ReadonlyArray<UserPart> => {
    if (isObject(part) && part["type"] === "text") {
      return [{ type: "text", text: textOfAny(part["text"]), ...storedOptions(part) }]
    }
    const isFile = isObject(part) && (part["type"] === "file" || part["type"] === "image")
    const data = isFile ? dataIn(part["data"] ?? part["image"]) : undefined
    if (isFile && data !== undefined) {
      return [FileData.filePart(data, textOf(part, "mediaType") ?? textOf(part, "mimeType"), part["filename"])]
    }
    into.lose(index, unknownPart, part, `/content/${slot}`)
    return []
  })
}

/** The data of a file as text, a URL or base64: in the form of the package's messages, or of its providers. */
const dataIn = (data: unknown): string | undefined =>
  asText(data) ?? (isObject(data) ? asText(data["data"] ?? data["url"]) : undefined)

const asText = (data: unknown): string | undefined => {
  if (data instanceof URL) return data.href
  if (data instanceof Uint8Array) return Base64.encode(data)
  return typeof data === "string" ? data : undefined
}

const assistantParts = (content: unknown, index: number, into: Reading): ReadonlyArray<PastPart> => {
  if (!Array.isArray(content)) return content === "" ? [] : [{ type: "text", text: textOfAny(content) }]
  return content.flatMap((part: unknown, slot): ReadonlyArray<PastPart> => {
    const type = isObject(part) ? part["type"] : undefined
    if (isObject(part) && (type === "text" || type === "reasoning")) {
      return [{ type, text: textOfAny(part["text"]), ...storedOptions(part) }]
    }
    if (isObject(part) && type === "tool-call" && part["providerExecuted"] !== true) {
      const params = json(ToolArguments.toObject(part["input"]))
      const name = textOf(part, "toolName") ?? ""
      return [{ type, wireId: textOf(part, "toolCallId") ?? "", name, params, ...storedOptions(part) }]
    }
    into.lose(index, unknownPart, part, `/content/${slot}`)
    return []
  })
}

const readResult = (part: unknown, index: number, slot: number, into: Reading): void => {
  if (!isObject(part) || part["type"] !== "tool-result") {
    return into.lose(index, unknownPart, part, `${step("content")}${step(slot)}`)
  }
  const output = isObject(part["output"]) ? part["output"] : {}
  const type = textOf(output, "type") ?? ""
  into.answer({
    wireId: textOf(part, "toolCallId") ?? "",
    name: textOf(part, "toolName"),
    isFailure: type.startsWith("error") || type === "execution-denied",
    result: type === "execution-denied" ? `Denied. ${textOf(output, "reason") ?? ""}`.trim() : json(output["value"])
  })
}

const storedOptions = (part: JsonObject) =>
  isObject(part["providerOptions"])
    ? { options: json(part["providerOptions"]) as { readonly [provider: string]: Json } }
    : {}

export const AiSdkModel: Codec = {
  write: eachWith((message) => write(message, jsonData)),
  read
}

/** Data that JSON can hold: a URL, or base64. */
export const jsonData: FileForm = (data) => {
  const url = FileData.urlOf({ data, mediaType: "application/octet-stream" } as Prompt.FilePart)
  return FileData.embedded(url)?.base64 ?? url
}
