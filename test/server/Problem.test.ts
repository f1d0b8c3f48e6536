import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { gzipSync } from "node:zlib"
import * as RawHttp from "../fixtures/RawHttp.ts"
import * as Server from "../fixtures/Server.ts"

interface Problem {
  readonly type: string
  readonly title: string
  readonly status: number
  readonly detail: string
  readonly instance: string
  readonly code: string
  readonly hint: string
  readonly errors?: ReadonlyArray<{ readonly pointer: string; readonly detail: string }>
}

const nested = (depth: number): string => `{"metadata":{"a":${"[".repeat(depth - 2)}${"]".repeat(depth - 2)}}}`

/** Refuses, and looks at the form every refusal has. */
const refused = Effect.fnUntraced(function* (path: string, init?: Server.Init) {
  const server = yield* Server.TestServer
  const response = yield* server.fetch(path, init)
  const body = (yield* Effect.promise(() => response.json())) as Problem
  assert.strictEqual(response.headers.get("content-type"), "application/problem+json")
  assert.strictEqual(body.status, response.status)
  assert.strictEqual(body.type, `urn:turnstep:problem:${body.code}`)
  assert.strictEqual(body.instance, path.replace(/\?.*/, ""))
  for (const text of [body.title, body.detail, body.hint]) assert.isAbove(text.length, 10)
  return { ...body, headers: response.headers }
})

const pointersOf = ({ errors }: Problem): ReadonlyArray<string> => (errors ?? []).map(({ pointer }) => pointer)

const post = (body: unknown, headers: Readonly<Record<string, string>> = {}): Server.Init => ({
  method: "POST",
  body,
  headers
})

