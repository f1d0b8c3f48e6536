import { assert, describe, layer } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as MemoryStore from "@turnstep/core/MemoryStore"
import * as Agent from "@turnstep/runtime/Agent"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Mcp from "@turnstep/runtime/tools/Mcp"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as FileSystem from "effect/FileSystem"
import * as Stream from "effect/Stream"
import * as Folder from "../../fixtures/Folder.ts"
import * as McpServers from "../../fixtures/McpServers.ts"
import type { Session } from "@turnstep/runtime/Session"
import * as Sound from "../../fixtures/Sound.ts"
import * as Stores from "../../fixtures/Stores.ts"
import * as Tools from "../../fixtures/Tools.ts"
import * as World from "../../fixtures/World.ts"

const { calls, script, text } = StrictProvider

/** What a call first tells of how far it has come. */
const firstProgress = (session: Session) =>
  session.watch(0).pipe(
    Stream.flatMap((seen) =>
      seen._tag === "Ephemeral" && seen.ephemeral.type === "call.progress"
        ? Stream.succeed(seen.ephemeral.progress)
        : Stream.empty
    ),
    Stream.runHead,
    Effect.flatMap(Effect.fromOption),
    Effect.orDie
  )

layer(Layer.merge(MemoryStore.layer, NodeServices.layer), Stores.live)("MCP reference servers", (it) => {
  describe("over stdio", () => {
    it.effect("reads and writes files through a Turn, beside the agent's own tools", () =>
      Effect.gen(function* () {
        const folder = yield* Folder.make({ "a.txt": "first\nsecond\n" })
        const files = Mcp.toolkit("files", McpServers.filesystem(folder), { trust: true })
        const own = Tools.make()
        const log = McpServers.makeLog()
        const world = yield* World.make({
          respond: script([
            calls([
              { name: "files__read_text_file", arguments: { path: `${folder}/a.txt`, head: 1 } },
              { name: "files__write_file", arguments: { path: `${folder}/b.txt`, content: "new" } },
              { name: "files__read_text_file", arguments: { path: "/etc/passwd" } },
              Tools.call("look", "own")
            ]),
            text("done")
          ]),
          agents: [Agent.make("a", { instructions: "i", toolkit: Tools.toolkit, sources: [files] })],
          services: Layer.merge(own.handlers, Layer.provide(files.layer, log.layer))
        })
        yield* log.tried("files")
        const session = yield* world.sessions.open()
        assert.deepStrictEqual(World.brief(yield* session.run("go")), ["Answered", "done", 2])

        const events = yield* World.events(session)
        const answers = World.dataOf(events, "call.completed")
        const byCall = new Map(answers.map((answer) => [answer.callId, answer]))
        const [read, write, outside] = World.dataOf(events, "call.requested").map(({ callId }) => byCall.get(callId))
        assert.strictEqual(read?.output, "first")
        assert.isFalse(write?.isFailure)
        assert.strictEqual(yield* FileSystem.FileSystem.use((fs) => fs.readFileString(`${folder}/b.txt`)), "new")
        assert.isTrue(outside?.isFailure)
        assert.include(String(outside?.output), "outside allowed directories")
        // Its hints are believed: what only reads may run before the response is recorded, what writes may not.
        const effects = Object.fromEntries(
          World.dataOf(events, "call.requested").map(({ effects, name }) => [name, effects])
        )
        assert.deepInclude(effects, { files__read_text_file: "pure", files__write_file: "idempotent", look: "pure" })
        assert.isTrue(World.dataOf(events, "call.requested").some(({ domain }) => domain === "mcp"))
        assert.isEmpty(yield* Sound.complaints(session, world.provider))
      })
    )

    it.effect("shows the schemas as the server wrote them, and passes on how far a call has come", () =>
      Effect.gen(function* () {
        const every = Mcp.toolkit("every", McpServers.everything, {
          tools: ["echo", "get-sum", "trigger-long-running-operation"]
        })
        const log = McpServers.makeLog()
        const world = yield* World.make({
          respond: script([
            calls([{ name: "every__trigger-long-running-operation", arguments: { duration: 0.9, steps: 3 } }]),
            calls([{ name: "every__get-sum", arguments: { a: 2, b: 3 } }]),
            calls([{ name: "every__get-sum", arguments: { a: 2, b: "three" } }]),
            text("done")
          ]),
          agents: [Agent.make("a", { instructions: "i", sources: [every] })],
          services: Layer.provide(every.layer, log.layer)
        })
        yield* log.tried("every")
        const session = yield* world.sessions.open()
        const told = yield* Effect.forkChild(firstProgress(session), { startImmediately: true })
        assert.deepStrictEqual(World.brief(yield* session.run("go")), ["Answered", "done", 4])
        assert.deepStrictEqual<unknown>(yield* Fiber.join(told), { progress: 1, total: 3 })

        const [first] = world.provider.requests
        const declared = (first?.body.tools ?? []).map(({ function: { name, parameters } }) => ({ name, parameters }))
        assert.sameMembers(
          declared.map(({ name }) => name),
          ["every__echo", "every__get-sum", "every__trigger-long-running-operation"]
        )
        const sum = declared.find(({ name }) => name === "every__get-sum")?.parameters as Record<string, unknown>
        assert.deepInclude(sum["properties"], {
          a: { type: "number", description: "First number" },
          b: { type: "number", description: "Second number" }
        })

        const answers = World.dataOf(yield* World.events(session), "call.completed")
        assert.strictEqual(answers[1]?.output, "The sum of 2 and 3 is 5.")
        assert.isTrue(answers[2]?.isFailure)
        assert.include(String(answers[2]?.output), "Expected number")
        assert.isEmpty(yield* Sound.complaints(session, world.provider))
      })
    )
  })

  describe("over HTTP", () => {
    it.effect("calls a server, outlives its death, and finds it again in a new session", () =>
      Effect.gen(function* () {
        const remote = yield* McpServers.everythingHttp
        const every = Mcp.toolkit("every", { url: remote.url })
        const slow = { name: "every__trigger-long-running-operation", arguments: { duration: 60, steps: 60 } }
        const echo = (message: string) => calls([{ name: "every__echo", arguments: { message } }])
        const log = McpServers.makeLog()
        const world = yield* World.make({
          respond: script([
            echo("before"),
            calls([slow]),
            Effect.as(remote.start, echo("after")),
            text("done"),
            Effect.as(Effect.andThen(remote.kill, remote.start), echo("forgotten")),
            text("again")
          ]),
          agents: [Agent.make("a", { instructions: "i", sources: [every] })],
          services: Layer.provide(every.layer, log.layer)
        })
        yield* log.tried("every")
        const session = yield* world.sessions.open()
        const { turnId } = yield* session.send("go")
        // It is told once a second how far it is: the call has arrived.
        yield* firstProgress(session)
        yield* remote.kill
        const outcome = yield* session.outcome(turnId ?? assert.fail("no turn"))
        assert.deepStrictEqual(World.brief(outcome), ["Answered", "done", 4])
        assert.deepStrictEqual(World.brief(yield* session.run("more")), ["Answered", "again", 2])

        const events = yield* World.events(session)
        assert.deepStrictEqual(
          World.dataOf(events, "call.completed").map(({ isFailure, output }) => [isFailure, output]),
          [
            [false, "Echo: before"],
            [false, "Echo: after"],
            [false, "Echo: forgotten"]
          ]
        )
        assert.deepStrictEqual(
          World.dataOf(events, "call.receipt").map(({ outcome }) => outcome),
          ["outcome-unknown"]
        )
        assert.isEmpty(yield* Sound.complaints(session, world.provider))
      })
    )
  })
})
