/**
 * Anthropic Messages (rules A1-A16).
 *
 * Owns: their form. The reasoning rules stand in `AnthropicThinking`.
 */
import { inspectObject } from "../Arguments.ts"
import { empty, error, found, misplaced, removal, rewriting, unknownRole } from "../Blemish.ts"
import type { Blemish, Call, CallForm, Entry, Fault, Format, History, Result } from "../Format.ts"
import { assistant, callAt, resultAt, silent, user } from "../Format.ts"
import { isObject, listOf, show, step, textOf, type JsonObject } from "../Json.ts"
import { alternation, ending } from "../Order.ts"
import * as Shape from "../Shape.ts"
import * as Synthetic from "../Synthetic.ts"
import { inspectName } from "../ToolName.ts"
import { inspectThinking, isThinking, thinking, trailingBlank } from "./AnthropicThinking.ts"
import { blankless, textIn, textPart } from "./Content.ts"

const entry = (message: unknown, index: number): Entry => {
  if (!isObject(message)) return silent
  const { content, role } = message
  if (role !== "user" && role !== "assistant") return silent
  if (!Array.isArray(content)) return role === "user" ? user : assistant
  const calls: Array<Call> = []
  const results: Array<Result> = []
  let speaks = false
  content.forEach((block: unknown, slot) => {
    const type = isObject(block) ? block["type"] : undefined
    if (isObject(block) && type === "tool_use" && role === "assistant") {
      calls.push(callAt(index, slot, blankless(block["id"]), textOf(block, "name") ?? "", block["input"]))
    } else if (isObject(block) && type === "tool_result") {
      results.push(resultAt(index, slot, blankless(block["tool_use_id"]), "", speaks))
    } else speaks = true
  })
  if (calls.length === 0 && results.length === 0) return role === "user" ? user : assistant
  return { role, speaks: speaks || role === "assistant", calls, results }
}

const idKey = (isResult: boolean) => (isResult ? "tool_use_id" : "id")

const calls: CallForm = {
  callList: "content",
  resultList: "content",
  idPath: (_, isResult) => step(idKey(isResult)),
  withId: (value, isResult, id) => ({ ...value, [idKey(isResult)]: id }),
  isRun: false,
  isByName: false,
  host: {
    accepts: (message) => message["role"] === "user",
    isInFront: true,
    make: (content) => ({ role: "user", content })
  },
  answer: (call) => [{ type: "tool_result", tool_use_id: call.id, content: Synthetic.outcomeUnknown, is_error: true }],
  remainder: (message) => (listOf(message, "content").length === 0 ? undefined : message),
  resultText: (result) => textIn(result["content"])
}

const inspectBlock = (block: unknown, message: JsonObject, history: History): ReadonlyArray<Blemish> | undefined => {
  if (!isObject(block)) return Shape.inspectStray(block, textPart)
  if (blankless(block["type"]) === undefined) return Shape.inspectUntyped(block, typed(block), textPart)
  if (message["role"] === "user" && isModelsOnly(block)) {
    const text = Synthetic.strayCall(textOf(block, "name") ?? "", show(block["input"] ?? {}))
    return misplaced(block, isThinking(block) ? [] : [textPart(text)])
  }
  if (message["role"] === "assistant" && (block["type"] === "image" || block["type"] === "document")) {
    return misplaced(block, [])
  }
  switch (block["type"]) {
    case "text":
      return inspectText(block)
    case "image":
      return inspectImage(block)
    case "tool_use": {
      const put = (field: string) => (to: unknown) => ({ ...block, [field]: to })
      const name = inspectName(block["name"], history.rules, "/name", put("name"))
      const args = inspectObject(block["input"], history.rules.badArgs, "/input", put("input"))
      return found(name, args)
    }
    case "thinking":
    case "redacted_thinking": {
      const blemish = inspectThinking(block, message, history)
      return blemish === undefined ? undefined : [blemish]
    }
    case "tool_result":
      return inspectOutcome(block) ?? inspectResult(block, message, history)
    default:
      return undefined
  }
}

