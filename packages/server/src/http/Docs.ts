/**
 * The documentation page and the OpenAPI document.
 *
 * - D1. The page is whole: it needs no script, font or answer of another server, and its policy forbids them.
 * - D2. Its script has three megabytes; it is loaded when the page is first asked for.
 * - D3. The bytes of an answer are made once and shared by all requests; a client that has them (`if-none-match`) gets a 304.
 */
import * as Effect from "effect/Effect"
import * as HttpApiScalar from "effect/http-api/HttpApiScalar"
import * as OpenApi from "effect/http-api/OpenApi"
import * as HttpRouter from "effect/http/HttpRouter"
import { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import { createHash } from "node:crypto"
import { Api } from "../api/Api.ts"

const pagePath = "/api/docs"
const documentPath = "/api/openapi.json"
export const paths: ReadonlyArray<string> = [pagePath, documentPath]

/** D1 */
const policy =
  "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src 'self' data:; font-src data:; " +
  "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const scalar = HttpApiScalar.layer(Api, {
  path: pagePath,
  scalar: { withDefaultFonts: false, hideModels: true, authentication: { preferredSecurityScheme: "bearer" } }
})

export const layer = HttpRouter.use(
  Effect.fnUntraced(function* (router) {
    const document = yield* constant(
      Effect.sync(() => HttpServerResponse.jsonUnsafe(OpenApi.fromApi(Api))),
      "application/json"
    )
    const page = yield* constant(
      Effect.flatten(HttpRouter.toHttpEffect(scalar)).pipe(
        Effect.orDie,
        Effect.map(HttpServerResponse.setHeader("content-security-policy", policy))
      ),
      "text/html; charset=utf-8"
    ) // D2
    yield* router.add("GET", documentPath, document)
    yield* router.add("GET", pagePath, page)
    yield* router.add("GET", "/", HttpServerResponse.redirect(pagePath)) // who opens the server in a browser
  })
)

/** An answer that is the same for as long as the server runs (D3). */
const constant = <R>(make: Effect.Effect<HttpServerResponse.HttpServerResponse, never, R>, contentType: string) =>
  Effect.cached(
    Effect.flatMap(make, (made) =>
      Effect.promise(async () => {
        const bytes = new Uint8Array(await HttpServerResponse.toWeb(made).arrayBuffer())
        const etag = `"${createHash("sha256").update(bytes).digest("base64url").slice(0, 22)}"`
        const headers = { ...made.headers, etag, "cache-control": "no-cache" }
        return {
          etag,
          whole: HttpServerResponse.uint8Array(bytes, { contentType, headers }),
          unchanged: HttpServerResponse.empty({ status: 304, headers: { etag, "cache-control": "no-cache" } })
        }
      })
    )
  ).pipe(
    Effect.map((cached) =>
      Effect.flatMap(HttpServerRequest, (request) =>
        Effect.map(cached, ({ etag, unchanged, whole }) =>
          (request.headers["if-none-match"] ?? "").split(/\s*,\s*/).includes(etag) ? unchanged : whole
        )
      )
    )
  )
