/**
 * The demo model: a script behind the `LanguageModel` port, so that everything else
 * can be tried without a provider. It really calls the tools it is offered.
 *
 * Owns: how a scripted reply becomes a response. Does not own: what is replied
 * (`demo/Script`).
 *
 * - R1. It never passes for a language model: every text says that it is scripted,
 *   and responses carry the model id `demo`.
 * - R2. A response is a function of the prompt and the tools offered. Nothing is
 *   remembered between requests, so a repeated request gets the same response.
 * - R3. Call ids are new within the prompt: they go on from the last one in it.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import type * as Response from "effect/ai/Response"
import { lastCallNumber, lengthOf } from "./demo/Conversation.ts"
import { type Reply } from "./demo/Reply.ts"
import * as Script from "./demo/Script.ts"

/** The model id of every response (R1). */
export const modelId = "demo"

/** Makes the demo model; `pace` is the pause after each piece of streamed text. */
export const make = (options: { readonly pace: Duration.Input }): Effect.Effect<LanguageModel.LanguageModel> =>
  LanguageModel.make({
    generateText: (request) =>
      Effect.map(respond(request, "generateText"), ({ calls, finish, metadata, reply }) => [
        metadata,
        { type: "text", text: reply.text },
        ...calls,
        finish
      ]),
    streamText: (request) =>
      Stream.unwrap(Effect.map(respond(request, "streamText"), (response) => streamed(response, options.pace)))
  })

/** The demo model at a pace that a human can watch: no answer takes a second. */
export const layer: Layer.Layer<LanguageModel.LanguageModel> = Layer.effect(
  LanguageModel.LanguageModel,
  make({ pace: "6 millis" })
)

/** The demo model without pauses. */
export const layerInstant: Layer.Layer<LanguageModel.LanguageModel> = Layer.effect(
  LanguageModel.LanguageModel,
  make({ pace: Duration.zero })
)

interface DemoResponse {
  readonly metadata: Response.ResponseMetadataPartEncoded
  readonly reply: Reply
  readonly calls: ReadonlyArray<Response.ToolCallPartEncoded>
  readonly finish: Response.FinishPartEncoded
}

const respond = (
  request: LanguageModel.ProviderOptions,
  method: string
): Effect.Effect<DemoResponse, AiError.AiError> => {
  if (request.responseFormat.type === "json") {
    const description = "The scripted demo model gives text and tool calls, no structured output."
    return Effect.fail(
      AiError.make({ module: "Demo", method, reason: new AiError.UnsupportedSchemaError({ description }) })
    )
  }
  const messages = request.prompt.content
  const reply = Script.reply(messages, { tools: offered(request) })
  const last = lastCallNumber(messages)
  const input = tokens(lengthOf(messages))
  const output = tokens(reply.text.length + JSON.stringify(reply.calls).length)
  return Effect.succeed({
    metadata: { type: "response-metadata", modelId },
    reply,
    calls: reply.calls.map(({ name, params }, index) => ({
      type: "tool-call",
      id: `demo_${last + 1 + index}`, // R3
      name,
      params
    })),
    finish: {
      type: "finish",
      reason: reply.calls.length > 0 ? "tool-calls" : "stop",
      usage: {
        inputTokens: { total: input, uncached: input, cacheRead: 0 },
        outputTokens: { total: output, text: output }
      }
    }
  })
}

const streamed = (
  { calls, finish, metadata, reply }: DemoResponse,
  pace: Duration.Input
): Stream.Stream<Response.StreamPartEncoded> => {
  const id = "text"
  const texts = Stream.rechunk(Stream.fromIterable(pieces(reply.text)), 1)
  const paced = Duration.isZero(Duration.fromInputUnsafe(pace)) ? texts : Stream.tap(texts, () => Effect.sleep(pace))
  const deltas = Stream.map(paced, (delta): Response.StreamPartEncoded => ({ type: "text-delta", id, delta }))
  const start: ReadonlyArray<Response.StreamPartEncoded> = [metadata, { type: "text-start", id }]
  const end: ReadonlyArray<Response.StreamPartEncoded> = [{ type: "text-end", id }, ...calls, finish]
  return Stream.fromIterable(start).pipe(Stream.concat(deltas), Stream.concat(Stream.fromIterable(end)))
}

/** Which tools the request allows to be called. */
const offered = ({ toolChoice, tools }: LanguageModel.ProviderOptions): ReadonlySet<string> => {
  if (toolChoice === "none") return new Set()
  const names = tools.map((tool) => tool.name)
  return new Set(
    typeof toolChoice === "object" && "tool" in toolChoice ? names.filter((name) => name === toolChoice.tool) : names
  )
}

/** A text in at most `maxPieces` pieces of whole characters. */
const pieces = (text: string): ReadonlyArray<string> => {
  const characters = Array.from(text)
  const size = Math.max(8, Math.ceil(characters.length / maxPieces))
  return Array.from({ length: Math.ceil(characters.length / size) }, (_, n) =>
    characters.slice(n * size, (n + 1) * size).join("")
  )
}

const maxPieces = 80

const tokens = (characters: number): number => Math.ceil(characters / 4)
