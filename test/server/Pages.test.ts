/** Lists of large sessions: pages are bounded in bytes, and following them gives every entry once. */
import { assert, layer } from "@effect/vitest"
import * as Demo from "@turnstep/runtime/model/Demo"
import * as Runtime from "@turnstep/runtime/Runtime"
import { Sessions } from "@turnstep/runtime/Session"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Agent from "@turnstep/runtime/Agent"
import * as Page from "@turnstep/server/http/Page"
import * as Effect from "effect/Effect"
import { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as Layer from "effect/Layer"
import * as Server from "../fixtures/Server.ts"
import * as Databases from "../sql/Databases.ts"

const large = "x".repeat(700_000)

/** Every entry of a list, page by page, and the sizes of the pages. */
const read = Effect.fnUntraced(function* (server: Server.TestServer["Service"], path: string, after = "after") {
  const entries: Array<Record<string, unknown>> = []
  const sizes: Array<number> = []
  for (let from = ""; ;) {
    const answer = yield* server.fetch(`${path}${path.includes("?") ? "&" : "?"}limit=1000${from}`)
    const text = yield* Effect.promise(() => answer.text())
    assert.strictEqual(answer.status, 200, text.slice(0, 200))
    sizes.push(text.length)
    const body = JSON.parse(text) as { data: ReadonlyArray<Record<string, unknown>>; next: string | number | null }
    entries.push(...body.data)
    if (body.next === null) return { entries, sizes }
    from = `&${after}=${body.next}`
  }
})

layer(Server.layer())("sessions", (it) => {
  it.effect("cut a list that is read already by its bytes", () =>
    Effect.gen(function* () {
      const entries = ["a", "b", "c", "d"].map((id) => ({ id, text: "x".repeat(id === "d" ? 2 ** 21 : 400_000) }))
      const pages: Array<string> = []
      for (let after: string | undefined; ;) {
        const { data, next } = yield* Page.of(entries, { limit: 1000, after })
        pages.push(data.map(({ id }) => id).join(""))
        if (next === null) break
        after = next
      }
      assert.deepStrictEqual(pages, ["ab", "c", "d"])
    }).pipe(Effect.provideService(HttpServerRequest, HttpServerRequest.of({} as never)))
  )

  it.effect("refuse a title and metadata that are too large", () =>
    Effect.gen(function* () {
      const server = yield* Server.TestServer
      const refused: ReadonlyArray<object> = [
        { title: "t".repeat(201) },
        { metadata: Object.fromEntries(Array.from({ length: 51 }, (_, n) => [`m${n}`, n])) },
        { metadata: { text: "x".repeat(16 * 1024) } }
      ]
      for (const body of refused) {
        const { status } = yield* server.json("/api/sessions", { method: "POST", body })
        assert.strictEqual(status, 400, JSON.stringify(body).slice(0, 60))
      }
      const body = { title: "t".repeat(200), metadata: { text: "x".repeat(16_000) } }
      assert.strictEqual((yield* server.json("/api/sessions", { method: "POST", body })).status, 201)
    })
  )

  it.effect("have pages of a mebibyte or one entry, and every entry on one of them", () =>
    Effect.gen(function* () {
      const { server, sessions } = yield* Server.scripted(() => StrictProvider.text(large))
      const session = yield* sessions.open({ id: "large", title: large })
      const list = yield* server.json<{ data: ReadonlyArray<{ title: string }> }>("/api/sessions")
      assert.strictEqual(list.body.data[0]?.title, large.slice(0, 200))
      for (let n = 0; n < 4; n++) yield* session.run(`${n} ${large}`)
      const bound = 2 ** 20 + 100 // what stands around the entries
      const messages = yield* read(server, "/api/sessions/large/messages")
      assert.lengthOf(messages.entries, 8)
      assert.lengthOf(new Set(messages.entries.map(({ id }) => id)), 8)
      const inbox = yield* read(server, "/api/sessions/large/inbox")
      assert.lengthOf(inbox.entries, 4)
      assert.isTrue(inbox.entries.every(({ state }) => state === "applied"))
      assert.lengthOf((yield* read(server, "/api/sessions/large/inbox?state=waiting")).entries, 0)
      const events = yield* read(server, "/api/sessions/large/events")
      assert.deepStrictEqual(
        events.entries.map(({ seq }) => seq),
        events.entries.map((_, n) => n + 1)
      )
      for (const { sizes } of [messages, inbox, events]) {
        assert.isAbove(sizes.length, 2)
        for (const size of sizes) assert.isAtMost(size, bound)
      }
    })
  )
})

for (const database of Databases.migrated) {
  const agent = Agent.make("default", { instructions: "Talk." })
  const runtime = Runtime.layer([agent]).pipe(
    Layer.provide(Demo.layerInstant),
    Layer.provideMerge(Databases.storage(database.layer))
  )
  layer(Server.layer(runtime), { excludeTestServices: true, timeout: "60 seconds" })(
    `pages on ${database.name}`,
    (it) => {
      it.effect("show no more than the beginning of titles that former versions took", () =>
        Effect.gen(function* () {
          const server = yield* Server.TestServer
          const sessions = yield* Sessions
          for (const title of ["x".repeat(2 ** 20), "\u0000語".repeat(2 ** 19)]) {
            const { id } = yield* sessions.open({ title })
            const answer = yield* server.fetch("/api/sessions?limit=1")
            const { data } = (yield* Effect.promise(() => answer.json())) as {
              data: ReadonlyArray<{ id: string; title: string }>
            }
            assert.strictEqual(data[0]?.id, id)
            assert.isAtMost(data[0]?.title.length ?? 0, 201)
            assert.strictEqual(data[0]?.title.slice(0, 200), title.slice(0, 200))
          }
        })
      )
    }
  )
}
