/**
 * A node:http server whose requests are taken from a queue and answered by effects.
 *
 * Owns: sockets, and how a reply is written (chunk by chunk, gates, cuts). Does
 * not own: which reply it is (`StrictProvider`).
 */
import * as http from "node:http"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"
import * as ChatReply from "./ChatReply.ts"

/** A request whose body is complete. */
export interface Arrival {
  readonly method: string
  readonly path: string
  readonly headers: http.IncomingHttpHeaders
  readonly text: string
  /** Tells connections apart. */
  readonly clientPort: number
  readonly response: http.ServerResponse
  /** Done when the client has closed the connection before the reply's end. */
  readonly aborted: Deferred.Deferred<void>
}

/** A running server. */
export interface ChatServer {
  readonly port: number
  readonly arrivals: Queue.Dequeue<Arrival>
}

/** Listens on an ephemeral port of 127.0.0.1; closing the scope destroys every socket. */
export const make: Effect.Effect<ChatServer, never, Scope.Scope> = Effect.gen(function* () {
  const arrivals = yield* Queue.unbounded<Arrival>()
  const server = yield* Effect.acquireRelease(
    Effect.callback<http.Server>((resume) => {
      const server = http.createServer((request, response) => receive(request, response, arrivals))
      server.listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
    }),
    (server) =>
      Effect.callback<void>((resume) => {
        server.close(() => resume(Effect.void))
        server.closeAllConnections()
      })
  )
  const address = server.address()
  return { arrivals, port: typeof address === "object" && address !== null ? address.port : 0 }
})

const receive = (
  request: http.IncomingMessage,
  response: http.ServerResponse,
  arrivals: Queue.Queue<Arrival>
): void => {
  const pieces: Array<Buffer> = []
  request.socket.setNoDelay(true) // a chunk held back by the kernel would look like a closed gate
  const clientPort = request.socket.remotePort ?? 0
  request.on("data", (piece: Buffer) => pieces.push(piece))
  request.on("end", () => {
    const aborted = Deferred.makeUnsafe<void>()
    response.on("close", () => {
      if (!response.writableFinished) Deferred.doneUnsafe(aborted, Effect.void)
    })
    Queue.offerUnsafe(arrivals, {
      method: request.method ?? "",
      path: request.url ?? "",
      headers: request.headers,
      text: Buffer.concat(pieces).toString("utf8"),
      clientPort,
      response,
      aborted
    })
  })
}

/** Writes a reply. */
export const reply = Effect.fnUntraced(function* (
  response: http.ServerResponse,
  reply: ChatReply.Reply,
  envelope: ChatReply.Envelope,
  isStream: boolean
) {
  if ("status" in reply) {
    const isText = typeof reply.body === "string"
    response.writeHead(reply.status, { "content-type": isText ? "text/plain" : "application/json", ...reply.headers })
    return yield* end(response, isText ? reply.body : JSON.stringify(reply.body ?? {}))
  }
  if ("raw" in reply) {
    if (reply.cut !== 0) response.writeHead(200, { "content-type": "text/event-stream", ...reply.headers })
    return yield* writeAll(response, reply.raw, reply.cut)
  }
  if (!isStream) {
    yield* Effect.all(ChatReply.gates(reply), { discard: true })
    response.writeHead(200, { "content-type": "application/json" })
    return yield* end(response, JSON.stringify(ChatReply.completion(reply, envelope)))
  }
  const items = ChatReply.chunks(reply, envelope).map((item) => (typeof item === "string" ? `data: ${item}\n\n` : item))
  if (reply.cut !== 0) response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" })
  return yield* writeAll(response, items, reply.cut)
})

const writeAll = Effect.fnUntraced(function* (
  response: http.ServerResponse,
  items: ReadonlyArray<string | Uint8Array | Effect.Effect<void>>,
  cut: number | undefined
) {
  let written = 0
  if (cut !== 0) response.flushHeaders()
  for (const item of items) {
    if (written === cut) break
    if (Effect.isEffect(item)) {
      yield* item
    } else {
      yield* Effect.callback<void>((resume) => {
        response.write(item, () => resume(Effect.void))
      })
      written++
    }
  }
  if (cut === undefined) return yield* end(response, "")
  response.destroy()
})

const end = (response: http.ServerResponse, text: string): Effect.Effect<void> =>
  Effect.callback((resume) => {
    response.end(text, () => resume(Effect.void))
  })
