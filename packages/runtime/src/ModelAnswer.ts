/**
 * The parts of one answer of a model, put together as they arrive.
 *
 * Owns: joining deltas to blocks, what is kept of calls that the provider itself has run, and the continuation of an answer that
 * paused. Does not own: asking (`ModelCall`), or what the answer leads to (`Accept`).
 *
 * - A1. What a provider wants back with a part stays with the part.
 * - A2. A call that the provider has run is recorded with its result, in a block of reasoning without text: it is never run here.
 */
import type * as Accept from "@turnstep/core/Accept"
import * as Canonical from "@turnstep/core/Canonical"
import { isObject } from "@turnstep/core/history/Json"
import * as Transcript from "@turnstep/core/Transcript"
import { addUsage, type Usage } from "@turnstep/core/TurnEvent"
import * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import type { StreamPart } from "./AnswerBudget.ts"

/** Hears of text as it comes. */
export type OnDelta = (channel: "text" | "reasoning", offset: number, delta: string) => void

export interface ModelAnswer {
  readonly push: (parts: ReadonlyArray<StreamPart>, onDelta: OnDelta) => void
  readonly hasShown: () => boolean
  /** What the stream reported instead of an answer. */
  readonly failure: () => unknown
  /** Has the provider told the end of the answer? */
  readonly isWhole: () => boolean
  /** The answer so far as a message, when the provider has paused it and waits to be asked to go on. */
  readonly takePaused: () => Prompt.AssistantMessage | undefined
  /** The whole answer; `ms` from the request to its end. */
  readonly response: (ms: number) => Accept.Response
}

interface Spoken {
  readonly type: "text" | "reasoning"
  text: string
  options: Options
}

/** A call that the provider has run (A2). */
interface Provided {
  readonly type: "provided"
  readonly call: Response.ToolCallPart<string, unknown>
  result: Response.ToolResultPart<string, unknown, unknown> | undefined
}

type Options = Accept.ResponsePart["options"]
type Call = Extract<Accept.ResponsePart, { readonly type: "tool-call" }>

export const make = (): ModelAnswer => {
  const parts: Array<Spoken | Call | Provided> = []
  let open = new Map<string, Spoken>()
  const shown = { text: 0, reasoning: 0 }
  let finish: Response.FinishPart | undefined
  let usage: Usage = { inputTokens: 0, outputTokens: 0 }
  let failure: unknown

  const speak = (type: Spoken["type"], id: string): Spoken => {
    const key = `${type} ${id}`
    let spoken = open.get(key)
    if (spoken === undefined) {
      spoken = { type, text: "", options: undefined }
      open.set(key, spoken)
      parts.push(spoken)
    }
    return spoken
  }

  const take = (part: StreamPart, onDelta: OnDelta): void => {
    switch (part.type) {
      case "text-start":
      case "reasoning-start":
      case "text-end":
      case "reasoning-end": {
        const spoken = speak(part.type.startsWith("text") ? "text" : "reasoning", part.id)
        spoken.options = merge(spoken.options, part.metadata)
        return
      }
      case "text-delta":
      case "reasoning-delta": {
        const channel = part.type === "text-delta" ? "text" : "reasoning"
        const spoken = speak(channel, part.id)
        spoken.text += part.delta
        spoken.options = merge(spoken.options, part.metadata)
        onDelta(channel, shown[channel], part.delta)
        shown[channel] += part.delta.length
        return
      }
      case "tool-call": {
        const call = part as Response.ToolCallPart<string, unknown>
        parts.push(call.providerExecuted ? { type: "provided", call, result: undefined } : callOf(call))
        return
      }
      case "tool-result": {
        const result = part as Response.ToolResultPart<string, unknown, unknown>
        const provided = parts.findLast((each) => each.type === "provided" && each.call.id === result.id)
        if (provided?.type === "provided") provided.result = result
        return
      }
      case "finish":
        finish = part
        usage = addUsage(usage, usageOf(part.usage))
        return
      case "error":
        failure = part.error
        return
    }
  }

  return {
    push: (incoming, onDelta) => incoming.forEach((part) => take(part, onDelta)),
    hasShown: () => shown.text > 0 || shown.reasoning > 0,
    failure: () => failure,
    isWhole: () => finish !== undefined,
    takePaused: () => {
      if (finish?.reason !== "pause" || parts.some((part) => part.type === "tool-call")) return undefined
      finish = undefined
      open = new Map() // ids of the next request's blocks begin anew
      return Prompt.assistantMessage({ content: parts.flatMap(promptPart) })
    },
    response: (ms) => ({
      parts: parts.map(responsePart),
      finishReason: finish?.reason ?? "unknown",
      usage,
      ms
    })
  }
}

const callOf = ({ id, metadata, name, params }: Response.ToolCallPart<string, unknown>): Call => {
  const options = merge(undefined, metadata)
  return {
    type: "tool-call",
    id,
    name,
    params: Canonical.toJson(params),
    ...(options === undefined ? {} : { options })
  }
}

const responsePart = (part: Spoken | Call | Provided): Accept.ResponsePart => {
  if (part.type === "tool-call") return part
  if (part.type !== "provided") {
    const { options, text, type } = part
    return options === undefined ? { type, text } : { type, text, options }
  }
  const { call, result } = part
  const run = { name: call.name, params: call.params, result: result?.encodedResult ?? null }
  return { type: "reasoning", text: "", options: { turnstep: { providerExecuted: Canonical.toJson(run) } } } // A2
}

/** A part as it goes back in the request that continues the answer. */
const promptPart = (part: Spoken | Call | Provided): ReadonlyArray<Prompt.AssistantMessagePart> => {
  if (part.type === "tool-call") return []
  if (part.type !== "provided") {
    if (part.text === "" && part.options === undefined) return []
    return Transcript.assistantMessage([responsePart(part) as Transcript.PastPart]).content
  }
  const { call, result } = part
  const { id, name } = call
  const made = Prompt.toolCallPart({ id, name, params: call.params, providerExecuted: true, options: call.metadata })
  if (result === undefined) return [made]
  const { encodedResult, isFailure, metadata } = result
  return [
    made,
    Prompt.toolResultPart({ id, name, isFailure, result: encodedResult, providerExecuted: true, options: metadata })
  ]
}

/** Provider metadata that must come back with the part: kept only when there is any, joined where it comes in pieces (A1). */
const merge = (options: Options, metadata: Response.ProviderMetadata): Options => {
  const entries = Object.entries(metadata).filter(([, value]) => value !== null && value !== undefined)
  if (entries.length === 0) return options
  const joined = entries.map(([provider, value]) => {
    const before = options?.[provider]
    return [provider, isObject(before) && isObject(value) ? { ...before, ...value } : value]
  })
  return { ...options, ...(Object.fromEntries(joined) as NonNullable<Options>) }
}

/** The tokens that the provider has told. */
const usageOf = ({ inputTokens, outputTokens }: Response.Usage): Usage => ({
  inputTokens: countOf(inputTokens.total) ?? 0,
  outputTokens: countOf(outputTokens.total) ?? 0,
  ...told("cachedInputTokens", inputTokens.cacheRead),
  ...told("cacheWriteTokens", inputTokens.cacheWrite),
  ...told("reasoningTokens", outputTokens.reasoning)
})

const told = <Name extends string>(name: Name, tokens: number | undefined) => {
  const count = countOf(tokens)
  return (count === undefined ? {} : { [name]: count }) as { readonly [K in Name]?: number }
}

const countOf = (tokens: number | undefined): number | undefined =>
  tokens === undefined || !Number.isFinite(tokens) ? undefined : Math.max(0, Math.trunc(tokens))
