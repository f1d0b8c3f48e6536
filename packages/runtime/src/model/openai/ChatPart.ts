/**
 * The parts that a response on the OpenAI Chat wire can tell.
 *
 * Owns: their number, and how each looks when it is decoded. They are our own
 * and right by construction, so decoding is naming the defaults.
 */
import * as Response from "effect/ai/Response"
import type * as Tool from "effect/ai/Tool"

/** A part as `ChatDecoder` tells it. */
export type ChatPart = Extract<
  Response.StreamPartEncoded,
  {
    readonly type:
      | "response-metadata"
      | "text-start"
      | "text-delta"
      | "text-end"
      | "reasoning-start"
      | "reasoning-delta"
      | "reasoning-end"
      | "tool-params-start"
      | "tool-params-delta"
      | "tool-params-end"
      | "tool-call"
      | "finish"
  }
>

/** A part as callers of `streamText` get it when they validate calls themselves. */
export type DecodedPart = Response.StreamPart<Record<string, Tool.Any>, "deferred">

/** The same part, decoded: equal to what the schemas of `effect/ai` would make of it. */
export const decode = (part: ChatPart): DecodedPart => {
  const { metadata } = part
  switch (part.type) {
    case "text-delta":
    case "reasoning-delta":
    case "tool-params-delta":
      return Response.makePart(part.type, { id: part.id, delta: part.delta, metadata })
    case "text-start":
    case "text-end":
    case "reasoning-start":
    case "reasoning-end":
    case "tool-params-end":
      return Response.makePart(part.type, { id: part.id, metadata })
    case "tool-params-start":
      return Response.makePart("tool-params-start", { id: part.id, name: part.name, providerExecuted: false, metadata })
    case "tool-call":
      return Response.toolCallPart({
        id: part.id,
        name: part.name,
        params: part.params,
        providerExecuted: false,
        metadata
      })
    case "response-metadata": {
      const { id, modelId } = part
      return Response.makePart("response-metadata", {
        ...(id === undefined ? undefined : { id }),
        ...(modelId === undefined ? undefined : { modelId }),
        metadata
      })
    }
    case "finish":
      return Response.makePart("finish", {
        reason: part.reason,
        usage: new Response.Usage(part.usage, { disableChecks: true }),
        metadata
      })
  }
}
