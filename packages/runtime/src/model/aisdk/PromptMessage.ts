/**
 * Messages of a prompt in the form of the AI SDK.
 *
 * Owns: the form of one message. Does not own: order and pairing (the history
 * contract), or what a provider package makes of it.
 *
 * - M1. A message is converted once; its form is kept while the message object lives.
 * - M2. Options of a part come back as `providerOptions`: signatures of thinking and
 *   of calls return to the provider that gave them.
 * - M3. No lone surrogates, no empty text parts, call inputs are objects.
 */
import type * as Provider from "@ai-sdk/provider"
import type * as Prompt from "effect/ai/Prompt"
import * as ToolArguments from "../ToolArguments.ts"
import * as ToolName from "../ToolName.ts"
import * as WellFormedJson from "../WellFormedJson.ts"

type Message = Provider.LanguageModelV4Message
type MessageOf<Role extends Message["role"]> = Extract<Message, { readonly role: Role }>
type Output = Extract<MessageOf<"tool">["content"][number], { readonly type: "tool-result" }>["output"]

/** Converter that keeps the form of every message it has seen (M1); `undefined` for one with nothing to send. */
export const converter = (): ((message: Prompt.Message) => Message | undefined) => {
  const kept = new WeakMap<Prompt.Message, { readonly converted: Message | undefined }>()
  return (message) => {
    const known = kept.get(message)
    if (known !== undefined) return known.converted
    const converted = convert(message)
    kept.set(message, { converted })
    return converted
  }
}

const convert = (message: Prompt.Message): Message | undefined => {
  switch (message.role) {
    case "system":
      return { role: "system", content: message.content.toWellFormed(), ...options(message) }
    case "user":
      return { role: "user", content: message.content.map(userPart), ...options(message) }
    case "assistant": {
      const content = message.content.flatMap(assistantPart)
      return content.length === 0 ? undefined : { role: "assistant", content, ...options(message) }
    }
    case "tool": {
      const content = message.content.flatMap((part) => (part.type === "tool-result" ? [result(part)] : []))
      return content.length === 0 ? undefined : { role: "tool", content, ...options(message) }
    }
  }
}

const userPart = (part: Prompt.UserMessagePart): MessageOf<"user">["content"][number] =>
  part.type === "text" ? { type: "text", text: part.text.toWellFormed(), ...options(part) } : file(part)

const assistantPart = (part: Prompt.AssistantMessagePart): MessageOf<"assistant">["content"] => {
  switch (part.type) {
    case "text":
      return part.text === "" ? [] : [{ type: "text", text: part.text.toWellFormed(), ...options(part) }]
    case "reasoning": // not mended: a signature covers the text
      return [{ type: "reasoning", text: part.text, ...options(part) }]
    case "file":
      return [file(part)]
    case "tool-call":
      return [
        {
          type: "tool-call",
          toolCallId: part.id,
          toolName: ToolName.toLegal(part.name),
          input: json(ToolArguments.toObject(part.params)),
          ...(part.providerExecuted ? { providerExecuted: true } : undefined),
          ...options(part)
        }
      ]
    case "tool-result":
      return [result(part)]
    case "tool-approval-request":
      return [] // approvals are the runtime's own
  }
}

const result = (part: Prompt.ToolResultPart) => ({
  type: "tool-result" as const,
  toolCallId: part.id,
  toolName: ToolName.toLegal(part.name),
  output: output(part),
  ...options(part)
})

const output = (part: Prompt.ToolResultPart): Output => {
  if (part.modelOutput !== undefined) {
    return {
      type: "content",
      value: part.modelOutput.map((item) =>
        item.type === "text" ? { type: "text", text: item.text.toWellFormed() } : file(item)
      )
    }
  }
  if (typeof part.result === "string") {
    return { type: part.isFailure ? "error-text" : "text", value: part.result.toWellFormed() }
  }
  return { type: part.isFailure ? "error-json" : "json", value: json(part.result) }
}

const file = (part: Prompt.FilePart) => ({
  type: "file" as const,
  mediaType: part.mediaType,
  data: fileData(part.data),
  ...(part.fileName === undefined ? undefined : { filename: part.fileName }),
  ...options(part)
})

const fileData = (data: Prompt.FilePart["data"]) => {
  if (data instanceof Uint8Array) return { type: "data" as const, data }
  const text = data instanceof URL ? data.href : data
  const embedded = /^data:[^,]*;base64,/i.exec(text)
  if (embedded !== null) return { type: "data" as const, data: text.slice(embedded[0].length) }
  return /^https?:/i.test(text) ? { type: "url" as const, url: new URL(text) } : { type: "data" as const, data: text }
}

/** Options under a provider's name that are objects; the AI SDK knows no others. */
const options = (from: {
  readonly options: Prompt.ProviderOptions
}): { readonly providerOptions?: Provider.SharedV4ProviderOptions } => {
  const entries = Object.entries(from.options).filter(([, value]) => typeof value === "object" && value !== null)
  return entries.length === 0
    ? {}
    : { providerOptions: json(Object.fromEntries(entries)) as Provider.SharedV4ProviderOptions }
}

/** A value as plain, well-formed JSON. */
const json = (value: unknown): Provider.JSONValue => JSON.parse(WellFormedJson.stringify(value)) as Provider.JSONValue
