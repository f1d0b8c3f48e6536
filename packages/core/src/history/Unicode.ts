/**
 * Lone surrogates, which no provider's JSON reader accepts (rules O11, A13).
 *
 * Owns: finding and replacing them anywhere in a message. Does not own: other texts.
 */
import type { Fault, History } from "./Format.ts"
import { isSuspended } from "./History.ts"
import { isObject, listOf, step } from "./Json.ts"
import type { Note, Rewritten } from "./Rewritten.ts"

/** The malformed texts of a history. */
export const unicodeFaults = (history: History): ReadonlyArray<Fault> => {
  const faults: Array<Fault> = []
  history.messages.forEach((message, index) => {
    if (isWellFormed(message)) return
    for (const path of malformedIn(message, "")) {
      const choices = isInSuspended(history, index, path) ? ({ choices: ["answer-call"] } as const) : undefined
      const says = "text has a lone surrogate"
      faults.push({ code: "MALFORMED_UNICODE", severity: "error", index, path, message: says, ...choices })
    }
  })
  return faults
}

/** Replaces lone surrogates everywhere but in suspended calls; `undefined` if there are none. */
export const mendUnicode = (history: History): Rewritten | undefined => {
  const notes: Array<Note> = []
  const messages = history.messages.map((message, index) => {
    if (isWellFormed(message)) return message
    const paths = malformedIn(message, "").filter((path) => !isInSuspended(history, index, path))
    if (paths.length === 0) return message
    for (const path of paths) {
      const note = "lone surrogates are U+FFFD now"
      notes.push({ index, path, code: "MALFORMED_UNICODE", action: "rewrite", note })
    }
    return mended(history, message, index)
  })
  return notes.length === 0 ? undefined : { messages, origins: messages.map((_, index) => index), notes }
}

const listWithCalls = (history: History): string => history.format.calls?.callList ?? "parts"

const isInSuspended = (history: History, index: number, path: string): boolean => {
  const [, list, slot] = path.split("/")
  return (
    isSuspended(history, index, -1) || (list === listWithCalls(history) && isSuspended(history, index, Number(slot)))
  )
}

/** The message in well-formed Unicode, but for its suspended calls. */
const mended = (history: History, message: unknown, index: number): unknown => {
  const whole = wellFormed(message)
  if (!isObject(message) || !isObject(whole) || !history.suspended.has(index)) return whole
  const list = listWithCalls(history)
  const before = listOf(message, list)
  const parts = listOf(whole, list).map((part, slot) => (isSuspended(history, index, slot) ? before[slot] : part))
  return { ...whole, [list]: parts }
}

/** Whether every string and key of the value is well-formed Unicode. */
export const isWellFormed = (value: unknown): boolean => {
  if (typeof value === "string") return value.isWellFormed()
  if (typeof value !== "object" || value === null || ArrayBuffer.isView(value)) return true
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) if (!isWellFormed(value[index])) return false
    return true
  }
  const object = value as { readonly [key: string]: unknown }
  for (const key in object) {
    const member = object[key]
    if (typeof member === "string" ? !member.isWellFormed() : typeof member === "object" && !isWellFormed(member)) {
      return false
    }
    if (!key.isWellFormed()) return false
  }
  return true
}

/** Pointers to the malformed strings below a value. A malformed key is named by the object that holds it. */
export const malformedIn = (value: unknown, path: string): ReadonlyArray<string> => {
  if (typeof value === "string") return value.isWellFormed() ? [] : [path]
  if (Array.isArray(value)) return value.flatMap((member, index) => malformedIn(member, path + step(index)))
  if (!isObject(value)) return []
  const keys = Object.keys(value)
  return [
    ...(keys.some((key) => !key.isWellFormed()) ? [path] : []),
    ...keys.flatMap((key) => malformedIn(value[key], path + step(key.toWellFormed())))
  ]
}

/** The value with U+FFFD for every lone surrogate; the same value if there is none. */
export const wellFormed = (value: unknown): unknown => {
  if (isWellFormed(value)) return value
  if (typeof value === "string") return value.toWellFormed()
  if (Array.isArray(value)) return value.map(wellFormed)
  if (!isObject(value)) return value
  const names = new Set(Object.keys(value))
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => {
      let name = key.toWellFormed()
      // Two keys may become one; the later gets a longer name, so that no member is lost.
      while (name !== key && names.has(name)) name += "\ufffd"
      names.add(name)
      return [name, wellFormed(member)]
    })
  )
}
