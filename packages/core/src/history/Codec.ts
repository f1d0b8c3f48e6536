/**
 * What writes the messages of a session in a format, and reads a format into messages of a session: one interface, six
 * implementations in `codecs/`.
 *
 * Owns: the interface, and what the codecs share. Does not own: whether a history is valid (`Verify`), the durable form of
 * messages (`core/Transcript`).
 *
 * - C1. What is written is JSON and well-formed Unicode, whatever the messages hold.
 * - C2. What a format cannot carry is told, in either direction.
 * - C3. A reader is given a repaired history; of any other it makes what it can, and never throws.
 */
import * as Prompt from "effect/ai/Prompt"
import type { Json } from "../Canonical.ts"
import * as Canonical from "../Canonical.ts"
import type { Answer, PastMessage, PastPart, UserPart } from "../Transcript.ts"
import { isObject, show, step, type JsonObject } from "./Json.ts"
import * as WellFormedJson from "./WellFormedJson.ts"

/** What a format could not carry: `at` is a JSON pointer to the message it was in. */
export interface Lost {
  readonly at: string
  readonly note: string
  readonly content: unknown
}

/** Hears of what is lost of the message that is being written (C2). */
export type Lose = (note: string, content: unknown) => void

/** Nobody asks. */
export const unheard: Lose = () => {}

/** The messages of a history, and what of it is in none of them. */
export interface Read {
  readonly messages: ReadonlyArray<PastMessage>
  readonly lost: ReadonlyArray<Lost>
}

export interface Codec {
  /** Writes messages; `lose` hears of what the format cannot carry, with the index of its message. */
  readonly write: (messages: ReadonlyArray<Prompt.Message>, lose: (index: number) => Lose) => ReadonlyArray<JsonObject>
  /** Reads a history (C3). */
  readonly read: (messages: ReadonlyArray<unknown>) => Read
}

/** The writer of a format in which every message is written by itself. */
export const eachWith =
  (write: (message: Prompt.Message, lose: Lose) => ReadonlyArray<JsonObject>): Codec["write"] =>
  (messages, lose) =>
    messages.flatMap((message, index) => write(message, lose(index)))

/** What a reader puts together. */
export interface Reading {
  readonly user: (parts: ReadonlyArray<UserPart>) => void
  readonly assistant: (parts: ReadonlyArray<PastPart>) => void
  /** A result; without a name it gets the name of its call. */
  readonly answer: (answer: Omit<Answer, "name"> & { readonly name?: string | undefined }) => void
  readonly lose: (index: number, note: string, content: unknown, path?: string) => void
  /** Tells of the members of an object that are not among those its reader knows, if they say anything. */
  readonly rest: (index: number, object: JsonObject, known: ReadonlySet<string>, path?: string) => void
  readonly done: () => Read
}

export const reading = (): Reading => {
  const messages: Array<PastMessage> = []
  const lost: Array<Lost> = []
  const names = new Map<string, string>()
  let answers: Array<Answer> | undefined
  const lose: Reading["lose"] = (index, note, content, path = "") =>
    void lost.push({ at: step(index) + path, note, content })
  return {
    user: (parts) => {
      answers = undefined
      if (parts.length > 0) messages.push({ role: "user", parts })
    },
    assistant: (parts) => {
      answers = undefined
      for (const part of parts) if (part.type === "tool-call") names.set(part.wireId, part.name)
      if (parts.length > 0) messages.push({ role: "assistant", parts })
    },
    answer: ({ name, ...answer }) => {
      if (answers === undefined) messages.push({ role: "tool", answers: (answers = []) })
      answers.push({ ...answer, name: name ?? names.get(answer.wireId) ?? "unknown" })
    },
    lose,
    rest: (index, object, known, path) => {
      for (const [key, value] of Object.entries(object)) {
        if (!known.has(key) && saysSomething(value)) lose(index, unknownMember, value, `${path ?? ""}${step(key)}`)
      }
    },
    done: () => ({ messages, lost })
  }
}

/** The reader of a format in which every message is read by itself. */
export const readEach =
  (read: (message: JsonObject, index: number, into: Reading) => void): Codec["read"] =>
  (messages) => {
    const into = reading()
    messages.forEach((message, index) =>
      isObject(message) ? read(message, index, into) : into.lose(index, unknownPart, message)
    )
    return into.done()
  }

/** Why a system message is not read. */
export const systemPrompt = "a system message: the agent brings its own instructions"

/** Why a part is not read. */
export const unknownPart = "a part that messages of a session cannot carry"

/** What of a result is not read where results are texts. */
export const otherContent = "content of a result that is not text"

/** Why a member of a message or a part is not read. */
const unknownMember = "a member that messages of a session do not have"

/** The names of members that a reader knows, beside those that only tell an object from others or are for a cache. */
export const members = (...names: ReadonlyArray<string>): ReadonlySet<string> =>
  new Set([...names, "type", "role", "id", "status", "state", "index", "cache_control"])

const saysSomething = (value: unknown): boolean =>
  typeof value === "object" && value !== null ? Object.keys(value).length > 0 : Boolean(value)

/** A value as JSON. */
export const json = (value: unknown): Json => Canonical.toJson(value)

/** A value as plain JSON in well-formed Unicode (C1). */
export const wellFormedJson = (value: unknown): unknown => JSON.parse(WellFormedJson.stringify(value)) as unknown

/** A result as text. */
export const resultText = (part: Prompt.ToolResultPart): string => {
  if (part.modelOutput !== undefined) return Prompt.toolModelOutputToText(part.modelOutput).toWellFormed()
  return typeof part.result === "string" ? part.result.toWellFormed() : WellFormedJson.stringify(part.result)
}

/** A result as text, told if that makes it another kind of value. */
export const resultAsText = (part: Prompt.ToolResultPart, lose: Lose, keepsFailure: boolean): string => {
  if (part.isFailure && !keepsFailure) lose("that a result was a failure", part.id)
  if (typeof part.result !== "string") lose("the structure of a result, which is text now", part.result)
  return resultText(part)
}

/** Options of a provider, if there are any. */
export const optionsOf = (options: Prompt.ProviderOptions, provider: string): JsonObject => {
  const found = options[provider]
  return isObject(found) ? found : {}
}

/** The options field of a stored part; absent when it would be empty. */
export const optionsField = (
  provider: string,
  values: { readonly [key: string]: string | undefined }
): { readonly options?: { readonly [provider: string]: Json } } => {
  const given = Object.entries(values).filter((entry): entry is [string, string] => entry[1] !== undefined)
  return given.length === 0 ? {} : { options: { [provider]: Object.fromEntries(given) } }
}

/** A text of any origin. */
export const textOfAny = (value: unknown): string => (typeof value === "string" ? value : show(value ?? ""))
