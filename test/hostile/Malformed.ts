/** Requests that no client should send, made by chance from the routes of the API. */
import { Api } from "@turnstep/server/api/Api"
import * as HttpApi from "effect/http-api/HttpApi"

export interface Malformed {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array
}

interface Route {
  readonly method: string
  readonly path: string
}

const routes: ReadonlyArray<Route> = (() => {
  const found: Array<Route> = [
    { method: "GET", path: "/metrics" },
    { method: "GET", path: "/api/docs" },
    { method: "GET", path: "/api/openapi.json" }
  ]
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint }) => void found.push({ method: endpoint.method, path: endpoint.path })
  })
  return found
})()

/** A generator of numbers below `n` that gives the same for the same seed (mulberry32). */
const dice = (seed: number) => {
  let state = seed >>> 0
  return (n: number): number => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = state
    t = Math.imul(t ^ (t >>> 15), t | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 4294967296) * n)
  }
}

const segments = [
  "known",
  "nobody",
  "%00",
  "..%2f..",
  "%zz",
  "a".repeat(300),
  "constructor",
  "__proto__",
  "inb_1",
  "-1"
]
const words = ["x", "", "\u0000", "\ud800", "🜁".repeat(40), "select 1; --", "a".repeat(5_000), "__proto__", "1e999"]
const members = [
  "id",
  "agent",
  "title",
  "metadata",
  "input",
  "text",
  "parts",
  "delivery",
  "import",
  "messages",
  "format"
]
const queries = [
  "limit=-1",
  "limit=1e9",
  "after=x",
  "after=99999999999999999999",
  "unknown=1",
  "types=a,,b",
  "%=%",
  "a&&b"
]
const types = ["application/json", "text/plain", "application/json;charset=latin1", "multipart/form-data", "", "json"]
const odd: ReadonlyArray<Readonly<Record<string, string>>> = [
  { "last-event-id": "-1" },
  { "last-event-id": "1e3" },
  { "idempotency-key": "" },
  { "idempotency-key": "a b" },
  { "idempotency-key": "k".repeat(300) },
  { range: "bytes=9-1" },
  { range: "bytes=0-0,2-3,5-" },
  { "if-none-match": "*" },
  { "content-encoding": "gzip" },
  { accept: "text/event-stream;q=x" },
  { "x-http-method-override": "DELETE" }
]

/** The `n`th request of a seed. */
export const make = (seed: number, n: number): Malformed => {
  const below = dice(seed * 1_000_003 + n)
  const pick = <A>(from: ReadonlyArray<A>): A => from[below(from.length)] as A
  const value = (depth: number): unknown => {
    switch (below(depth > 3 ? 6 : 9)) {
      case 0:
        return null
      case 1:
        return below(2) === 0
      case 2:
        return pick([0, -0, 1.5, -1, 1e20, 1e308, 2 ** 53])
      case 6:
        return Array.from({ length: below(4) }, () => value(depth + 1))
      case 7:
        return Object.fromEntries(
          Array.from({ length: below(5) }, () => [pick([...members, ...words]), value(depth + 1)])
        )
      case 8:
        return {
          type: pick(["text", "file", "tool-call", "x"]),
          text: value(depth + 1),
          url: pick(words),
          data: value(4)
        }
      default:
        return pick(words)
    }
  }
  const json = (): string => {
    const object = Object.fromEntries(Array.from({ length: below(6) }, () => [pick(members), value(0)]))
    const text = JSON.stringify(below(5) === 0 ? value(0) : object) ?? ""
    switch (below(8)) {
      case 0:
        return text.slice(0, below(text.length + 1))
      case 1:
        return `${text.slice(0, -1)},"text":"a","text":"b"}`
      case 2:
        return "[".repeat(60 + below(20))
      default:
        return text
    }
  }
  const route = pick(routes)
  const method = below(6) === 0 ? pick(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]) : route.method
  const path = route.path.replace(/:[a-z]+/g, () => pick(segments))
  const query = below(3) === 0 ? `?${pick(queries)}` : ""
  const hasBody = method !== "GET" && method !== "HEAD" && below(8) > 0
  return {
    method,
    path: `${path}${query}`,
    headers: {
      ...(hasBody ? { "content-type": below(4) === 0 ? pick(types) : "application/json" } : {}),
      ...(below(3) === 0 ? pick(odd) : {})
    },
    body: !hasBody ? "" : below(12) === 0 ? Uint8Array.from({ length: 40 }, () => below(256)) : json()
  }
}
