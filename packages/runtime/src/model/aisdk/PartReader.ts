/**
 * Parts of the AI SDK's stream as parts of `effect/ai`.
 *
 * Owns: the translation, and when a response is whole. Does not own: what a fault
 * is called (`CallFault`).
 *
 * - R1. Calls that we must answer are held until the finish part: half a response
 *   never yields a call that looks complete.
 * - R2. A finish without the provider's own word for it was made up by the AI SDK
 *   because the stream broke off; it is not a finish.
 * - R3. Provider metadata is kept on every part, so that signatures can go back.
 */
import type * as Provider from "@ai-sdk/provider"
import type * as Response from "effect/ai/Response"
import * as Base64 from "effect/encoding/Base64"
import * as ToolArguments from "@turnstep/core/history/ToolArguments"

type Parts = Array<Response.StreamPartEncoded>
type Finish = Extract<Provider.LanguageModelV4StreamPart, { readonly type: "finish" }>

/** Why a response cannot be used. */
export type Fault =
  | { readonly _tag: "Told"; readonly error: unknown }
  | { readonly _tag: "Broken"; readonly reason: string }
  | { readonly _tag: "CutShort" }

/** Reader of one response. */
export interface PartReader {
  /** Appends the parts for one part of the AI SDK; a fault ends the response. */
  readonly read: (part: Provider.LanguageModelV4StreamPart, out: Parts) => Fault | undefined
  /** The finish part, once it has been read. */
  readonly finish: () => Response.FinishPartEncoded | undefined
}

/** A reader for one response. */
export const make = (): PartReader => {
  const held: Parts = []
  let finish: Response.FinishPartEncoded | undefined

  const takeFinish = (part: Finish, out: Parts): Fault | undefined => {
    const { raw, unified } = part.finishReason
    if (raw === undefined && (unified === "interrupted" || unified === "other")) return { _tag: "CutShort" } // R2
    if (unified === "error") return { _tag: "Broken", reason: raw ?? "error" }
    const rawReason = raw === undefined ? undefined : { aisdk: { finishReason: raw } }
    finish = {
      type: "finish",
      reason: unified === "interrupted" ? "pause" : unified,
      usage: usageOf(part.usage),
      metadata: { ...metadataOf(part).metadata, ...rawReason }
    }
    out.push(...held, finish)
    return undefined
  }

  return {
    finish: () => finish,
    read: (part, out) => {
      switch (part.type) {
        case "error":
          return { _tag: "Told", error: part.error }
        case "finish":
          return takeFinish(part, out)
        case "tool-call":
          ;(part.providerExecuted === true ? out : held).push(callOf(part)) // R1
          return undefined
        default:
          out.push(...convert(part))
          return undefined
      }
    }
  }
}

type Other = Exclude<Provider.LanguageModelV4StreamPart, { readonly type: "error" | "finish" | "tool-call" }>

const convert = (part: Other): Parts => {
  switch (part.type) {
    case "text-start":
    case "text-end":
    case "reasoning-start":
    case "reasoning-end":
      return [{ type: part.type, id: part.id, ...metadataOf(part) }]
    case "text-delta":
    case "reasoning-delta":
      return [{ type: part.type, id: part.id, delta: part.delta, ...metadataOf(part) }]
    case "tool-input-start": {
      const providerExecuted = part.providerExecuted === true
      return [{ type: "tool-params-start", id: part.id, name: part.toolName, providerExecuted, ...metadataOf(part) }]
    }
    case "tool-input-delta":
      return [{ type: "tool-params-delta", id: part.id, delta: part.delta }]
    case "tool-input-end":
      return [{ type: "tool-params-end", id: part.id, ...metadataOf(part) }]
    case "tool-result":
      return [
        {
          type: "tool-result",
          id: part.toolCallId,
          name: part.toolName,
          result: part.result,
          isFailure: part.isError === true,
          providerExecuted: true,
          preliminary: part.preliminary === true,
          ...metadataOf(part)
        }
      ]
    case "response-metadata":
      return [
        {
          type: "response-metadata",
          ...(part.id === undefined ? undefined : { id: part.id }),
          ...(part.modelId === undefined ? undefined : { modelId: part.modelId }),
          ...(part.timestamp === undefined ? undefined : { timestamp: part.timestamp.toISOString() })
        }
      ]
    case "file":
      return part.data.type === "data"
        ? [{ type: "file", mediaType: part.mediaType, data: base64(part.data.data), ...metadataOf(part) }]
        : []
    case "source":
      return sourceOf(part)
    case "tool-approval-request": // the runtime asks for approvals itself
    case "custom":
    case "reasoning-file":
    case "stream-start":
    case "ping":
    case "raw":
      return []
  }
}

const callOf = (part: Provider.LanguageModelV4ToolCall): Response.ToolCallPartEncoded => ({
  type: "tool-call",
  id: part.toolCallId,
  name: part.toolName,
  params: ToolArguments.read(part.input),
  providerExecuted: part.providerExecuted === true,
  ...metadataOf(part)
})

const sourceOf = (part: Provider.LanguageModelV4Source): Parts => {
  if (part.sourceType === "document") {
    const fileName = part.filename === undefined ? undefined : { fileName: part.filename }
    const { id, mediaType, title } = part
    return [{ type: "source", sourceType: "document", id, mediaType, title, ...fileName, ...metadataOf(part) }]
  }
  if (!URL.canParse(part.url)) return []
  return [
    {
      type: "source",
      sourceType: "url",
      id: part.id,
      url: part.url,
      title: part.title ?? part.url,
      ...metadataOf(part)
    }
  ]
}

const base64 = (data: string | Uint8Array): string => (typeof data === "string" ? data : Base64.encode(data))

// The AI SDK's metadata may hold `undefined`, which is not JSON (R3).
const metadataOf = (part: {
  readonly providerMetadata?: Provider.SharedV4ProviderMetadata
}): { readonly metadata?: Response.ProviderMetadata } =>
  part.providerMetadata === undefined
    ? {}
    : { metadata: JSON.parse(JSON.stringify(part.providerMetadata)) as Response.ProviderMetadata }

const usageOf = ({ inputTokens, outputTokens }: Finish["usage"]): Response.FinishPartEncoded["usage"] => ({
  inputTokens: counts({
    uncached: inputTokens.noCache,
    total: inputTokens.total,
    cacheRead: inputTokens.cacheRead,
    cacheWrite: inputTokens.cacheWrite
  }),
  outputTokens: counts({ total: outputTokens.total, text: outputTokens.text, reasoning: outputTokens.reasoning })
})

const counts = <K extends string>(values: { readonly [P in K]: number | undefined }): { readonly [P in K]?: number } =>
  Object.fromEntries(Object.entries(values).filter(([, value]) => Number.isSafeInteger(value))) as {
    readonly [P in K]?: number
  }
