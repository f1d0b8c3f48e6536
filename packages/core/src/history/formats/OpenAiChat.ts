/**
 * OpenAI Chat Completions messages, which most other providers also speak (rules O1-O11).
 *
 * Owns: their form. Legacy `function_call`/`function` pairs are left as they are.
 */
import { inspectText } from "../Arguments.ts"
import { empty, error, found, misplaced, removal, rewriting, unknownRole } from "../Blemish.ts"
import type { Rules } from "../Contract.ts"
import type { Blemish, Call, CallForm, Edit, Entry, Fault, Format, History } from "../Format.ts"
import { assistant, callAt, resultAt, silent, system, user } from "../Format.ts"
import { isObject, listOf, omit, show, step, textOf, type JsonObject } from "../Json.ts"
import { alternation, ending, userAfterTool } from "../Order.ts"
import { recordOf } from "../Record.ts"
import * as Shape from "../Shape.ts"
import * as Synthetic from "../Synthetic.ts"
import { inspectName } from "../ToolName.ts"
import { blankless, textIn, textPart } from "./Content.ts"

const entry = (message: unknown, index: number): Entry => {
  if (!isObject(message)) return silent
  switch (message["role"]) {
    case "user":
      return user
    case "system":
    case "developer":
      return system
    case "tool": {
      const id = blankless(message["tool_call_id"])
      return { role: "tool", speaks: false, calls: silent.calls, results: [resultAt(index, -1, id)] }
    }
    case "function":
      return { ...silent, role: "tool" }
    case "assistant": {
      const calls = listOf(message, "tool_calls").flatMap((call, slot) =>
        isObject(call) ? [callOf(call, index, slot)] : []
      )
      return calls.length === 0 ? assistant : { role: "assistant", speaks: true, calls, results: [] }
    }
    default:
      return silent
  }
}

const callOf = (call: JsonObject, message: number, slot: number): Call => {
  const family = call["type"] === "custom" ? "custom" : "function"
  const body = call[family]
  const said = isObject(body) ? body : {}
  const args = family === "custom" ? said["input"] : said["arguments"]
  const name = textOf(said, "name") ?? ""
  return callAt(message, slot, blankless(call["id"]), name, args, family)
}

const idKey = (isResult: boolean) => (isResult ? "tool_call_id" : "id")

const calls: CallForm = {
  callList: "tool_calls",
  resultList: undefined,
  idPath: (_, isResult) => step(idKey(isResult)),
  withId: (value, isResult, id) => ({ ...value, [idKey(isResult)]: id }),
  isRun: false,
  isByName: false,
  answer: (call) => [{ role: "tool", tool_call_id: call.id, content: Synthetic.outcomeUnknown }],
  remainder: (message) => {
    const left = listOf(message, "tool_calls").length === 0 ? omit(message, "tool_calls") : message
    const isBare = left === message || Object.keys(left).some((key) => key !== "role" && key !== "content")
    return isBare || hasContent(left) ? left : undefined
  },
  resultText: (result) => textIn(result["content"])
}

const hasContent = ({ content }: JsonObject): boolean =>
  (typeof content === "string" && content !== "") || (Array.isArray(content) && content.length > 0)

const inspectCall = (value: unknown, _: JsonObject, { rules }: History): ReadonlyArray<Blemish> | undefined => {
  if (!isObject(value)) return [error("PART_MISPLACED", "", "is no call", removal("what is no call", value))]
  const key = value["type"] === "custom" ? "custom" : "function"
  const body = value[key]
  if (!isObject(body)) return undefined
  const put = (field: string) => (to: unknown) => ({ ...value, [key]: { ...body, [field]: to } })
  const name = inspectName(body["name"], rules, `/${key}/name`, put("name"))
  const args =
    key === "custom" ? undefined : inspectText(body["arguments"], rules, "/function/arguments", put("arguments"))
  return found(name, args)
}

