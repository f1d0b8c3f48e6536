/**
 * The durable record: messages as the provider issued them.
 *
 * Owns: finding the issued form of a message. Does not own: what is taken from it.
 */
import type { Format, History } from "./Format.ts"
import { isObject, type JsonObject } from "./Json.ts"

/** Finds the issued message with the same calls (or, without calls, the same content). */
export const recordOf = (history: History): ((message: unknown) => JsonObject | undefined) => {
  const { format } = history
  let byKey: Map<string, JsonObject> | undefined
  return (message) => {
    byKey ??= new Map(history.context.record?.filter(isObject).map((issued) => [keyOf(format, issued), issued]))
    return byKey.get(keyOf(format, message))
  }
}

const keyOf = (format: Format, message: unknown): string => {
  const { calls } = format.entry(message, 0)
  if (calls.length > 0) return JSON.stringify(calls.map((call) => call.id ?? [call.name, call.args]))
  return isObject(message) ? JSON.stringify([message["role"], message["content"] ?? message["parts"]]) : ""
}
