/**
 * A JSON document that holds a message history: the bare array, or a request body around it.
 *
 * Owns: where the messages stand in a document, what the body around them tells of the request, and how a document is
 * written again with other messages. Does not own: what is wrong with the messages (`core/history`).
 *
 * - H1. Whatever stands around the messages is kept. So is the layout: indentation, and the line end behind the document.
 */
import type { Context, FormatName } from "@turnstep/core/history/Contract"
import { isObject, type JsonObject } from "@turnstep/core/history/Json"

/** Where a body keeps its messages, in the order in which they are looked for. */
const places = ["messages", "contents", "input"] as const

/** A history in its document. */
export interface HistoryDocument {
  readonly text: string
  readonly messages: ReadonlyArray<unknown>
  /** The body around the messages; `undefined` for a bare array. */
  readonly body: JsonObject | undefined
  readonly place: (typeof places)[number] | undefined
}

/** The history of a text that is JSON (its value is given too); `undefined` if it holds none. */
export const find = (text: string, value: unknown): HistoryDocument | undefined => {
  if (isHistory(value)) return { text, messages: value, body: undefined, place: undefined }
  if (!isObject(value)) return undefined
  for (const place of places) {
    const messages = value[place]
    if (isHistory(messages)) return { text, messages, body: value, place }
  }
  return undefined
}

/** Whether a value looks like one message, for people who write one message a line. */
export const isMessage = (value: unknown): boolean =>
  isObject(value) && ["role", "type", "parts", "content"].some((key) => value[key] !== undefined)

const isHistory = (value: unknown): value is ReadonlyArray<unknown> =>
  Array.isArray(value) && (value.length === 0 || value.some(isMessage))

/** What the body tells of its request. */
export const contextOf = ({ body }: HistoryDocument): Context => {
  if (body === undefined) return {}
  const { model, store, thinking, tools } = body
  const mode = isObject(thinking) ? thinking["type"] : undefined
  return {
    ...(typeof model === "string" ? { model } : {}),
    ...(typeof store === "boolean" ? { store } : {}),
    ...(Array.isArray(tools) ? { tools } : {}),
    ...(mode === "disabled" ? { thinking: false } : typeof mode === "string" ? { thinking: true } : {})
  }
}

/** The format whose request has this body, where that shows beside the messages. */
export const formatOfBody = ({ body, place }: HistoryDocument): FormatName | undefined => {
  if (body === undefined) return undefined
  if (place === "contents") return "gemini"
  if (place === "input") return body["model"] === undefined ? undefined : "openai-responses"
  return body["system"] === undefined ? undefined : "anthropic"
}

/** The document with other messages in the place of its own (H1). */
export const write = ({ body, place, text }: HistoryDocument, messages: ReadonlyArray<unknown>): string => {
  const value = body === undefined || place === undefined ? messages : { ...body, [place]: messages }
  const indent = /^\s*[[{]\r?\n([ \t]+)/.exec(text)?.[1]
  return JSON.stringify(value, undefined, indent) + (/\r?\n$/.exec(text)?.[0] ?? "")
}

/** The first line, counted from 1, up to which a text can no longer be the beginning of JSON. */
export const faultLine = (text: string): number => {
  const lines = text.split("\n")
  let low = 1
  let high = lines.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (isBroken(lines.slice(0, middle).join("\n"))) high = middle
    else low = middle + 1
  }
  return low
}

/** Whether a text is neither JSON nor its beginning: the parser gives up before the end. */
const isBroken = (text: string): boolean => {
  try {
    JSON.parse(text)
    return false
  } catch (error) {
    const message = error instanceof Error ? error.message : ""
    const at = /at position (\d+)/.exec(message)?.[1]
    return at === undefined ? !message.includes("end of JSON input") : Number(at) < text.length
  }
}
