/**
 * Thinking blocks of Anthropic Messages (rule A12).
 *
 * Owns: where they must stand, may not stand, and may not be changed. They are restored from the record, never made up.
 */
import { error, removal, type Fix } from "../Blemish.ts"
import type { Blemish, Edit, Fault, History } from "../Format.ts"
import { equal, isObject, listOf, textOf, type JsonObject } from "../Json.ts"
import { recordOf } from "../Record.ts"

export const isThinking = (block: unknown): boolean =>
  isObject(block) && (block["type"] === "thinking" || block["type"] === "redacted_thinking")

/** A20: a thinking block has the signature it was issued with. It comes from the record, or the block goes. */
export const inspectThinking = (block: JsonObject, message: JsonObject, history: History): Blemish | undefined => {
  const isRedacted = block["type"] === "redacted_thinking"
  const member = isRedacted ? "data" : "signature"
  if (textOf(block, member) !== undefined && (isRedacted || typeof block["thinking"] === "string")) return undefined
  const issued = listOf(recordOf(history)(message) ?? {}, "content").find(
    (other) => isObject(other) && other["type"] === block["type"] && other["thinking"] === block["thinking"]
  )
  const fix: Fix =
    isObject(issued) && textOf(issued, member) !== undefined
      ? { to: [issued], action: "restore", note: "the block from the record" }
      : removal(`a thinking block without its ${member}`, block)
  return error("REASONING_NOT_SENDABLE", "", `thinking has no ${member}`, fix)
}

/** A19: the answer a request begins with has no blank at its end. */
export const trailingBlank = (history: History): ReadonlyArray<Fault> => {
  const index = history.messages.length - 1
  const message = history.messages[index]
  if (!isObject(message) || message["role"] !== "assistant" || history.context.purpose === "archive") return []
  const { content } = message
  const last: unknown = Array.isArray(content) ? content.at(-1) : content
  const text = isObject(last) && last["type"] === "text" ? last["text"] : last
  if (typeof text !== "string" || text.trim() === "" || text.trimEnd() === text) return []
  const trimmed = text.trimEnd()
  const to = isObject(last) ? [...listOf(message, "content").slice(0, -1), { ...last, text: trimmed }] : trimmed
  return [
    {
      code: "TRAILING_BLANK",
      severity: "error",
      index,
      path: isObject(last) ? `/content/${listOf(message, "content").length - 1}` : "/content",
      message: "the answer that a request begins with ends with a blank",
      edits: [
        { index, replace: [{ ...message, content: to }], action: "rewrite", note: "the blank at the end is gone" }
      ]
    }
  ]
}

/** The thinking rules; they look at the latest assistant message only. */
export const thinking = (history: History): ReadonlyArray<Fault> => {
  const index = history.entries.findLastIndex((entry) => entry.role === "assistant")
  const message = history.messages[index]
  if (!isObject(message)) return []
  const blocks = listOf(message, "content")
  if (history.context.thinking === false) return notAllowed(history, message, index)
  const hasCalls = (history.entries[index]?.calls.length ?? 0) > 0
  const isRequired = history.context.thinking === true && hasCalls
  const restored = recordOf(history)(message)
  if (restored !== undefined && (isRequired || blocks.some(isThinking))) {
    const modified = modifiedAgainst(restored, message, index)
    if (modified !== undefined) return [modified]
  }
  if (!isRequired || isThinking(blocks[0])) return []
  return [
    {
      code: "REASONING_REQUIRED_MISSING",
      severity: "error",
      index,
      path: "/content/0",
      message: "with thinking, a message with calls begins with its thinking block",
      choices: ["restore-record", "flatten-tools", "disable-thinking"]
    }
  ]
}

/**
 * Without thinking, the latest answer has no thinking blocks while its turn goes on: nothing but results stands behind it.
 * One with calls that wait is not sent yet.
 */
const notAllowed = (history: History, message: JsonObject, index: number): ReadonlyArray<Fault> => {
  const isPast = history.entries.some((entry, other) => other > index && entry.speaks)
  if (isPast || history.suspended.has(index)) return []
  const blocks = listOf(message, "content")
  const gone = blocks.filter(isThinking)
  const kept = blocks.filter((block) => !isThinking(block))
  const edit: Edit = {
    index,
    replace: kept.length === 0 ? [] : [{ ...message, content: kept }],
    action: "drop",
    note: "thinking taken out of the latest answer",
    dropped: gone
  }
  return blocks.flatMap((block, slot): ReadonlyArray<Fault> => {
    if (!isThinking(block)) return []
    const edits = block === gone[0] ? { edits: [edit] } : {}
    const says = "without thinking, the latest answer has no thinking block"
    return [
      { code: "REASONING_NOT_ALLOWED", severity: "error", index, path: `/content/${slot}`, message: says, ...edits }
    ]
  })
}

/** The latest answer as it was issued differs from what stands here in its thinking. */
const modifiedAgainst = (restored: JsonObject, message: JsonObject, index: number): Fault | undefined => {
  const blocks = listOf(message, "content")
  const given = blocks.filter(isThinking)
  const issued = listOf(restored, "content").filter(isThinking)
  if (issued.length === 0 || equal(given, issued)) return undefined
  const at = given.findIndex((block, nth) => !equal(block, issued[nth]))
  const slot = at < 0 ? 0 : blocks.indexOf(given[at])
  const isMissing = given.length === 0
  const others = (content: ReadonlyArray<unknown>) => content.filter((block) => !isThinking(block))
  const isSame = equal(others(blocks), others(listOf(restored, "content")))
  // The order among thinking and other blocks is part of what was issued; without it, thinking leads.
  const content = isSame ? listOf(restored, "content") : [...issued, ...others(blocks)]
  return {
    code: isMissing ? "REASONING_REQUIRED_MISSING" : "REASONING_MODIFIED",
    severity: "error",
    index,
    path: `/content/${slot}`,
    message: isMissing ? "the thinking of this answer is missing" : "the thinking of this answer was changed",
    edits: [
      {
        index,
        replace: [{ ...message, content }],
        action: "restore",
        note: "thinking blocks from the record",
        dropped: given.filter((block) => !issued.some((other) => equal(block, other)))
      }
    ]
  }
}
