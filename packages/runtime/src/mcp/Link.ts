/**
 * One connection to an MCP server, from its handshake until it is lost.
 *
 * The protocol is spoken by `@modelcontextprotocol/client` (docs/decisions/0006). This file is its edge: promises, callbacks
 * and exceptions on that side; effects, scopes and typed failures on ours.
 *
 * - K1. A link ends with its scope: the session is closed, the process and what it has started are gone.
 * - K2. A call that is interrupted tells the server so (`notifications/cancelled`).
 * - K3. A failure says whether the call can have been executed.
 * - K4. A tool that cannot be used is left out and named; it takes no other tool of its server away.
 */
import {
  type CallToolResult,
  Client,
  type JsonSchemaValidatorResult,
  ProtocolError,
  SdkError,
  SdkErrorCode,
  SdkHttpError,
  type Tool as Descriptor,
  type Transport,
  UnauthorizedError
} from "@modelcontextprotocol/client"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"
import { readFileSync } from "node:fs"
import * as Endpoint from "./Endpoint.ts"
import { HttpTransport } from "./HttpTransport.ts"
import { McpAnswerLost, McpRefused, McpUnavailable } from "./McpError.ts"
import * as StdioTransport from "./StdioTransport.ts"
import * as ToolFault from "./ToolFault.ts"

/** How long a server may take for its handshake, and again to list its tools. */
export const handshake = Duration.seconds(30)

/** How far a call has come, as the server tells it. */
export interface Progress {
  readonly progress: number
  readonly total?: number | undefined
  readonly message?: string | undefined
}

/** The tools of a server, and those of them that nobody could use, each with the reason. */
export interface Offer {
  readonly tools: ReadonlyArray<Descriptor>
  readonly refused: ReadonlyArray<string>
}

export interface Link {
  /** The server's name and version, as it says. */
  readonly serverInfo: { readonly name: string; readonly version: string } | undefined
  readonly protocolVersion: string | undefined
  readonly list: Effect.Effect<Offer, McpUnavailable>
  readonly call: (
    tool: Descriptor,
    params: Readonly<Record<string, unknown>>,
    callKey: string,
    onProgress: (progress: Progress) => Effect.Effect<void>
  ) => Effect.Effect<CallToolResult, McpUnavailable | McpAnswerLost | McpRefused>
  /** Waits until the link is lost, and says why. */
  readonly lost: Effect.Effect<string>
  /** Declares the link lost; calls that wait for their answer fail. */
  readonly lose: (reason: string) => Effect.Effect<void>
  /** Waits until there is reason to read the list again: the server says so, or a stream or a call of it has broken. */
  readonly hint: Effect.Effect<void>
  readonly doubt: Effect.Effect<void>
}

/**
 * How the revision of the protocol is agreed on: `auto` asks which revisions the server speaks and falls back to the
 * handshake of 2025, `legacy` is that handshake alone, for a server that takes the question amiss.
 */
export type Era = "auto" | "legacy"

