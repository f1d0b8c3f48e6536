/**
 * Reading JSON of unknown origin.
 *
 * Owns: narrowing, equality and pointers. Does not own: what the values mean.
 */

/** A JSON object of unknown shape. */
export type JsonObject = { readonly [key: string]: unknown }

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** The list under a key; anything else counts as no list. */
export const listOf = (object: JsonObject, key: string): ReadonlyArray<unknown> => {
  const value = object[key]
  return Array.isArray(value) ? value : none
}

/** The text under a key, if it is text with at least one character. */
export const textOf = (object: JsonObject, key: string): string | undefined => {
  const value = object[key]
  return typeof value === "string" && value !== "" ? value : undefined
}

/** Structural equality of JSON values; the order of keys does not count. */
export const equal = (a: unknown, b: unknown): boolean => {
  if (a === b) return true
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false
  if (Array.isArray(a) || Array.isArray(b)) {
    return (
      Array.isArray(a) && Array.isArray(b) && a.length === b.length && a.every((value, index) => equal(value, b[index]))
    )
  }
  const left = a as JsonObject
  const right = b as JsonObject
  const keys = Object.keys(left)
  return (
    keys.length === Object.keys(right).length &&
    keys.every((key) => Object.hasOwn(right, key) && equal(left[key], right[key]))
  )
}

/** The object without a key. */
export const omit = (object: JsonObject, key: string): JsonObject => {
  const { [key]: _, ...rest } = object
  return rest
}

/** One step of a JSON pointer (RFC 6901). */
export const step = (key: string | number): string =>
  `/${typeof key === "number" ? key : key.replaceAll("~", "~0").replaceAll("/", "~1")}`

/** A value as text for a reader: text stays as it is, the rest becomes JSON. */
export const show = (value: unknown): string => (typeof value === "string" ? value : (JSON.stringify(value) ?? "null"))

const none: ReadonlyArray<unknown> = []
