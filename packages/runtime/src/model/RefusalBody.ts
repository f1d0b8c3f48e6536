/**
 * Reading the body of a refusal.
 *
 * Owns: the places in which providers put a reason, a code and a waiting time. Does not own: what they mean (`ProviderRefusal`).
 *
 * - B1. A reason inside a reason is found: JSON in a text, `metadata.raw` of OpenRouter, lists of faults.
 * - B2. The work is bounded, whatever the body holds.
 */
import { isObject, type JsonObject } from "@turnstep/core/history/Json"

/** What a body says. */
export interface Details {
  /** The whole body as text. */
  readonly text: string
  /** The reasons, from the outside in, joined; `undefined` when there is none. */
  readonly message: string | undefined
  /** Codes, types and states, as they are written. */
  readonly names: ReadonlyArray<string>
  readonly param: string | undefined
  /** Milliseconds to wait. */
  readonly retryMillis: number | undefined
}

/** Reads a body, or the error object of a stream. */
export const read = (body: unknown): Details => {
  const text = typeof body === "string" ? body : (JSON.stringify(body) ?? "")
  const found: Found = { messages: [], names: [], param: undefined, retryMillis: undefined, left: mostNodes }
  visit(body, found, 0)
  const messages = found.messages.filter(
    (message, at) => !found.messages.slice(at + 1).some((m) => m.includes(message))
  )
  return {
    text,
    message: messages.length === 0 ? undefined : messages.join(": "),
    names: found.names,
    param: found.param,
    retryMillis: found.retryMillis
  }
}

interface Found {
  readonly messages: Array<string>
  readonly names: Array<string>
  param: string | undefined
  retryMillis: number | undefined
  /** Values that may still be looked at (B2). */
  left: number
}

const mostNodes = 100
const deepest = 8

const visit = (value: unknown, found: Found, depth: number): void => {
  if (depth > deepest || found.left-- <= 0) return
  if (typeof value === "string") return visitText(value, found, depth)
  if (Array.isArray(value)) {
    for (const item of value) visit(item, found, depth + 1)
    return
  }
  if (!isObject(value)) return
  takeNames(value, found)
  for (const name of reasons) {
    const member = value[name]
    if (typeof member === "string" || typeof member === "object") visit(member, found, depth + 1)
  }
  const { metadata } = value
  if (isObject(metadata)) visit(metadata["raw"], found, depth + 1)
}

/** Members that hold a reason, or an object with one. */
const reasons = [
  "error",
  "message",
  "detail",
  "details",
  "errors",
  "msg",
  "error_description",
  "error_msg",
  "title",
  "err"
]

/** A text is a reason, JSON with one (also as an event of a stream), or a page (B1). */
const visitText = (text: string, found: Found, depth: number): void => {
  const trimmed = text.trim().replace(/^data:\s*/, "")
  const parsed = /^[[{"]/.test(trimmed) ? parse(trimmed) : undefined
  if (parsed !== undefined && parsed !== text) return visit(parsed, found, depth + 1)
  const page = /^<(?:!doctype|html|head|body|\?xml)/i.test(trimmed) ? titleOf(trimmed) : trimmed
  if (page !== "") found.messages.push(page)
}

const titleOf = (page: string): string => {
  const part = /<title[^>]*>([^<]{1,300})/i.exec(page)?.[1] ?? /<h1[^>]*>([^<]{1,300})/i.exec(page)?.[1]
  return (part ?? page.slice(0, 4_000).replace(/<[^>]{0,1000}>/g, " ")).replace(/\s+/g, " ").trim()
}

const takeNames = (object: JsonObject, found: Found): void => {
  for (const name of ["code", "type", "status", "error_code", "reason"]) {
    const value = object[name]
    if (typeof value === "number" || (typeof value === "string" && value !== "")) found.names.push(String(value))
  }
  const { loc, param, retryDelay } = object
  if (typeof param === "string") found.param ??= param
  else if (Array.isArray(loc)) found.param ??= loc.join(".")
  const seconds = typeof retryDelay === "string" ? Number.parseFloat(retryDelay) : Number.NaN
  if (Number.isFinite(seconds)) found.retryMillis ??= Math.max(0, seconds * 1_000)
}

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
