/**
 * The messages of a session, as they are stored and as the model reads them.
 *
 * Stored parts are our own small schema, so that a stored history outlives changes of `effect/ai`; the window handed to
 * the model is made of decoded `effect/ai` messages. A message is converted once, and the object is kept: wire clients
 * cache their encoding by its identity.
 *
 * Owns: the form of messages and their conversion. Does not own: which messages are in the window (`SessionState`).
 *
 * - T1. The results of a batch are one tool message, in the order of the calls, complete before it is in the window.
 */
import * as Prompt from "effect/ai/Prompt"
import * as Schema from "effect/Schema"
import { CallId } from "./Ids.ts"

/** What a provider wants back unchanged with a part (thinking signatures, item ids), keyed by provider. */
const Options = Schema.optionalKey(Schema.Record(Schema.String, Schema.NullOr(Schema.Json)))

export const TextPart = Schema.Struct({ type: Schema.tag("text"), text: Schema.String, options: Options })

/** A file of the user's: `data` is a URL (`https:` or `data:`). */
export const FilePart = Schema.Struct({
  type: Schema.tag("file"),
  mediaType: Schema.String,
  data: Schema.String,
  fileName: Schema.optionalKey(Schema.String)
})

export const ReasoningPart = Schema.Struct({ type: Schema.tag("reasoning"), text: Schema.String, options: Options })

/** A call as the model wrote it. `wireId` is the id the provider knows it by; `params` is a string when it was not valid JSON. */
export const ToolCallPart = Schema.Struct({
  type: Schema.tag("tool-call"),
  callId: CallId,
  wireId: Schema.String,
  name: Schema.String,
  params: Schema.Json,
  options: Options
})

export const UserPart = Schema.Union([TextPart, FilePart])
export type UserPart = typeof UserPart.Type

export const AssistantPart = Schema.Union([TextPart, ReasoningPart, ToolCallPart])
export type AssistantPart = typeof AssistantPart.Type
export type ToolCallPart = typeof ToolCallPart.Type

/** The answer to one call, as the model reads it. */
export const Answer = Schema.Struct({
  wireId: Schema.String,
  name: Schema.String,
  isFailure: Schema.Boolean,
  result: Schema.Json
})
export type Answer = typeof Answer.Type

/** A call of a history from elsewhere: no Turn of the session made it, so it has no `callId`. */
export const PastCall = Schema.Struct({
  type: Schema.tag("tool-call"),
  wireId: Schema.String,
  name: Schema.String,
  params: Schema.Json,
  options: Options
})

/** A message of a history from elsewhere. The results of a batch are one message, right behind its calls (T1). */
export const PastMessage = Schema.Union([
  Schema.Struct({ role: Schema.Literal("user"), parts: Schema.Array(UserPart) }),
  Schema.Struct({
    role: Schema.Literal("assistant"),
    parts: Schema.Array(Schema.Union([TextPart, ReasoningPart, PastCall]))
  }),
  Schema.Struct({ role: Schema.Literal("tool"), answers: Schema.Array(Answer) })
])
export type PastMessage = typeof PastMessage.Type
export type PastPart = Extract<PastMessage, { readonly role: "assistant" }>["parts"][number]

/** The text of a message's text parts. */
export const textOf = (parts: ReadonlyArray<UserPart | AssistantPart>): string =>
  parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("")

/** A user message from plain text. */
export const userText = (text: string): ReadonlyArray<UserPart> => [{ type: "text", text }]

export const systemMessage = (text: string): Prompt.SystemMessage => Prompt.systemMessage({ content: text })

/**
 * The user message of parts. Whatever was sent can be sent on: a message that a provider refuses would be refused with every
 * request to come.
 */
export const userMessage = (parts: ReadonlyArray<UserPart>): Prompt.UserMessage => {
  const isEmpty = parts.every((part) => part.type === "text" && part.text.trim() === "")
  return Prompt.userMessage({
    content: isEmpty ? [Prompt.textPart({ text: emptyMessage })] : parts.map(userPart)
  })
}

/** The text that stands for a message without any. */
export const emptyMessage = "[empty message]"

const userPart = (part: UserPart): Prompt.UserMessagePart => {
  if (part.type === "text") return Prompt.textPart({ text: part.text })
  const name = part.fileName ?? "file"
  if (!URL.canParse(part.data)) return Prompt.textPart({ text: `[${name}: not attached, its address is not a URL]` })
  return Prompt.filePart({
    mediaType: part.mediaType,
    data: new URL(part.data),
    ...(part.fileName === undefined ? {} : { fileName: part.fileName })
  })
}

export const assistantMessage = (parts: ReadonlyArray<AssistantPart | PastPart>): Prompt.AssistantMessage =>
  Prompt.assistantMessage({ content: parts.map(assistantPart) })

/** The tool message that answers a batch (T1). */
export const toolMessage = (answers: ReadonlyArray<Answer>): Prompt.ToolMessage =>
  Prompt.toolMessage({
    content: answers.map((answer) =>
      Prompt.toolResultPart({
        id: answer.wireId,
        name: answer.name,
        isFailure: answer.isFailure,
        result: answer.result,
        providerExecuted: false
      })
    )
  })

/** The message of a history from elsewhere. */
export const pastMessage = (message: PastMessage): Prompt.Message => {
  switch (message.role) {
    case "user":
      return userMessage(message.parts)
    case "assistant":
      return assistantMessage(message.parts)
    case "tool":
      return toolMessage(message.answers)
  }
}

const assistantPart = (part: AssistantPart | PastPart): Prompt.AssistantMessagePart => {
  const options = part.options === undefined ? {} : { options: part.options as Prompt.ProviderOptions }
  switch (part.type) {
    case "text":
      return Prompt.textPart({ text: part.text, ...options })
    case "reasoning":
      return Prompt.reasoningPart({ text: part.text, ...options })
    case "tool-call":
      return Prompt.toolCallPart({
        id: part.wireId,
        name: part.name,
        params: part.params,
        providerExecuted: false,
        ...options
      })
  }
}
