import { assert, describe, it, layer } from "@effect/vitest"
import { EventHub } from "@turnstep/runtime/EventHub"
import { type Session, Sessions } from "@turnstep/runtime/Session"
import type { SessionId, TurnId } from "@turnstep/core/Ids"
import { StorageUnavailable } from "@turnstep/core/TurnError"
import { maxStreams } from "@turnstep/server/http/Streams"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Context from "effect/Context"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/testing/TestClock"
import * as net from "node:net"
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

  layer(Server.layer())("with a clock of the test, and readers who do not read", (it) => {
    it.effect("hangs up on who takes nothing for half a minute, and an hour is the longest life", () =>
      Effect.gen(function* () {
        const server = yield* Server.TestServer
        yield* server.json("/api/sessions", { method: "POST", body: { id: "large" } })
        const session = yield* (yield* Sessions).get("large")
        yield* session.send("/time")
        for (let count = 0; count < 12; count++) yield* session.followUp("x".repeat(1024 * 1024))
        const stalled = yield* Effect.acquireRelease(
          Effect.sync(() => net.connect(server.port, "127.0.0.1")),
          (socket) => Effect.sync(() => socket.destroy())
        )
        const isCut = yield* Deferred.make<void>()
        stalled.pause()
        stalled.on("error", () => {})
        stalled.on("close", () => Deferred.doneUnsafe(isCut, Effect.void))
        const head = [
          "GET /api/sessions/large/events HTTP/1.1",
          `host: ${server.host}`,
          `authorization: Bearer ${Server.token}`
        ]
        stalled.write([...head, "accept: text/event-stream", "", ""].join("\r\n"))
        const quiet = yield* Sse.open(server, "/api/sessions/large/events?types=session.created")
        yield* quiet.until(Sse.isEvent("session.created"))
        const turn = Effect.andThen(TestClock.adjust("10 seconds"), server.fetch("/healthz"))
        // Half a minute after the connection is full; a paused socket does not even see that it was closed until it reads.
        for (let count = 0; count < 8; count++) yield* turn
        stalled.resume()
        yield* Deferred.await(isCut)
        assert.isBelow(stalled.bytesRead, 12 * 1024 * 1024)
        yield* TestClock.adjust("1 hour")
        assert.deepStrictEqual((yield* quiet.rest).at(-1)?.data.data, { reason: "expired" })
      })
    )
  })

  it.live("says that storage failed, or that a record cannot be read, and not that the reader was slow", () =>
    Effect.gen(function* () {
      const trouble: Array<Effect.Effect<never, StorageUnavailable>> = [
        Effect.fail(new StorageUnavailable({ reason: "busy" })),
        Effect.die(new Error("an event that no schema knows"))
      ]
      const summary = {
        sessionId: "s" as SessionId,
        agent: "a",
        title: undefined,
        status: "idle",
        seq: 1,
        turns: 0,
        activeTurn: undefined,
        createdAt: 0,
        updatedAt: 0
      } as const
      const session = {
        id: summary.sessionId,
        summary: Effect.succeed(summary),
        watch: () => Stream.fromEffect(Effect.suspend(() => trouble.shift() ?? Effect.never))
      } as unknown as Session
      const sessions = Layer.mock(Sessions, { get: () => Effect.succeed(session) })
      const context = yield* Layer.build(Layer.fresh(Server.layer(sessions)))
      const server = Context.get(context, Server.TestServer)
      for (const reason of ["storage-unavailable", "failed"]) {
        const frames = yield* Effect.flatMap(Sse.open(server, events), ({ rest }) => rest)
        assert.deepStrictEqual(frames.at(-1)?.data.data, { reason })
      }
    })
  )

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
      // What is refused for want of a place has done nothing.
      const made = yield* server.json("/api/sessions", {
        method: "POST",
        body: { id: "second", input: "/time" },
        headers: { accept: "text/event-stream" }
      })
      assert.deepInclude(made.body, { status: 503, code: "too-many-streams" })
      assert.strictEqual((yield* server.json("/api/sessions/second")).status, 404)
      assert.strictEqual((yield* server.json(events)).status, 200)
      yield* readers[0]?.leave ?? Effect.void
      const after = Effect.scoped(Effect.map(Sse.open(server, events), ({ status }) => status))
      assert.strictEqual(yield* Effect.repeat(after, { until: (status) => status === 200 }), 200)
    })
  )
})