/** Connects, for as long as the scope is open (K1). */
export const make = Effect.fnUntraced(function* (
  server: string,
  endpoint: Endpoint.Endpoint,
  era: Era
): Effect.fn.Return<Link, McpUnavailable, Scope.Scope> {
  const shown = Endpoint.withoutSecrets(endpoint)
  const lost = yield* Deferred.make<string>()
  const hints = yield* Queue.sliding<void>(1)
  const transport = yield* open(server, endpoint)
  const because = (reason: string) =>
    // Cut when the secrets are out of it: a part of one would not be known again.
    oneLine(shown((transport instanceof StdioTransport.StdioTransport ? transport.end : undefined) ?? reason))
  const unavailable = (reason: string) => new McpUnavailable({ server, reason: because(reason) })
  const client = new Client(
    { name: "turnstep", version },
    {
      capabilities: {},
      jsonSchemaValidator: anyOutput,
      versionNegotiation: { mode: era, probe: { timeoutMs: probeMs } },
      listChanged: { tools: { autoRefresh: false, onChanged: () => void Queue.offerUnsafe(hints, undefined) } }
    }
  )
  Object.assign(client, {
    onclose: () =>
      Deferred.doneUnsafe(
        lost,
        Effect.sync(() => because("it has closed the connection"))
      ),
    // Over HTTP a broken stream is all that shows that a server has gone; a child process is known to have ended.
    onerror: () => Endpoint.isStdio(endpoint) || Queue.offerUnsafe(hints, undefined)
  } satisfies Pick<Client, "onclose" | "onerror">)
  yield* Effect.addFinalizer(() => close(client, transport))
  yield* Effect.tryPromise({
    try: (signal) => client.connect(transport, { signal, timeout: Duration.toMillis(handshake) }),
    catch: (error) => unavailable(textOf(error))
  })
  const refused = new Map<string, string>()
  screen(transport, (name, reason) => void refused.set(oneLine(name), reason))
  const lose = (reason: string) => Effect.asVoid(Deferred.succeed(lost, because(reason)))
  const info = client.getServerVersion()
  return {
    serverInfo: info && { name: oneLine(info.name), version: oneLine(info.version) },
    protocolVersion: client.getNegotiatedProtocolVersion(),
    lost: Deferred.await(lost),
    lose,
    hint: Queue.take(hints),
    doubt: Effect.asVoid(Queue.offer(hints, undefined)),
    list: Effect.tryPromise({
      try: (signal) => {
        refused.clear()
        return client.listTools(undefined, { signal, cacheMode: "refresh", timeout: Duration.toMillis(handshake) })
      },
      catch: (error) => unavailable(`its tools cannot be listed: ${textOf(error)}`)
    }).pipe(Effect.map(({ tools }) => ({ tools, refused: [...refused].map(([name, reason]) => `${name} ${reason}`) }))),
    call: Effect.fnUntraced(function* (tool, params, callKey, onProgress) {
      const news = yield* Queue.sliding<Progress>(16)
      const ended = yield* Deferred.make<void>()
      const answer = Effect.tryPromise({
        // K2: the signal is aborted by the interruption.
        try: (signal) =>
          client.callTool(
            { name: tool.name, arguments: params, _meta: { [callKeyName]: callKey } },
            {
              signal,
              toolDefinition: tool,
              timeout: longestWait,
              onprogress: (progress) => void Queue.offerUnsafe(news, progress),
              ...(transport instanceof HttpTransport
                ? transport.listener(() => void Deferred.doneUnsafe(ended, Effect.void))
                : {})
            }
          ),
        catch: (error) => failureOf(server, error, because)
      })
      const told = Effect.forever(Effect.flatMap(Queue.take(news), onProgress))
      // The answer itself ends the stream as well: it is on its way through the client when the end is noticed.
      const broken = Deferred.await(ended).pipe(
        Effect.andThen(Effect.sleep(answerInHand)),
        Effect.andThen(Effect.fail(new McpAnswerLost({ server, reason: because("its stream has ended") })))
      )
      const gone = Effect.flatMap(Deferred.await(lost), (reason) => Effect.fail(new McpAnswerLost({ server, reason })))
      return yield* Effect.raceAllFirst([answer, broken, gone, told])
    })
  }
})

/** The member of a call's `_meta` that is the same for every attempt of the call, and for no other call (docs/mcp.md). */
export const callKeyName = "turnstep/call-key"

/** Takes tools that nobody could use out of the lists a server sends: to the client one of them spoils all (K4). */
const screen = (transport: Transport, refuse: (name: string, reason: string) => void): void => {
  const receive = transport.onmessage
  const onmessage: Transport["onmessage"] = (message, extra) => {
    if ("result" in message && Array.isArray(message.result["tools"])) {
      message.result["tools"] = message.result["tools"].filter((tool: unknown) => {
        const fault = ToolFault.of(tool)
        if (fault !== undefined) refuse(ToolFault.nameOf(tool), fault)
        return fault === undefined
      })
    }
    receive?.(message, extra)
  }
  Object.assign(transport, { onmessage })
}

