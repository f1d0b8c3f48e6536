/**
 * Messages of a prompt in the form that provider packages of the AI SDK take.
 *
 * Owns: converting a message once, and the form of file data. Does not own: the form of a message
 * (`core/history/codecs/AiSdkModel`), order and pairing (the request gate).
 *
 * - M1. A message is converted once; its form is kept while the message object lives.
 */
import type * as Provider from "@ai-sdk/provider"
import * as AiSdkModel from "@turnstep/core/history/codecs/AiSdkModel"
import type { JsonObject } from "@turnstep/core/history/Json"
import type * as Prompt from "effect/ai/Prompt"

/** A message in the form it is sent in; none for one with nothing to send. */
export type Writer = (message: Prompt.Message) => ReadonlyArray<JsonObject>

/** The messages of one model (M1). */
export const writer = (): Writer => {
  const kept = new WeakMap<Prompt.Message, ReadonlyArray<JsonObject>>()
  return (message) => {
    const known = kept.get(message)
    if (known !== undefined) return known
    const written = AiSdkModel.write(message, fileData)
    kept.set(message, written)
    return written
  }
}

/** What a writer wrote is the package's own form: its ModelMessages, with the file data of providers. */
export const converted = (messages: ReadonlyArray<JsonObject>): Array<Provider.LanguageModelV4Message> =>
  messages as ReadonlyArray<unknown> as Array<Provider.LanguageModelV4Message>

const fileData: AiSdkModel.FileForm = (data) => {
  if (data instanceof Uint8Array) return { type: "data", data }
  const text = data instanceof URL ? data.href : data
  const embedded = /^data:[^,]*;base64,/i.exec(text)
  if (embedded !== null) return { type: "data", data: text.slice(embedded[0].length) }
  return /^https?:/i.test(text) ? { type: "url", url: new URL(text) } : { type: "data", data: text }
}
