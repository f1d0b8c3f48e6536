/**
 * A server kept in reach: connected when the scope opens, again whenever it is lost, gone when the scope closes.
 *
 * Owns: links and their tool lists over time, and what is told of them in the log. Does not own: a single link (`Link`).
 *
 * - M1. A server that is not there stops nothing: it has no tools yet, or those it had, and a call says why it failed.
 * - M2. It is tried again with growing waits; one that dies at once is not started in a circle.
 * - M3. A call is made with the tool as the model was shown it, or not at all.
 * - M4. A change of the tools is reported when it is seen, and offered to Turns that begin after it.
 * - M5. A list that the application does not approve is not offered at all.
 */
import type { CallToolResult } from "@modelcontextprotocol/client"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import * as Random from "effect/Random"
import type * as Scope from "effect/Scope"
import * as Endpoint from "./Endpoint.ts"
import * as Link from "./Link.ts"
import { type McpError, McpToolChanged, McpUnavailable } from "./McpError.ts"
import * as ToolList from "./ToolList.ts"

/** How long a Turn that begins waits for a server that has not been tried yet, and a call for one that has been lost. */
export const patience = { turn: Duration.seconds(10), call: Duration.seconds(5) }

/** A server that stood this long was well: the next attempt is made at once. */
const isWellAfter = Duration.seconds(10)

/** Wait after the first failure in a row, doubled each time, and the longest. */
const backoff = { first: Duration.millis(250), longest: Duration.seconds(30) }

/** How often a broken stream makes the list be read again, at the most. */
const doubtsEvery = Duration.seconds(5)

/** How it stands with a server. */
export interface Status {
  readonly server: string
  readonly state: "connecting" | "ready" | "down"
  /** Why it is down. */
  readonly reason?: string | undefined
  readonly serverInfo?: { readonly name: string; readonly version: string } | undefined
  readonly protocolVersion?: string | undefined
  /** The tools as they were last seen, by the server's names. */
  readonly tools: ReadonlyArray<string>
  /** Of the tools as they were last seen. */
  readonly digest?: string | undefined
  /** What of them is over a limit, in words. */
  readonly shortened: ReadonlyArray<string>
}

export interface Connection {
  readonly status: Effect.Effect<Status>
  /** The tools as they stand now; waits for the first attempt, for a while. */
  readonly tools: Effect.Effect<ReadonlyMap<string, ToolList.Listed>>
  readonly call: (
    tool: ToolList.Listed,
    params: Readonly<Record<string, unknown>>,
    callKey: string,
    onProgress: (progress: Link.Progress) => Effect.Effect<void>
  ) => Effect.Effect<CallToolResult, McpError>
}