const open = (server: string, endpoint: Endpoint.Endpoint): Effect.Effect<Transport, McpUnavailable, Scope.Scope> => {
  if (Endpoint.isStdio(endpoint)) {
    return Effect.acquireRelease(
      Effect.sync(() => new StdioTransport.StdioTransport(endpoint)),
      StdioTransport.stop
    )
  }
  const url = URL.parse(endpoint.url)
  if (url === null) return Effect.fail(new McpUnavailable({ server, reason: "its address is not a URL" }))
  return Effect.succeed(new HttpTransport(url, endpoint.headers))
}

/** Says goodbye: a session over HTTP is ended where the server is still there. */
const close = (client: Client, transport: Transport): Effect.Effect<void> => {
  const session =
    transport instanceof HttpTransport && transport.sessionId !== undefined
      ? Effect.tryPromise(() => transport.terminateSession())
      : Effect.void
  return Effect.ignore(Effect.timeoutOption(session, goodbye)).pipe(
    Effect.andThen(Effect.tryPromise(() => client.close())),
    Effect.ignore
  )
}

const goodbye = Duration.seconds(1)

/** Milliseconds a server may take to say which revisions it speaks; one that says nothing speaks those of 2025. */
const probeMs = 3_000

const answerInHand = Duration.millis(250)

/** What limits a call is the policy of its tool; the client's own limit must not come before it. */
const longestWait = 2 ** 31 - 1

/** K3 */
const failureOf = (server: string, error: unknown, because: (reason: string) => string) => {
  const reason = because(textOf(error))
  const status = error instanceof SdkHttpError ? error.status : 0
  // A session the server has forgotten is a 404; some answer 400 and say so in words.
  const isWithoutSession = status === 401 || status === 404 || (status === 400 && /session/i.test(reason))
  const isAnswered =
    error instanceof ProtocolError ||
    (error instanceof SdkError && unreadable.has(error.code)) ||
    (status >= 400 && status < 500 && !isWithoutSession)
  if (isAnswered) return new McpRefused({ server, reason })
  const neverSent =
    isWithoutSession ||
    error instanceof UnauthorizedError ||
    (error instanceof SdkError && error.code === SdkErrorCode.NotConnected) ||
    unreached.has(codeOf(error))
  return neverSent ? new McpUnavailable({ server, reason }) : new McpAnswerLost({ server, reason })
}

/** Answers that this client cannot take. */
const unreadable: ReadonlySet<SdkErrorCode> = new Set([
  SdkErrorCode.InvalidResult,
  SdkErrorCode.UnsupportedResultType,
  SdkErrorCode.InputRequiredRoundsExceeded
])

/** Failures of a network in which no connection was made. */
const unreached: ReadonlySet<unknown> = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH"])

const codeOf = (error: unknown): unknown =>
  error instanceof Error ? (("code" in error ? error.code : undefined) ?? codeOf(error.cause)) : undefined

/** An error in words, with those of its causes that add something; the same words whichever way the handshake was tried. */
const textOf = (error: unknown): string => {
  if (error instanceof UnauthorizedError) return refusesUs(401)
  if (error instanceof SdkHttpError && (error.status === 401 || error.status === 403)) return refusesUs(error.status)
  if (!(error instanceof Error)) return String(error)
  const message = error.message.replace(/^Version negotiation (?:probe )?failed: /, "")
  const cause = error.cause === undefined ? "" : textOf(error.cause)
  if (message.includes(cause)) return message
  return cause.includes(message) ? cause : `${message}: ${cause}`
}

const refusesUs = (status: number): string => `it refuses the credentials it was given (HTTP ${status})`

/** What a server has written, in one line of a terminal or a log and without what would steer them. */
const oneLine = (text: string): string => text.replace(/\p{Cc}+/gu, " ").slice(0, longestWords)

/** Characters that are shown: a proxy may answer with a page. */
const longestWords = 500

/** A result that does not fit what its server promised is still what the tool has answered. */
const anyOutput = {
  getValidator:
    <T>() =>
    (input: unknown): JsonSchemaValidatorResult<T> => ({ valid: true, data: input as T, errorMessage: undefined })
}

const version = (
  JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as { readonly version: string }
).version
