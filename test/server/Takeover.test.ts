/** Two servers on one PostgreSQL: what a client of the stopped one reads on from the other. */
import { assert, it } from "@effect/vitest"
import * as Agent from "@turnstep/runtime/Agent"
import * as PostgresLayer from "@turnstep/runtime/database/Postgres"
import * as Runtime from "@turnstep/runtime/Runtime"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as Postgres from "../fixtures/Postgres.ts"
import * as Server from "../fixtures/Server.ts"
import * as Sse from "../fixtures/Sse.ts"
import * as Tools from "../fixtures/Tools.ts"
import * as Databases from "../sql/Databases.ts"

const { calls, text } = StrictProvider

it.live(
  "a stream is read on from the server that takes over: every event once, and the answer in progress as it stands",
  () =>
    Effect.gen(function* () {
      const url = yield* Postgres.freshUrl(Databases.template)
      const working = yield* Tools.gate
      const answering = yield* Tools.gate
      const provider = yield* StrictProvider.make({
        respond: ({ messages }) =>
          messages.some(({ role }) => role === "tool")
            ? text(["half", answering.pass, " and whole"])
            : calls([Tools.call("look", "a")])
      })
      const tools = Tools.make()
      tools.on("a", Effect.as(working.pass, "seen"))
      const agent = Agent.make("hand", { instructions: "Use the tools.", toolkit: Tools.toolkit })
      const start = Effect.gen(function* () {
        const scope = yield* Scope.fork(yield* Effect.scope)
        const runtime = Runtime.layerSql([agent]).pipe(
          Layer.provide([provider.layer, tools.handlers, PostgresLayer.layer({ url })])
        )
        const context = yield* Layer.buildWithScope(Layer.fresh(Server.layer(runtime)), scope)
        return { server: Context.get(context, Server.TestServer), stop: Scope.close(scope, Exit.void) }
      })

      const [first, second] = [yield* start, yield* start]
      const stream = yield* Sse.open(first.server, "/api/sessions", {
        method: "POST",
        body: { id: "moved", input: "go" }
      })
      const before = yield* stream.until(({ event }) => event === "call.started")
      yield* working.reached
      const ending = yield* Effect.forkChild(first.stop, { startImmediately: true })
      const goodbye = yield* stream.rest
      assert.strictEqual(goodbye.at(-1)?.event, "stream.closed")
      yield* Fiber.join(ending)
      yield* working.open
      yield* answering.reached
      // The model has said half of it; another reader tells when the server has heard it.
      const other = yield* Sse.open(second.server, "/api/sessions/moved/events")
      yield* other.until(({ event }) => event === "delta" || event === "stream.snapshot")

      const seen = [...before, ...goodbye].flatMap(({ id }) => (id === undefined ? [] : [Number(id)]))
      const next = yield* Sse.open(second.server, "/api/sessions/moved/events?until=turn-end", {
        headers: { "last-event-id": String(seen.at(-1)) }
      })
      const joined = yield* next.until(({ event }) => event === "stream.snapshot")
      assert.include(JSON.stringify(joined.at(-1)?.data), '"half"')
      yield* answering.open
      const after = yield* next.rest
      seen.push(...[...joined, ...after].flatMap(({ id }) => (id === undefined ? [] : [Number(id)])))
      assert.deepStrictEqual(
        seen,
        Array.from({ length: seen.length }, (_, n) => n + 1)
      )
      assert.include(
        after.map(({ event }) => event),
        "turn.completed"
      )
      assert.deepStrictEqual(
        tools.started.map(({ act }) => act),
        ["a", "a"]
      )
    }).pipe(Effect.scoped),
  { timeout: 60_000 }
)
