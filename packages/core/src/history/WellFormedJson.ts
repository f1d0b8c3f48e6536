/**
 * JSON text without lone surrogates.
 *
 * `JSON.stringify` writes a lone surrogate as an escape, which providers refuse
 * as malformed Unicode; the whole history is then stuck. Here it becomes U+FFFD.
 */

/** JSON text of a value; what JSON cannot say (`undefined`, a function) is `null`. Throws on cycles and bigints. */
export const stringify = (value: unknown): string => {
  const text: string | undefined = JSON.stringify(value)
  if (text === undefined) return "null"
  return loneSurrogate.test(text) ? JSON.stringify(JSON.parse(text, mend)) : text
}

// A paired surrogate is never escaped by JSON.stringify, so an escape is either a lone one or the text of one.
const loneSurrogate = /\\ud[89a-f]/i

const mend = (_key: string, value: unknown): unknown => {
  if (typeof value === "string") return value.toWellFormed()
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key.toWellFormed(), member]))
}
