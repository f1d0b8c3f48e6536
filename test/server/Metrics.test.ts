import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Server from "../fixtures/Server.ts"
import * as Sse from "../fixtures/Sse.ts"

layer(Server.layer(), { excludeTestServices: true })("GET /metrics", (it) => {
  const counts = Effect.gen(function* () {
    const server = yield* Server.TestServer
    const response = yield* server.fetch("/metrics")
    assert.match(response.headers.get("content-type") ?? "", /^text\/plain/)
    const text = yield* Effect.promise(() => response.text())
    return (type: string) =>
      Number(new RegExp(`^turnstep_events\\{type="${type}"\\} (\\d+)$`, "m").exec(text)?.[1] ?? 0)
  })

  it.effect("counts what is recorded here, once each", () =>
    Effect.gen(function* () {
      const server = yield* Server.TestServer
      const before = yield* counts
      const stream = yield* Sse.open(server, "/api/sessions", {
        method: "POST",
        body: { id: "counted", input: "/time" }
      })
      yield* stream.until(Sse.isEvent("turn.completed"))
      yield* Effect.repeat(server.json<{ status: string }>("/api/sessions/counted"), {
        until: ({ body }) => body.status === "idle"
      })
      const after = yield* counts
      const { body } = yield* server.json<{ data: ReadonlyArray<{ type: string }> }>(
        "/api/sessions/counted/events?limit=1000"
      )
      const types = body.data.map(({ type }) => type)
      assert.includeMembers(types, ["session.created", "inbox.admitted", "call.completed", "turn.completed"])
      for (const type of new Set(types)) {
        assert.strictEqual(after(type) - before(type), types.filter((each) => each === type).length, type)
      }
    })
  )

  it.effect("needs the token", () =>
    Effect.gen(function* () {
      const { url } = yield* Server.TestServer
      assert.strictEqual((yield* Effect.promise(() => fetch(`${url}/metrics`))).status, 401)
    })
  )
})
