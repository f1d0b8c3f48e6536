/**
 * What a scripted model answers, and its chunks on the OpenAI Chat wire.
 *
 * Owns: the wire form of a reply. Does not own: the server (`StrictProvider`).
 *
 * A gate is an effect among the pieces of a text: the stream stands still until
 * it ends. `Deferred.succeed(reached).pipe(Effect.andThen(Deferred.await(go)))`
 * tells the test that the stream is held and lets the test decide for how long.
 */
import * as Effect from "effect/Effect"

/** A text in pieces, one chunk each, with gates between them. */
export type Pieces = string | ReadonlyArray<string | Effect.Effect<void>>

/** A call the model makes. */
export interface Call {
  readonly name: string
  /** An object is sent as JSON; a text or pieces are sent as they are. Default `{}`. */
  readonly arguments?: Pieces | { readonly [name: string]: unknown } | undefined
  /** Default: unique within the provider. */
  readonly id?: string | undefined
  /** Further members of the call, such as a signature. */
  readonly members?: { readonly [name: string]: unknown } | undefined
}

/** Token counts as the wire names them. */
export interface Usage {
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly [field: string]: unknown
}

/** An answer of the model. */
export interface Answer {
  readonly reasoning?: Pieces | undefined
  /** Field the reasoning is told in; default `reasoning_content`. */
  readonly reasoningField?: "reasoning_content" | "reasoning" | undefined
  /** Further members of the message, one delta each. */
  readonly members?: ReadonlyArray<{ readonly [name: string]: unknown }> | undefined
  readonly text?: Pieces | undefined
  readonly calls?: ReadonlyArray<Call> | undefined
  /** Finish reason; default `tool_calls` or `stop`; `null` leaves it out. */
  readonly finish?: string | null | undefined
  /** Default: an estimate from the sizes; `null` leaves it out. */
  readonly usage?: Usage | null | undefined
  /** Destroys the socket after this many chunks; 0 is before the response's head. The first chunk tells the role only. */
  readonly cut?: number | undefined
}

/** A refusal over HTTP. */
export interface Failure {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** An object is sent as JSON. */
  readonly body?: string | object | undefined
}

/** Bytes exactly as given, each item written by itself. */
export interface Raw {
  readonly raw: ReadonlyArray<string | Uint8Array | Effect.Effect<void>>
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Destroys the socket after this many items. */
  readonly cut?: number | undefined
}

/** What the model replies to one request. */
export type Reply = Answer | Failure | Raw

/** An answer of text. */
export const text = (text: Pieces, rest?: Omit<Answer, "text">): Answer => ({ ...rest, text })

/** An answer that calls tools. */
export const calls = (calls: ReadonlyArray<Call>, rest?: Omit<Answer, "calls">): Answer => ({ ...rest, calls })

/** A refusal with a body as OpenAI writes it. */
export const failure = (
  status: number,
  error: { readonly message: string; readonly type?: string; readonly code?: string | null; readonly param?: string },
  headers?: Readonly<Record<string, string>>
): Failure => ({
  status,
  body: { error: { type: "invalid_request_error", code: null, param: null, ...error } },
  headers
})

/** What is the same in every chunk of one response. */
export interface Envelope {
  readonly id: string
  readonly model: string
  readonly promptTokens: number
  readonly includeUsage: boolean
}

/** Chunks of an answer (without `data:`), with its gates. */
export const chunks = (answer: Answer, envelope: Envelope): ReadonlyArray<string | Effect.Effect<void>> => {
  const chunk = (fields: object): string =>
    JSON.stringify({ id: envelope.id, object: "chat.completion.chunk", created: 1, model: envelope.model, ...fields })
  const delta = (delta: object, finish_reason: string | null = null): string =>
    chunk({ choices: [{ index: 0, delta, finish_reason }] })
  const each = (pieces: Pieces | undefined, write: (piece: string) => object) =>
    listOf(pieces).map((piece) => (typeof piece === "string" ? delta(write(piece)) : piece))
  const finish = finishOf(answer)
  const usage = usageOf(answer, envelope)
  return [
    delta({ role: "assistant", content: answer.calls === undefined ? "" : null }),
    ...each(answer.reasoning, (text) => ({ [answer.reasoningField ?? "reasoning_content"]: text })),
    ...(answer.members ?? []).map((members) => delta(members)),
    ...each(answer.text, (content) => ({ content })),
    ...(answer.calls ?? []).flatMap((call, index) => [
      delta({
        tool_calls: [
          {
            index,
            id: idOf(call, index, envelope),
            type: "function",
            function: { name: call.name, arguments: "" },
            ...call.members
          }
        ]
      }),
      ...each(argumentsOf(call), (text) => ({ tool_calls: [{ index, function: { arguments: text } }] }))
    ]),
    ...(finish === null ? [] : [delta({}, finish)]),
    ...(usage === null || !envelope.includeUsage ? [] : [chunk({ choices: [], usage })]),
    ...(finish === null ? [] : ["[DONE]"])
  ]
}

/** The answer as one JSON document, for a request that does not stream. */
export const completion = (answer: Answer, envelope: Envelope): object => ({
  id: envelope.id,
  object: "chat.completion",
  created: 1,
  model: envelope.model,
  choices: [
    {
      index: 0,
      finish_reason: finishOf(answer),
      message: {
        role: "assistant",
        content: answer.text === undefined ? null : join(answer.text),
        ...(answer.reasoning === undefined ? undefined : { reasoning_content: join(answer.reasoning) }),
        ...(answer.calls === undefined
          ? undefined
          : {
              tool_calls: answer.calls.map((call, index) => ({
                id: idOf(call, index, envelope),
                type: "function",
                function: { name: call.name, arguments: join(argumentsOf(call)) }
              }))
            })
      }
    }
  ],
  usage: usageOf(answer, envelope)
})

/** The gates of an answer, in order. */
export const gates = (answer: Answer): ReadonlyArray<Effect.Effect<void>> =>
  [answer.reasoning, answer.text, ...(answer.calls ?? []).map(argumentsOf)]
    .flatMap(listOf)
    .filter((piece) => typeof piece !== "string")

const listOf = (pieces: Pieces | undefined): ReadonlyArray<string | Effect.Effect<void>> =>
  pieces === undefined ? [] : typeof pieces === "string" ? [pieces] : pieces

const join = (pieces: Pieces): string =>
  listOf(pieces)
    .filter((piece) => typeof piece === "string")
    .join("")

const argumentsOf = (call: Call): Pieces => {
  const given = call.arguments ?? {}
  return typeof given === "string" || isPieces(given) ? given : JSON.stringify(given)
}

const isPieces = (given: object): given is ReadonlyArray<string | Effect.Effect<void>> => Array.isArray(given)

const idOf = (call: Call, index: number, envelope: Envelope): string =>
  call.id ?? `call_${envelope.id.slice(envelope.id.lastIndexOf("-") + 1)}_${index}`

const finishOf = (answer: Answer): string | null =>
  answer.finish === undefined ? (answer.calls === undefined ? "stop" : "tool_calls") : answer.finish

const usageOf = (answer: Answer, envelope: Envelope): Usage | null => {
  if (answer.usage !== undefined) return answer.usage
  const written = [answer.reasoning, answer.text, ...(answer.calls ?? []).map(argumentsOf)]
  const completion_tokens =
    1 +
    Math.ceil(written.map((pieces) => (pieces === undefined ? 0 : join(pieces).length)).reduce((a, b) => a + b, 0) / 4)
  return {
    prompt_tokens: envelope.promptTokens,
    completion_tokens,
    total_tokens: envelope.promptTokens + completion_tokens
  }
}
