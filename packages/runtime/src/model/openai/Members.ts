/**
 * Members of a message or a call, put together from the deltas of a stream.
 *
 * Owns: how pieces of a member become one value. Does not own: which members are kept (`ChatOpaque`).
 *
 * - M1. Text pieces of one list item are joined; its other members, such as a signature, are those that came last.
 */
import { isObject, type JsonObject } from "@turnstep/core/history/Json"

export interface Members {
  readonly take: (delta: JsonObject) => void
  /** What has come so far. */
  readonly all: () => JsonObject
}

/** No members yet. */
export const make = (): Members => {
  const members: { [name: string]: unknown } = {}
  return {
    take: (delta) => {
      for (const [name, value] of Object.entries(delta)) members[name] = joined(members[name], value)
    },
    all: () => members
  }
}

const joined = (before: unknown, value: unknown): unknown => {
  if (Array.isArray(before) && Array.isArray(value)) {
    const items = [...(before as ReadonlyArray<unknown>)]
    for (const item of value as ReadonlyArray<unknown>) {
      const at = items.findLastIndex((other) => isPieceOf(other, item))
      if (at < 0 || (at < items.length - 1 && !isPlaced(item))) items.push(item)
      else items[at] = together(items[at] as JsonObject, item as JsonObject)
    }
    return items
  }
  if (isObject(before) && isObject(value)) {
    const all = Object.entries(value).map(([name, member]) => [name, joined(before[name], member)] as const)
    return { ...before, ...Object.fromEntries(all) }
  }
  return value
}

/** Members that hold text, by the type of the item. */
const texts: { readonly [type: string]: string } = {
  "reasoning.text": "text",
  "reasoning.summary": "summary",
  thinking: "thinking"
}

const isPieceOf = (before: unknown, item: unknown): boolean =>
  isObject(before) &&
  isObject(item) &&
  typeof item["type"] === "string" &&
  item["type"] in texts &&
  before["type"] === item["type"] &&
  before["index"] === item["index"] &&
  (isPlaced(item) || !before["signature"])

const isPlaced = (item: unknown): boolean => isObject(item) && typeof item["index"] === "number"

const together = (before: JsonObject, item: JsonObject): JsonObject => {
  const name = texts[String(item["type"])] ?? ""
  const given = Object.entries(item).filter(([, value]) => value !== null && value !== undefined)
  const text = [before[name], item[name]].filter((piece) => typeof piece === "string").join("")
  return { ...before, ...Object.fromEntries(given), ...(text === "" ? undefined : { [name]: text }) }
}
