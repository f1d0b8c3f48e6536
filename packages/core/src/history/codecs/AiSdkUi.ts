/**
 * Messages of a session as UIMessages of the Vercel AI SDK, and back.
 *
 * Owns: the form of each message. A call and its result are one part here, and the steps of an answer one message, divided
 * by `step-start`. Does not own: order and pairing (`Verify`, `Repair`).
 */
import type * as Prompt from "effect/ai/Prompt"
import type { Json } from "../../Canonical.ts"
import type { PastPart, UserPart } from "../../Transcript.ts"
import type { Codec, Reading } from "../Codec.ts"
import { json, members, readEach, resultText, systemPrompt, textOfAny, unknownPart, wellFormedJson } from "../Codec.ts"
import { isObject, listOf, textOf, type JsonObject } from "../Json.ts"
import * as ToolArguments from "../ToolArguments.ts"
import { legal } from "../ToolName.ts"
import * as FileData from "./FileData.ts"

type Part = { [key: string]: unknown }

const write: Codec["write"] = (messages, lose) => {
  const written: Array<JsonObject> = []
  let answer: Array<Part> | undefined
  /** The calls of the answer by their id. */
  const calls = new Map<string, Part>()
  const add = (role: string, parts: ReadonlyArray<JsonObject>) =>
    written.push({ id: `msg-${written.length + 1}`, role, parts })
  messages.forEach((message, index) => {
    switch (message.role) {
      case "system":
        answer = undefined
        return void add("system", [{ type: "text", text: message.content.toWellFormed() }])
      case "user":
        answer = undefined
        return void add("user", message.content.map(userPart))
      case "assistant": {
        if (answer === undefined) {
          add("assistant", (answer = []))
          calls.clear()
        }
        answer.push({ type: "step-start" })
        for (const part of message.content) {
          const parts = assistantPart(part)
          answer.push(...parts)
          if (part.type === "tool-call" && parts[0] !== undefined) calls.set(part.id, parts[0])
        }
        return
      }
      case "tool":
        for (const part of message.content) {
          if (part.type !== "tool-result") continue
          const call = answer === undefined ? undefined : calls.get(part.id)
          if (call === undefined) lose(index)("a result without its call", part.result)
          else Object.assign(call, resultOf(part))
        }
    }
  })
  return written
}

const userPart = (part: Prompt.UserMessagePart): JsonObject =>
  part.type === "text" ? { type: "text", text: part.text.toWellFormed(), ...metadata(part) } : file(part)

const file = (part: Prompt.FilePart): JsonObject => ({
  type: "file",
  mediaType: part.mediaType,
  url: FileData.urlOf(part),
  ...(part.fileName === undefined ? undefined : { filename: part.fileName })
})

const assistantPart = (part: Prompt.AssistantMessagePart): ReadonlyArray<Part> => {
  switch (part.type) {
    case "text":
      return part.text === ""
        ? []
        : [{ type: "text", text: part.text.toWellFormed(), state: "done", ...metadata(part) }]
    case "reasoning":
      return [{ type: "reasoning", text: part.text, state: "done", ...metadata(part) }]
    case "file":
      return [file(part)]
    case "tool-call": {
      if (part.providerExecuted) return []
      const { providerMetadata } = metadata(part)
      return [
        {
          type: `tool-${legal(part.name)}`,
          toolCallId: part.id,
          state: "input-available",
          input: wellFormedJson(ToolArguments.toObject(part.params)),
          ...(providerMetadata === undefined ? undefined : { callProviderMetadata: providerMetadata })
        }
      ]
    }
    case "tool-result":
    case "tool-approval-request":
      return []
  }
}

const resultOf = (part: Prompt.ToolResultPart): JsonObject => {
  if (part.isFailure) return { state: "output-error", errorText: resultText(part) }
  const isText = part.modelOutput !== undefined || typeof part.result === "string"
  return { state: "output-available", output: isText ? resultText(part) : wellFormedJson(part.result) }
}