/** A block with the type that its members show. */
const typed = (block: JsonObject): JsonObject | undefined => {
  if (typeof block["tool_use_id"] === "string") return { ...block, type: "tool_result" }
  return typeof block["text"] === "string" ? { ...block, type: "text" } : undefined
}

const isModelsOnly = (block: JsonObject): boolean =>
  block["type"] === "tool_use" || isThinking(block) || isServerUse(block)

const inspectText = (block: JsonObject): ReadonlyArray<Blemish> | undefined => {
  const wrong = Shape.textMember(block, "text")
  if (wrong !== undefined) return [wrong]
  if (typeof block["text"] !== "string" || block["text"].trim() !== "") return undefined
  return [error("EMPTY_TEXT_BLOCK", "", "text block without text", removal("an empty text", block))]
}

/** A16. */
const inspectImage = (block: JsonObject): ReadonlyArray<Blemish> | undefined => {
  const source = isObject(block["source"]) ? block["source"] : {}
  if (source["type"] !== "base64") return undefined
  const image: Shape.ImageData = {
    base64: source["data"],
    declared: source["media_type"],
    path: "",
    retyped: (media_type) => ({ ...block, source: { ...source, media_type } })
  }
  return Shape.all(Shape.inspectImage(block, image, Shape.imageNote(textPart)))
}

/** A18: the content of a result is text or blocks, and whether it failed is a boolean. */
const inspectOutcome = (result: JsonObject): ReadonlyArray<Blemish> | undefined =>
  Shape.all(
    Shape.inspectResult(result, "content", (block) => typeof block["type"] === "string", textPart),
    inspectFailure(result)
  )

const inspectFailure = (result: JsonObject): Blemish | undefined => {
  const isError = result["is_error"]
  if (isError === undefined || typeof isError === "boolean") return undefined
  const { is_error: _, ...rest } = result
  const isTrue = isError === "true" || isError === 1
  const fix = rewriting("is_error is a boolean now", isTrue ? { ...rest, is_error: true } : rest)
  return error("PART_INVALID", "/is_error", "is_error is not a boolean", fix)
}

/** Blocks inside a result obey the same rules. One fix mends all of them. */
const inspectResult = (
  result: JsonObject,
  message: JsonObject,
  history: History
): ReadonlyArray<Blemish> | undefined => {
  const blocks = result["content"]
  if (!Array.isArray(blocks)) return undefined
  const faults = blocks.map((block: unknown) => {
    const isChecked = isObject(block) && (block["type"] === "text" || block["type"] === "image")
    return isChecked ? inspectBlock(block, message, history)?.[0] : undefined
  })
  const first = faults.findIndex((blemish) => blemish !== undefined)
  if (first < 0) return undefined
  const content = blocks.flatMap((block: unknown, slot) => faults[slot]?.fix?.to ?? [block])
  const dropped = faults.flatMap((blemish) => blemish?.fix?.dropped ?? [])
  const fix = rewriting("blocks of the result mended", { ...result, content }, dropped)
  return faults.flatMap((blemish, slot): ReadonlyArray<Blemish> => {
    if (blemish === undefined) return []
    const { fix: _, ...rest } = blemish
    const isFirst = slot === first
    return [{ ...rest, path: `/content/${slot}`, ...(isFirst ? { fix } : {}) }]
  })
}

const inspect = (message: JsonObject, index: number, history: History): ReadonlyArray<Blemish> | undefined => {
  const { content, role } = message
  if (role !== "user" && role !== "assistant") return unknownRole(role)
  const isLast = index === history.messages.length - 1
  if (Array.isArray(content) ? content.length === 0 : typeof content !== "string" || content.trim() === "") {
    if (role === "user") return empty(message, history.rules)
    // A10: the last message may be empty.
    return isLast
      ? undefined
      : empty(message, history.rules, { ...message, content: [textPart(Synthetic.interrupted)] })
  }
  const blocks = listOf(message, "content")
  const isWaiting = isLast && history.context.turn !== "terminated"
  const faults = [
    ...unpairedServerTools(message, blocks, isWaiting),
    ...(role === "assistant" && history.rules.textBeforeCalls === true ? textBehindCalls(message, blocks) : [])
  ]
  return faults.length === 0 ? undefined : faults
}

