/**
 * Two real servers on one PostgreSQL that are killed, stopped and frozen by chance, under clients that send with keys and read
 * event streams from whichever answers. At the end: every message once, every call one answer, no gap in what was read, and
 * nothing a provider would refuse.
 */
import { assert, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import * as Exit from "effect/Exit"
import { tmpdir } from "node:os"
import * as Command from "../fixtures/Command.ts"
import * as Postgres from "../fixtures/Postgres.ts"
import * as Server from "../fixtures/Server.ts"
import * as Sse from "../fixtures/Sse.ts"
import * as Databases from "../sql/Databases.ts"
import * as Fleet from "./Fleet.ts"

const { below, pick } = Fleet

const time = Duration.seconds(Number(process.env["FLEET_SECONDS"] ?? 40))
const sessions = ["one", "two", "three", "four"]
const inputs = ["/time", "/time", "hello", "hello", "/loop", "/slow 2"]

interface Runner {
  readonly command: Command.Running
  readonly server: Server.TestServer["Service"]
  readonly gone: Effect.Effect<void>
}

/** One of the servers: there is always a process, or one on its way. */
const makeSeat = Effect.fnUntraced(function* (url: Redacted.Redacted) {
  const start = Effect.gen(function* () {
    const scope = yield* Scope.fork(yield* Effect.scope)
    const command = yield* Command.start(["serve", "--port", "0", "--data", `${tmpdir()}/turnstep-fleet`], {
      cwd: tmpdir(),
      env: { DATABASE_URL: Redacted.value(url), TURNSTEP_TOKEN: Server.token }
    }).pipe(Scope.provide(scope))
    yield* command.says("stop ")
    const runner: Runner = {
      command,
      server: Server.at(Command.addressOf(command)),
      gone: Scope.close(scope, Exit.void)
    }
    return runner
  })
  let runner = yield* start
  const strike = Effect.gen(function* () {
    const how = pick(["kill", "kill", "stop", "freeze", "nap"])
    const { command, gone } = runner
    if (how === "freeze" || how === "nap") {
      yield* command.signal("SIGSTOP")
      // The end of the strikes may come meanwhile: nobody stays frozen.
      yield* Effect.ensuring(Effect.sleep(how === "freeze" ? "17 seconds" : "2 seconds"), command.signal("SIGCONT"))
    } else {
      yield* Effect.uninterruptible(
        Effect.gen(function* () {
          yield* command.signal(how === "kill" ? "SIGKILL" : "SIGTERM")
          yield* command.exit
          yield* gone
          runner = yield* start
        })
      )
    }
    return how
  })
  return { server: () => runner.server, strike }
})

it.live(
  "two servers that die, stop and freeze under their clients lose nothing, repeat nothing, and show everything once",
  () =>
    Effect.gen(function* () {
      const url = yield* Postgres.freshUrl(Databases.template)
      const seats = yield* Effect.all([makeSeat(url), makeSeat(url)], { concurrency: 2 })
      const ask = Fleet.asking(seats)
      const over = yield* Deferred.make<void>()
      const strikes: Record<string, number> = {}
      const sent = new Map<string, ReadonlyArray<string>>()
      const read = new Map<string, ReadonlyArray<number>>()

      const talk = Effect.fnUntraced(function* (id: string) {
        yield* ask("/api/sessions", { method: "POST", body: { id }, headers: { "idempotency-key": id } })
        const texts: Array<string> = []
        sent.set(id, texts)
        for (let n = 0; ; n++) {
          yield* Fleet.send(ask, id, `${pick(inputs)} #${n}`, texts)
          yield* Effect.sleep(below(8_000))
        }
      })
      const follow = Effect.fnUntraced(function* (id: string) {
        const seen: Array<number> = []
        read.set(id, seen)
        const once = Effect.gen(function* () {
          const stream = yield* Sse.open(pick(seats).server(), `/api/sessions/${id}/events`, {
            headers: { "last-event-id": String(seen.at(-1) ?? 0) }
          })
          yield* stream.until(({ id: seq }) => {
            if (seq !== undefined) seen.push(Number(seq))
            return false
          })
        }).pipe(Effect.scoped, Effect.catchDefect(Effect.fail), Effect.timeout("30 seconds"))
        return yield* Effect.forever(Effect.andThen(Effect.ignore(once), Effect.sleep("100 millis")))
      })

      const strike = Effect.gen(function* () {
        yield* Effect.sleep(2_000 + below(4_000))
        const how = yield* pick(seats).strike
        strikes[how] = (strikes[how] ?? 0) + 1
      })
      yield* Effect.forEach(sessions, (id) => Effect.forkScoped(Effect.race(follow(id), Deferred.await(over))))
      yield* Effect.all([Effect.forever(strike), ...sessions.map(talk)], { concurrency: "unbounded" }).pipe(
        Effect.timeoutOption(time)
      )

      const complaints: Array<string> = []
      for (const id of sessions) {
        const events = yield* Fleet.recordOf(ask, id)
        complaints.push(...Fleet.complaintsOf(id, events, sent.get(id) ?? []))
        yield* Effect.repeat(Effect.sleep("100 millis"), { while: () => (read.get(id)?.length ?? 0) < events.length })
        assert.deepStrictEqual(
          read.get(id),
          events.map(({ seq }) => seq)
        )
        const exported = yield* ask<{ messages: unknown }>(`/api/sessions/${id}/export?format=openai-chat`)
        const body = { format: "openai-chat", messages: exported.body.messages }
        const verified = yield* ask<{ findings: ReadonlyArray<unknown> }>("/api/history/verify", {
          method: "POST",
          body
        })
        assert.deepStrictEqual(verified.body.findings, [])
      }
      yield* Deferred.succeed(over, undefined)
      assert.deepStrictEqual(complaints, [])
      console.log(
        JSON.stringify(strikes),
        [...sent].map(([id, texts]) => `${id}: ${texts.length} messages, ${read.get(id)?.length} events`).join("; ")
      )
    }).pipe(Effect.scoped),
  { timeout: 600_000 }
)
