/**
 * The HTTP server over a running runtime, as a layer.
 *
 * Owns: how the parts of `http/` are put together, what Node's server is told, and the order in which they end. Does not
 * own: the runtime (`runtime/Runtime`), or where settings come from (`Config`).
 *
 * - V1. It ends in this order: streams say goodbye, requests under way are answered, connections are closed. Whoever
 *   provides the runtime closes it after that.
 * - V2. Closing takes as long as the slowest request, and at most about two seconds.
 */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import type { Sessions } from "@turnstep/runtime/Session"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServer from "effect/http/HttpServer"
import * as Layer from "effect/Layer"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { createServer } from "node:http"
import { Api } from "./api/Api.ts"
import { pageLimit } from "./api/Body.ts"
import type { Info } from "./api/Body.ts"
import { bodyBytes } from "./api/Guard.ts"
import { About } from "./http/About.ts"
import * as Access from "./http/Access.ts"
import * as BodyGuard from "./http/BodyGuard.ts"
import * as Docs from "./http/Docs.ts"
import * as Gate from "./http/Gate.ts"
import * as HistoryHandlers from "./http/HistoryHandlers.ts"
import * as Metrics from "./http/Metrics.ts"
import * as InboxHandlers from "./http/InboxHandlers.ts"
import * as RecordHandlers from "./http/RecordHandlers.ts"
import * as SessionHandlers from "./http/SessionHandlers.ts"
import * as SpillHandlers from "./http/SpillHandlers.ts"
import * as Streams from "./http/Streams.ts"
import * as SystemHandlers from "./http/SystemHandlers.ts"
import * as TurnHandlers from "./http/TurnHandlers.ts"
import * as UnderWay from "./http/UnderWay.ts"
import { version } from "./Version.ts"

/** The address cannot be listened on. */
export class AddressUnusable extends Schema.TaggedError<AddressUnusable>()("AddressUnusable", {
  host: Schema.String,
  port: Schema.Int,
  code: Schema.String
}) {
  override get message() {
    const address = `${Access.bracketed(this.host)}:${this.port}`
    switch (this.code) {
      case "EADDRINUSE":
        return `${address} is in use by another process. Stop that one, or choose another port (0 takes any free one) with --port, in code with the option \`port\`.`
      case "EACCES":
        return `The port of ${address} is reserved for the system. Choose one above 1023 with --port, in code with the option \`port\`.`
      case "EADDRNOTAVAIL":
      case "ENOTFOUND":
        return `${this.host} is not an address of this machine. Choose one with --host, in code with the option \`host\`; 127.0.0.1 is always there.`
      default:
        return `${address} cannot be listened on (${this.code}). Choose another address with --host and --port, in code with the options \`host\` and \`port\`.`
    }
  }
}

export interface Options {
  readonly host: string
  /** 0 takes any free port. */
  readonly port: number
  readonly token: Redacted.Redacted
  readonly allowHosts: ReadonlyArray<string>
  readonly allowOrigins: ReadonlyArray<string>
  readonly about: Pick<Info, "model" | "agents" | "storage">
}

/** The server; `HttpServer.address` tells where it listens. */
export const layer = (options: Options): Layer.Layer<HttpServer.HttpServer, AddressUnusable, Sessions> => {
  const access = Layer.effect(
    Access.Access,
    Effect.map(HttpServer.HttpServer, ({ address }) =>
      Access.make({ ...options, port: "port" in address ? address.port : 0 })
    )
  )
  const about = Layer.succeed(About, {
    name: "turnstep",
    version,
    ...options.about,
    limits: {
      bodyBytes,
      jsonDepth: BodyGuard.maxDepth,
      streams: Streams.maxStreams,
      pageEntries: pageLimit.most
    }
  })
  const served = HttpRouter.serve(routes, {
    disableLogger: true,
    disableListenLog: true,
    // An id that is too long names nothing, and its route says so. The head of a request has 16 KiB.
    routerConfig: { maxParamLength: 16 * 1024 }
  }).pipe(Layer.provide([access, about, SecureRandom.layerWebCrypto]))
  return goodbye.pipe(
    Layer.provide(served),
    Layer.provide([Streams.layer, UnderWay.layer]),
    Layer.provideMerge(listening(options))
  )
}

const handlers = Layer.mergeAll(
  SystemHandlers.layer,
  SessionHandlers.layer,
  InboxHandlers.layer,
  TurnHandlers.layer,
  RecordHandlers.layer,
  SpillHandlers.layer,
  HistoryHandlers.layer
)

const routes = Layer.mergeAll(HttpApiBuilder.layer(Api), Docs.layer, Metrics.layer, Gate.layer).pipe(
  Layer.provide(handlers),
  Layer.provide(BodyGuard.layer)
)

/** Built on the routes, so it is closed before them (V1). */
const goodbye = Layer.effectDiscard(
  Effect.gen(function* () {
    const streams = yield* Streams.Streams
    const underWay = yield* UnderWay.UnderWay
    yield* Effect.addFinalizer(() => Effect.andThen(streams.close, underWay.close))
  })
)

/** How long connections are waited for that still have to take their answer (V2). */
const grace = "1 second"

/** Node's server. What the grace did not end is closed under it, before Node waits for the last connection. */
const listening = ({ host, port }: Options) =>
  Layer.suspend(() => {
    const server = createServer({
      maxHeaderSize: 16 * 1024,
      headersTimeout: 10_000,
      requestTimeout: 60_000,
      // A request without a host is answered by `Gate`, like one with a wrong host.
      requireHostHeader: false
    })
    const listen = NodeHttpServer.layer(() => server, { host, port, gracefulShutdownTimeout: grace }).pipe(
      Layer.catch((error) => Layer.effectContext(new AddressUnusable({ host, port, code: codeOf(error.cause) })))
    )
    return Layer.effectDiscard(Effect.addFinalizer(() => Effect.sync(() => server.closeAllConnections()))).pipe(
      Layer.provideMerge(listen)
    )
  })

const codeOf = (cause: unknown): string =>
  typeof cause === "object" && cause !== null && "code" in cause && typeof cause.code === "string"
    ? cause.code
    : "unknown"
