/**
 * Reading the content fields that formats share.
 *
 * Owns: ids and texts in them, and the text part most formats write. Does not own: any format.
 */
import { isObject, show, textOf, type JsonObject } from "../Json.ts"

/** An id, if it says anything. */
export const blankless = (id: unknown): string | undefined =>
  typeof id === "string" && id.trim() !== "" ? id : undefined

/** Content that is a text or a list of parts, as one text. Parts without text are named by their type only. */
export const textIn = (content: unknown): string => {
  if (!Array.isArray(content)) return show(content ?? "")
  return content
    .map((part: unknown) => (isObject(part) ? (textOf(part, "text") ?? `[${typeOf(part)}]`) : show(part)))
    .join("\n")
}

/** The text part of most formats. */
export const textPart = (text: string): JsonObject => ({ type: "text", text })

const typeOf = (part: JsonObject): string => textOf(part, "type") ?? "part"
