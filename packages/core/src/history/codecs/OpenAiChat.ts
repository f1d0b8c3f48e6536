/**
 * Messages of a session on the OpenAI Chat wire, and back.
 *
 * The model client, the request gate and the export write with this one encoder, so they cannot differ.
 *
 * Owns: the form of each message. Does not own: order and pairing (`Verify`, `Repair`), or the rest of a request.
 *
 * - M1. Whatever is in a message, function names are legal and call arguments are a JSON object.
 * - M2. A message with nothing the wire can carry is left out.
 */
import type * as Prompt from "effect/ai/Prompt"
import type { PastPart, UserPart } from "../../Transcript.ts"
import type { Codec, Lose, Reading } from "../Codec.ts"
import { eachWith, json, members, readEach, resultAsText, systemPrompt, textOfAny, unknownPart } from "../Codec.ts"
import { textIn } from "../formats/Content.ts"
import { isObject, listOf, step, textOf, type JsonObject } from "../Json.ts"
import * as ToolArguments from "../ToolArguments.ts"
import { legal } from "../ToolName.ts"
import * as ChatFile from "./ChatFile.ts"
import * as ChatOpaque from "./ChatOpaque.ts"
import * as FileData from "./FileData.ts"

/**
 * A message as it is sent: the results of a batch are several messages, a message without content is none (M2). Without a
 * recipient nothing goes back of what a server issued beside text and calls.
 */
export const write = (
  message: Prompt.Message,
  lose: Lose,
  recipient: ChatOpaque.Recipient | undefined
): ReadonlyArray<JsonObject> => {
  switch (message.role) {
    case "system":
      return [{ role: "system", content: message.content.toWellFormed() }]
    case "user":
      return [{ role: "user", content: userContent(message.content, lose) }]
    case "assistant":
      return assistant(message.content, lose, recipient)
    case "tool":
      return message.content.flatMap((part) =>
        part.type === "tool-result"
          ? [{ role: "tool", tool_call_id: part.id.toWellFormed(), content: resultAsText(part, lose, false) }]
          : []
      )
  }
}

// Many compatible servers know text content only as a string, so an array is used for files alone.
const userContent = (parts: ReadonlyArray<Prompt.UserMessagePart>, lose: Lose): unknown =>
  parts.every((part) => part.type === "text")
    ? parts
        .map((part) => part.text)
        .join("\n")
        .toWellFormed()
    : parts.map((part) => {
        if (part.type === "text") return { type: "text", text: part.text.toWellFormed() }
        const encoded = ChatFile.encode(part)
        if (encoded !== undefined) return encoded
        lose("a file the format cannot carry", FileData.placeholder(part))
        return { type: "text", text: FileData.placeholder(part).toWellFormed() }
      })

const assistant = (
  parts: ReadonlyArray<Prompt.AssistantMessagePart>,
  lose: Lose,
  recipient: ChatOpaque.Recipient | undefined
): ReadonlyArray<JsonObject> => {
  let text = ""
  let thought = ""
  const calls: Array<JsonObject> = []
  for (const part of parts) {
    if (part.type === "text") text += part.text
    else if (part.type === "file") text += FileData.placeholder(part)
    else if (part.type === "reasoning") thought += part.text
    else if (part.type === "tool-call" && !part.providerExecuted) {
      const call = { name: legal(part.name), arguments: ToolArguments.write(part.params) }
      const opaque = recipient === undefined ? undefined : ChatOpaque.returnedWithCall(part, recipient)
      calls.push({ id: part.id.toWellFormed(), type: "function", function: call, ...opaque })
    }
  }
  const opaque = recipient === undefined ? {} : ChatOpaque.returned(parts, recipient)
  if (thought !== "" && !ChatOpaque.reasoningFields.some((field) => field in opaque)) lose("reasoning", thought)
  if (text === "" && calls.length === 0) return [] // M2
  return [
    {
      role: "assistant",
      content: text === "" ? null : text.toWellFormed(),
      ...(calls.length > 0 ? { tool_calls: calls } : undefined),
      ...opaque
    }
  ]
}

const read = readEach((message, index, into) => {
  const { content, role } = message
  switch (role) {
    case "user":
      into.rest(index, message, known.user)
      return into.user(userParts(content, index, into))
    case "assistant":
      into.rest(index, message, known.assistant)
      return into.assistant(assistantParts(message, index, into))
    case "tool":
      return into.answer({
        wireId: textOf(message, "tool_call_id") ?? "",
        isFailure: false,
        result: textIn(content)
      })
    case "system":
    case "developer":
      return into.lose(index, systemPrompt, content)
    default:
      return into.lose(index, unknownPart, message)
  }
})

