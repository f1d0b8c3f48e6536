/**
 * Messages of a session as contents of Gemini's generateContent, and back.
 *
 * Owns: the form of each message. Does not own: order and pairing (`Verify`, `Repair`).
 *
 * - M1. Ids are written, though the provider does not ask for them; where a history has none, they are counted.
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
  reading,
  resultText,
  textOfAny,
  unknownPart,
  wellFormedJson
} from "../Codec.ts"
import * as FirstCome from "../FirstCome.ts"
import { isObject, listOf, textOf, type JsonObject } from "../Json.ts"
import { minter } from "../NewId.ts"
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
        message.content.map((part) => (part.type === "text" ? { text: part.text.toWellFormed() } : file(part)))
      )
    case "assistant":
      return some("model", message.content.flatMap(modelPart))
    case "tool":
      return some(
        "user",
        message.content.flatMap((part) => (part.type === "tool-result" ? [response(part)] : []))
      )
  }
}

const some = (role: string, parts: ReadonlyArray<JsonObject>): ReadonlyArray<JsonObject> =>
  parts.length === 0 ? [] : [{ role, parts }]

const file = (part: Prompt.FilePart): JsonObject => {
  const url = FileData.urlOf(part)
  const embedded = FileData.embedded(url)
  return embedded === undefined
    ? { fileData: { mimeType: part.mediaType, fileUri: url } }
    : { inlineData: { mimeType: embedded.mediaType, data: embedded.base64 } }
}

const modelPart = (part: Prompt.AssistantMessagePart): ReadonlyArray<JsonObject> => {
  const signature = textOf(optionsOf("options" in part ? part.options : {}, "google"), "thoughtSignature")
  const signed = signature === undefined ? undefined : { thoughtSignature: signature }
  switch (part.type) {
    case "text":
      // The last part of an answer may be a signature alone, under an empty text.
      return part.text === "" && signed === undefined ? [] : [{ text: part.text.toWellFormed(), ...signed }]
    case "reasoning":
      return part.text === "" && signed === undefined
        ? []
        : [{ text: part.text.toWellFormed(), thought: true, ...signed }]
    case "file":
      return [file(part)]
    case "tool-call": {
      if (part.providerExecuted) return []
      const args = wellFormedJson(ToolArguments.toObject(part.params))
      return [{ functionCall: { id: part.id, name: legal(part.name), args }, ...signed }]
    }
    case "tool-result":
    case "tool-approval-request":
      return []
  }
}

/** The response is an object; a result that is none has the key Google's own client gives it. */
const response = (part: Prompt.ToolResultPart): JsonObject => {
  const value =
    part.modelOutput !== undefined || typeof part.result === "string" ? resultText(part) : wellFormedJson(part.result)
  return {
    functionResponse: {
      id: part.id,
      name: legal(part.name),
      response: part.isFailure ? { error: value } : { output: value }
    }
  }
}

const read: Codec["read"] = (messages) => {
  const into = reading()
  const mint = minter(
    new Set(messages.flatMap((message) => partsOf(message).flatMap((part) => [idOf(part, "functionCall") ?? ""])))
  )
  /** The ids of calls of the last message of the model that have no result yet (M1). */
  let open = FirstCome.make<string>()
  messages.forEach((message, index) => {
    const parts = partsOf(message)
    if (isObject(message) && message["role"] === "model") {
      open = FirstCome.make()
      into.assistant(
        parts.flatMap((part, slot): ReadonlyArray<PastPart> => {
          const call = isObject(part) ? part["functionCall"] : undefined
          if (isObject(part) && isObject(call)) {
            const given = textOf(call, "id")
            const wireId = given ?? mint()
            const name = textOf(call, "name") ?? ""
            open.add(wireId, [`named ${name}`, given === undefined ? `without id ${name}` : `id ${given}`])
            const params = json(ToolArguments.toObject(call["args"]))
            return [{ type: "tool-call", wireId, name, params, ...signature(part) }]
          }
          if (isObject(part) && typeof part["text"] === "string") {
            const type = part["thought"] === true ? "reasoning" : "text"
            return [{ type, text: part["text"], ...signature(part) }]
          }
          into.lose(index, unknownPart, part, `/parts/${slot}`)
          return []
        })
      )
      return
    }
    for (const [slot, part] of parts.entries()) {
      const result = isObject(part) ? part["functionResponse"] : undefined
      if (!isObject(result)) continue
      into.rest(index, result, knownResult, `/parts/${slot}/functionResponse`)
      const id = textOf(result, "id")
      const name = textOf(result, "name") ?? ""
      const call = open.take(id === undefined ? [`named ${name}`] : [`id ${id}`, `without id ${name}`])
      into.answer({ wireId: call ?? id ?? "", name, ...answerOf(result["response"]) })
    }
    into.user(parts.flatMap((part, slot) => userPart(part, index, slot, into)))
  })
  return into.done()
}

const knownResult = members("name", "response")

const partsOf = (message: unknown): ReadonlyArray<unknown> => (isObject(message) ? listOf(message, "parts") : [])

const idOf = (part: unknown, key: string): string | undefined => {
  const body = isObject(part) ? part[key] : undefined
  return isObject(body) ? textOf(body, "id") : undefined
}

const signature = (part: JsonObject) => optionsField("google", { thoughtSignature: textOf(part, "thoughtSignature") })

const answerOf = (response: unknown) => {
  if (!isObject(response)) return { isFailure: false, result: json(response ?? "") }
  const keys = Object.keys(response)
  if (keys.length === 1 && keys[0] === "error") return { isFailure: true, result: json(response["error"]) }
  if (keys.length === 1 && keys[0] === "output") return { isFailure: false, result: json(response["output"]) }
  return { isFailure: false, result: json(response) }
}

const userPart = (part: unknown, index: number, slot: number, into: Reading): ReadonlyArray<UserPart> => {
  if (isObject(part) && isObject(part["functionResponse"])) return []
  if (isObject(part) && typeof part["text"] === "string") return [{ type: "text", text: textOfAny(part["text"]) }]
  const data = isObject(part) ? (part["inlineData"] ?? part["fileData"]) : undefined
  const content = isObject(data) ? (textOf(data, "data") ?? textOf(data, "fileUri")) : undefined
  if (isObject(data) && content !== undefined) return [FileData.filePart(content, textOf(data, "mimeType"))]
  into.lose(index, unknownPart, part, `/parts/${slot}`)
  return []
}

export const Gemini: Codec = { write: eachWith(write), read }
