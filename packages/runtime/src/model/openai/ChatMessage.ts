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
import * as OpenAiChat from "@turnstep/core/history/codecs/OpenAiChat"
import type { JsonObject } from "@turnstep/core/history/Json"
import * as WellFormedJson from "@turnstep/core/history/WellFormedJson"
import type * as Prompt from "effect/ai/Prompt"

export type { ReasoningField } from "@turnstep/core/history/codecs/OpenAiChat"

/** The messages of one model. */
export interface Encoder {
  /** A message in the form it is sent in. */
  readonly write: (message: Prompt.Message) => ReadonlyArray<JsonObject>
  /** Its text; what `write` made before is taken, and let go (M1). */
  readonly text: (message: Prompt.Message) => string
}

export const encoder = (reasoning: OpenAiChat.ReasoningField | undefined): Encoder => {
  const written = new WeakMap<Prompt.Message, ReadonlyArray<JsonObject>>()
  const texts = new WeakMap<Prompt.Message, string>()
  const write = (message: Prompt.Message): ReadonlyArray<JsonObject> => {
    const known = written.get(message)
    if (known !== undefined) return known
    const made = OpenAiChat.write(message, unheard, reasoning)
    written.set(message, made)
    return made
  }
  const text = (message: Prompt.Message): string => {
    const known = texts.get(message)
    if (known !== undefined) return known
    const made = write(message)
      .map((part) => WellFormedJson.stringify(part))
      .join(",")
    texts.set(message, made)
    written.delete(message)
    return made
  }
  return { write, text }
}
