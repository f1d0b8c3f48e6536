/**
 * OpenAI Responses input items (rules R1-R10).
 *
 * Owns: their form. Item types not named here belong to the answer around them and are left as they are.
 */
import { inspectText } from "../Arguments.ts"
import { error, found, misplaced, removal, rewriting } from "../Blemish.ts"
import type { Blemish, Call, CallForm, Entry, Fault, Format, History } from "../Format.ts"
import { assistant, callAt, resultAt, silent, system, user } from "../Format.ts"
import { equal, isObject, omit, show, textOf, type JsonObject } from "../Json.ts"
import { ending } from "../Order.ts"
import * as Shape from "../Shape.ts"
import * as Synthetic from "../Synthetic.ts"
import { inspectName } from "../ToolName.ts"
import { blankless, textIn } from "./Content.ts"

/** R3: which results answer which calls; the first is the one that is written. Empty: no result can be made up honestly. */
const outputsOf: { readonly [call: string]: ReadonlyArray<string> } = {
  function_call: ["function_call_output"],
  custom_tool_call: ["custom_tool_call_output"],
  // The result Codex sends for this call is a function_call_output.
  local_shell_call: ["function_call_output", "local_shell_call_output"],
  shell_call: ["shell_call_output"],
  apply_patch_call: ["apply_patch_call_output"],
  computer_call: ["computer_call_output"],
  tool_search_call: ["tool_search_output"]
}

const textOutputs = new Set(["function_call_output", "custom_tool_call_output", "local_shell_call_output"])
const outputs = new Set(Object.values(outputsOf).flat())

/** R6: how ids of these items begin. */
const prefixes = new Map([
  ["function_call", "fc"],
  ["reasoning", "rs"],
  ["message", "msg"]
])

/** R7, in characters. */
const maxOutput = 10_485_760

const typeOf = (item: JsonObject): string => {
  const { role, type } = item
  if (typeof type === "string") return type
  return typeof role === "string" ? "message" : ""
}

const entry = (item: unknown, index: number): Entry => {
  if (!isObject(item)) return silent
  const type = typeOf(item)
  if (type === "message") {
    return item["role"] === "assistant" ? assistant : item["role"] === "user" ? user : system
  }
  const isHosted = type.startsWith("tool_search_") && item["execution"] !== "client"
  if (isHosted) return silent
  if (outputs.has(type)) {
    return { role: "tool", speaks: false, calls: silent.calls, results: [resultAt(index, -1, idOf(item), type)] }
  }
  if (!Object.hasOwn(outputsOf, type)) return silent
  return { ...assistant, calls: [callOf(item, type, index)] }
}

const callOf = (item: JsonObject, type: string, message: number): Call => {
  const args = item["arguments"] ?? item["input"] ?? item["action"] ?? item["operation"]
  return callAt(message, -1, idOf(item), textOf(item, "name") ?? type, args, type)
}

// OpenAI's own type of a local shell result names its call in `id`.
const idKey = (item: JsonObject): string =>
  item["type"] === "local_shell_call_output" && item["call_id"] === undefined ? "id" : "call_id"
const idOf = (item: JsonObject): string | undefined => blankless(item[idKey(item)])

const calls: CallForm = {
  callList: undefined,
  resultList: undefined,
  idPath: (item) => `/${idKey(item)}`,
  withId: (item, _, id) => ({ ...item, [idKey(item)]: id }),
  isRun: true,
  isByName: false,
  answer: (call) => {
    const type = outputsOf[call.family]?.[0] ?? ""
    return textOutputs.has(type) ? [{ type, call_id: call.id, output: Synthetic.outcomeUnknown }] : undefined
  },
  answers: (result, call) => outputsOf[call.family]?.includes(result.family) === true,
  retype: (result, call) => ({ ...result, type: outputsOf[call.family]?.[0] ?? result["type"] }),
  remainder: (item) => item,
  resultText: (result) => textIn(result["output"])
}

