import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Server from "../fixtures/Server.ts"

interface Session {
  readonly id: string
  readonly title?: string
  readonly metadata?: unknown
  readonly status: string
  readonly headSeq: number
  readonly turns: number
  readonly createdAt: string
  readonly admitted?: {
    readonly item: { readonly id: string; readonly delivery: string }
    readonly effect: string
    readonly turnId: string
  }
  readonly code?: string
}

interface Page {
  readonly data: ReadonlyArray<{ readonly id: string }>
  readonly next: string | null
}

const create = Effect.fnUntraced(function* (body: object, key?: string) {
  const server = yield* Server.TestServer
  const headers = key === undefined ? {} : { "idempotency-key": key }
  const response = yield* server.fetch("/api/sessions", { method: "POST", body, headers })
  const session = (yield* Effect.promise(() => response.json())) as Session
  return { ...session, httpStatus: response.status, headers: response.headers }
})

layer(Server.layer(), { excludeTestServices: true })("Sessions over HTTP", (it) => {
  it.effect("creates a session, says where it is, and gives it back as it was made", () =>
    Effect.gen(function* () {
      const server = yield* Server.TestServer
      const made = yield* create({ id: "one", title: "First", metadata: { a: [1, { b: null }] } })
      assert.deepInclude(made, { httpStatus: 201, id: "one", status: "idle", headSeq: 1, turns: 0 })
      assert.strictEqual(made.headers.get("location"), "/api/sessions/one")
      assert.match(made.createdAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
      const { body } = yield* server.json<Session>("/api/sessions/one")
      assert.deepInclude(body, { id: "one", title: "First", metadata: { a: [1, { b: null }] } })
    })
  )

  it.effect("makes an id for who has none, and refuses one that is taken", () =>
    Effect.gen(function* () {
      const { id } = yield* create({})
      assert.match(id, /^ses_[0-9a-f-]{36}$/)
      assert.deepInclude(yield* create({ id }), { httpStatus: 409, code: "session-exists" })
    })
  )

  it.effect("starts the first Turn from the input", () =>
    Effect.gen(function* () {
      const { admitted } = yield* create({ input: "/time" })
      assert.deepInclude<unknown>(admitted, {
        effect: "started",
        turnId: "trn_1",
        item: { id: "inb_1", delivery: "start" }
      })
    })
  )

  it.effect("keeps what a body says about prototypes as plain data", () =>
    Effect.gen(function* () {
      const server = yield* Server.TestServer
      const body =
        '{"id":"proto","metadata":{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}}}'
      yield* server.fetch("/api/sessions", { method: "POST", body })
      const response = yield* server.fetch("/api/sessions/proto")
      assert.include(yield* Effect.promise(() => response.text()), '"__proto__":{"polluted":true}')
      assert.isUndefined(({} as { polluted?: boolean }).polluted)
    })
  )

  it.effect("lists sessions newest first, page by page, each once", () =>
    Effect.gen(function* () {
      const server = yield* Server.TestServer
      for (let n = 1; n <= 5; n++) yield* create({ id: `page-${n}` })
      const seen: Array<string> = []
      let after = ""
      for (;;) {
        const { body } = yield* server.json<Page>(`/api/sessions?limit=2${after}`)
        assert.isAtMost(body.data.length, 2)
        seen.push(...body.data.map(({ id }) => id))
        if (body.next === null) break
        assert.strictEqual(body.next, seen.at(-1))
        after = `&after=${body.next}`
      }
      assert.deepStrictEqual(seen.slice(0, 5), ["page-5", "page-4", "page-3", "page-2", "page-1"])
      assert.strictEqual(new Set(seen).size, seen.length)
      const nowhere = yield* server.json<{ code: string }>("/api/sessions?after=never")
      assert.deepStrictEqual([nowhere.status, nowhere.body.code], [400, "invalid-request"])
    })
  )

  it.effect("finds the session again that the same request made under the same key", () =>
    Effect.gen(function* () {
      const server = yield* Server.TestServer
      const body = { title: "Once", input: "/time" }
      const first = yield* create(body, "key-1")
      const again = yield* create(body, "key-1")
      assert.strictEqual(again.httpStatus, 201)
      assert.strictEqual(again.id, first.id)
      assert.strictEqual(again.headers.get("idempotent-replayed"), "true")
      assert.isNull(first.headers.get("idempotent-replayed"))
      assert.strictEqual(again.admitted?.item.id, first.admitted?.item.id)
      const inbox = yield* server.json<Page>(`/api/sessions/${first.id}/inbox`)
      assert.strictEqual(inbox.body.data.length, 1)
    })
  )

  it.effect("refuses another request under the same key", () =>
    Effect.gen(function* () {
      yield* create({ title: "a", input: "/time" }, "key-2")
      for (const body of [{ title: "b", input: "/time" }, { title: "a", input: "/steps" }, { title: "a" }]) {
        assert.deepInclude(yield* create(body, "key-2"), { httpStatus: 422, code: "idempotency-key-reused" })
      }
      yield* create({ title: "a" }, "key-3")
      assert.deepInclude(yield* create({ title: "b" }, "key-3"), { httpStatus: 422, code: "idempotency-key-reused" })
      assert.strictEqual((yield* create({ title: "a" }, "key-3")).httpStatus, 201)
    })
  )

  it.effect("does not take a session of the same id for the key's own", () =>
    Effect.gen(function* () {
      yield* create({ id: "taken", input: "/time" }, "key-4")
      assert.strictEqual((yield* create({ id: "taken", input: "/time" }, "key-4")).httpStatus, 201)
      assert.deepInclude(yield* create({ id: "taken", input: "/time" }, "key-5"), { code: "session-exists" })
    })
  )

  it.effect("finds the session again that was given an id and no message", () =>
    Effect.gen(function* () {
      const body = { id: "named", title: "Once" }
      const first = yield* create(body, "key-6")
      const again = yield* create(body, "key-6")
      assert.deepStrictEqual([first.httpStatus, again.httpStatus, again.id], [201, 201, "named"])
      assert.strictEqual(again.headers.get("idempotent-replayed"), "true")
      assert.deepInclude(yield* create({ ...body, title: "Twice" }, "key-6"), { code: "idempotency-key-reused" })
      for (const key of ["key-7", undefined]) {
        assert.deepInclude(yield* create(body, key), { httpStatus: 409, code: "session-exists" })
      }
    })
  )

  it.effect("sends the first message of a session whose creator died before it was sent", () =>
    Effect.gen(function* () {
      const server = yield* Server.TestServer
      const body = { id: "halfway", title: "Once" }
      yield* create(body, "key-8")
      for (const request of ["first", "second"]) {
        const { admitted, headers, httpStatus } = yield* create({ ...body, input: "/time" }, "key-8")
        assert.deepStrictEqual([httpStatus, admitted?.item.id], [201, "inb_1"], request)
        assert.strictEqual(headers.get("idempotent-replayed"), "true")
      }
      assert.lengthOf((yield* server.json<Page>("/api/sessions/halfway/inbox")).body.data, 1)
    })
  )

  it.effect("says what the server is to who has the token", () =>
    Effect.gen(function* () {
      const server = yield* Server.TestServer
      const { body } = yield* server.json("/api/info")
      assert.deepInclude(body, { name: "turnstep", model: { name: "demo", demo: true }, agents: ["default"] })
    })
  )
})
