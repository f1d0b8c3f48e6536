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
 * A value that JSON cannot hold at all (a cycle, a bigint), or that is nested so deep that writing it again could fail where
 * less of the stack is left, becomes a string that says so; nothing throws.
 */
export const toJson = (value: unknown): Json => {
  if (typeof value === "string") return value
  try {
    const text = JSON.stringify(value)
    if (text === undefined) return null
    return isDeep(text) ? `[not JSON: nested more than ${deepest} levels]` : (JSON.parse(text) as Json)
  } catch (error) {
    return `[not JSON: ${error instanceof Error ? error.message : String(error)}]`
  }
}

/** Levels a stored value may have. */
const deepest = 1_000

/** Whether a JSON text is nested deeper than a stored one may be. */
const isDeep = (text: string): boolean => {
  // Every level has two brackets.
  if (text.length <= 2 * deepest) return false
  let level = 0
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === 0x22) at = endOfString(text, at)
    else if (code === 0x5b || code === 0x7b) {
      if (++level > deepest) return true
    } else if (code === 0x5d || code === 0x7d) level--
  }
  return false
}

/** The quotation mark that ends the string that begins here. */
const endOfString = (text: string, start: number): number => {
  for (let end = text.indexOf('"', start + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    let escapes = 0
    while (text.charCodeAt(end - 1 - escapes) === 0x5c) escapes++
    if (escapes % 2 === 0) return end
  }
  return text.length
}

const wellFormed = (value: unknown): unknown => {
  if (typeof value === "string") return value.toWellFormed()
  if (Array.isArray(value)) return value.map(wellFormed)
  if (typeof value === "object" && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([key, member]) => [key.toWellFormed(), wellFormed(member)]))
  }
  return typeof value === "number" && !Number.isFinite(value) ? null : value
}