layer(Server.layer(), { excludeTestServices: true })("Problem", (it) => {
  const table: ReadonlyArray<readonly [what: string, path: string, init: Server.Init, status: number, code: string]> = [
    ["an unknown route", "/api/nope", {}, 404, "route-not-found"],
    ["a path outside of the API", "/nowhere", {}, 404, "route-not-found"],
    ["a path whose percent signs mean nothing", "/api/sessions/%ff%fe", {}, 404, "route-not-found"],
    ["a method a route does not take", "/api/info", { method: "DELETE" }, 405, "method-not-allowed"],
    ["a body that is not JSON", "/api/sessions", post("{"), 400, "invalid-json"],
    ["a body after the body", "/api/sessions", post("{} {}"), 400, "invalid-json"],
    ["JSON nested too deeply", "/api/sessions", post(nested(65)), 400, "json-too-deep"],
    ["JSON nested far too deeply", "/api/sessions", post("[".repeat(200_000)), 400, "json-too-deep"],
    ["no body where one is needed", "/api/sessions", { method: "POST" }, 400, "invalid-request"],
    ["a body over 1 MiB", "/api/sessions/s/messages", post(JSON.stringify("x".repeat(1024 * 1024))), 413, "too-large"],
    [
      "a body of countless entries",
      "/api/history/verify",
      post(`{"messages":[${"0,".repeat(1_000_001)}0]}`),
      413,
      "too-large"
    ],
    ["a text as body", "/api/sessions", post("{}", { "content-type": "text/plain" }), 415, "unsupported-media-type"],
    [
      "a form as body",
      "/api/sessions",
      post("a=b", { "content-type": "application/x-www-form-urlencoded" }),
      415,
      "unsupported-media-type"
    ],
    ["a compressed body", "/api/sessions", post("{}", { "content-encoding": "gzip" }), 415, "unsupported-media-type"],
    ["an unknown session", "/api/sessions/none", {}, 404, "session-not-found"],
    ["an id no session can have", "/api/sessions/..%2f..%2fetc", {}, 404, "session-not-found"],
    ["a session id that is not one", "/api/sessions", post({ id: "a b" }), 400, "invalid-request"],
    ["an unknown agent", "/api/sessions", post({ agent: "nobody" }), 422, "agent-not-found"],
    ["a file without a URL", "/api/sessions", post({ input: [file("/etc/passwd")] }), 422, "content-unreadable"],
    [
      "a file by another scheme",
      "/api/sessions",
      post({ input: [file("file:///etc/passwd")] }),
      422,
      "content-unreadable"
    ],
    ["a page of too many", "/api/sessions?limit=1001", {}, 400, "invalid-request"],
    ["a page of none", "/api/sessions?limit=0", {}, 400, "invalid-request"],
    ["a query it does not know", "/api/sessions?limt=5", {}, 400, "invalid-request"],
    ["a query where none is taken", "/api/info?verbose=1", {}, 400, "invalid-request"],
    ["a query where none is taken, with a body", "/api/sessions?limit=5", post({}), 400, "invalid-request"],
    ["an id of many characters", `/api/sessions/${"s".repeat(101)}`, {}, 404, "session-not-found"],
    ["an id of as many characters as a path has", `/api/sessions/${"s".repeat(12_000)}`, {}, 404, "session-not-found"]
  ]
  for (const [what, path, init, status, code] of table) {
    it.effect(`answers ${what} with ${status} ${code}`, () =>
      Effect.map(refused(path, init), (problem) =>
        assert.deepStrictEqual([problem.status, problem.code], [status, code])
      )
    )
  }

  it.effect("names the parts of a message that no model can read, and keeps nothing of it", () =>
    Effect.gen(function* () {
      const server = yield* Server.TestServer
      const parts = [
        { type: "text", text: "see" },
        file("data:text/plain;base64,@@@"),
        file("https://example.org/a.txt")
      ]
      const first = yield* refused("/api/sessions", post({ id: "unreadable", input: parts }))
      assert.deepStrictEqual([first.status, pointersOf(first)], [422, ["/body/input/1/data"]])
      assert.strictEqual((yield* refused("/api/sessions/unreadable")).code, "session-not-found")
      yield* server.json("/api/sessions", post({ id: "readable" }))
      const second = yield* refused("/api/sessions/readable/messages", post({ parts }))
      assert.deepStrictEqual([second.status, pointersOf(second)], [422, ["/body/parts/1/data"]])
      assert.match(second.errors?.[0]?.detail ?? "", /^not-base64: /)
    })
  )

  it.effect("takes JSON that is nested just deep enough", () =>
    Effect.gen(function* () {
      const server = yield* Server.TestServer
      const { status } = yield* server.json("/api/sessions", post(nested(64)))
      assert.strictEqual(status, 201)
    })
  )

  it.effect("takes a body of exactly 1 MiB, and not a byte more", () =>
    Effect.gen(function* () {
      const server = yield* Server.TestServer
      const body = (name: string, size: number) => `{"${name}":"${"x".repeat(size - name.length - 7)}"}`
      yield* server.json("/api/sessions", post({ id: "sized" }))
      const messages = "/api/sessions/sized/messages"
      assert.strictEqual((yield* server.json(messages, post(body("text", 1024 * 1024)))).status, 202)
      assert.strictEqual((yield* server.json(messages, post(body("text", 1024 * 1024 + 1)))).status, 413)
      assert.strictEqual((yield* server.json("/api/sessions", post(body("input", 1024 * 1024 + 1)))).status, 413)
    })
  )

  it.effect("refuses a body that does not say how long it is once it is too long", () =>
    Effect.gen(function* () {
      const { host, port } = yield* Server.TestServer
      const head = [
        "POST /api/sessions/s/messages HTTP/1.1",
        `host: ${host}`,
        `authorization: Bearer ${Server.token}`,
        "content-type: application/json",
        "transfer-encoding: chunked"
      ]
      const chunk = `10000\r\n${"x".repeat(0x10000)}\r\n`
      const { body, status } = yield* RawHttp.send(port, head, `${chunk.repeat(17)}0\r\n\r\n`)
      assert.deepStrictEqual([status, JSON.parse(body).code], [413, "too-large"])
    })
  )

  it.effect("refuses what is not UTF-8, and takes what is", () =>
    Effect.gen(function* () {
      const { host, port } = yield* Server.TestServer
      const send = (body: Buffer) =>
        RawHttp.send(
          port,
          [
            "POST /api/sessions HTTP/1.1",
            `host: ${host}`,
            `authorization: Bearer ${Server.token}`,
            "content-type: application/json; charset=latin1",
            `content-length: ${body.length}`
          ],
          body
        )
      const refusal = yield* send(Buffer.from('{"title":"caf\u00e9"}', "latin1"))
      assert.deepStrictEqual([refusal.status, JSON.parse(refusal.body).code], [400, "invalid-json"])
      const taken = yield* send(Buffer.from('{"title":"caf\u00e9"}', "utf8"))
      assert.deepStrictEqual([taken.status, JSON.parse(taken.body).title], [201, "café"])
    })
  )

  it.effect("does not inflate a compressed body to look at it", () =>
    Effect.gen(function* () {
      const { host, port } = yield* Server.TestServer
      const bomb = gzipSync(Buffer.alloc(50 * 1024 * 1024))
      const head = [
        "POST /api/sessions HTTP/1.1",
        `host: ${host}`,
        `authorization: Bearer ${Server.token}`,
        "content-type: application/json",
        "content-encoding: gzip",
        `content-length: ${bomb.length}`
      ]
      assert.strictEqual((yield* RawHttp.send(port, head, bomb)).status, 415)
    })
  )

  it.effect("points at every place of a body that is wrong", () =>
    Effect.gen(function* () {
      const problem = yield* refused("/api/sessions", post({ titel: "x", agent: 3, input: "" }))
      assert.deepStrictEqual([...new Set(pointersOf(problem))].toSorted(), [
        "/body/agent",
        "/body/input",
        "/body/titel"
      ])
    })
  )

  it.effect("names the first fifty faults of a body that has many", () =>
    Effect.gen(function* () {
      const problem = yield* refused("/api/sessions", post({ input: Array.from({ length: 5000 }, () => 1) }))
      assert.strictEqual(problem.errors?.length, 50)
    })
  )

  it.effect("points into a list, and escapes what a pointer must escape", () =>
    Effect.gen(function* () {
      const parts = yield* refused("/api/sessions", post({ input: [{ type: "text", text: "x" }, file("nowhere")] }))
      assert.include(pointersOf(parts), "/body/input/1/data")
      const odd = yield* refused("/api/sessions", post({ "a/b~c": 1 }))
      assert.include(pointersOf(odd), "/body/a~1b~0c")
    })
  )

  it.effect("names the methods a route takes", () =>
    Effect.gen(function* () {
      const { headers } = yield* refused("/api/sessions/x/inbox/inb_1", { method: "PUT" })
      assert.strictEqual(headers.get("allow"), "PATCH, DELETE")
    })
  )

  it.effect("says the same of a session that is not there, whatever is asked of it", () =>
    Effect.gen(function* () {
      for (const path of [
        "",
        "/inbox",
        "/turns",
        "/turns/trn_1",
        "/messages",
        "/calls",
        "/calls/cal_1_1_0",
        "/events"
      ]) {
        assert.strictEqual((yield* refused(`/api/sessions/none${path}`)).code, "session-not-found", path)
      }
      const send = post({ text: "hello" })
      assert.strictEqual((yield* refused("/api/sessions/none/messages", send)).code, "session-not-found")
      const cancel: Server.Init = { method: "POST" }
      assert.strictEqual((yield* refused("/api/sessions/none/turns/trn_1/cancel", cancel)).code, "session-not-found")
      const withdraw: Server.Init = { method: "DELETE" }
      assert.strictEqual((yield* refused("/api/sessions/none/inbox/inb_1", withdraw)).code, "session-not-found")
    })
  )

  it.effect("keeps what it was sent out of the address of a problem", () =>
    Effect.gen(function* () {
      const { instance } = yield* refused("/api/nope?token=secret")
      assert.notInclude(instance, "secret")
    })
  )
})

function file(data: string) {
  return { type: "file", mediaType: "text/plain", data }
}