/** Keeps a server in reach for as long as the scope is open. */
export const make = Effect.fnUntraced(function* (
  server: string,
  endpoint: Endpoint.Endpoint,
  rules: ToolList.Rules
): Effect.fn.Return<Connection, never, Scope.Scope> {
  const tried = yield* Deferred.make<void>()
  const isReady = yield* Latch.make()
  let link: Link.Link | undefined
  let list: ToolList.ToolList | undefined
  let reason: string | undefined
  let said: string | undefined
  let nextAttempt = 0
  let readyAt: number | undefined
  let era: Link.Era = "auto"
  const log = { server, place: Endpoint.place(endpoint) }

  const read = Effect.fnUntraced(function* (from: Link.Link) {
    const { refused, tools } = yield* from.list
    const found = ToolList.make(server, tools, rules, list, refused)
    const isApproved = yield* rules.approve?.(found.digest) ?? Effect.succeed(true)
    const next = isApproved ? found : withheld(found)
    const before = list
    list = next
    const unknown = ToolList.missing(next, rules)
    if (unknown.length > 0 && before?.digest !== next.digest) {
      yield* Effect.logWarning(`MCP server ${server} has no tool ${unknown.join(", ")}, which the configuration allows`)
    }
    if (next.shortened.length > 0 && before?.shortened.join() !== next.shortened.join()) {
      yield* Effect.logWarning(`MCP server ${server} offers more than is taken of it: ${next.shortened.join("; ")}`)
    }
    if (before === undefined || before.digest === next.digest) return
    yield* Effect.logWarning(
      `MCP server ${server} has changed its tools; turns that begin now use them as they are now`,
      { ...ToolList.changes(before, next), digestBefore: before.digest, digest: next.digest } // M4
    )
  })

  /** Reads the list whenever there is a reason; a server that cannot give it is lost. */
  const follow = Effect.fnUntraced(function* (current: Link.Link) {
    for (;;) {
      yield* current.hint
      yield* read(current).pipe(Effect.catchTag("McpUnavailable", (error) => current.lose(error.reason)))
      if (!Endpoint.isStdio(endpoint)) yield* Effect.sleep(doubtsEvery)
    }
  })

  /** One link, from its handshake to its end. Says why it ended. */
  const connected = Effect.gen(function* () {
    const current = yield* Link.make(server, endpoint, era).pipe(
      Effect.tap(read),
      Effect.timeoutOrElse({
        duration: Link.handshake,
        orElse: () => Effect.fail(new McpUnavailable({ server, reason: "it did not answer in time" }))
      })
    )
    link = current
    reason = said = undefined
    readyAt = yield* Clock.currentTimeMillis
    yield* isReady.open
    yield* Deferred.succeed(tried, undefined)
    yield* Effect.addFinalizer(() =>
      Effect.suspend(() => {
        link = undefined
        return isReady.close
      })
    )
    yield* Effect.logInfo(`MCP server ${server} is ready with ${list?.tools.size ?? 0} tools`, {
      ...log,
      digest: list?.digest
    })
    yield* Effect.forkScoped(follow(current))
    return yield* current.lost
  }).pipe(
    Effect.scoped,
    Effect.catchTag("McpUnavailable", (error) => Effect.succeed(error.reason))
  )

  const keep = Effect.gen(function* () {
    let failures = 0
    for (;;) {
      readyAt = undefined
      reason = yield* connected
      const now = yield* Clock.currentTimeMillis
      const stood = readyAt === undefined ? undefined : now - readyAt
      if (stood === undefined) era = era === "auto" ? "legacy" : "auto"
      failures = stood !== undefined && stood >= Duration.toMillis(isWellAfter) ? 0 : failures + 1
      const wait = yield* waitAfter(failures)
      nextAttempt = now + wait
      yield* Deferred.succeed(tried, undefined)
      // Once for each reason: a server that stays away would fill the log.
      const level = reason === said ? "Debug" : "Warn"
      said = reason
      yield* Effect.logWithLevel(level)(`MCP server ${server} cannot be used: ${reason}`, {
        ...log,
        again: `in ${wait} ms`
      })
      yield* Effect.sleep(wait)
    }
  })

  /** The link, waited for while it is being made. */
  const ready = Effect.gen(function* () {
    const isFarOff =
      reason !== undefined && nextAttempt - (yield* Clock.currentTimeMillis) > Duration.toMillis(patience.call)
    if (!isFarOff) yield* Effect.timeoutOption(isReady.await, patience.call)
    if (link !== undefined) return link
    return yield* new McpUnavailable({ server, reason: reason ?? "it is still being connected to" })
  })

  const call: Connection["call"] = Effect.fnUntraced(function* (tool, params, callKey, onProgress) {
    const { name } = tool.descriptor
    for (let isAgain = false; ; isAgain = true) {
      const current = yield* ready
      const now = list?.tools.get(name)
      if (now?.digest !== tool.digest) {
        return yield* new McpToolChanged({ server, tool: name, isGone: now === undefined }) // M3
      }
      const called = yield* Effect.result(current.call(tool.descriptor, params, callKey, onProgress))
      if (called._tag === "Success") return called.success
      const error = called.failure
      // One call that broke says little of the others: they are lost only when the server is.
      if (error._tag === "McpAnswerLost") yield* current.doubt
      if (error._tag === "McpUnavailable") yield* Effect.andThen(isReady.close, current.lose(error.reason))
      // What has not reached the server may be sent again: a session that the server has forgotten is opened anew.
      if (error._tag !== "McpUnavailable" || isAgain) return yield* error
    }
  })

  yield* Effect.forkScoped(keep)
  return {
    status: Effect.sync(() => ({
      server,
      state: link !== undefined ? "ready" : reason === undefined ? "connecting" : "down",
      reason,
      serverInfo: link?.serverInfo,
      protocolVersion: link?.protocolVersion,
      tools: [...(list?.tools.keys() ?? [])],
      digest: list?.digest,
      shortened: list?.shortened ?? []
    })),
    tools: Effect.timeoutOption(Deferred.await(tried), patience.turn).pipe(
      Effect.map((): ReadonlyMap<string, ToolList.Listed> => list?.tools ?? new Map())
    ),
    call
  }
})

/** M5: a list that may not be offered. */
const withheld = (list: ToolList.ToolList): ToolList.ToolList => ({
  ...list,
  tools: new Map(),
  shortened: [...list.shortened, `its tools are not those that were approved (digest ${list.digest.slice(0, 12)})`]
})

/** M2: milliseconds, a fifth more or less so that many clients of a server do not come at the same time. */
const waitAfter = (failures: number): Effect.Effect<number> => {
  if (failures === 0) return Effect.succeed(0)
  const longest = Duration.toMillis(backoff.longest)
  const wait = Math.min(longest, Duration.toMillis(backoff.first) * 2 ** (failures - 1))
  return Effect.map(Random.next, (chance) => Math.round(wait * (0.8 + 0.4 * chance)))
}
