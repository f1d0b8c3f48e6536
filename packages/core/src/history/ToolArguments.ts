/**
 * The arguments of a tool call between the wire (JSON text) and a part (a value).
 *
 * - T1. Reading never fails: text that is not JSON stays the raw string, so that
 *   the runtime can answer the model instead of losing the whole response.
 * - T2. Writing always yields a JSON object: several servers refuse a whole
 *   history because of one earlier call with broken arguments.
 */
import * as Tool from "effect/ai/Tool"
import * as WellFormedJson from "./WellFormedJson.ts"

/** Arguments as the model wrote them; no text at all is an empty object. */
export const read = (text: string): unknown => {
  if (text.trim() === "") return {}
  try {
    return Tool.unsafeSecureJsonParse(text)
  } catch {
    return text // T1
  }
}

/** Is this text one complete JSON value? */
export const isComplete = (text: string): boolean => {
  if (text.trim() === "") return false
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/** The object to send back for a call; what is not an object is kept under `invalid_arguments`. */
export const toObject = (params: unknown): object => {
  const value = typeof params === "string" ? read(params) : (params ?? {})
  return typeof value === "object" && value !== null && !Array.isArray(value) ? value : { invalid_arguments: value } // T2
}

/** `toObject` as JSON text. */
export const write = (params: unknown): string => WellFormedJson.stringify(toObject(params))
