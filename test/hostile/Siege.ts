/**
 * A real server in a process of its own under the answers of a hostile model, watched from outside: whether it answers, how much
 * memory it takes, whether other conversations go on, and whether the hostile Turn ends by itself.
 */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert } from "@effect/vitest"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import type { TurnEvent } from "@turnstep/core/TurnEvent"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import { Worker } from "node:worker_threads"
import * as Command from "../fixtures/Command.ts"
import * as Folder from "../fixtures/Folder.ts"
import * as Server from "../fixtures/Server.ts"
import { type Attack, workspace } from "./Attacks.ts"

/** What one attack came to. */
export interface Report {
  readonly name: string
  /** The slowest answer of `/healthz`, in milliseconds. */
  readonly slowest: number
  /** Growth of the resident memory over its size before the attacks, in MiB. */
  readonly grown: number
  /** Turns of another session that were completed meanwhile. */
  readonly others: number
  readonly seconds: number
  /** The terminal event of the hostile Turn. */
  readonly end: string
  /** The reason of a Turn that failed. */
  readonly why: string
}

const terminal = /^turn\.(completed|exhausted|tripped|cancelled|failed)$/

/** Asks `/healthz` ten times a second from a thread of its own: what the test does meanwhile is not measured. */
const probe = (url: string) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const shared = new Int32Array(new SharedArrayBuffer(4))
      const code = `
        const { workerData: { url, shared } } = require("node:worker_threads")
        const ask = async () => {
          const began = performance.now()
          try { await (await fetch(url + "/healthz")).text() } catch { Atomics.store(shared, 0, 1e9) }
          const took = Math.round(performance.now() - began)
          if (took > Atomics.load(shared, 0)) Atomics.store(shared, 0, took)
          setTimeout(ask, 100)
        }
        ask()`
      const worker = new Worker(code, { eval: true, workerData: { url, shared } })
      return { worker, slowest: () => Atomics.load(shared, 0), reset: () => Atomics.store(shared, 0, 0) }
    }),
    ({ worker }) => Effect.promise(() => worker.terminate())
  )

