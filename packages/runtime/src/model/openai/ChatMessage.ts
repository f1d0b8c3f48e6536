/**
 * Messages of a prompt as JSON text of the OpenAI Chat wire.
 *
 * Owns: encoding a message once. Does not own: its form (`core/history/codecs/OpenAiChat`), the order and pairing of messages
 * (the request gate) or the rest of the body (`ChatRequest`).
 *
 * - M1. A message is encoded once: decoded prompt messages never change, so their text is kept for as long as the message
 *   object lives. Whoever looks at a message before it is sent makes the form it is sent in.
 * - M2. A message with nothing the wire can carry is the empty text and is left out.
 */
import { unheard } from "@turnstep/core/history/Codec"
import type * as ChatOpaque from "@turnstep/core/history/codecs/ChatOpaque"
import * as OpenAiChat from "@turnstep/core/history/codecs/OpenAiChat"
import type { JsonObject } from "@turnstep/core/history/Json"
import * as WellFormedJson from "@turnstep/core/history/WellFormedJson"
import type * as Prompt from "effect/ai/Prompt"

/** The messages of one model. */
export interface Encoder {
  /** A message in the form it is sent in. */
  readonly write: (message: Prompt.Message) => ReadonlyArray<JsonObject>
  /** Its text; what `write` made before is taken, and let go (M1). */
  readonly text: (message: Prompt.Message) => string
}

/** An encoder for what the recipient takes. Another recipient makes it encode all messages anew. */
export const encoder = (recipient: () => ChatOpaque.Recipient): Encoder => {
  let known: ChatOpaque.Recipient | undefined
  let written = new WeakMap<Prompt.Message, ReadonlyArray<JsonObject>>()
  let texts = new WeakMap<Prompt.Message, string>()
  const current = (): ChatOpaque.Recipient => {
    const now = recipient()
    if (known === now) return now
    written = new WeakMap()
    texts = new WeakMap()
    known = now
    return now
  }
  const write = (message: Prompt.Message): ReadonlyArray<JsonObject> => {
    const to = current()
    const before = written.get(message)
    if (before !== undefined) return before
    const made = OpenAiChat.write(message, unheard, to)
    written.set(message, made)
    return made
  }
  const text = (message: Prompt.Message): string => {
    current()
    const before = texts.get(message)
    if (before !== undefined) return before
    const made = write(message)
      .map((part) => WellFormedJson.stringify(part))
      .join(",")
    texts.set(message, made)
    written.delete(message)
    return made
  }
  return { write, text }
}
