/**
 * Images no server can read, which make every later request fail (rule A16).
 *
 * Owns: telling the kind of an image from its first bytes. Does not own: decoding.
 */
import { isObject, type JsonObject } from "./Json.ts"

/** Base64 data above this length is refused (5 MiB). */
const maxLength = 5_242_880

const signatures: ReadonlyArray<readonly [string, string]> = [
  ["iVBORw0KGgo", "image/png"],
  ["/9j/", "image/jpeg"],
  ["R0lGOD", "image/gif"],
  ["UklGR", "image/webp"]
]

/**
 * What is wrong with an Anthropic image block: `unreadable`, or the media type it really has. `undefined` for a readable
 * one, and for images that are given by reference.
 */
export const imageFault = (block: JsonObject): "unreadable" | { readonly mediaType: string } | undefined => {
  const source = block["source"]
  if (block["type"] !== "image" || !isObject(source) || source["type"] !== "base64") return undefined
  const data = source["data"]
  if (typeof data !== "string" || data.length > maxLength) return "unreadable"
  const found = signatures.find(([start]) => data.startsWith(start))
  if (found === undefined) return "unreadable"
  return found[1] === source["media_type"] ? undefined : { mediaType: found[1] }
}
