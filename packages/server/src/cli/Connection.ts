/**
 * The way from the command line to a running server: its address and its token.
 *
 * Owns: where both come from, and what is said when the server cannot be used. Does not own: the API (`api/Client`).
 */
import * as Config from "effect/Config"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Flag from "effect/cli/Flag"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientError from "effect/http/HttpClientError"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import type * as HttpClientResponse from "effect/http/HttpClientResponse"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as ApiError from "../api/ApiError.ts"
import * as Client from "../api/Client.ts"
import { defaults } from "../Config.ts"
import * as Token from "../Token.ts"
import { version } from "../Version.ts"

/** The server cannot be used from here. `message` says why and what to do. */
export class ServerUnusable extends Schema.TaggedError<ServerUnusable>()("ServerUnusable", {
  problem: Schema.String,
  advice: Schema.String
}) {
  override get message() {
    return `${this.problem} ${this.advice}`
  }
}

/** Flags of every command that talks to a server. */
export const flags = {
  server: Flag.String("server").pipe(
    Flag.withDescription(`address of the server; default http://${defaults.host}:${defaults.port}`),
    Flag.withFallbackConfig(Config.String("TURNSTEP_SERVER")),
    Flag.withDefault(`http://${defaults.host}:${defaults.port}`)
  ),
  data: Flag.String("data").pipe(
    Flag.withDescription(`folder with the server's token; default ${defaults.data} (TURNSTEP_TOKEN wins)`),
    Flag.withFallbackConfig(Config.String("TURNSTEP_DATA")),
    Flag.withDefault(defaults.data)
  )
} as const

/** A server that answers. */
export interface Connection {
  readonly baseUrl: string
  readonly client: Client.Client
  /** A GET whose answer is taken as it comes, for event streams. */
  readonly stream: (path: string) => Effect.Effect<HttpClientResponse.HttpClientResponse, ServerUnusable>
}

/** Connects: finds the token and asks the server who it is. */
export const open = Effect.fn("Connection.open")(function* (options: {
  readonly server: string
  readonly data: string
}) {
  const address = options.server.replace(/\/+$/, "")
  const baseUrl = /^https?:\/\//.test(address) ? address : `http://${address}`
  const token = yield* tokenFor(options.data)
  const http = yield* HttpClient.HttpClient
  const client = yield* Client.make({ baseUrl, token })
  const connection: Connection = {
    baseUrl,
    client,
    stream: (path) =>
      http
        .execute(
          HttpClientRequest.get(`${baseUrl}${path}`).pipe(
            HttpClientRequest.bearerToken(token),
            HttpClientRequest.setHeader("accept", "text/event-stream")
          )
        )
        .pipe(
          Effect.mapError(() => unreachable(baseUrl)),
          Effect.filterOrFail(
            (response) => response.status < 300,
            (response) => refused(`the event stream answered ${response.status}.`)
          )
        )
  }
  const info = yield* Effect.mapError(client.system.info(), (error) =>
    isProblem(error) || isTransport(error) ? explain(baseUrl, error) : foreign(baseUrl)
  )
  return { ...connection, info }
})

/** Turns what a call can fail with into words for people. */
export const explain = (baseUrl: string, error: unknown): ServerUnusable => {
  if (error instanceof ServerUnusable) return error
  if (isProblem(error))
    return new ServerUnusable({ problem: error.detail, advice: advice.get(error.code) ?? error.hint })
  if (Schema.isSchemaError(error)) {
    const problem = `That cannot be asked for: ${error.message.replaceAll(/\s+/g, " ")}.`
    return new ServerUnusable({ problem, advice: advice.get("invalid-request") ?? "" })
  }
  return isTransport(error) ? unreachable(baseUrl) : foreign(baseUrl)
}

/** Prints why a command could not do its work, to stderr, and fails the process. */
export const report = <A, E extends { readonly message: string }, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.catch(effect, (error) =>
    Effect.andThen(Console.error(`turnstep: ${error.message}`), Effect.fail(new CommandFailed({ exitCode: 1 })))
  )

/** The command did not do its work; the reason is printed already. */
export class CommandFailed extends Schema.TaggedError<CommandFailed>()("CommandFailed", { exitCode: Schema.Int }) {}

const tokenFor = Effect.fnUntraced(function* (data: string) {
  const variable = yield* Effect.orDie(Config.option(Config.Redacted("TURNSTEP_TOKEN")))
  if (Option.isSome(variable)) return variable.value
  return yield* Effect.mapError(
    Token.read(data),
    (error) =>
      new ServerUnusable({
        problem: error.message,
        advice: "Start a server here with `turnstep dev`, name the folder of one with --data, or set TURNSTEP_TOKEN."
      })
  )
})

const unreachable = (baseUrl: string): ServerUnusable =>
  new ServerUnusable({
    problem: `No server answers at ${baseUrl}.`,
    advice: "Start one with `turnstep dev`, or name another with --server."
  })

const foreign = (baseUrl: string): ServerUnusable =>
  new ServerUnusable({
    problem: `What answers at ${baseUrl} is not turnstep ${version}.`,
    advice: "Name its server with --server; it has the same version as this command."
  })

const isTransport = (error: unknown): boolean =>
  HttpClientError.isHttpClientError(error) && error.reason._tag === "TransportError"

const refused = (problem: string): ServerUnusable =>
  new ServerUnusable({ problem: `The server refused: ${problem}`, advice: "Check the token and the session." })

/** What to do at a terminal, where the hint speaks to somebody who sends requests. */
const advice: ReadonlyMap<string, string> = new Map([
  ["session-not-found", "`turnstep sessions ls` lists those there are."],
  ["session-exists", "Choose another id with --session, or leave it out."],
  ["agent-not-found", "Leave --agent out, or name one of these."],
  ["invalid-request", "`--help` behind the command says what it takes."],
  ["unauthorized", "Name the folder of this very server with --data, or set TURNSTEP_TOKEN to its token."]
] satisfies ReadonlyArray<readonly [ApiError.Code, string]>)

const isProblem = (
  error: unknown
): error is { readonly code: string; readonly detail: string; readonly hint: string } =>
  typeof error === "object" && error !== null && "hint" in error && "code" in error && "detail" in error
