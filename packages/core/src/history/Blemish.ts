/**
 * Builds what the formats say about single messages and parts.
 *
 * Owns: the usual forms of blemishes and their fixes. Does not own: when they apply.
 */
import type { Rules } from "./Contract.ts"
import type { Blemish } from "./Format.ts"
import { show, type JsonObject } from "./Json.ts"

export type Fix = NonNullable<Blemish["fix"]>

/** One error with its fix. */
export const error = (code: Blemish["code"], path: string, message: string, fix: Fix): Blemish => ({
  code,
  severity: "error",
  path,
  message,
  fix
})

/** The blemishes two checks gave. */
export const found = (a: Blemish | undefined, b: Blemish | undefined): ReadonlyArray<Blemish> | undefined => {
  if (a === undefined) return b === undefined ? undefined : [b]
  return b === undefined ? [a] : [a, b]
}

/** A fix that takes a value out. */
export const removal = (note: string, dropped: unknown): Fix => ({ to: [], action: "drop", note, dropped: [dropped] })

/** A fix that puts another value in its place. */
export const rewriting = (note: string, to: unknown, dropped?: ReadonlyArray<unknown>): Fix => ({
  to: [to],
  action: "rewrite",
  note,
  ...(dropped === undefined ? {} : { dropped })
})

/** A part that its role cannot carry; the marked text `kept` takes its place, or nothing. */
export const misplaced = (part: unknown, kept: ReadonlyArray<unknown>): ReadonlyArray<Blemish> => {
  const note = kept.length === 0 ? "a part of another role" : "a part of another role, kept as text"
  const fix: Fix = { to: kept, action: kept.length === 0 ? "drop" : "flatten", note, dropped: [part] }
  return [error("PART_MISPLACED", "", "this role carries no such part", fix)]
}

/** A message of a role the format does not have. */
export const unknownRole = (role: unknown): ReadonlyArray<Blemish> => [
  {
    code: "MESSAGE_UNKNOWN",
    severity: "error",
    path: "",
    message: `role ${show(role ?? "")} is unknown`,
    choices: ["remove-message"]
  }
]

/** A message that says nothing. Where roles must alternate, `kept` holds the place of an answer; otherwise it goes. */
export const empty = (message: JsonObject, rules: Rules, kept?: JsonObject): ReadonlyArray<Blemish> => {
  const isHeld = rules.alternates === true && kept !== undefined
  const fix = isHeld ? rewriting("a note keeps its place", kept) : removal("an empty message", message)
  return [error("EMPTY_CONTENT", "", "message has no content", fix)]
}
