/**
 * What clients, stores and proxies do to histories, at random: one small operation after another.
 */
import * as fc from "fast-check"
import type { Json } from "./Conversation.ts"

const kinds = [
  "delete",
  "duplicate",
  "move",
  "swap",
  "deletePart",
  "duplicatePart",
  "movePart",
  "split",
  "interleave",
  "answer",
  "cutHead",
  "cutTail",
  "mangleId",
  "shareId",
  "breakText",
  "breakArguments",
  "breakName",
  "empty",
  "dropField",
  "changeState",
  "foreignContent",
  "nonsense"
] as const

export interface Blow {
  readonly kind: (typeof kinds)[number]
  readonly at: number
  readonly to: number
}

/** Up to six blows. */
export const blows: fc.Arbitrary<ReadonlyArray<Blow>> = fc.array(
  fc.record({ kind: fc.constantFrom(...kinds), at: fc.nat({ max: 999 }), to: fc.nat({ max: 999 }) }),
  { minLength: 1, maxLength: 6 }
)

/** The damaged copy of a history. */
export const damage = (messages: ReadonlyArray<Json>, blows: ReadonlyArray<Blow>): Array<Json> =>
  blows.reduce<Array<Json>>(
    (damaged, blow) => (damaged.length === 0 ? damaged : strike(damaged, blow)),
    [...clone(messages)]
  )

const clone = <A>(value: A): A => structuredClone(value)

const lists = ["tool_calls", "content", "parts"] as const

const partsOf = (message: Json): { readonly list: string; readonly parts: Array<unknown> } | undefined => {
  for (const list of lists) {
    const parts = message?.[list]
    if (Array.isArray(parts) && parts.length > 0) return { list, parts }
  }
  return undefined
}

const strike = (messages: Array<Json>, { at, kind, to }: Blow): Array<Json> => {
  const index = at % messages.length
  const other = to % messages.length
  const message = messages[index]!
  switch (kind) {
    case "delete":
      return messages.toSpliced(index, 1)
    case "duplicate":
      return messages.toSpliced(other, 0, clone(message))
    case "move": {
      const rest = messages.toSpliced(index, 1)
      return rest.toSpliced(to % (rest.length + 1), 0, message)
    }
    case "swap":
      return messages.with(index, messages[other]!).with(other, message)
    case "interleave":
      return messages.toSpliced(index, 0, spoken(messages, "user", `inter${at}x${to}z`))
    case "answer":
      return messages.toSpliced(index, 0, spoken(messages, "assistant", `answer${at}x${to}z`))
    case "cutHead":
      return messages.slice(index)
    case "cutTail":
      return messages.slice(0, index + 1)
    case "nonsense":
      return to % 5 > 0 ? messages : messages.toSpliced(index, 0, [{ role: "nobody" }, {}][at % 2]!)
    default:
      return isRecord(message) ? strikeInside(messages, index, message, kind, at, to) : messages
  }
}

const isRecord = (value: unknown): value is Json => typeof value === "object" && value !== null && !Array.isArray(value)

const spoken = (messages: ReadonlyArray<Json>, role: "user" | "assistant", text: string): Json => {
  if (messages.some((message) => message["type"] !== undefined)) {
    return { type: "message", role, content: [{ type: role === "user" ? "input_text" : "output_text", text }] }
  }
  const inParts = messages.find((message) => message["parts"] !== undefined)
  if (inParts === undefined) return { role, content: text }
  if (inParts["id"] !== undefined) return { id: text, role, parts: [{ type: "text", text }] }
  return { role: role === "user" ? "user" : "model", parts: [{ text }] }
}