const inspect = (message: JsonObject, _: number, { rules }: History): ReadonlyArray<Blemish> | undefined => {
  const { content, role } = message
  const isEmpty = content === undefined || content === null || (Array.isArray(content) && content.length === 0)
  switch (role) {
    case "assistant":
      return inspectAnswer(message, rules, isEmpty)
    case "tool": {
      const wrong = Shape.inspectResult(message, "content", isKnownPart, textPart)
      if (wrong !== undefined) return [wrong]
      if (!isEmpty) return undefined
      const fix = rewriting("a text that says there was no output", { ...message, content: Synthetic.noOutput })
      return [error("RESULT_MISSING_OUTPUT", "", "result has no content", fix)]
    }
    case "user":
    case "system":
    case "developer":
      return isEmpty ? empty(message, rules) : (inspectSpeaker(message) ?? inspectContent(message))
    case "function":
      return undefined
    default:
      return unknownRole(role)
  }
}

/** Types of content parts, by the roles that carry them beside text. */
const files: ReadonlySet<unknown> = new Set(["image_url", "input_audio", "file"])

const isKnownPart = (part: JsonObject): boolean => part["type"] === "text" || files.has(part["type"])

/** O12: content is text or a list of parts. */
const inspectContent = (message: JsonObject): ReadonlyArray<Blemish> | undefined => {
  const { content } = message
  if (typeof content === "string" || Array.isArray(content)) return undefined
  const fix = rewriting("the content is JSON text now", { ...message, content: show(content) })
  return [error("PART_INVALID", "/content", "content is neither text nor a list of parts", fix)]
}

/** O13: the name of a speaker has no blanks. */
const inspectSpeaker = (message: JsonObject): ReadonlyArray<Blemish> | undefined => {
  const { name } = message
  if (name === undefined || (typeof name === "string" && /^[^\s<|\\/>]+$/.test(name))) return undefined
  const legal = typeof name === "string" ? name.replaceAll(/[\s<|\\/>]+/g, "_") : ""
  const to = legal === "" ? omit(message, "name") : { ...message, name: legal }
  return [error("NAME_INVALID", "/name", "name has blanks or is no text", rewriting("a legal name", to, [name]))]
}

/** O12, A16: parts are of the role's kinds, texts are texts, images can be read. */
const inspectPart = (part: unknown, message: JsonObject): ReadonlyArray<Blemish> | undefined => {
  if (message["role"] === "tool" || message["role"] === "function") return undefined
  if (!isObject(part)) return Shape.inspectStray(part, textPart)
  if (blankless(part["type"]) === undefined) {
    const guess = typeof part["text"] === "string" ? { ...part, type: "text" } : undefined
    return Shape.inspectUntyped(part, guess, textPart)
  }
  if (part["type"] === "text") return Shape.all(Shape.textMember(part, "text"))
  if (files.has(part["type"]) && message["role"] !== "user") return misplaced(part, [])
  if (part["type"] !== "image_url") return undefined
  const image = part["image_url"]
  const data = isObject(image)
    ? Shape.imageInUrl(image["url"], "/image_url/url", (url) => ({ ...part, image_url: { ...image, url } }))
    : Shape.imageInUrl(image, "/image_url", (url) => ({ ...part, image_url: { url } }))
  return Shape.all(Shape.inspectImage(part, data, Shape.imageNote(textPart)))
}

/** O5. */
const inspectAnswer = (message: JsonObject, rules: Rules, isEmpty: boolean): ReadonlyArray<Blemish> | undefined => {
  const calls = message["tool_calls"]
  if (Array.isArray(calls) && calls.length === 0) {
    const fix = rewriting("the empty list of calls is gone", omit(message, "tool_calls"))
    return [error("EMPTY_CONTENT", "/tool_calls", "list of calls is empty", fix)]
  }
  const wrong = inspectSpeaker(message) ?? (isEmpty ? undefined : inspectContent(message))
  if (wrong !== undefined) return wrong
  if (!isEmpty || isObject(message["audio"]) || textOf(message, "refusal") !== undefined) return undefined
  if (Array.isArray(calls) || isObject(message["function_call"])) {
    if (!Array.isArray(message["content"])) return undefined
    const fix = rewriting("the empty list is null", { ...message, content: null })
    return [error("EMPTY_CONTENT", "/content", "list of content is empty", fix)]
  }
  return empty(message, rules, { ...message, content: Synthetic.interrupted })
}

