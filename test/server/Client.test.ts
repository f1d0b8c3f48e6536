import { assert, layer } from "@effect/vitest"
import { ApiError } from "@turnstep/server/api/ApiError"
import * as Client from "@turnstep/server/api/Client"
import * as EventStream from "@turnstep/server/api/EventStream"
import * as Effect from "effect/Effect"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as Redacted from "effect/Redacted"
import * as Stream from "effect/Stream"
import * as Server from "../fixtures/Server.ts"

const connect = (token = Server.token) =>
  Effect.flatMap(Server.TestServer, ({ url }) => Client.make({ baseUrl: url, token: Redacted.make(token) })).pipe(
    Effect.provide(FetchHttpClient.layer)
  )

layer(Server.layer(), { excludeTestServices: true })("Client", (it) => {
  it.effect("reads what the server writes, with times in milliseconds", () =>
    Effect.gen(function* () {
      const client = yield* connect()
      assert.strictEqual((yield* client.system.info()).name, "turnstep")
      assert.strictEqual(yield* client.health.live(), "ok")
      const made = yield* client.sessions.create({ payload: { id: "c", title: "t", metadata: { a: 1 } }, headers: {} })
      assert.isFalse(Stream.isStream(made))
      const session = yield* client.sessions.get({ params: { session: "c" } })
      assert.deepInclude(session, { title: "t", metadata: { a: 1 }, headSeq: 1 })
      assert.isNumber(session.createdAt)
      const { data, next } = yield* client.sessions.list({ query: { limit: 1 } })
      assert.deepStrictEqual([data.length, next], [1, null])
    })
  )

  it.effect("follows a Turn from its events", () =>
    Effect.gen(function* () {
      const client = yield* connect()
      yield* client.sessions.create({ payload: { id: "f" }, headers: {} })
      const { after, turnId } = yield* client.inbox.send({
        params: { session: "f" },
        headers: { "idempotency-key": "k" },
        payload: { text: "/time" }
      })
      const stream = yield* client.record.events({
        params: { session: "f" },
        headers: { accept: "text/event-stream" },
        query: { after, until: "turn-end" }
      })
      if (!Stream.isStream(stream)) return assert.fail("it is a stream")
      const events = yield* Stream.runCollect(EventStream.decode(stream))
      const ended = events.find((event) => event.type === "turn.completed")
      assert.strictEqual(ended?.data.turnId, turnId)
      assert.strictEqual(events.at(-1)?.type, "stream.closed")
      const page = yield* client.record.events({ params: { session: "f" }, headers: {}, query: { after } })
      if (Stream.isStream(page)) return assert.fail("it is a page")
      assert.deepStrictEqual<unknown>(
        page.data.slice(0, -1),
        events.filter((event) => "seq" in event)
      )
      const { data: messages } = yield* client.record.messages({ params: { session: "f" }, query: {} })
      assert.deepStrictEqual(
        messages.map(({ role }) => role),
        ["user", "assistant", "assistant"]
      )
      const { data: calls } = yield* client.record.calls({ params: { session: "f" }, query: { state: "completed" } })
      assert.strictEqual(calls[0]?.name, "current_time")
    })
  )

  it.effect("fails with the problem the server tells", () =>
    Effect.gen(function* () {
      const client = yield* connect()
      const absent = yield* Effect.flip(client.sessions.get({ params: { session: "none" } }))
      assert.instanceOf(absent, ApiError)
      assert.deepInclude(absent, { status: 404, code: "session-not-found" })
      const code = client.sessions
        .get({ params: { session: "none" } })
        .pipe(Effect.catchTag("ApiError", (problem) => Effect.succeed(problem.code)))
      assert.strictEqual(yield* code, "session-not-found")
      assert.match(absent.message, /There is no session none\. .*GET \/api\/sessions/)
      const cancelled = yield* Effect.flip(
        client.turns.cancel({ params: { session: "none", turn: "trn_1" }, payload: undefined })
      )
      assert.instanceOf(cancelled, ApiError)
      const stranger = yield* connect("0".repeat(43))
      assert.deepInclude(yield* Effect.flip(stranger.system.info()), { status: 401, code: "unauthorized" })
    })
  )
})