const known = {
  user: members("content"),
  assistant: members(
    "content",
    "refusal",
    "tool_calls",
    "function_call",
    ...ChatOpaque.reasoningFields,
    ...ChatOpaque.messageMembers
  )
}

const userParts = (content: unknown, index: number, into: Reading): ReadonlyArray<UserPart> => {
  if (!Array.isArray(content)) return [{ type: "text", text: textOfAny(content) }]
  return content.flatMap((part: unknown, slot): ReadonlyArray<UserPart> => {
    const type = isObject(part) ? part["type"] : undefined
    if (isObject(part) && type === "text") return [{ type: "text", text: textOfAny(part["text"]) }]
    const image = isObject(part) && type === "image_url" ? part["image_url"] : undefined
    const url = isObject(image) ? textOf(image, "url") : image
    if (typeof url === "string") return [FileData.filePart(url, FileData.embedded(url)?.mediaType)]
    const audio = isObject(part) && type === "input_audio" ? part["input_audio"] : undefined
    const recording = isObject(audio) ? textOf(audio, "data") : undefined
    if (isObject(audio) && recording !== undefined) {
      return [FileData.filePart(recording, audio["format"] === "mp3" ? "audio/mpeg" : "audio/wav")]
    }
    const file = isObject(part) && type === "file" ? part["file"] : undefined
    const data = isObject(file) ? textOf(file, "file_data") : undefined
    if (isObject(file) && data !== undefined) {
      return [FileData.filePart(data, FileData.embedded(data)?.mediaType ?? "application/pdf", file["filename"])]
    }
    into.lose(index, unknownPart, part, `/content/${slot}`)
    return []
  })
}

const assistantParts = (message: JsonObject, index: number, into: Reading): ReadonlyArray<PastPart> => {
  const field = ChatOpaque.reasoningFields.find((name) => typeof message[name] === "string")
  const issued = ChatOpaque.options({ field, members: ChatOpaque.membersOf(message, ChatOpaque.messageMembers) })
  const said = [spoken(message["content"], index, into), textOf(message, "refusal") ?? ""]
    .filter((text) => text !== "")
    .join("\n")
  if (message["function_call"] !== undefined) into.lose(index, unknownPart, message["function_call"], "/function_call")
  return [
    ...(issued === undefined ? [] : [thought(field === undefined ? "" : textOfAny(message[field]), issued)]),
    ...(said === "" ? [] : [{ type: "text", text: said } as const]),
    ...listOf(message, "tool_calls").flatMap((call, slot): ReadonlyArray<PastPart> => {
      const custom = isObject(call) ? call["custom"] : undefined
      const body = isObject(call) ? (call["function"] ?? custom) : undefined
      if (!isObject(call) || !isObject(body)) {
        into.lose(index, unknownPart, call, `${step("tool_calls")}${step(slot)}`)
        return []
      }
      const params = isObject(custom) ? { input: custom["input"] } : ToolArguments.toObject(body["arguments"])
      const name = textOf(body, "name") ?? ""
      const opaque = ChatOpaque.options({ members: ChatOpaque.membersOf(call, ChatOpaque.callMembers) })
      const options = opaque === undefined ? undefined : { options: opaque }
      return [{ type: "tool-call", wireId: textOf(call, "id") ?? "", name, params: json(params), ...options }]
    })
  ]
}

const thought = (text: string, options: NonNullable<PastPart["options"]>): PastPart => ({
  type: "reasoning",
  text,
  options
})

/** The words of an answer; a refusal is one as well. */
const spoken = (content: unknown, index: number, into: Reading): string => {
  if (!Array.isArray(content)) return textOfAny(content)
  return content
    .flatMap((part: unknown, slot): ReadonlyArray<string> => {
      const text = isObject(part) ? (textOf(part, "text") ?? textOf(part, "refusal")) : undefined
      if (text !== undefined) return [text]
      if (!isObject(part) || part["text"] !== "") into.lose(index, unknownPart, part, `/content/${slot}`)
      return []
    })
    .join("\n")
}

/** An export keeps what any server has issued. */
const archive: ChatOpaque.Recipient = { policy: "as-issued", issuer: undefined }

export const OpenAiChat: Codec = {
  write: eachWith((message, lose) => write(message, lose, archive)),
  read
}
