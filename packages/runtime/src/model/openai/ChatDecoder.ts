/**
 * The parts told by one response on the OpenAI Chat wire.
 *
 * Owns: the meaning of the chunks, and when a response is whole. Does not own:
 * framing (`SseDecoder`), the pieces of calls (`ToolCallSlots`), or what a fault
 * is called (`ChatFault`).
 *
 * - D1. Tool calls and the finish part appear only in `end`, and only when the
 *   response was whole: half a response never yields a call that looks complete.
 * - D2. Whole means that the body ended cleanly after a finish reason. `[DONE]` or a document without one is whole only for
 *   servers that are known to leave it out; the finish is then `unknown`.
 * - D3. Text and reasoning blocks are closed before the next block or the end.
 * - D4. What must go back is kept: the field of the reasoning with its block, other members of the message in a block without
 *   text at the end, members of a call with the call.
 * - D5. A line that is no chunk does no harm to a whole response, and is the reason for one that is cut short.
 */
import type * as Response from "effect/ai/Response"
import * as ChatOpaque from "@turnstep/core/history/codecs/ChatOpaque"
import * as ToolArguments from "@turnstep/core/history/ToolArguments"
import * as AnswerSize from "../AnswerSize.ts"
import type { ChatPart } from "./ChatPart.ts"
import * as Members from "./Members.ts"
import * as ToolCallSlots from "./ToolCallSlots.ts"
import * as Usage from "./ChatUsage.ts"

type Parts = Array<ChatPart>

/** Why a response cannot be used: the provider said so, a payload is not JSON, it ended too early, or it is too large to hold. */
export type Fault =
  | { readonly _tag: "Reported"; readonly error: unknown }
  | { readonly _tag: "Garbled"; readonly payload: string }
  | { readonly _tag: "CutShort" }
  | { readonly _tag: "TooLarge" }

/** Decoder of one response. */
export interface ChatDecoder {
  /** Takes one payload and appends its parts; a fault ends the response. */
  readonly push: (payload: string, out: Parts) => Fault | undefined
  /** Has `[DONE]` been seen? */
  readonly isDone: () => boolean
  /** The body has ended cleanly or `isDone`: appends what is left, or says that the response is not whole. */
  readonly end: (out: Parts) => Fault | undefined
}

/** What is known of the server. */
export interface Source {
  /** The model as `provider/model`: what it issues goes back to it alone. */
  readonly issuer: string
  /** Does every whole response have a finish reason (D2)? */
  readonly tellsFinish: boolean
}