const metadata = (part: { readonly options: Prompt.ProviderOptions }): { readonly providerMetadata?: unknown } => {
  const entries = Object.entries(part.options).filter(([, value]) => isObject(value))
  return entries.length === 0 ? {} : { providerMetadata: wellFormedJson(Object.fromEntries(entries)) }
}

const read = readEach((message, index, into) => {
  const { role } = message
  if (role === "user" || role === "assistant") into.rest(index, message, known)
  switch (role) {
    case "user":
      return into.user(listOf(message, "parts").flatMap((part, slot) => readUser(part, index, slot, into)))
    case "assistant":
      return readAnswer(listOf(message, "parts"), index, into)
    case "system":
      return into.lose(index, systemPrompt, message["parts"])
    default:
      return into.lose(index, unknownPart, message)
  }
})

const known = members("parts", "createdAt")

const readUser = (part: unknown, index: number, slot: number, into: Reading): ReadonlyArray<UserPart> => {
  if (isObject(part) && part["type"] === "text") {
    return [{ type: "text", text: textOfAny(part["text"]), ...storedOptions(part["providerMetadata"]) }]
  }
  const url = isObject(part) && part["type"] === "file" ? textOf(part, "url") : undefined
  if (isObject(part) && url !== undefined) {
    return [FileData.filePart(url, textOf(part, "mediaType"), part["filename"])]
  }
  into.lose(index, unknownPart, part, `/parts/${slot}`)
  return []
}

/** Each step is a message of the model, and a message with the results of its calls. */
const readAnswer = (parts: ReadonlyArray<unknown>, index: number, into: Reading): void => {
  let step: Array<PastPart> = []
  let results: Array<JsonObject> = []
  const close = () => {
    into.assistant(step)
    for (const part of results) {
      into.answer({ wireId: textOf(part, "toolCallId") ?? "", name: nameOf(part), ...readResult(part) })
    }
    step = []
    results = []
  }
  parts.forEach((part, slot) => {
    if (!isObject(part)) return into.lose(index, unknownPart, part, `/parts/${slot}`)
    const { type } = part
    if (type === "step-start") return close()
    if (type === "text" || type === "reasoning") {
      if (type === "text" && part["text"] === "") return
      return void step.push({ type, text: textOfAny(part["text"]), ...storedOptions(part["providerMetadata"]) })
    }
    if (nameOf(part) === undefined || part["providerExecuted"] === true) {
      return into.lose(index, unknownPart, part, `/parts/${slot}`)
    }
    const input = part["input"] ?? part["rawInput"]
    step.push({
      type: "tool-call",
      wireId: textOf(part, "toolCallId") ?? "",
      name: nameOf(part) ?? "",
      params: json(ToolArguments.toObject(input)),
      ...storedOptions(part["callProviderMetadata"])
    })
    results.push(part)
  })
  close()
}

/** The tool of a part; `undefined` for a part of another kind. */
const nameOf = (part: JsonObject): string | undefined => {
  const type = textOf(part, "type") ?? ""
  if (type === "dynamic-tool") return textOf(part, "toolName") ?? "unknown"
  return type.startsWith("tool-") ? type.slice("tool-".length) : undefined
}

const readResult = (part: JsonObject): { readonly isFailure: boolean; readonly result: Json } => {
  if (part["state"] === "output-available") return { isFailure: false, result: json(part["output"] ?? null) }
  const approval = part["approval"]
  const reason = isObject(approval) ? textOf(approval, "reason") : undefined
  return { isFailure: true, result: textOf(part, "errorText") ?? `Denied. ${reason ?? ""}`.trim() }
}

const storedOptions = (metadata: unknown) =>
  isObject(metadata) ? { options: json(metadata) as { readonly [provider: string]: Json } } : {}

export const AiSdkUi: Codec = { write, read }
