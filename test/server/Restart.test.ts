import { assert, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Database from "@turnstep/runtime/database/Pglite"
import * as Demo from "@turnstep/runtime/model/Demo"
import * as Runtime from "@turnstep/runtime/Runtime"
import * as DemoTools from "@turnstep/runtime/tools/DemoTools"
import * as Workspace from "@turnstep/runtime/tools/Workspace"
import * as DefaultAgent from "@turnstep/server/DefaultAgent"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Pglite from "../fixtures/Pglite.ts"
import * as Server from "../fixtures/Server.ts"
import * as Sse from "../fixtures/Sse.ts"

/** A server on the embedded database in a folder, for the current scope. */
const serverOn = Effect.fnUntraced(function* (dataDir: string) {
  const runtime = Runtime.layerSql([DefaultAgent.demoAgent]).pipe(
    Layer.provide([Demo.layerInstant, DemoTools.layer, Workspace.layer({ root: "packages/core" })]),
    Layer.provide([NodeServices.layer, Database.layer({ dataDir, sync: false })])
  )
  return Context.get(yield* Layer.build(Layer.fresh(Server.layer(runtime))), Server.TestServer)
})

const read = (server: Server.TestServer["Service"], path: string) =>
  Effect.flatMap(server.fetch(`/api/sessions/kept${path}`), (response) => Effect.promise(() => response.text()))

const views = ["", "/events?limit=1000", "/messages", "/calls", "/turns", "/inbox"]

it.live(
  "has the same record byte for byte after a restart, and goes on from there",
  () =>
    Effect.gen(function* () {
      const folder = yield* Pglite.freshDirectory()
      const before = yield* Effect.scoped(
        Effect.gen(function* () {
          const server = yield* serverOn(folder)
          const body = { id: "kept", title: "Kept", metadata: { a: 1 }, input: "/files how many files are there?" }
          const stream = yield* Sse.open(server, "/api/sessions", { method: "POST", body })
          const frames = yield* stream.rest
          assert.strictEqual(frames.at(-2)?.event, "turn.completed")
          yield* Effect.repeat(server.json<{ status: string }>("/api/sessions/kept"), {
            until: ({ body }) => body.status === "idle"
          })
          return yield* Effect.forEach(views, (path) => read(server, path))
        })
      )
      yield* Effect.scoped(
        Effect.gen(function* () {
          const server = yield* serverOn(folder)
          assert.deepStrictEqual(yield* Effect.forEach(views, (path) => read(server, path)), before)
          const { headSeq } = JSON.parse(before[0] ?? "") as { readonly headSeq: number }
          const sent = yield* server.json("/api/sessions/kept/messages", { method: "POST", body: { text: "/time" } })
          assert.deepInclude(sent.body, { effect: "started", turnId: "trn_2", after: headSeq })
          const stream = yield* Sse.open(server, `/api/sessions/kept/events?after=${headSeq}&until=turn-end`)
          const frames = yield* stream.rest
          assert.strictEqual(frames.at(-2)?.event, "turn.completed")
          assert.strictEqual(frames.find(({ id }) => id !== undefined)?.id, String(headSeq + 1))
        })
      )
    }),
  { timeout: 120_000 }
)
