/**
 * A model server for tests: strict about history, scripted in its answers.
 *
 * Speaks the streaming OpenAI Chat wire on 127.0.0.1. Every request is judged by
 * `ChatContract` first; a history that breaks it gets HTTP 400 in OpenAI's words,
 * as it would in production. Otherwise `respond` says what the model answers.
 *
 * - P1. `respond` never sees a history that breaks the contract.
 * - P2. Requests and refusals are recorded in the order in which their bodies were complete.
 * - P3. A request without a reply is refused loudly, never left waiting.
 */
import type * as http from "node:http"
import type * as LanguageModel from "effect/ai/LanguageModel"
import type * as Model from "effect/ai/Model"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Queue from "effect/Queue"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import * as OpenAiChat from "../model/OpenAiChat.ts"
import * as ChatContract from "./ChatContract.ts"
import * as ChatReply from "./ChatReply.ts"
import * as ChatServer from "./ChatServer.ts"

export { calls, failure, text } from "./ChatReply.ts"
export type { Answer, Call, Failure, Pieces, Raw, Reply, Usage } from "./ChatReply.ts"

/** A request that kept the contract. */
export interface Request {
  /** 0 for the first accepted request. */
  readonly index: number
  readonly body: ChatContract.Body
  readonly messages: ReadonlyArray<ChatContract.Message>
  /** Names of the declared tools. */
  readonly toolNames: ReadonlyArray<string>
  /** Lower-case names. */
  readonly headers: http.IncomingHttpHeaders
  /** Port of the client: the same for requests over one connection. */
  readonly clientPort: number
  /** Ends when the client has closed the connection before the reply's end. */
  readonly aborted: Effect.Effect<void>
}

/** A request that was answered with a 4xx of the provider's own. */
export interface Refusal {
  readonly status: number
  readonly message: string
  /** The broken rule, when it was the contract. */
  readonly violation: ChatContract.Violation | undefined
  readonly body: unknown
}

/** The running server. */
export interface StrictProvider {
  /** For `OpenAiChat` and any other client of the wire. */
  readonly baseUrl: string
  /** Grows while the server runs. */
  readonly requests: ReadonlyArray<Request>
  /** Grows while the server runs; a test of a sound runtime ends with none. */
  readonly refusals: ReadonlyArray<Refusal>
  /** `OpenAiChat` pointed at this server. */
  readonly layer: ModelLayer
}

type ModelLayer = Layer.Layer<LanguageModel.LanguageModel | Model.ProviderName | Model.ModelName>

type Answering = ChatReply.Reply | undefined

/** Says what the model answers; a pure function makes a model that plays by rules. `undefined` refuses the request (P3). */
export type Respond = (request: Request) => Answering | Effect.Effect<Answering>

/** How the server behaves. */
export interface Options {
  readonly respond: Respond
  /** Demand this bearer key; default: any client may come. */
  readonly apiKey?: string | undefined
  /** Members that are demanded and taken beside those of the format; by default any are taken and none demanded. */
  readonly members?: ChatContract.MemberRule | undefined
  /** Fields of the body that are refused by name. */
  readonly refused?: ReadonlyArray<string> | undefined
}

/** One reply per accepted request; a request after the last is refused (P3). */
export const script =
  (replies: ReadonlyArray<ChatReply.Reply | Effect.Effect<ChatReply.Reply>>): Respond =>
  (request) =>
    replies[request.index]

/** A server for the current scope. */
export const make = Effect.fn("StrictProvider.make")(function* (
  options: Options
): Effect.fn.Return<StrictProvider, never, Scope.Scope> {
  const server = yield* ChatServer.make
  const requests: Array<Request> = []
  const refusals: Array<Refusal> = []

  const refuse = (status: number, message: string, body: unknown, violation?: ChatContract.Violation) => {
    refusals.push({ status, message, violation, body })
    return ChatReply.failure(status, { message, ...(violation && { param: violation.param }) })
  }

  const judge = (arrival: ChatServer.Arrival, body: unknown): ChatReply.Failure | undefined => {
    if (arrival.method !== "POST" || !/\/chat\/completions(?:\?|$)/.test(arrival.path)) {
      return refuse(404, `Unknown request URL: ${arrival.method} ${arrival.path}.`, body)
    }
    if (options.apiKey !== undefined && arrival.headers.authorization !== `Bearer ${options.apiKey}`) {
      return refuse(401, "Incorrect API key provided.", body)
    }
    const refused = options.refused?.find((name) => typeof body === "object" && body !== null && name in body)
    if (refused !== undefined)
      return refuse(400, `Unsupported parameter: '${refused}' is not supported with this model.`, body)
    const violation =
      ChatContract.check(body) ??
      (options.members && ChatContract.checkMembers((body as ChatContract.Body).messages, options.members))
    return violation === undefined ? undefined : refuse(400, violation.message, body, violation)
  }

  // judges at once, when called: requests are recorded in the order of their arrival (P2)
  const serve = (arrival: ChatServer.Arrival): Effect.Effect<void> => {
    const body = parse(arrival.text)
    const refusal = judge(arrival, body)
    const index = requests.length
    const envelope = {
      id: `chatcmpl-strict-${index}`,
      model: "strict",
      promptTokens: Math.ceil(arrival.text.length / 4),
      includeUsage: /"include_usage":\s*true/.test(arrival.text)
    }
    if (refusal !== undefined) return ChatServer.reply(arrival.response, refusal, envelope, true)
    const accepted = requestOf(arrival, body as ChatContract.Body, index) // P1: judged above
    requests.push(accepted)
    const none = () => refuse(400, `No reply for request ${index + 1}: the script has run out.`, body)
    return Effect.suspend(() => {
      const answering = options.respond(accepted)
      return Effect.isEffect(answering) ? answering : Effect.succeed(answering)
    }).pipe(
      Effect.catchDefect((defect) => Effect.succeed(refuse(400, `respond failed: ${String(defect)}`, body))), // P3
      Effect.flatMap((answer) =>
        ChatServer.reply(arrival.response, answer ?? none(), envelope, accepted.body.stream === true)
      )
    )
  }

  yield* Queue.take(server.arrivals).pipe(
    Effect.flatMap((arrival) =>
      // a client that leaves ends its reply early
      Effect.forkScoped(Effect.raceFirst(serve(arrival), Deferred.await(arrival.aborted)), { startImmediately: true })
    ),
    Effect.forever,
    Effect.forkScoped
  )

  const baseUrl = `http://127.0.0.1:${server.port}/v1`
  return { baseUrl, requests, refusals, layer: model({ baseUrl }, options.apiKey) }
})

/** The `OpenAiChat` layer pointed at a server. */
export const model = (provider: Pick<StrictProvider, "baseUrl">, apiKey?: string): ModelLayer =>
  OpenAiChat.layer({
    baseUrl: provider.baseUrl,
    model: "strict",
    provider: "strict",
    apiKey: apiKey === undefined ? undefined : Redacted.make(apiKey)
  })

const requestOf = (arrival: ChatServer.Arrival, body: ChatContract.Body, index: number): Request => ({
  index,
  body,
  messages: body.messages,
  toolNames: (body.tools ?? []).map((tool) => tool.function.name),
  headers: arrival.headers,
  clientPort: arrival.clientPort,
  aborted: Deferred.await(arrival.aborted)
})

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