/** A9: calls the provider runs itself stand in one message with their results. The client cannot make those up. */
const unpairedServerTools = (
  message: JsonObject,
  blocks: ReadonlyArray<unknown>,
  isWaiting: boolean
): ReadonlyArray<Blemish> => {
  if (!blocks.some((block) => isServerUse(block) || isServerResult(block))) return []
  const uses = new Set(blocks.flatMap((block) => (isServerUse(block) ? [block["id"]] : [])))
  const results = new Set(blocks.flatMap((block) => (isServerResult(block) ? [block["tool_use_id"]] : [])))
  // At the very end the provider may still go on with its own call.
  const isUnpaired = (block: unknown) =>
    (isServerResult(block) && !uses.has(block["tool_use_id"])) ||
    (isServerUse(block) && !results.has(block["id"]) && !isWaiting)
  const gone = blocks.filter(isUnpaired)
  const kept = blocks.filter((block) => !isUnpaired(block))
  const to = kept.length === 0 ? [] : [{ ...message, content: kept }]
  const fix = { to, action: "drop", note: "a provider-run tool without its other half", dropped: gone } as const
  return blocks.flatMap((block, slot): ReadonlyArray<Blemish> => {
    if (!isUnpaired(block)) return []
    const message = "call or result of a provider-run tool stands alone"
    const fault = { code: "SERVER_TOOL_UNPAIRED", severity: "error", path: `/content/${slot}`, message } as const
    return [block === gone[0] ? { ...fault, fix } : fault]
  })
}

const isServerUse = (block: unknown): block is JsonObject =>
  isObject(block) && (block["type"] === "server_tool_use" || block["type"] === "mcp_tool_use")
const isServerResult = (block: unknown): block is JsonObject =>
  isObject(block) && textOf(block, "type")?.endsWith("_tool_result") === true

/** A8. Thinking blocks keep their place: calls move behind text only up to the next thinking block. */
const textBehindCalls = (message: JsonObject, blocks: ReadonlyArray<unknown>): ReadonlyArray<Blemish> => {
  const late: Array<number> = []
  const ordered: Array<unknown> = []
  let waiting: Array<unknown> = []
  blocks.forEach((block, slot) => {
    const type = isObject(block) ? block["type"] : undefined
    if (type === "tool_use") waiting.push(block)
    else if (isThinking(block)) {
      for (const call of waiting) ordered.push(call)
      ordered.push(block)
      waiting = []
    } else {
      if (waiting.length > 0) late.push(slot)
      ordered.push(block)
    }
  })
  const fix = {
    to: [{ ...message, content: [...ordered, ...waiting] }],
    action: "reorder",
    note: "calls moved behind the text"
  } as const
  return late.map((slot, nth) => ({
    code: "CONTENT_AFTER_CALL",
    severity: "error",
    path: `/content/${slot}`,
    message: "stands behind a call of its message",
    ...(nth === 0 ? { fix } : {})
  }))
}

/** A14. */
const toolsDeclared = (history: History): ReadonlyArray<Fault> => {
  if (history.rules.declaresTools !== true || history.context.tools?.length !== 0) return []
  const place = history.entries.flatMap((entry) => [...entry.calls, ...entry.results])[0]
  if (place === undefined) return []
  return [
    {
      code: "TOOLS_UNDECLARED",
      severity: "error",
      index: place.message,
      path: `/content/${place.slot}`,
      message: "the history has tool blocks and the request declares no tools",
      choices: ["declare-tools", "flatten-tools"]
    }
  ]
}

export const Anthropic: Format = {
  name: "anthropic",
  entry,
  calls,
  parts: [{ list: "content", inspect: inspectBlock }],
  inspect,
  sequence: [toolsDeclared, thinking, trailingBlank, alternation, ending],
  note: (role, text) => ({ role, content: [textPart(text)] }),
  textPart
}