/** O6: results carry text only; other parts go into a user message behind the batch. */
const resultContent = (history: History): ReadonlyArray<Fault> => {
  const foreign = (index: number) =>
    listOf(history.messages[index] as JsonObject, "content").flatMap((part, slot) =>
      isUserPart(part) ? [{ part, slot }] : []
    )
  const isConcerned = (index: number) => history.entries[index]?.results.length === 1 && foreign(index).length > 0
  if (!history.entries.some((_, index) => isConcerned(index))) return []
  return history.pairing.batches.flatMap((batch, number) => {
    const results = batch.answers.flatMap((answer) => (answer === undefined ? [] : [answer.result.message]))
    const concerned = results.filter(isConcerned).toSorted((a, b) => a - b)
    const isOpen = number === history.pairing.batches.length - 1 && history.suspended.size > 0
    const end = results.reduce((last, index) => Math.max(last, index), batch.last)
    const edits = concerned.map((index) => moveContent(history.messages[index] as JsonObject, index, foreign(index)))
    const carried = concerned.flatMap((index) => carriers(history.messages[index] as JsonObject, foreign(index)))
    const carrier: Edit = {
      index: end,
      after: [{ role: "user", content: carried }],
      action: "insert",
      note: "a user message with the content that results cannot carry"
    }
    return concerned.flatMap((index, at) =>
      foreign(index).map(({ slot }, nth): Fault => {
        const isFirst = at === 0 && nth === 0
        const mending = nth > 0 ? {} : { edits: [edits[at]!, ...(isFirst ? [carrier] : [])] }
        return {
          code: "UNSUPPORTED_RESULT_CONTENT",
          severity: "error",
          index,
          path: `/content/${slot}`,
          message: "a result carries text only",
          ...(isOpen ? { choices: ["finish-batch"] } : mending)
        }
      })
    )
  })
}

type Foreign = ReadonlyArray<{ readonly part: unknown; readonly slot: number }>

const moveContent = (message: JsonObject, index: number, parts: Foreign): Edit => {
  const gone = new Set(parts.map(({ slot }) => slot))
  const kept = listOf(message, "content").filter((_, slot) => !gone.has(slot))
  const content = kept.length > 0 ? kept : [textPart(Synthetic.moved)]
  return {
    index,
    replace: [{ ...message, content }],
    action: "move",
    note: "content moved into a user message behind the batch"
  }
}

const carriers = (message: JsonObject, parts: Foreign): ReadonlyArray<unknown> => [
  textPart(Synthetic.contentOf(show(message["tool_call_id"] ?? ""))),
  ...parts.map(({ part }) => part)
]

const isUserPart = (part: unknown): boolean => isObject(part) && files.has(part["type"])

/** Profile `deepseek`: answers of rounds with calls carry their reasoning. */
const reasoningContent = (history: History): ReadonlyArray<Fault> => {
  if (history.rules.reasoningContent !== true || history.context.thinking !== true) return []
  const faults: Array<Fault> = []
  const restored = recordOf(history)
  let round: Array<number> = []
  let hasCalls = false
  const close = () => {
    if (hasCalls) for (const index of round) faults.push(withoutReasoning(index, history.messages[index], restored))
    round = []
    hasCalls = false
  }
  history.entries.forEach((entry, index) => {
    const message = history.messages[index]
    if (entry.role === "user") close()
    if (entry.role !== "assistant" || !isObject(message)) return
    if (entry.calls.length > 0) hasCalls = true
    if (typeof message["reasoning_content"] !== "string") round.push(index) // an empty one is accepted
  })
  close()
  return faults
}

const withoutReasoning = (
  index: number,
  message: unknown,
  restored: (message: unknown) => JsonObject | undefined
): Fault => {
  const reasoning = textOf(restored(message) ?? {}, "reasoning_content")
  const fault = {
    code: "REASONING_REQUIRED_MISSING",
    severity: "error",
    index,
    path: "",
    message: "an answer of a round with calls misses its reasoning_content"
  } as const
  if (reasoning === undefined || !isObject(message)) {
    return { ...fault, choices: ["restore-record", "flatten-tools", "disable-thinking"] }
  }
  const replace = [{ ...message, reasoning_content: reasoning }]
  return { ...fault, edits: [{ index, replace, action: "restore", note: "reasoning_content from the record" }] }
}

export const OpenAiChat: Format = {
  name: "openai-chat",
  entry,
  calls,
  parts: [
    { list: "tool_calls", inspect: inspectCall },
    { list: "content", inspect: inspectPart }
  ],
  inspect,
  sequence: [resultContent, reasoningContent, userAfterTool, alternation, ending],
  note: (role, content) => ({ role, content }),
  textPart
}
