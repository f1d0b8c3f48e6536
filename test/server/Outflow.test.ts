/** Readers on real sockets who take nothing. */
import { assert, describe, it } from "@effect/vitest"
import * as Outflow from "@turnstep/server/http/Outflow"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"
import { once } from "node:events"
import { createServer, type ServerResponse } from "node:http"
import * as net from "node:net"

const text = `${"é".repeat(8 * 1024 * 1024)}!`

/** A server's side of a connection, and the client's, which reads only when it is told to. */
const connections = Effect.gen(function* () {
  const server = yield* Effect.acquireRelease(
    Effect.promise(async () => {
      const made = createServer().listen(0, "127.0.0.1")
      await once(made, "listening")
      return made
    }),
    (made) => Effect.sync(() => void (made.closeAllConnections(), made.close()))
  )
  const address = server.address() as net.AddressInfo
  const connect = Effect.promise(async () => {
    const asked = once(server, "request")
    const socket = net.connect(address.port, "127.0.0.1").pause()
    socket.on("error", () => undefined)
    socket.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n")
    const [, response] = (await asked) as [unknown, ServerResponse]
    response.on("error", () => undefined)
    response.writeHead(200, { "content-type": "text/plain" })
    return { response, socket }
  })
  return { connect }
})

/** Writes, and goes on when the writing waits for its reader. */
const begin = (outflow: Outflow.Outflow, response: ServerResponse, what = text) =>
  Effect.gen(function* () {
    const writing = yield* Effect.forkScoped(outflow.text(response, what), { startImmediately: true })
    yield* Effect.repeat(Effect.sleep("1 millis"), { until: () => response.writableNeedDrain || response.destroyed })
    return writing
  })

describe("Outflow", () => {
  it.live("gives Node a small part of a long text while its reader takes nothing", () =>
    Effect.gen(function* () {
      const { connect } = yield* connections
      const { response } = yield* connect
      yield* begin(Outflow.make(), response)
      assert.isBelow(response.writableLength, 512 * 1024)
    })
  )

  it.live("hangs up on who has waited longest when too much waits, and on nobody else", () =>
    Effect.gen(function* () {
      const { connect } = yield* connections
      // Kernels take some megabytes of each text; of two texts that wait, one is too much.
      const outflow = Outflow.make(20 * 1024 * 1024)
      const first = yield* connect
      const second = yield* connect
      yield* begin(outflow, first.response)
      assert.isFalse(first.response.destroyed)
      yield* begin(outflow, second.response)
      assert.deepStrictEqual(
        [first, second].map(({ response }) => response.destroyed),
        [true, false]
      )
    })
  )

  it.live("waits for a reader alone, though its text be above the bound", () =>
    Effect.gen(function* () {
      const { connect } = yield* connections
      const { response } = yield* connect
      yield* begin(Outflow.make(1024), response)
      assert.isFalse(response.destroyed)
    })
  )

  it.effect("hangs up on a download that takes nothing for half a minute", () =>
    Effect.gen(function* () {
      const { connect } = yield* connections
      const { response } = yield* connect
      const { bytes } = Outflow.make()
      const block = Buffer.alloc(64 * 1024)
      yield* Effect.forkScoped(Effect.forever(bytes(response, block)), { startImmediately: true })
      const turn = Effect.promise(() => new Promise((resume) => setImmediate(resume)))
      // Kernels take what they can at first.
      yield* Effect.repeat(turn, { times: 500 })
      yield* TestClock.adjust("29 seconds")
      assert.isFalse(response.destroyed)
      yield* TestClock.adjust("1 second")
      assert.isTrue(response.destroyed)
    })
  )

  it.live("leaves a whole text behind when it is interrupted", () =>
    Effect.gen(function* () {
      const { connect } = yield* connections
      const { response, socket } = yield* connect
      const writing = yield* begin(Outflow.make(), response)
      yield* Fiber.interrupt(writing)
      response.end("the last word")
      const chunks: Array<Buffer> = []
      yield* Effect.promise(async () => {
        socket.on("data", (chunk: Buffer) => chunks.push(chunk)).resume()
        while (!Buffer.concat(chunks.slice(-3)).includes("\r\n0\r\n\r\n")) await once(socket, "data")
      })
      const body = Buffer.concat(chunks)
        .toString()
        .replace(/\r\n[0-9a-f]+\r\n/g, "")
        .replaceAll("\r\n", "")
      assert.isTrue(body.includes(`${text}the last word`))
    })
  )
})
