/** A response full of expressions that backtrack, as the clients of the same server see it. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, it } from "@effect/vitest"
import * as Agent from "@turnstep/runtime/Agent"
import * as Runtime from "@turnstep/runtime/Runtime"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Workspace from "@turnstep/runtime/tools/Workspace"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Folder from "../fixtures/Folder.ts"
import * as Server from "../fixtures/Server.ts"
import * as Sse from "../fixtures/Sse.ts"

it.live(
  "twenty greps that backtrack hold up neither health nor another session, and end in words",
  () =>
    Effect.gen(function* () {
      const root = yield* Folder.make({ "a.txt": `${"a".repeat(60)}X\n`, "b.txt": "TODO\n" })
      const grep = (pattern: string) => ({ name: "grep", arguments: JSON.stringify({ pattern }) })
      const provider = yield* StrictProvider.make({
        respond: ({ messages }) => {
          if (messages.at(-1)?.role === "tool") return StrictProvider.text("done")
          const isKiller = JSON.stringify(messages.at(-1)).includes("killer")
          const patterns = isKiller ? Array.from({ length: 20 }, (_, n) => `^(a+)+${"$".repeat(n + 1)}`) : ["TODO"]
          return StrictProvider.calls(patterns.map(grep))
        }
      })
      const agent = Agent.make("searcher", { instructions: "Use the tools.", toolkit: Workspace.toolkit })
      const runtime = Runtime.layerMemory([agent]).pipe(
        Layer.provide([provider.layer, Workspace.layer({ root })]),
        Layer.provide(NodeServices.layer)
      )
      const server = Context.get(yield* Layer.build(Server.layer(runtime)), Server.TestServer)

      const order: Array<string> = []
      const begin = (id: string) => server.json("/api/sessions", { method: "POST", body: { id, input: id } })
      const watch = (id: string) => Sse.open(server, `/api/sessions/${id}/events`)
      const end = (id: string, reader: Sse.Reader) =>
        Effect.tap(reader.until(Sse.isEvent("turn.completed")), () => Effect.sync(() => order.push(id)))
      yield* begin("killer")
      const [early, whole] = [yield* watch("killer"), yield* watch("killer")]
      yield* early.until(Sse.isEvent("call.started"))
      const others = Effect.gen(function* () {
        assert.strictEqual((yield* server.fetch("/healthz")).status, 200)
        order.push("health")
        yield* begin("other")
        yield* end("other", yield* watch("other"))
      })
      const [killed] = yield* Effect.all([end("killer", whole), others], { concurrency: "unbounded" })
      assert.deepStrictEqual(order, ["health", "other", "killer"])
      const results = killed.filter(Sse.isEvent("call.completed")).map(({ data }) => JSON.stringify(data.data))
      assert.strictEqual(results.length, 20)
      for (const result of results) assert.match(result, /backtracks too much|was stopped for taking too long/)
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer)),
  120_000
)
