/**
 * Malformed requests over the whole route table: `MALFORMED` sets their number, `MALFORMED_SEED` which they are. None is
 * answered with an accident, none with the inside of the server, and none takes memory that stays.
 */
import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Malformed from "../hostile/Malformed.ts"
import * as RawHttp from "../fixtures/RawHttp.ts"
import * as Server from "../fixtures/Server.ts"

const count = Number(process.env["MALFORMED"] ?? 400)
const seed = Number(process.env["MALFORMED_SEED"] ?? 1)

/** What only the inside of the server would say. */
const inside =
  /\bat .+\(.+:\d+:\d+\)|node_modules|packages\/|\bselect\b.+\bfrom\b|\binsert into\b|SqlError|TypeError|RangeError/i

it.live(
  `${count} malformed requests are refused in words`,
  () =>
    Effect.gen(function* () {
      const server = yield* Server.TestServer
      yield* server.json("/api/sessions", { method: "POST", body: { id: "known" } })
      const statuses = new Map<number, number>()
      let settled = 0
      const one = Effect.fnUntraced(function* (n: number) {
        const request = Malformed.make(seed, n)
        const length = typeof request.body === "string" ? Buffer.byteLength(request.body) : request.body.length
        const lines = [
          `${request.method} ${request.path} HTTP/1.1`,
          `host: 127.0.0.1:${server.port}`,
          `authorization: Bearer ${Server.token}`,
          ...Object.entries(request.headers).map(([name, value]) => `${name}: ${value}`),
          ...(length === 0 ? [] : [`content-length: ${length}`])
        ]
        const sent = RawHttp.send(server.port, lines, request.body)
        // A stream that is opened by chance never ends by itself.
        const answer = yield* Effect.timeoutOption(sent, "3 seconds")
        if (answer._tag === "None") return
        const { body, headers, status } = answer.value
        const about = `MALFORMED_SEED=${seed}, request ${n}: ${lines[0]} ${String(request.body).slice(0, 300)}`
        statuses.set(status, (statuses.get(status) ?? 0) + 1)
        assert.isBelow(status, 500, about)
        if (status < 400) return
        assert.notMatch(body, inside, about)
        assert.isAtMost(body.length, 64 * 1024, about)
        if (request.method !== "HEAD" && Number.isInteger(status)) {
          assert.strictEqual(headers.get("content-type"), "application/problem+json", `${status} ${about}`)
          const problem = JSON.parse(body) as { readonly code?: unknown; readonly hint?: unknown }
          assert.isString(problem.code, about)
          assert.isString(problem.hint, about)
        }
      })
      for (let from = 0; from < count; from += 500) {
        const numbers = Array.from({ length: Math.min(500, count - from) }, (_, n) => from + n)
        yield* Effect.forEach(numbers, one, { concurrency: 16, discard: true })
        // Code is compiled and sessions are made in the first part of a long run.
        if (from < count / 2) settled = process.memoryUsage.rss()
      }
      const grown = Math.round((process.memoryUsage.rss() - settled) / 2 ** 20)
      console.log(`${JSON.stringify(Object.fromEntries(statuses))}, memory since half of them: ${grown} MiB`)
      assert.isAtMost(grown, 64)
    }).pipe(Effect.provide(Server.layer())),
  { timeout: 1_800_000 }
)
