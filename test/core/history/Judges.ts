/**
 * Strict providers in a few lines each. They share nothing with the rules they judge: each walks the messages of one
 * format and says the first thing that provider would refuse. Calls at the very end may be open.
 */
import type { FormatName } from "../../../packages/core/src/history/Contract.ts"

interface Message {
  readonly [key: string]: unknown
}
type Judge = (messages: ReadonlyArray<unknown>) => string | undefined

const record = (value: unknown): Message => (typeof value === "object" && value !== null ? (value as Message) : {})
const list = (value: unknown): ReadonlyArray<Message> => (Array.isArray(value) ? value.map(record) : [])
const same = (a: ReadonlyArray<unknown>, b: ReadonlyArray<unknown>) =>
  a.length === b.length && new Set(a).size === a.length && a.every((id) => b.includes(id))

const isNoSystem = (message: Message) => message["role"] !== "system"

const chat: Judge = (messages) => {
  let open: Array<unknown> = []
  for (const message of messages.map(record).filter(isNoSystem)) {
    if (message["role"] === "tool") {
      if (!open.includes(message["tool_call_id"])) return "a tool message must answer a preceding tool_call"
      if (typeof message["content"] !== "string" && list(message["content"]).some((part) => part["type"] !== "text")) {
        return "images only in user messages"
      }
      open = open.filter((id) => id !== message["tool_call_id"])
      continue
    }
    if (open.length > 0) return "tool_calls must be followed by tool messages"
    const calls = list(message["tool_calls"])
    if (message["role"] === "assistant" && calls.length === 0 && message["content"] === null) return "no content"
    open = calls.map((call) => call["id"])
    if (new Set(open).size < open.length) return "ids of a message must differ"
    if (open.some((id) => typeof id !== "string" || id.trim() === "" || id.length > 64)) return "illegal id"
  }
  return undefined
}

const responses: Judge = (messages) => {
  const called = new Set<unknown>()
  const answered = new Set<unknown>()
  const itemIds = new Set<unknown>()
  for (const [index, item] of messages.map(record).entries()) {
    if (item["id"] !== undefined && itemIds.has(item["id"])) return "duplicate item id"
    itemIds.add(item["id"])
    if (item["type"] === "function_call") {
      if (called.has(item["call_id"])) return "duplicate call_id"
      called.add(item["call_id"])
    }
    if (item["type"] === "function_call_output") {
      if (!called.has(item["call_id"]) || answered.has(item["call_id"])) return "no tool call for this output"
      if (item["output"] === undefined || item["output"] === null) return "missing output"
      answered.add(item["call_id"])
    }
    if (item["type"] === "reasoning") {
      if (!Array.isArray(item["summary"])) return "missing summary"
      const next = record(messages[index + 1])
      if (next["role"] === "user" || next["type"] === "function_call_output" || messages[index + 1] === undefined) {
        return "reasoning without its following item"
      }
    }
  }
  const items = messages.map(record)
  const spoken = items.findLastIndex((item) => item["type"] === "message" && item["role"] !== "system")
  const isOpen = (item: Message, index: number) =>
    item["type"] === "function_call" && !answered.has(item["call_id"]) && index < spoken
  return items.some(isOpen) ? "no tool output for this call" : undefined
}

const anthropic: Judge = (messages) => {
  const all = messages.map(record)
  const seen = new Set<unknown>()
  for (const [index, message] of all.entries()) {
    const blocks = list(message["content"])
    if (message["role"] === "assistant" && index < all.length - 1 && blocks.length === 0 && !message["content"])
      return "empty"
    if (blocks.some((block) => block["type"] === "text" && block["text"] === "")) return "text blocks must be non-empty"
    const uses = blocks.filter((block) => block["type"] === "tool_use").map((block) => block["id"])
    if (uses.some((id) => seen.has(id) || !/^[a-zA-Z0-9_-]+$/.test(String(id))))
      return "tool_use ids must be unique and legal"
    for (const id of uses) seen.add(id)
    const results = blocks.filter((block) => block["type"] === "tool_result")
    const before = list(all[index - 1]?.["content"]).filter((block) => block["type"] === "tool_use")
    const expected = all[index - 1]?.["role"] === "assistant" ? before.map((block) => block["id"]) : []
    const given = results.map((block) => block["tool_use_id"])
    const isLive =
      index === all.length - 1 && blocks.length === results.length && given.every((id) => expected.includes(id))
    if (!same(given, expected) && !(isLive && new Set(given).size === given.length))
      return "results do not match the calls"
    if (blocks.slice(0, results.length).some((block) => block["type"] !== "tool_result"))
      return "results must come first"
    if (message["role"] === "assistant" && results.length > 0) return "results belong to the user"
  }
  return undefined
}

const gemini: Judge = (messages) => {
  const all = messages.map(record)
  for (const [index, message] of all.entries()) {
    const parts = list(message["parts"])
    if (parts.length === 0) return "no parts"
    const calls = parts.filter((part) => part["functionCall"] !== undefined).length
    const previous = all[index - 1]
    if (calls > 0 && previous?.["role"] !== "user") return "a function call turn follows a user turn"
    const results = parts.filter((part) => part["functionResponse"] !== undefined).length
    const expected = list(previous?.["parts"]).filter((part) => part["functionCall"] !== undefined).length
    const isLive = index === all.length - 1 && results === parts.length && results < expected
    if (message["role"] === "user" && results !== expected && !isLive) return "number of responses differs from calls"
  }
  return undefined
}

const aiSdkModel: Judge = (messages) => {
  const open = new Set<unknown>()
  for (const message of messages.map(record).filter(isNoSystem)) {
    const parts = list(message["content"])
    // What the SDK checks, and the adjacency it does not check.
    if (message["role"] !== "tool" && open.size > 0) return "missing tool results"
    for (const part of parts) {
      if (part["type"] === "tool-call" && part["providerExecuted"] !== true) {
        if (open.has(part["toolCallId"])) return "duplicate call"
        open.add(part["toolCallId"])
      }
      if (message["role"] === "tool" && part["type"] === "tool-result" && !open.delete(part["toolCallId"])) {
        return "result without call"
      }
    }
  }
  return undefined
}

const aiSdkUi: Judge = (messages) => {
  const ids = new Set<unknown>()
  const spoken = messages.map(record).filter(isNoSystem)
  for (const [index, message] of spoken.entries()) {
    for (const part of message["role"] === "assistant" ? list(message["parts"]) : []) {
      if (typeof part["type"] !== "string" || !part["type"].startsWith("tool-")) continue
      if (ids.has(part["toolCallId"]) || part["toolCallId"] === "") return "tool call id appears twice"
      ids.add(part["toolCallId"])
      const state = String(part["state"])
      const approved = record(part["approval"])["approved"]
      const isClosed = state.startsWith("output-") || (state === "approval-responded" && approved === false)
      if (!isClosed && index < spoken.length - 1) return "call without result"
      if (state === "output-denied" && approved !== false) return "denied without a denial"
    }
  }
  return undefined
}

export const judges: { readonly [K in FormatName]: Judge } = {
  "openai-chat": chat,
  "openai-responses": responses,
  anthropic,
  gemini,
  "ai-sdk-model": aiSdkModel,
  "ai-sdk-ui": aiSdkUi
}