const strikeInside = (
  messages: Array<Json>,
  index: number,
  message: Json,
  kind: Blow["kind"],
  at: number,
  to: number
): Array<Json> => {
  const found = partsOf(message)
  if (kind.endsWith("Part") || kind === "split") {
    if (found === undefined) return messages
    const { list, parts } = found
    const slot = to % parts.length
    switch (kind) {
      case "deletePart":
        return messages.with(index, { ...message, [list]: parts.toSpliced(slot, 1) })
      case "duplicatePart":
        return messages.with(index, { ...message, [list]: parts.toSpliced(at % parts.length, 0, clone(parts[slot])) })
      case "split":
        return messages.toSpliced(
          index,
          1,
          { ...message, [list]: parts.slice(0, slot) },
          { ...message, [list]: parts.slice(slot) }
        )
      default: {
        const target = (at + to) % messages.length
        const there = partsOf(messages[target]!)
        if (there === undefined || there.list !== list || target === index) return messages
        const moved = there.parts.toSpliced(at % (there.parts.length + 1), 0, parts[slot])
        return messages
          .with(index, { ...message, [list]: parts.toSpliced(slot, 1) })
          .with(target, { ...messages[target]!, [list]: moved })
      }
    }
  }
  const wrongIds = ["", " ", "a b|c", "x".repeat(70), "y".repeat(50), "toolu:1"]
  switch (kind) {
    case "mangleId":
      return messages.with(
        index,
        replaceKeys(message, idKeys, to, () => wrongIds[at % wrongIds.length])
      )
    case "shareId": {
      const ids = allIds(messages)
      return messages.with(
        index,
        replaceKeys(message, idKeys, to, () => ids[at % Math.max(1, ids.length)] ?? "")
      )
    }
    case "breakText":
      return messages.with(
        index,
        replaceStrings(message, to, (text) => `${text}\ud83d`)
      )
    case "breakArguments":
      return messages.with(
        index,
        replaceKeys(
          message,
          ["arguments", "input", "args"],
          to,
          (value) => [[], null, typeof value === "string" ? value.slice(0, -3) : JSON.stringify(value), "", 7][at % 5]
        )
      )
    case "breakName":
      return messages.with(
        index,
        replaceKeys(message, ["name", "toolName"], to, () => ["do it.now", "", "n".repeat(80)][at % 3])
      )
    case "empty":
      return messages.with(
        index,
        replaceKeys(message, ["content", "parts", "text", "output"], to, () => [[], "", null][at % 3])
      )
    case "dropField":
      return messages.with(index, dropKey(message, ["output", "summary", "content", "id", "response", "approval"], to))
    case "foreignContent": {
      if (message["role"] !== "tool" || typeof message["content"] !== "string") return messages
      const image = { type: ["image_url", "hologram"][at % 2], image_url: { url: `img${at}x${to}z` } }
      return messages.with(index, {
        ...message,
        content: [{ type: "text", text: message["content"] }, image].slice(to % 2)
      })
    }
    case "changeState": {
      const states = ["input-streaming", "input-available", "approval-requested", "approval-responded", "output-denied"]
      return messages.with(
        index,
        replaceKeys(message, ["state", "approved"], to, () => [...states, true, false][at % 7])
      )
    }
    default:
      return messages
  }
}

const idKeys = ["id", "call_id", "tool_call_id", "tool_use_id", "toolCallId"]

/** Every place below a value whose key is one of `keys`. */
const placesOf = (value: unknown, keys: ReadonlyArray<string>): Array<{ holder: Json; key: string }> => {
  if (Array.isArray(value)) return value.flatMap((member) => placesOf(member, keys))
  if (!isRecord(value)) return []
  return Object.keys(value).flatMap((key) => [
    ...(keys.includes(key) ? [{ holder: value, key }] : []),
    ...placesOf(value[key], keys)
  ])
}

const replaceKeys = (
  message: Json,
  keys: ReadonlyArray<string>,
  to: number,
  change: (value: unknown) => unknown
): Json => {
  const copy = clone(message)
  const places = placesOf(copy, keys)
  const place = places[to % Math.max(1, places.length)]
  if (place !== undefined) place.holder[place.key] = change(place.holder[place.key])
  return copy
}

const dropKey = (message: Json, keys: ReadonlyArray<string>, to: number): Json => {
  const copy = clone(message)
  const places = placesOf(copy, keys)
  const place = places[to % Math.max(1, places.length)]
  if (place !== undefined) delete place.holder[place.key]
  return copy
}

const replaceStrings = (message: Json, to: number, change: (text: string) => string): Json => {
  const copy = clone(message)
  const keys = ["content", "text", "output", "thinking", "arguments", "path", "value", "id", "name"]
  const places = placesOf(copy, keys).filter(({ holder, key }) => typeof holder[key] === "string")
  const place = places[to % Math.max(1, places.length)]
  if (place !== undefined) place.holder[place.key] = change(place.holder[place.key] as string)
  return copy
}

const allIds = (messages: ReadonlyArray<Json>): Array<string> =>
  placesOf(messages, idKeys).flatMap(({ holder, key }) => (typeof holder[key] === "string" ? [holder[key]] : []))