const inspect = (item: JsonObject, _: number, history: History): ReadonlyArray<Blemish> | undefined => {
  const type = typeOf(item)
  switch (type) {
    case "function_call": {
      const put = (field: string) => (to: unknown) => ({ ...item, [field]: to })
      const name = inspectName(item["name"], history.rules, "/name", put("name"))
      const args = inspectText(item["arguments"], history.rules, "/arguments", put("arguments"))
      return found(name, args)
    }
    case "custom_tool_call": {
      const name = inspectName(item["name"], history.rules, "/name", (to) => ({ ...item, name: to }))
      return name === undefined ? undefined : [name]
    }
    case "reasoning":
      return inspectReasoning(item, history)
    case "item_reference":
      return inspectReference(item, history)
    case "":
      return decision("MESSAGE_UNKNOWN", "", "has neither type nor role", ["remove-message"])
    default:
      return textOutputs.has(type) ? inspectOutput(item) : undefined
  }
}

const decision = (
  code: Blemish["code"],
  path: string,
  message: string,
  choices: NonNullable<Blemish["choices"]>
): ReadonlyArray<Blemish> => [{ code, severity: "error", path, message, choices }]

const inspectOutput = (item: JsonObject): ReadonlyArray<Blemish> | undefined => {
  const { output } = item
  if (output === undefined || output === null) {
    const fix = rewriting("a text that says there was no output", { ...item, output: Synthetic.noOutput })
    return [error("RESULT_MISSING_OUTPUT", "", "result has no output", fix)]
  }
  const wrong = Shape.inspectResult(item, "output", isInputPart, inputText)
  if (wrong !== undefined) return [wrong]
  if (typeof output !== "string" || output.length <= maxOutput) return undefined
  return decision("RESULT_TOO_LONG", "/output", "output is longer than 10485760 characters", ["shorten-output"])
}

const inputText = (text: string): JsonObject => ({ type: "input_text", text })

const isInputPart = (part: JsonObject): boolean => textOf(part, "type")?.startsWith("input_") === true

/** R10, A16: what the model says is output, what it reads is input; texts are texts, images can be read. */
const inspectPart = (part: unknown, item: JsonObject): ReadonlyArray<Blemish> | undefined => {
  if (typeOf(item) !== "message") return undefined
  const own = item["role"] === "assistant" ? "output_text" : "input_text"
  const textOf = (text: string) => ({ type: own, text })
  if (!isObject(part)) return Shape.inspectStray(part, textOf)
  const { type } = part
  if (blankless(type) === undefined) {
    return Shape.inspectUntyped(part, typeof part["text"] === "string" ? { ...part, type: own } : undefined, textOf)
  }
  if (type === "text" || type === "input_text" || type === "output_text") {
    if (type === own) return Shape.all(Shape.textMember(part, "text"))
    const { annotations: _, logprobs: __, ...rest } = part
    const to = own === "input_text" ? { ...rest, type: own } : { ...part, type: own }
    return [error("PART_MISPLACED", "/type", `this role has ${own}`, rewriting(`type is ${own}`, to))]
  }
  if (item["role"] === "assistant" && isInputPart(part)) return misplaced(part, [])
  if (type !== "input_image") return undefined
  const data = Shape.imageInUrl(part["image_url"], "/image_url", (image_url) => ({ ...part, image_url }))
  return Shape.all(Shape.inspectImage(part, data, Shape.imageNote(inputText)))
}

/** R8, R9. Encrypted reasoning may stand without an id; other reasoning is known to the provider by its id only. */
const inspectReasoning = (item: JsonObject, history: History): ReadonlyArray<Blemish> | undefined => {
  const isEncrypted = textOf(item, "encrypted_content") !== undefined
  if (!isEncrypted && history.context.store === false) {
    const fix = removal("reasoning the provider does not keep", item)
    return [error("REASONING_NOT_SENDABLE", "", "reasoning without encrypted_content, and nothing is stored", fix)]
  }
  const blemishes: Array<Blemish> = []
  if (!isEncrypted && (item["id"] === undefined || item["id"] === null)) {
    blemishes.push(
      error("REASONING_FIELD_MISSING", "/id", "reasoning has no id", removal("reasoning without id", item))
    )
  }
  if (!Array.isArray(item["summary"])) {
    const fix = rewriting("an empty summary", { ...item, summary: [] })
    blemishes.push(error("REASONING_FIELD_MISSING", "/summary", "reasoning has no summary", fix))
  }
  return blemishes.length === 0 ? undefined : blemishes
}

