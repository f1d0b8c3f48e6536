/**
 * Canonical JSON (RFC 8785) and its SHA-256 digest: two values that mean the same have the same text.
 *
 * Owns: equality of arguments and bodies. Does not own: what is compared with what.
 */
import canonicalize from "canonicalize"
import { hash } from "node:crypto"

/** A JSON value. */
export type Json = null | boolean | number | string | ReadonlyArray<Json> | { readonly [key: string]: Json }

/**
 * The canonical text of a JSON value: object keys sorted, no white space, `undefined` members left out.
 * Lone surrogates, which RFC 8785 refuses, are replaced by U+FFFD, so that any string a model can emit has a digest.
 */
export const stringify = (value: unknown): string => {
  try {
    return canonicalize(value) ?? "null"
  } catch {
    return canonicalize(wellFormed(value)) ?? "null"
  }
}

/** SHA-256 of the canonical text, lowercase hexadecimal. */
export const digest = (value: unknown): string => digestText(stringify(value))

/** SHA-256 of a text in UTF-8, lowercase hexadecimal. */
export const digestText = (text: string): string => hash("sha256", text, "hex")

/**
 * The JSON a value is stored as: what `JSON.stringify` would write, with non-finite numbers as `null`.
 * A value that JSON cannot hold at all (a cycle, a bigint) becomes a string that says so; nothing throws.
 */
export const toJson = (value: unknown): Json => {
  if (typeof value === "string") return value
  try {
    const text = JSON.stringify(value)
    return text === undefined ? null : (JSON.parse(text) as Json)
  } catch (error) {
    return `[not JSON: ${error instanceof Error ? error.message : String(error)}]`
  }
}

const wellFormed = (value: unknown): unknown => {
  if (typeof value === "string") return value.toWellFormed()
  if (Array.isArray(value)) return value.map(wellFormed)
  if (typeof value === "object" && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([key, member]) => [key.toWellFormed(), wellFormed(member)]))
  }
  return typeof value === "number" && !Number.isFinite(value) ? null : value
}
