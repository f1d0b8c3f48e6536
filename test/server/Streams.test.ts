import { assert, describe, it, layer } from "@effect/vitest"
import { EventHub } from "@turnstep/runtime/EventHub"
import { Sessions } from "@turnstep/runtime/Session"
import type { TurnId } from "@turnstep/core/Ids"
import { maxStreams } from "@turnstep/server/http/Streams"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Context from "effect/Context"
import * as TestClock from "effect/testing/TestClock"
import * as Server from "../fixtures/Server.ts"
import * as Sse from "../fixtures/Sse.ts"

const running = Effect.gen(function* () {
  const context = yield* Layer.build(Layer.fresh(Server.layer()))
  const server = Context.get(context, Server.TestServer)
  yield* server.json("/api/sessions", { method: "POST", body: { id: "s" } })
  return { server, hub: Context.get(context, EventHub), sessions: Context.get(context, Sessions) }
})

const events = "/api/sessions/s/events"

describe("Streams", () => {
  layer(Server.layer())("with a clock of the test", (it) => {
    it.effect("keeps a quiet connection alive with a comment every 15 seconds", () =>
      Effect.gen(function* () {
        const server = yield* Server.TestServer
        yield* server.json("/api/sessions", { method: "POST", body: { id: "s" } })
        const stream = yield* Sse.open(server, events)
        yield* stream.until(Sse.isEvent("session.created"))
        yield* TestClock.adjust("14 seconds")
        yield* server.json("/api/sessions/s")
        assert.notInclude(stream.text(), ": keep-alive")
        yield* TestClock.adjust("1 second")
        yield* TestClock.adjust("15 seconds")
        const session = yield* (yield* Sessions).get("s")
        yield* session.send("/time")
        yield* stream.until(Sse.isEvent("turn.completed"))
        assert.strictEqual(stream.text().split(": keep-alive\n\n").length - 1, 2)
      })
    )
  })

  it.live("drops a reader who is too far behind, says so, and lets it go on from its last event", () =>
    Effect.gen(function* () {
      const { hub, server, sessions } = yield* running
      const session = yield* sessions.get("s")
      const stream = yield* Sse.open(server, events)
      yield* stream.until(Sse.isEvent("session.created"))
      for (let offset = 0; offset < 20_000; offset++) {
        const delta = {
          type: "delta",
          turnId: "trn_1" as TurnId,
          step: 1,
          channel: "text",
          offset,
          delta: "x"
        } as const
        hub.show(session.id, delta)
      }
      const frames = yield* stream.rest
      assert.isAbove(frames.length, 1000)
      assert.isBelow(frames.length, 20_000)
      assert.deepStrictEqual(frames.at(-1)?.data.data, { reason: "lagged" })
      const again = yield* Sse.open(server, events, { headers: { "last-event-id": "1" } })
      const [, snapshot] = yield* again.until(Sse.isEvent("stream.snapshot"))
      assert.strictEqual(String(snapshot?.data.data["text"]).length, 20_000)
    })
  )

  it.live("serves so many streams and no more, and one more when one has left", () =>
    Effect.gen(function* () {
      const { server } = yield* running
      const readers = yield* Effect.forEach(
        Array.from({ length: maxStreams }),
        () => Effect.tap(Sse.open(server, events), ({ until }) => until(Sse.isEvent("session.created"))),
        { concurrency: 32 }
      )
      const over = yield* server.json(events, { headers: { accept: "text/event-stream" } })
      assert.deepInclude(over.body, { status: 503, code: "too-many-streams" })
      assert.strictEqual((yield* server.json(events)).status, 200)
      yield* readers[0]?.leave ?? Effect.void
      const after = Effect.scoped(Effect.map(Sse.open(server, events), ({ status }) => status))
      assert.strictEqual(yield* Effect.repeat(after, { until: (status) => status === 200 }), 200)
    })
  )
})
