/**
 * The documentation page and the OpenAPI document.
 *
 * - D1. The page is whole: it needs no script, font or answer of another server, and its policy forbids them.
 * - D2. Its script has three megabytes; it is loaded when the page is first asked for.
 */
import * as Effect from "effect/Effect"
import * as HttpApiScalar from "effect/http-api/HttpApiScalar"
import * as OpenApi from "effect/http-api/OpenApi"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
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
    const document = yield* Effect.cached(Effect.sync(() => HttpServerResponse.jsonUnsafe(OpenApi.fromApi(Api))))
    const page = yield* Effect.cached(
      Effect.flatten(HttpRouter.toHttpEffect(scalar)).pipe(
        Effect.orDie,
        Effect.map(HttpServerResponse.setHeader("content-security-policy", policy))
      )
    ) // D2
    yield* router.add("GET", documentPath, document)
    yield* router.add("GET", pagePath, page)
    yield* router.add("GET", "/", HttpServerResponse.redirect(pagePath)) // who opens the server in a browser
  })
)
