import { assert, layer } from "@effect/vitest"
import * as SpillStore from "@turnstep/core/SpillStore"
import * as Demo from "@turnstep/runtime/model/Demo"
import * as DemoOutput from "@turnstep/runtime/tools/DemoOutput"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { maxDownloads } from "@turnstep/server/http/Streams"
import { createHash } from "node:crypto"
import { once } from "node:events"
import * as net from "node:net"
import * as RawHttp from "../fixtures/RawHttp.ts"
import * as Server from "../fixtures/Server.ts"
import * as Sse from "../fixtures/Sse.ts"

const megabytes = 3
const lines = (megabytes * 1024 * 1024) / DemoOutput.lineBytes
const whole = Buffer.from(Array.from({ length: lines }, (_, n) => DemoOutput.line(n + 1)).join(""))
const digest = createHash("sha256").update(whole).digest("hex")

const spilling = Server.layer(Server.runtimeMemory(Demo.layerInstant) as never).pipe(
  Layer.provide(SpillStore.layerMemory())
)

layer(spilling, { excludeTestServices: true, timeout: "60 seconds" })("Spills over HTTP", (it) => {
  /** A session with one spill, and its path. */
  const spilled = Effect.fn(function* (id: string, size = megabytes) {
    const server = yield* Server.TestServer
    yield* server.json("/api/sessions", { method: "POST", body: { id } })
    const reader = yield* Sse.open(server, `/api/sessions/${id}/events`)
    yield* reader.until(Sse.isEvent("stream.opened"))
    yield* server.json(`/api/sessions/${id}/messages`, { method: "POST", body: { text: `/huge ${size}MB` } })
    yield* reader.until(Sse.isEvent("turn.completed"))
    const text = reader.text()
    const get = (headers: Readonly<Record<string, string>> = {}, method = "GET") =>
      Effect.flatMap(server.fetch(`/api/sessions/${id}/spills/${digest}`, { method, headers }), (response) =>
        Effect.promise(async () => ({
          status: response.status,
          header: (name: string) => response.headers.get(name),
          bytes: Buffer.from(await response.arrayBuffer())
        }))
      )
    return { server, text, get }
  })

  it.effect("shows a huge output from the demo: kept, searched, and told of in an event", () =>
    Effect.gen(function* () {
      const { text } = yield* spilled("shown")
      assert.include(text, "event: spill.created")
      assert.include(text, `"spillId":"${digest}","bytes":${whole.length},"lines":${lines}`)
      assert.include(text, "event: call.progress")
      assert.include(text, `line ${String(lines / 2).padStart(10, "0")} of the long output`)
      assert.isBelow(text.length, 60_000)
    })
  )

  it.effect("shows a big output from the demo: all of it in the record, its ends for the model", () =>
    Effect.gen(function* () {
      const server = yield* Server.TestServer
      yield* server.json("/api/sessions", { method: "POST", body: { id: "big" } })
      const reader = yield* Sse.open(server, "/api/sessions/big/events")
      yield* server.json("/api/sessions/big/messages", { method: "POST", body: { text: "/big 200" } })
      const frames = yield* reader.until(Sse.isEvent("turn.completed"))
      const [result] = frames.filter(Sse.isEvent("call.completed"))
      const { modelView, output } = result?.data.data ?? {}
      assert.strictEqual(output, whole.subarray(0, 200 * 1024).toString())
      const { omitted, text } = modelView as { readonly omitted: number; readonly text: string }
      assert.isAtMost(text.length, 32_768)
      assert.isAbove(omitted, 150_000)
      const answers = frames.filter(Sse.isEvent("message.added")).map(({ data }) => JSON.stringify(data.data))
      assert.match(answers.at(-1) ?? "", /I was shown \d+ characters, from .*line 0000000001/)
      assert.isEmpty(frames.filter(Sse.isEvent("spill.created")))
    })
  )

  it.effect("gives the bytes, under the digest as entity tag, to be saved and not to be shown", () =>
    Effect.gen(function* () {
      const { get } = yield* spilled("whole")
      const { bytes, header, status } = yield* get()
      assert.strictEqual(status, 200)
      assert.isTrue(bytes.equals(whole))
      assert.deepStrictEqual(
        ["etag", "accept-ranges", "content-length", "content-type", "x-content-type-options"].map(header),
        [`"${digest}"`, "bytes", String(whole.length), "application/octet-stream", "nosniff"]
      )
      assert.match(header("content-disposition") ?? "", /^attachment;/)
      const head = yield* get({}, "HEAD")
      assert.deepStrictEqual([head.status, head.bytes.length, head.header("etag")], [200, 0, `"${digest}"`])
    })
  )

  it.effect("gives one range with 206, and says where it lies", () =>
    Effect.gen(function* () {
      const { get } = yield* spilled("ranges")
      const size = whole.length
      const table: ReadonlyArray<readonly [range: string, start: number, end: number]> = [
        ["bytes=0-0", 0, 1],
        ["bytes=100-199", 100, 200],
        ["bytes=65535-65536", 65_535, 65_537],
        [`bytes=${size - 10}-`, size - 10, size],
        [`bytes=${size - 10}-${size + 99}`, size - 10, size],
        ["bytes=-100", size - 100, size],
        [`bytes=-${size * 2}`, 0, size]
      ]
      for (const [range, start, end] of table) {
        const { bytes, header, status } = yield* get({ range })
        assert.strictEqual(status, 206, range)
        assert.strictEqual(header("content-range"), `bytes ${start}-${end - 1}/${size}`, range)
        assert.strictEqual(header("content-length"), String(end - start), range)
        assert.isTrue(bytes.equals(whole.subarray(start, end)), range)
      }
    })
  )

  it.effect("refuses a range that lies outside with 416, and ignores what is no range of bytes", () =>
    Effect.gen(function* () {
      const { get } = yield* spilled("outside")
      for (const range of [`bytes=${whole.length}-`, "bytes=-0", "bytes=999999999999-"]) {
        const { bytes, header, status } = yield* get({ range })
        assert.deepStrictEqual([status, header("content-range")], [416, `bytes */${whole.length}`], range)
        assert.strictEqual(JSON.parse(bytes.toString()).code, "range-not-satisfiable")
      }
      for (const range of ["bytes=5-2", "bytes=-", "bytes=0-1,5-6", "lines=1-2", "bytes", "bytes=a-b"]) {
        assert.strictEqual((yield* get({ range })).status, 200, range)
      }
    })
  )

  it.effect("honours If-None-Match and If-Range", () =>
    Effect.gen(function* () {
      const { get } = yield* spilled("conditions")
      const tag = `"${digest}"`
      for (const has of [tag, `W/${tag}`, `"x", ${tag}`, "*"]) {
        const { bytes, header, status } = yield* get({ "if-none-match": has, range: "bytes=0-1" })
        assert.deepStrictEqual([status, bytes.length, header("etag")], [304, 0, tag], has)
      }
      assert.strictEqual((yield* get({ "if-none-match": '"other"' })).status, 200)
      assert.strictEqual((yield* get({ "if-range": tag, range: "bytes=0-1" })).status, 206)
      assert.strictEqual((yield* get({ "if-range": '"other"', range: "bytes=0-1" })).status, 200)
      // A weak tag does not vouch for bytes.
      assert.strictEqual((yield* get({ "if-range": `W/${tag}`, range: "bytes=0-1" })).status, 200)
    })
  )

  it.effect("gives a session its own spills only, by their names only, and to nobody without the token", () =>
    Effect.gen(function* () {
      const { server } = yield* spilled("mine")
      yield* server.json("/api/sessions", { method: "POST", body: { id: "other" } })
      const codeOf = (path: string) =>
        Effect.map(server.json<{ readonly code: string }>(path), ({ body, status }) => [status, body.code])
      assert.deepStrictEqual(yield* codeOf(`/api/sessions/other/spills/${digest}`), [404, "spill-not-found"])
      assert.deepStrictEqual(yield* codeOf(`/api/sessions/none/spills/${digest}`), [404, "session-not-found"])
      for (const name of ["x", `${digest}.lines`, "..%2F..%2Ftoken", digest.toUpperCase(), `${digest}%00`]) {
        assert.deepStrictEqual(yield* codeOf(`/api/sessions/mine/spills/${name}`), [404, "spill-not-found"], name)
      }
      const bare = yield* RawHttp.send(server.port, [
        `GET /api/sessions/mine/spills/${digest} HTTP/1.1`,
        `host: ${server.host}`
      ])
      assert.strictEqual(bare.status, 401)
    })
  )

  it.effect("serves so many downloads and no more, and one more when one has left", () =>
    Effect.gen(function* () {
      // More than the kernel takes for a reader who does not read.
      const { server, text } = yield* spilled("many", 24)
      const path = `/api/sessions/many/spills/${/"spillId":"([0-9a-f]+)"/.exec(text)?.[1]}`
      const head = [`GET ${path} HTTP/1.1`, `host: ${server.host}`, `authorization: Bearer ${Server.token}`, "", ""]
      const stall = Effect.acquireRelease(
        Effect.promise(async () => {
          const socket = net.connect(server.port, "127.0.0.1")
          socket.on("error", () => undefined)
          socket.write(head.join("\r\n"))
          await once(socket, "readable")
          return socket
        }),
        (socket) => Effect.sync(() => socket.destroy())
      )
      const sockets = yield* Effect.forEach(Array.from({ length: maxDownloads }), () => stall)
      const over = yield* server.json<{ readonly code: string }>(path)
      assert.deepStrictEqual([over.status, over.body.code], [503, "too-many-downloads"])
      sockets[0]?.destroy()
      const status = Effect.tap(
        Effect.map(server.fetch(path, { method: "GET", headers: { range: "bytes=0-0" } }), ({ status }) => status),
        () => Effect.sleep("10 millis")
      )
      assert.strictEqual(yield* Effect.repeat(status, { until: (each) => each === 206 }), 206)
    }).pipe(Effect.scoped)
  )

  it.effect("is not led astray by a reader that goes away in the middle", () =>
    Effect.gen(function* () {
      const { get, server } = yield* spilled("gone")
      const response = yield* server.fetch(`/api/sessions/gone/spills/${digest}`)
      yield* Effect.promise(async () => {
        const reader = response.body?.getReader()
        await reader?.read()
        await reader?.cancel()
      })
      assert.strictEqual((yield* get({ range: "bytes=0-9" })).bytes.length, 10)
    })
  )
})
