import { assert, layer } from "@effect/vitest"
import { Api } from "@turnstep/server/api/Api"
import { publicPaths } from "@turnstep/server/http/Gate"
import * as Effect from "effect/Effect"
import * as HttpApi from "effect/http-api/HttpApi"
import * as RawHttp from "../fixtures/RawHttp.ts"
import * as Server from "../fixtures/Server.ts"

/** Every route there is, read off the definition so that a new one cannot be forgotten. */
const routes: ReadonlyArray<{ readonly method: string; readonly path: string }> = (() => {
  const found = [
    { method: "GET", path: "/api/docs" },
    { method: "GET", path: "/api/openapi.json" }
  ]
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint }) => {
      found.push({ method: endpoint.method, path: endpoint.path.replace(/\/$/, "").replace(/:[a-z]+/g, "x") })
    }
  })
  return found
})()

const guarded = routes.filter(({ path }) => !publicPaths.has(path))

/** A body that could not be parsed, were it read. */
const broken = "{{{"

const request = Effect.fnUntraced(function* (
  { method, path }: (typeof routes)[number],
  headers: Readonly<Record<string, string>>
) {
  const { host, port } = yield* Server.TestServer
  const all = { host, "content-length": String(broken.length), "content-type": "application/json", ...headers }
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}`)
  const answer = yield* RawHttp.send(port, [`${method} ${path} HTTP/1.1`, ...lines], broken)
  return {
    ...answer,
    code: answer.body.startsWith("{") ? (JSON.parse(answer.body) as { code: string }).code : undefined
  }
})

const bearer = { authorization: `Bearer ${Server.token}` }

layer(Server.layer(), { excludeTestServices: true })("Gate", (it) => {
  it.effect("asks every route but the public ones for the token, before its body is read", () =>
    Effect.gen(function* () {
      assert.isAbove(guarded.length, 12)
      const wrong = [
        {},
        { authorization: "" },
        { authorization: "Bearer" },
        { authorization: `Bearer ${Server.token.slice(0, -1)}` },
        { authorization: `Bearer ${Server.token}0` },
        { authorization: `Basic ${Server.token}` }
      ]
      for (const route of guarded) {
        for (const headers of wrong) {
          const { code, headers: sent, status } = yield* request(route, headers)
          assert.deepStrictEqual([status, code], [401, "unauthorized"], `${route.method} ${route.path}`)
          assert.strictEqual(sent.get("www-authenticate"), "Bearer")
        }
      }
    })
  )

  it.effect("takes no token from a query, a cookie or a body", () =>
    Effect.gen(function* () {
      const route = { method: "GET", path: `/api/info?token=${Server.token}&access_token=${Server.token}` }
      const { body, status } = yield* request(route, { cookie: `token=${Server.token}` })
      assert.strictEqual(status, 401)
      assert.notInclude(body, Server.token)
    })
  )

  it.effect("refuses every route under another name, whatever the token", () =>
    Effect.gen(function* () {
      for (const route of routes) {
        for (const host of ["evil.com", "127.0.0.1:1", "0.0.0.0"]) {
          const { code, status } = yield* request(route, { ...bearer, host })
          assert.deepStrictEqual([status, code], [421, "host-not-allowed"], `${route.path} as ${host}`)
        }
      }
    })
  )

  it.effect("refuses a request with two hosts, or with none", () =>
    Effect.gen(function* () {
      const { host, port } = yield* Server.TestServer
      const line = "GET /api/info HTTP/1.1"
      const token = `authorization: Bearer ${Server.token}`
      assert.strictEqual((yield* RawHttp.send(port, [line, token, `host: ${host}`])).status, 200)
      assert.strictEqual((yield* RawHttp.send(port, [line, token, `host: ${host}`, "host: evil.com"])).status, 421)
      assert.strictEqual((yield* RawHttp.send(port, [line, token])).status, 421)
    })
  )

  it.effect("goes by the authority of an absolute target, not by what the host header claims", () =>
    Effect.gen(function* () {
      const { host, port } = yield* Server.TestServer
      const token = `authorization: Bearer ${Server.token}`
      const evil = yield* RawHttp.send(port, ["GET http://evil.com/api/info HTTP/1.1", `host: ${host}`, token])
      assert.strictEqual(evil.status, 421)
      const claimed = yield* RawHttp.send(port, [`GET http://${host}/api/info HTTP/1.1`, "host: evil.com", token])
      assert.strictEqual(claimed.status, 421)
      const own = yield* RawHttp.send(port, [`GET http://${host}/api/info HTTP/1.1`, `host: ${host}`, token])
      assert.strictEqual(own.status, 200)
    })
  )

  it.effect("refuses every route to pages of other origins, and says nothing of CORS", () =>
    Effect.gen(function* () {
      for (const route of routes) {
        for (const origin of ["http://evil.com", "null", "http://localhost.evil.com"]) {
          const { code, headers, status } = yield* request(route, { ...bearer, origin })
          assert.deepStrictEqual([status, code], [403, "origin-not-allowed"], `${route.path} from ${origin}`)
          assert.isFalse(headers.has("access-control-allow-origin"))
        }
      }
    })
  )

  it.effect("lets its own pages in", () =>
    Effect.gen(function* () {
      const { host } = yield* Server.TestServer
      const { status } = yield* request({ method: "GET", path: "/api/info" }, { ...bearer, origin: `http://${host}` })
      assert.strictEqual(status, 200)
    })
  )

  it.effect("answers a preflight like any method that is not there", () =>
    Effect.gen(function* () {
      const { host } = yield* Server.TestServer
      const { headers, status } = yield* request(
        { method: "OPTIONS", path: "/api/sessions" },
        { ...bearer, origin: `http://${host}`, "access-control-request-method": "POST" }
      )
      assert.strictEqual(status, 405)
      assert.strictEqual(headers.get("allow"), "POST, GET, HEAD")
      for (const name of headers.keys()) assert.notMatch(name, /^access-control/)
    })
  )

  it.effect("opens documentation and health without a token, and they hold no data", () =>
    Effect.gen(function* () {
      const { body } = yield* request({ method: "GET", path: "/healthz" }, {})
      assert.strictEqual(body, "ok")
      assert.strictEqual((yield* request({ method: "GET", path: "/readyz" }, {})).body, "ok")
      const document = yield* request({ method: "GET", path: "/api/openapi.json" }, {})
      assert.deepInclude(JSON.parse(document.body), { openapi: "3.1.0", security: [{ bearer: [] }] })
      const page = yield* request({ method: "GET", path: "/api/docs" }, {})
      assert.strictEqual(page.status, 200)
      assert.include(page.headers.get("content-type"), "text/html")
      assert.notMatch(page.body, /<(script|link)[^>]+(src|href)="https?:/)
      assert.include(page.headers.get("content-security-policy"), "connect-src 'self'")
      const root = yield* request({ method: "GET", path: "/" }, {})
      assert.deepStrictEqual([root.status, root.headers.get("location")], [302, "/api/docs"])
    })
  )
})