/** A decoder for one response. */
export const make = ({ issuer, tellsFinish }: Source): ChatDecoder => {
  let responseId: string | undefined
  let isTold = false
  let finishReason: string | undefined
  let usage: Response.FinishPartEncoded["usage"] = Usage.unknown
  let done = false
  let block: { readonly type: "text" | "reasoning"; readonly id: string } | undefined
  let blocks = 0
  const calls = ToolCallSlots.make(() => responseId)
  const members = Members.make()
  let issued: ChatOpaque.ReasoningField | undefined // the first field reasoning came in, should it be empty
  let hasReasoned = false
  let held = 0 // characters of arguments and opaque members
  let odd: string | undefined // the first line that is no chunk

  const close = (out: Parts): void => {
    if (block !== undefined) out.push({ type: `${block.type}-end`, id: block.id })
    block = undefined
  }

  const write = (type: "text" | "reasoning", delta: string, out: Parts, field?: ChatOpaque.ReasoningField): void => {
    if (delta === "") return
    if (block?.type !== type) {
      close(out) // D3
      block = { type, id: `${type}-${blocks++}` }
      out.push({ type: `${type}-start`, id: block.id, ...metadataOf({ issuer, field }) })
    }
    out.push({ type: `${type}-delta`, id: block.id, delta })
  }

  const takeContent = (content: unknown, out: Parts): void => {
    if (typeof content === "string") return write("text", content, out)
    if (!Array.isArray(content)) return
    for (const item of content) {
      if (!isFields(item)) continue
      if (typeof item["text"] === "string") write("text", item["text"], out)
      else if (Array.isArray(item["thinking"])) write("reasoning", textOf(item["thinking"]), out) // Mistral
    }
  }

  const takeDelta = (delta: Fields, out: Parts): void => {
    // Some servers send both fields, with the same text.
    const field = ChatOpaque.reasoningFields.find((name) => typeof delta[name] === "string" && delta[name] !== "")
    issued ??= field ?? ChatOpaque.reasoningFields.find((name) => delta[name] === "")
    if (field !== undefined) {
      hasReasoned = true
      write("reasoning", String(delta[field]), out, field)
    }
    const opaque = ChatOpaque.membersOf(delta, ChatOpaque.messageMembers)
    if (Object.keys(opaque).length > 0) {
      held += JSON.stringify(opaque).length
      members.take(opaque)
    }
    takeContent(delta["content"], out)
    if (typeof delta["refusal"] === "string") write("text", delta["refusal"], out)
    const pieces = delta["tool_calls"]
    if (Array.isArray(pieces) && pieces.length > 0) {
      close(out)
      held += calls.take(pieces, out)
    }
  }

  const takeChunk = (chunk: Fields, out: Parts): Fault | undefined => {
    if (isFault(chunk["error"])) return { _tag: "Reported", error: chunk["error"] }
    if (isRefusal(chunk)) return { _tag: "Reported", error: chunk }
    if (!isTold) {
      const metadata = responseOf(chunk)
      if (metadata !== undefined) {
        isTold = true
        responseId = metadata.id
        out.push(metadata)
      }
    }
    if (isFields(chunk["usage"])) usage = Usage.read(chunk["usage"])
    if (!Array.isArray(chunk["choices"])) return undefined
    for (const choice of chunk["choices"]) {
      if (!isFields(choice) || (typeof choice["index"] === "number" && choice["index"] > 0)) continue
      if (isFault(choice["error"])) return { _tag: "Reported", error: choice["error"] }
      if (isFields(choice["delta"])) takeDelta(choice["delta"], out)
      else if (isFields(choice["message"])) {
        takeDelta(choice["message"], out)
        done = true
      }
      const reason = choice["finish_reason"]
      if (typeof reason !== "string" || reason === "") continue
      if (broken.has(reason)) return { _tag: "Reported", error: { message: `the model stopped with '${reason}'` } }
      finishReason = reason
    }
    return undefined
  }

  const isTooLarge = (): boolean => held > AnswerSize.mostHeld || calls.slots.length > mostCalls

  const push = (payload: string, out: Parts): Fault | undefined => {
    if (payload.startsWith("[DONE]")) {
      done = true
      return undefined
    }
    const text = payload.trim()
    if (text === "" || done) return undefined
    const chunk = parse(text)
    if (isFields(chunk)) return takeChunk(chunk, out) ?? (isTooLarge() ? { _tag: "TooLarge" } : undefined)
    if (chunk !== undefined) return undefined // `null`, a number: a sign of life
    const lines = text.split("\n")
    if (lines.length === 1) {
      if (text.startsWith("{")) return { _tag: "Garbled", payload: text }
      odd ??= text // a word of a proxy, or a sign of life: an ending without a finish reason tells which (D5)
      return undefined
    }
    for (const line of lines) {
      const fault = push(line, out) // events written without the blank line between them
      if (fault !== undefined) return fault
    }
    return undefined
  }

  return {
    push,
    isDone: () => done,
    end: (out) => {
      if (finishReason === undefined && (tellsFinish || !done)) {
        return odd === undefined ? { _tag: "CutShort" } : { _tag: "Garbled", payload: odd } // D2, D5
      }
      close(out)
      const left = metadataOf({ issuer, field: hasReasoned ? undefined : issued, members: members.all() })
      if (left !== undefined) {
        const id = `reasoning-${blocks++}`
        out.push({ type: "reasoning-start", id, ...left }, { type: "reasoning-end", id }) // D4
      }
      calls.close(out)
      const reason = reasonOf(finishReason, calls.slots.length > 0)
      for (const slot of calls.slots) {
        // a call cut before its first argument must not turn into a call without arguments
        const isCut = slot.text === "" && reason !== "tool-calls"
        const params = isCut ? "" : slot.isUnclear ? unclear(slot.text) : ToolArguments.read(slot.text)
        const opaque = metadataOf({ issuer, members: slot.members.all() })
        out.push({ type: "tool-call", id: slot.id ?? "", name: slot.name, params, ...opaque })
      }
      const metadata = finishReason === undefined ? undefined : { metadata: { openai: { finishReason } } }
      out.push({ type: "finish", reason, usage, ...metadata })
      return undefined
    }
  }
}

/** Stands for arguments that must not run: text is never taken for an object. */
const unclear = (text: string): string =>
  `[the pieces of this call could not be told from those of another call of the same response] ${text}`

const metadataOf = (opaque: ChatOpaque.Opaque): { readonly metadata: Response.ProviderMetadata } | undefined => {
  const options = ChatOpaque.options(opaque)
  return options === undefined ? undefined : { metadata: options }
}

/** Calls of one response that are told apart: as many as an answer may have parts. */
const mostCalls = 6_000

type Fields = { readonly [field: string]: unknown }

const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const isFault = (error: unknown): boolean => isFields(error) || (typeof error === "string" && error !== "")

/** An error without the member `error`: FastAPI, vLLM, LM Studio. */
const isRefusal = (chunk: Fields): boolean =>
  chunk["object"] === "error" ||
  (!Array.isArray(chunk["choices"]) &&
    [chunk["message"], chunk["detail"]].some((reason) => typeof reason === "string" || Array.isArray(reason)))

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const textOf = (items: ReadonlyArray<unknown>): string =>
  items.map((item) => (isFields(item) && typeof item["text"] === "string" ? item["text"] : "")).join("")

const responseOf = ({ id, model }: Fields): Extract<ChatPart, { readonly type: "response-metadata" }> | undefined => {
  const hasId = typeof id === "string" && id !== ""
  const hasModel = typeof model === "string" && model !== ""
  if (!hasId && !hasModel) return undefined
  return { type: "response-metadata", ...(hasId ? { id } : undefined), ...(hasModel ? { modelId: model } : undefined) }
}

/** Finish reasons that mean that the provider gave up in the middle. */
const broken: ReadonlySet<string> = new Set(["error", "abort", "aborted", "insufficient_system_resource"])

const reasonOf = (raw: string | undefined, hasCalls: boolean): Response.FinishReason => {
  switch (raw) {
    case "length":
    case "max_tokens":
    case "model_length":
    case "model_context_window_exceeded":
      return "length"
    case "content_filter":
    case "sensitive":
      return "content-filter"
    case undefined:
      return "unknown" // D2
    case "stop":
    case "eos":
    case "end_turn":
    case "tool_calls":
    case "function_call":
      return hasCalls ? "tool-calls" : "stop" // servers disagree on the word, the calls are what counts
    default:
      return hasCalls ? "tool-calls" : "other"
  }
}
