/** Answers that are the same for as long as the server runs. */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Server from "../fixtures/Server.ts"

layer(Server.layer())("the documentation", (it) => {
  for (const path of ["/api/docs", "/api/openapi.json"]) {
    it.effect(`is sent once to a client that keeps it: ${path}`, () =>
      Effect.gen(function* () {
        const server = yield* Server.TestServer
        const first = yield* server.fetch(path)
        const etag = first.headers.get("etag") ?? ""
        assert.match(etag, /^"[\w-]{22}"$/)
        const whole = yield* Effect.promise(() => first.text())
        assert.isAbove(whole.length, 10_000)
        const again = yield* server.fetch(path, { headers: { "if-none-match": `"other", ${etag}` } })
        assert.strictEqual(again.status, 304)
        assert.strictEqual(again.headers.get("etag"), etag)
        assert.strictEqual(yield* Effect.promise(() => again.text()), "")
        const other = yield* server.fetch(path, { headers: { "if-none-match": '"other"' } })
        assert.strictEqual(yield* Effect.promise(() => other.text()), whole)
      })
    )
  }

  it.effect("is not embedded by pages of other sites", () =>
    Effect.gen(function* () {
      const server = yield* Server.TestServer
      const embedded = { "sec-fetch-site": "cross-site", "sec-fetch-dest": "image" }
      const refused = yield* server.json<{ code: string }>("/api/docs", { headers: embedded })
      assert.deepStrictEqual([refused.status, refused.body.code], [403, "origin-not-allowed"])
    })
  )
})

layer(Server.layer())("a body of many wrong entries", (it) => {
  it.effect("is refused before they are judged one by one, and a refusal names fifty faults at most", () =>
    Effect.gen(function* () {
      const server = yield* Server.TestServer
      const bodies: ReadonlyArray<object> = [
        { input: Array.from({ length: 30_000 }, () => 1) },
        { input: [Object.fromEntries(Array.from({ length: 30_000 }, (_, n) => [`x${n}`, n]))] },
        Object.fromEntries(Array.from({ length: 30_000 }, (_, n) => [`x${n}`, n]))
      ]
      for (const body of bodies) {
        const refused = yield* server.json<{ code: string }>("/api/sessions", { method: "POST", body })
        assert.deepStrictEqual([refused.status, refused.body.code], [413, "too-large"])
      }
      const fewer = { input: Array.from({ length: 10_000 }, () => 1) }
      const judged = yield* server.json<{ errors: ReadonlyArray<unknown> }>("/api/sessions", {
        method: "POST",
        body: fewer
      })
      assert.strictEqual(judged.status, 400)
      assert.lengthOf(judged.body.errors, 50)
    })
  )
})
