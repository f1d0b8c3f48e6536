/**
 * As many readers as there are places, on a session of large messages, who ask and never read: the memory that a real server
 * takes for them, and whether their places come back.
 */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, it } from "@effect/vitest"
import { maxStreams } from "@turnstep/server/http/Streams"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as fs from "node:fs"
import * as net from "node:net"
import { tmpdir } from "node:os"
import * as Command from "../fixtures/Command.ts"
import * as Folder from "../fixtures/Folder.ts"
import * as Server from "../fixtures/Server.ts"
import * as Sse from "../fixtures/Sse.ts"

const messages = 40
const messageBytes = 1024 * 1024 - 2048

/**
 * Growth of the resident memory. What waits for the readers is 16 MiB of it; the rest is left to be collected of what was read
 * for them. Without pages and texts that readers share it is more than 400 MiB.
 */
const mostMiB = 256

const residentMiB = (pid: number): number =>
  Number(/VmRSS:\s+(\d+)/.exec(fs.readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) / 1024

/** Asks for the events, and never reads. */
const stall = ({ host, port }: Server.TestServer["Service"]) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const socket = net.connect(port, "127.0.0.1")
      socket.pause()
      socket.on("error", () => undefined)
      const head = ["GET /api/sessions/large/events HTTP/1.1", `host: ${host}`, `authorization: Bearer ${Server.token}`]
      socket.write([...head, "accept: text/event-stream", "", ""].join("\r\n"))
      return socket
    }),
    (socket) => Effect.sync(() => socket.destroy())
  )

it.live(
  `${maxStreams} readers who never read have a bound of memory, and their places are free within a minute`,
  () =>
    Effect.gen(function* () {
      const data = yield* Folder.make({})
      const command = yield* Command.start(["dev", "--port", "0", "--data", `${data}/0`, "--workspace", data], {
        cwd: tmpdir(),
        env: { TURNSTEP_TOKEN: Server.token, TURNSTEP_WORKERS: "0" }
      })
      yield* command.says("stop ")
      const server = Server.at(Command.addressOf(command))
      yield* server.json("/api/sessions", { method: "POST", body: { id: "large" } })
      for (let count = 0; count < messages; count++) {
        const body = { text: "x".repeat(messageBytes), delivery: "follow-up" }
        const sent = yield* server.json("/api/sessions/large/messages", { method: "POST", body })
        assert.strictEqual(sent.status, 202)
      }
      // Readers who do read: code is compiled, and the heap is as large as reading makes it.
      const pages = Array.from({ length: 8 }, () => server.fetch("/api/sessions/large/events?limit=1000"))
      yield* Effect.forEach(pages, (page) => Effect.flatMap(page, (response) => Effect.promise(() => response.text())))
      yield* Effect.sleep("3 seconds")
      const before = residentMiB(command.pid)

      yield* Effect.forEach(Array.from({ length: maxStreams }), () => stall(server), { discard: true })
      let most = 0
      const began = performance.now()
      const look = Effect.sync(() => (most = Math.max(most, residentMiB(command.pid))))
      yield* Effect.repeat(look, Schedule.spaced("20 millis")).pipe(Effect.forkScoped)
      // Long enough for every reader to be served as much as it ever will be.
      yield* Effect.sleep("20 seconds")
      const stream = Sse.open(server, "/api/sessions/large/events?types=session.created")
      const place = Effect.scoped(Effect.map(stream, ({ status }) => status))
      yield* Effect.repeat(place, { until: (status) => status === 200, schedule: Schedule.spaced("250 millis") })
      const seconds = (performance.now() - began) / 1000
      console.log(
        `before ${Math.round(before)} MiB, most ${Math.round(most)} MiB, a place after ${seconds.toFixed(1)} s`
      )
      assert.isAtMost(most - before, mostMiB, "MiB")
      assert.isAtMost(seconds, 60)
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer)),
  { timeout: 300_000 }
)
