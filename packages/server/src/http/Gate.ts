/**
 * What every request passes before it is routed, and what every failure becomes before it is sent.
 *
 * Owns: the order of the checks and the public paths. Does not own: the checks (`Access`), the problems (`Problem`).
 *
 * - G1. Nothing is routed or read of a request that is not let in.
 * - G2. The documentation is public: it holds no data and is the same on every server, and a browser that opens it cannot
 *   send a token. So are `/`, which leads there, and `/healthz` and `/readyz`, which say a constant.
 * - G3. A path that is there under another method is 405 with `allow`, any other unknown one 404, and so is what is no path.
 */
import * as Cause from "effect/Cause"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Effect from "effect/Effect"
import * as HttpApi from "effect/http-api/HttpApi"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServerError from "effect/http/HttpServerError"
import { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import { Api } from "../api/Api.ts"
import * as ApiError from "../api/ApiError.ts"
import { Access, denial } from "./Access.ts"
import * as Docs from "./Docs.ts"
import * as Problem from "./Problem.ts"
import { Streams } from "./Streams.ts"
import { UnderWay } from "./UnderWay.ts"

/** Paths that need no token (G2). */
export const publicPaths: ReadonlySet<string> = new Set(["/", "/healthz", "/readyz", ...Docs.paths])

/** Wraps every route. */
export const layer = HttpRouter.middleware(
  Effect.gen(function* () {
    const access = yield* Access
    const streams = yield* Streams
    const underWay = yield* UnderWay
    const random = yield* SecureRandom.SecureRandom
    return (routed) =>
      Effect.flatMap(HttpServerRequest, (request) => {
        const instance = Problem.instanceOf(request)
        const denied = denial(access, headersOf(request), publicPaths.has(instance))
        if (denied !== undefined) return Effect.succeed(refusal(ApiError.make(denied.code, instance, denied.detail)))
        if (streams.isClosing() && instance !== "/healthz") {
          return Effect.succeed(
            refusal(ApiError.make("shutting-down", instance, "The server takes no requests any more."))
          )
        }
        return Effect.catchCause(underWay.waitFor(routed), (cause) => {
          if (Cause.hasInterruptsOnly(cause)) return Effect.failCause(cause)
          if (isRouteNotFound(cause)) return Effect.succeed(notRouted(request.method, instance))
          return Effect.map(Problem.fromCause(cause, instance), (error) => Problem.response(error))
        }).pipe(
          Effect.provideService(SecureRandom.SecureRandom, random),
          Effect.map(HttpServerResponse.setHeaders(always))
        )
      })
  }),
  { global: true }
)

const always = { "x-content-type-options": "nosniff", "referrer-policy": "no-referrer" }

/** A refusal of a request whose body nobody will read. */
const refusal = (error: ApiError.ApiError) => Problem.response(error, always)

const headersOf = (request: HttpServerRequest) => {
  const { rawHeaders } = NodeHttpServerRequest.toIncomingMessage(request)
  // Node keeps the first of several host headers, and a target with an authority wins over the header (RFC 9112 §3.2.2):
  // whatever names a host is looked at, and more than one name is a trick.
  const sent = rawHeaders.filter((_, index) => index % 2 === 1 && rawHeaders[index - 1]?.toLowerCase() === "host")
  const effective = request.headers["host"]
  const hosts = effective === undefined || sent.includes(effective) ? sent : [...sent, effective]
  return {
    hosts,
    origin: request.headers["origin"],
    authorization: request.headers["authorization"],
    site: request.headers["sec-fetch-site"],
    destination: request.headers["sec-fetch-dest"]
  }
}

const isRouteNotFound = (cause: Cause.Cause<unknown>): boolean =>
  cause.reasons.some(
    (reason) =>
      Cause.isFailReason(reason) &&
      HttpServerError.isHttpServerError(reason.error) &&
      reason.error.reason._tag === "RouteNotFound"
  )

/** G3 */
const notRouted = (method: string, instance: string) => {
  const methods = isPath(instance) ? methodsOf(instance) : []
  if (methods.length === 0) {
    return Problem.response(ApiError.make("route-not-found", instance, `There is no route ${instance}.`))
  }
  const error = ApiError.make("method-not-allowed", instance, `${instance} does not take ${method}.`)
  return Problem.response(error, { allow: methods.join(", ") })
}

/** Whether the percent signs of a path stand for characters. */
const isPath = (path: string): boolean => {
  try {
    decodeURIComponent(path)
    return true
  } catch {
    return false
  }
}

const methodsOf = (path: string): ReadonlyArray<string> => {
  const methods = routes.flatMap((route) => (route.pattern.test(path) ? [route.method] : []))
  return methods.includes("GET") ? [...methods, "HEAD"] : methods
}

const routes: ReadonlyArray<{ readonly method: string; readonly pattern: RegExp }> = (() => {
  const found = ["/", "/metrics", ...Docs.paths].map((path) => ({ method: "GET", pattern: patternOf(path) }))
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint }) => {
      found.push({ method: endpoint.method, pattern: patternOf(endpoint.path) })
    }
  })
  return found
})()

function patternOf(path: string): RegExp {
  return new RegExp(
    `^${path
      .replace(/\/$/, "")
      .replaceAll(".", "\\.")
      .replace(/:[a-z]+/g, "[^/]+")}/?$`
  )
}