/** R9. */
const inspectReference = (item: JsonObject, history: History): ReadonlyArray<Blemish> | undefined => {
  const isCall = textOf(item, "id")?.startsWith("fc") === true
  if (!isCall && history.context.store !== false) return undefined
  const says = isCall ? "a call may not be sent as a reference" : "a reference, and nothing is stored"
  return decision("REFERENCE_NOT_SENDABLE", "", says, ["inline-item", "remove-message"])
}

/** R6: item ids have their prefix and occur once. An id is optional, so a wrong one is taken away, not replaced. */
const itemIds = (history: History): ReadonlyArray<Fault> => {
  const { entries, messages, pairing } = history
  const copies = new Set(
    pairing.batches.flatMap((batch) => [...batch.copies].map((slot) => batch.calls[slot]!.message))
  )
  const seen = new Map<string, number>()
  const faults: Array<Fault> = []
  const references: Array<number> = []
  messages.forEach((item, index) => {
    if (!isObject(item) || item["id"] === undefined || item["id"] === null) return
    if (copies.has(index) || idKey(item) === "id") return
    const type = typeOf(item)
    if (type === "item_reference") return void references.push(index)
    const id = blankless(item["id"])
    const prefix = prefixes.get(type)
    const first = id === undefined ? undefined : seen.get(id)
    if (id === undefined) faults.push(withoutId(history, item, index, "ID_INVALID", "item id is empty"))
    else if (prefix !== undefined && !id.startsWith(prefix)) {
      faults.push(withoutId(history, item, index, "ID_PREFIX", `item id does not begin with ${prefix}`))
    } else if (first === undefined) seen.set(id, index)
    else {
      const isCopy = entries[index]?.calls.length === 0 && equal(item, messages[first])
      faults.push(withoutId(history, item, index, "ITEM_ID_DUPLICATE", "item id occurs before", isCopy))
    }
  })
  for (const index of references) {
    const item = messages[index] as JsonObject
    const id = show(item["id"])
    if (seen.has(id))
      faults.push(withoutId(history, item, index, "ITEM_ID_DUPLICATE", "the item is given as well", true))
    else seen.set(id, index)
  }
  return faults
}

const withoutId = (
  history: History,
  item: JsonObject,
  index: number,
  code: Fault["code"],
  message: string,
  isCopy = false
): Fault => {
  const here = { code, severity: "error", index, path: "/id", message } as const
  if (history.suspended.has(index)) return { ...here, choices: ["answer-call"] }
  const isUseless = typeOf(item) === "reasoning" && textOf(item, "encrypted_content") === undefined
  if (isCopy || isUseless) {
    const note = isCopy ? "an item that stands in the input before" : "reasoning the provider cannot find"
    return { ...here, edits: [{ index, replace: [], action: isCopy ? "collapse" : "drop", note, dropped: [item] }] }
  }
  const note = `item id ${show(item["id"])} taken away`
  return { ...here, edits: [{ index, replace: [omit(item, "id")], action: "rewrite", note, dropped: [item["id"]] }] }
}

/** R8: reasoning is followed by the item it produced. */
const followers = (history: History): ReadonlyArray<Fault> => {
  const faults: Array<Fault> = []
  let hasFollower = false
  for (let index = history.messages.length - 1; index >= 0; index--) {
    const item = history.messages[index]
    if (!isObject(item) || item["type"] !== "reasoning") {
      const role = history.entries[index]?.role
      hasFollower = role === "assistant" || (role === "aside" && isObject(item))
    } else if (!hasFollower) {
      faults.push({
        code: "REASONING_MISSING_FOLLOWER",
        severity: "error",
        index,
        path: "",
        message: "the item this reasoning led to is missing",
        edits: [{ index, replace: [], action: "drop", note: "reasoning without its item", dropped: [item] }]
      })
    }
  }
  return faults.toReversed()
}

export const OpenAiResponses: Format = {
  name: "openai-responses",
  entry,
  calls,
  parts: [{ list: "content", inspect: inspectPart }],
  inspect,
  sequence: [itemIds, followers, ending],
  note: (role, text) => ({
    type: "message",
    role,
    content: [{ type: role === "user" ? "input_text" : "output_text", text }]
  }),
  textPart: inputText
}