const residentMiB = (pid: number): number =>
  Number(/VmRSS:\s+(\d+)/.exec(fs.readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) / 1024

/** Starts the servers, plays every attack, and reports. `databaseUrl`: two processes on PostgreSQL instead of one embedded. */
export const lay = Effect.fnUntraced(function* (options: {
  readonly attacks: ReadonlyArray<Attack>
  readonly scale: number
  readonly files: number
  readonly databaseUrl?: string | undefined
}): Effect.fn.Return<ReadonlyArray<Report>, unknown, Scope.Scope | NodeServices.NodeServices> {
  const provider = yield* StrictProvider.make({
    respond: ({ messages }) => {
      const asked = messages.findLastIndex(({ role }) => role === "user")
      const input = JSON.stringify(messages[asked]?.["content"] ?? "")
      const attack = options.attacks.find(({ name }) => input.includes(`attack: ${name}`))
      return attack === undefined || messages.length > asked + 1
        ? StrictProvider.text("pong")
        : attack.reply(options.scale)
    }
  })
  const root = yield* Folder.make(workspace(options.files))
  const data = yield* Folder.make({})
  const count = options.databaseUrl === undefined ? 1 : 2
  const servers = yield* Effect.forEach(
    Array.from({ length: count }, (_, n) => n),
    Effect.fnUntraced(function* (n) {
      const mode = options.databaseUrl === undefined ? "dev" : "serve"
      const command = yield* Command.start(
        [mode, "--port", "0", "--data", `${data}/${n}`, "--workspace", root, "--model", "custom/hostile"],
        {
          cwd: tmpdir(),
          env: {
            TURNSTEP_TOKEN: Server.token,
            TURNSTEP_BASE_URL: provider.baseUrl,
            ...(options.databaseUrl === undefined ? {} : { DATABASE_URL: options.databaseUrl })
          }
        }
      )
      yield* command.says("stop ")
      return { command, server: Server.at(Command.addressOf(command)) }
    })
  )
  const [first = yield* Effect.die("there is a server"), other = first] = servers
  const probes = yield* Effect.forEach(servers, ({ server }) => probe(server.url))

  const post = (server: Server.TestServer["Service"], id: string, text: string) =>
    server.json(`/api/sessions/${id}/messages`, { method: "POST", body: { text, delivery: "follow-up" } })
  const events = Effect.fnUntraced(function* (server: Server.TestServer["Service"], id: string) {
    const all: Array<TurnEvent> = []
    for (;;) {
      const { body } = yield* server.json<{ data: ReadonlyArray<TurnEvent> }>(
        `/api/sessions/${id}/events?limit=1000&after=${all.at(-1)?.seq ?? 0}`
      )
      if (body.data.length === 0) return all
      all.push(...body.data)
    }
  })
  /** Waits for `turns` terminal events of a session. */
  const ended = Effect.fnUntraced(function* (server: Server.TestServer["Service"], id: string, turns = 1) {
    let after = 0
    let left = turns
    for (;;) {
      const { body } = yield* server.json<{ data: ReadonlyArray<TurnEvent> }>(
        `/api/sessions/${id}/events?limit=100&after=${after}`
      )
      after = body.data.at(-1)?.seq ?? after
      left -= body.data.filter(({ type }) => terminal.test(type)).length
      if (left <= 0) return
      if (body.data.length === 0) yield* Effect.sleep("200 millis")
    }
  })

  // Code is compiled and pools are open from the first Turn on: memory is measured from there.
  for (const { server } of servers) {
    const id = `warm-${server.port}`
    yield* server.json("/api/sessions", { method: "POST", body: { id } })
    yield* post(server, id, "ping")
    yield* ended(server, id)
  }
  yield* other.server.json("/api/sessions", { method: "POST", body: { id: "innocent" } })
  const before = residentMiB(first.command.pid)

  let conversations = 0
  const reports: Array<Report> = []
  for (const [index, { name }] of options.attacks.entries()) {
    const id = `hostile-${index}`
    for (const { reset } of probes) reset()
    let peak = 0
    let others = 0
    const watch = Effect.sync(() => {
      peak = Math.max(peak, residentMiB(first.command.pid))
    }).pipe(Effect.repeat(Schedule.spaced("50 millis")))
    const converse = Effect.gen(function* () {
      yield* post(other.server, "innocent", "ping")
      yield* ended(other.server, "innocent", ++conversations)
      others++
    }).pipe(Effect.repeat(Schedule.spaced("500 millis")))
    const watching = yield* Effect.forkChild(Effect.all([watch, converse], { concurrency: 2 }))
    const began = performance.now()
    yield* first.server.json("/api/sessions", { method: "POST", body: { id } })
    yield* post(first.server, id, `attack: ${name}`)
    yield* ended(first.server, id)
    const seconds = (performance.now() - began) / 1000
    yield* Effect.repeat(Effect.sleep("100 millis"), { while: () => others === 0 })
    yield* Fiber.interrupt(watching)
    const log = yield* events(first.server, id)
    const last = log.findLast(({ type }) => terminal.test(type))
    reports.push({
      name,
      slowest: Math.max(...probes.map(({ slowest }) => slowest())),
      grown: Math.round(peak - before),
      others,
      seconds: Math.round(seconds * 10) / 10,
      end: last?.type ?? "none",
      why: last?.type === "turn.failed" ? last.data.error.message : ""
    })
    for (const { type, data } of log) if (type === "worker.claimed") assert.fail(`${name}: ${JSON.stringify(data)}`)
    // A table in the output: the figures are what this is for.
    console.log(JSON.stringify(reports.at(-1)))
  }
  const quiet = yield* events(other.server, "innocent")
  assert.notInclude(
    quiet.map(({ type }) => type),
    "worker.claimed"
  )
  assert.notInclude(
    quiet.map(({ type }) => type),
    "turn.failed"
  )
  return reports
})
