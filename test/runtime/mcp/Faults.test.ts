import { assert, describe, layer } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as MemoryStore from "@turnstep/core/MemoryStore"
import * as SpillStore from "@turnstep/core/SpillStore"
import * as ToolPolicy from "@turnstep/core/ToolPolicy"
import type { TurnEvent } from "@turnstep/core/TurnEvent"
import * as Agent from "@turnstep/runtime/Agent"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Mcp from "@turnstep/runtime/tools/Mcp"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as McpServers from "../../fixtures/McpServers.ts"
import * as Sound from "../../fixtures/Sound.ts"
import * as Stores from "../../fixtures/Stores.ts"
import * as World from "../../fixtures/World.ts"

const { calls, script, text } = StrictProvider

/** A world whose agent has the tools of a server named `s`. */
const worldOf = Effect.fnUntraced(function* (
  respond: StrictProvider.Respond,
  endpoint: Mcp.Endpoint,
  options: Mcp.Options = {},
  isWaitedFor = true
) {
  const log = McpServers.makeLog()
  const server = Mcp.toolkit("s", endpoint, options)
  const world = yield* World.make({
    respond,
    agents: [Agent.make("a", { instructions: "i", sources: [server] })],
    services: Layer.merge(server.layer.pipe(Layer.provide(log.layer)), SpillStore.layerMemory())
  })
  if (isWaitedFor) yield* log.tried("s")
  return { ...world, log, session: yield* world.sessions.open() }
})

const call = (name: string, args: Readonly<Record<string, unknown>> = {}) => ({ name: `s__${name}`, arguments: args })

/** How each call was answered, in the order of the calls: its tool, then `ok`, `failed` or its receipt, then its text. */
const answered = (events: ReadonlyArray<TurnEvent>) => {
  const completed = World.dataOf(events, "call.completed")
  const receipts = World.dataOf(events, "call.receipt")
  return World.dataOf(events, "call.requested").map(({ callId, name }) => {
    const answer = completed.find((one) => one.callId === callId)
    const receipt = receipts.find((one) => one.callId === callId)
    const how = receipt?.outcome ?? (answer?.isFailure === true ? "failed" : "ok")
    return [name.replace("s__", ""), how, receipt?.text ?? answer?.output] as const
  })
}

/** Tools the server was asked to run. */
const ran = (received: ReadonlyArray<McpServers.Received>) =>
  received.flatMap(({ method, params }) => (method === "tools/call" ? [params?.name] : []))

layer(Layer.merge(MemoryStore.layer, NodeServices.layer), Stores.live)("MCP faults", (it) => {
  describe("a server that dies in the middle of a call", () => {
    it.effect("leaves the outcome unknown where it may have had effects, and works again for the next call", () =>
      Effect.gen(function* () {
        const { endpoint, received } = yield* McpServers.scripted()
        const respond = script([
          calls([call("die")]),
          calls([call("echo", { text: "again" })]),
          calls([call("die_reading")]),
          calls([call("put")]),
          text("done")
        ])
        const { log, provider, session } = yield* worldOf(respond, endpoint, { trust: true })
        assert.deepStrictEqual(World.brief(yield* session.run("go")), ["Answered", "done", 5])
        const [died, echo, diedReading, put] = answered(yield* World.events(session))
        assert.deepStrictEqual(died?.slice(0, 2), ["die", "outcome-unknown"])
        assert.deepStrictEqual(echo, ["echo", "ok", 'echo {"text":"again"}'])
        assert.deepStrictEqual(diedReading?.slice(0, 2), ["die_reading", "failed"])
        assert.include(String(diedReading?.[2]), "it ended with code 3: I was told to")
        assert.deepStrictEqual(put?.slice(0, 2), ["put", "ok"])
        assert.deepStrictEqual(ran(yield* received), ["die", "echo", "die_reading", "put"])
        assert.isEmpty(yield* Sound.complaints(session, provider))
        // What it said of its key is said nowhere.
        assert.isNotEmpty(log.lines.filter((line) => line.includes("my key is ***")))
        const everything = JSON.stringify([log.lines, yield* World.events(session), provider.requests])
        assert.notInclude(everything, McpServers.secret)
      })
    )

    it.effect("is an error of the call while it is away, and its tools come when it comes", () =>
      Effect.gen(function* () {
        const { endpoint, folder } = yield* McpServers.scripted()
        const fs = yield* FileSystem.FileSystem
        const late = `${folder}/late`
        const install = Effect.orDie(
          Effect.andThen(
            fs.writeFileString(late, `#!/bin/sh\nexec '${endpoint.command}' '${endpoint.args.join("' '")}'\n`),
            fs.chmod(late, 0o755)
          )
        )
        const respond = script([
          text("no tools"),
          calls([call("echo", { text: "here" })]),
          text("found"),
          Effect.as(Effect.orDie(fs.remove(late)), calls([call("die_reading")])),
          calls([call("echo", { text: "away" })]),
          text("gave up")
        ])
        const world = yield* worldOf(respond, { command: late, env: endpoint.env })
        const { log, provider, session } = world
        assert.deepStrictEqual(World.brief(yield* session.run("one")), ["Answered", "no tools", 1])
        assert.notInclude(JSON.stringify(provider.requests[0]?.toolNames), "s__")
        assert.isNotEmpty(
          log.lines.filter((line) => line.includes("MCP server s cannot be used") && line.includes("ENOENT"))
        )

        const ready = yield* Effect.forkChild(log.says("is ready"), { startImmediately: true })
        yield* install
        yield* Fiber.join(ready)
        assert.deepStrictEqual(World.brief(yield* session.run("two")), ["Answered", "found", 2])
        assert.deepStrictEqual(World.brief(yield* session.run("three")), ["Answered", "gave up", 3])
        const [, , away] = answered(yield* World.events(session))
        assert.deepStrictEqual(away?.slice(0, 2), ["echo", "failed"])
        assert.include(String(away?.[2]), "This call was not executed: the MCP server s cannot be used now")
        assert.isEmpty(yield* Sound.complaints(session, provider))
      })
    )
  })

  describe("a slow server", () => {
    it.effect("is told that the call is cancelled when its time is over, and when the Turn is cancelled", () =>
      Effect.gen(function* () {
        const { endpoint, received } = yield* McpServers.scripted()
        const respond = script([calls([call("wait")]), text("went on"), calls([call("wait")])])
        const { provider, session } = yield* worldOf(respond, endpoint, { timeout: "300 millis" })
        assert.deepStrictEqual(World.brief(yield* session.run("go")), ["Answered", "went on", 2])
        const { turnId } = yield* session.send("once more")
        yield* World.until(session, (event) => event.type === "call.started" && event.data.callId.startsWith("cal_2"))
        yield* session.cancel(turnId ?? assert.fail("no turn"))
        yield* World.ended(session, 2)
        assert.deepStrictEqual(
          answered(yield* World.events(session)).map((answer) => answer.slice(0, 2)),
          [
            ["wait", "outcome-unknown"],
            ["wait", "outcome-unknown"]
          ]
        )
        const cancelled = Effect.map(received, (all) =>
          all.filter(({ method }) => method === "notifications/cancelled")
        )
        yield* Effect.repeat(cancelled, { until: ({ length }) => length >= 2, schedule: Schedule.spaced("10 millis") })
        assert.isEmpty(yield* Sound.complaints(session, provider))
      })
    )

    it.effect("holds no Turn when it never answers its first request", () =>
      Effect.gen(function* () {
        const { endpoint } = yield* McpServers.scripted({ MCP_DEAF: "1" })
        const { session } = yield* worldOf(script([text("without")]), endpoint, {}, false)
        assert.deepStrictEqual(World.brief(yield* session.run("go")), ["Answered", "without", 1])
      })
    )
  })

  describe("a server that changes its tools", () => {
    it.effect("has the change reported, refused in the running Turn, and taken over by the next", () =>
      Effect.gen(function* () {
        const { endpoint, received } = yield* McpServers.scripted()
        const log = McpServers.makeLog()
        const server = Mcp.toolkit("s", endpoint)
        const changed = yield* Effect.forkChild(log.says("has changed its tools"), { startImmediately: true })
        const world = yield* World.make({
          respond: script([
            calls([call("change")]),
            Effect.as(
              Fiber.join(changed),
              calls([call("echo", { text: "old" }), call("removed"), call("put"), call("added")])
            ),
            text("done"),
            calls([call("echo", { text: "new" }), call("added")]),
            text("again")
          ]),
          agents: [Agent.make("a", { instructions: "i", sources: [server] })],
          services: server.layer.pipe(Layer.provide(log.layer))
        })
        yield* log.tried("s")
        const session = yield* world.sessions.open()
        assert.deepStrictEqual(World.brief(yield* session.run("one")), ["Answered", "done", 3])
        assert.deepStrictEqual(World.brief(yield* session.run("two")), ["Answered", "again", 2])
        const events = yield* World.events(session)
        assert.deepStrictEqual(
          answered(events).map((answer) => answer.slice(0, 2)),
          [
            ["change", "ok"],
            ["echo", "failed"],
            ["removed", "failed"],
            ["put", "ok"],
            ["added", "failed"],
            ["echo", "ok"],
            ["added", "ok"]
          ]
        )
        const [, echo, removed] = answered(events)
        assert.include(String(echo?.[2]), "has changed the tool echo since this turn began")
        assert.include(String(removed?.[2]), "no longer offers the tool removed")
        assert.deepStrictEqual(ran(yield* received), ["change", "put", "echo", "added"])
        const report = log.lines.find((line) => line.includes("has changed its tools")) ?? ""
        assert.include(report, '"added":["added"],"removed":["removed"],"changed":["echo"]')
        // What the model is shown is the same in all requests of a Turn.
        const [first, second, third, fourth] = world.provider.requests.map(({ toolNames }) => toolNames)
        assert.deepStrictEqual(first, second)
        assert.deepStrictEqual(second, third)
        assert.include(first ?? [], "s__removed")
        assert.include(fourth ?? [], "s__added")
        assert.isEmpty(yield* Sound.complaints(session, world.provider))
      })
    )
  })

  describe("calls and results", () => {
    it.effect("checks arguments against references and alternatives, and sends those that fit unchanged", () =>
      Effect.gen(function* () {
        const { endpoint, received } = yield* McpServers.scripted()
        const fits = { kind: "round", size: "small", labels: { a: "b" }, extra: [1] }
        const respond = script([
          calls([
            call("shape", fits),
            call("shape", { kind: "oval" }),
            call("shape", { kind: "round", size: 0 }),
            call("shape", { size: 3 }),
            call("pattern", { code: "b" }),
            call("nope")
          ]),
          text("done")
        ])
        const { provider, session } = yield* worldOf(respond, endpoint)
        yield* session.run("go")
        assert.deepStrictEqual(
          answered(yield* World.events(session)).map(([, how]) => how),
          ["ok", "failed", "failed", "failed", "ok", "failed"]
        )
        const sent = (yield* received)
          .filter(({ method }) => method === "tools/call")
          .map(({ params }) => params?.arguments)
        assert.sameDeepMembers(sent, [fits, { code: "b" }])
        const shown = provider.requests[0]?.body.tools?.find((tool) => tool.function.name === "s__shape")
        assert.deepNestedInclude(shown?.function.parameters, {
          "properties.kind": { $ref: "#/$defs/Kind" },
          $defs: { Kind: { type: "string", enum: ["round", "square"] } }
        })
        assert.isEmpty(yield* Sound.complaints(session, provider))
      })
    )

    it.effect("keeps failures, errors, large texts and images as what they are", () =>
      Effect.gen(function* () {
        const { endpoint } = yield* McpServers.scripted()
        const respond = script([
          calls([call("fail"), call("error"), call("big"), call("image"), call("a_strange_name")]),
          text("done")
        ])
        const { provider, session } = yield* worldOf(respond, endpoint)
        assert.deepStrictEqual(World.brief(yield* session.run("go")), ["Answered", "done", 2])
        const events = yield* World.events(session)
        const [fail, error, big, image, named] = answered(events)
        assert.deepStrictEqual(fail, ["fail", "failed", "there is no such page"])
        assert.include(String(error?.[2]), "answered with an error instead of a result: that cannot be asked")
        assert.hasAllKeys(big?.[2], ["text", "bytes", "spill"])
        assert.deepStrictEqual(named?.slice(1, 2), ["ok"])
        const shot = { type: "image", mimeType: "image/png", bytes: 100_000 }
        assert.deepNestedInclude(image?.[2], { "content[0]": "Here it is" })
        assert.deepNestedInclude(
          image?.[2],
          Object.fromEntries(Object.entries(shot).map(([key, value]) => [`content[1].${key}`, value]))
        )
        assert.nestedProperty(image?.[2], "content[1].spill")
        const read = provider.requests[1]?.messages.flatMap(({ content, role }) =>
          role === "tool" ? [String(content)] : []
        )
        assert.isBelow(Math.max(...(read ?? []).map(({ length }) => length)), 33_000)
        assert.match(read?.[3] ?? "", /^Here it is\n\[image, image\/png, 100000 bytes: kept as spill /)
        assert.isEmpty(yield* Sound.complaints(session, provider))
      })
    )

    it.effect("gives no server the environment of this process", () =>
      Effect.gen(function* () {
        process.env["TURNSTEP_TEST_KEY"] = "for me alone"
        const { endpoint } = yield* McpServers.scripted()
        const { session } = yield* worldOf(script([calls([call("environment")]), text("done")]), endpoint)
        yield* session.run("go")
        const [environment] = answered(yield* World.events(session))
        const seen = JSON.parse(String(environment?.[2])) as Record<string, string>
        delete process.env["TURNSTEP_TEST_KEY"]
        assert.strictEqual(seen["SECRET"], McpServers.secret)
        assert.property(seen, "PATH")
        assert.notProperty(seen, "TURNSTEP_TEST_KEY")
      })
    )

    it.effect(
      "believes no hint of a server that is not trusted, and what the application says before what the server says",
      () =>
        Effect.gen(function* () {
          const { endpoint } = yield* McpServers.scripted()
          const batch = [call("echo", { text: "" }), call("put"), call("tell")]
          const effects = Effect.fnUntraced(function* (options: Mcp.Options) {
            const { session } = yield* worldOf(script([calls(batch), text("done")]), endpoint, options)
            yield* session.run("go")
            return World.dataOf(yield* World.events(session), "call.requested").map(({ domain, effects }) => [
              domain,
              effects
            ])
          })
          assert.deepStrictEqual(yield* effects({}), [
            ["mcp", "once"],
            ["mcp", "once"],
            ["mcp", "once"]
          ])
          assert.deepStrictEqual(yield* effects({ trust: true, effects: { put: "queryable" } }), [
            ["mcp", "pure"],
            ["mcp", "queryable"],
            ["mcp", "once"]
          ])
        })
    )

    it.effect("lets the agent's own tool, and then the first server, have a name that comes twice", () =>
      Effect.gen(function* () {
        const first = yield* McpServers.scripted()
        const second = yield* McpServers.scripted()
        const Own = Toolkit.make(Tool.make("s__put", { success: Schema.String }).annotate(ToolPolicy.Effects, "pure"))
        // `x__echo` of `s` and `echo` of `s__x` are the same name.
        const one = Mcp.toolkit("s", first.endpoint)
        const two = Mcp.toolkit("s__x", second.endpoint)
        const log = McpServers.makeLog()
        const world = yield* World.make({
          respond: script([calls([call("put"), call("x__echo", { text: "x" }), call("x__put")]), text("done")]),
          agents: [Agent.make("a", { instructions: "i", toolkit: Own, sources: [one, two] })],
          services: Layer.mergeAll(
            Own.toLayer({ s__put: () => Effect.succeed("mine") }),
            Layer.merge(one.layer, two.layer).pipe(Layer.provide(log.layer))
          )
        })
        yield* log.tried("s")
        yield* log.tried("s__x")
        const session = yield* world.sessions.open()
        yield* session.run("go")
        assert.deepStrictEqual(
          answered(yield* World.events(session)).map(([, , output]) => output),
          ["mine", 'x__echo {"text":"x"}', "put {}"]
        )
        assert.deepStrictEqual(ran(yield* first.received), ["x__echo"])
        assert.deepStrictEqual(ran(yield* second.received), ["put"])
        const names = world.provider.requests[0]?.toolNames ?? []
        assert.strictEqual(new Set(names).size, names.length)
        for (const name of ["s__put", "s__x__echo"]) {
          assert.isNotEmpty(world.logged.filter((line) => line.includes(`more than one tool ${name}`)))
        }
      })
    )
  })

  describe("revisions of the protocol", () => {
    for (const version of ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]) {
      it.effect(`speaks ${version} with a server that speaks nothing else`, () =>
        Effect.gen(function* () {
          const { endpoint } = yield* McpServers.scripted({ MCP_VERSION: version })
          const { session } = yield* worldOf(script([calls([call("put")]), text("done")]), endpoint)
          yield* session.run("go")
          assert.deepStrictEqual(answered(yield* World.events(session))[0]?.[1], "ok")
        })
      )
    }

    it.effect("finds a way to a server that dies of a question it does not know", () =>
      Effect.gen(function* () {
        const { endpoint } = yield* McpServers.scripted({ MCP_DUMB: "1" })
        const log = McpServers.makeLog()
        const ready = yield* Effect.forkChild(log.says("is ready"), { startImmediately: true })
        const server = Mcp.toolkit("s", endpoint)
        const status = yield* Effect.andThen(Fiber.join(ready), server.status).pipe(
          Effect.provide(server.layer.pipe(Layer.provide(log.layer)))
        )
        assert.strictEqual(status.state, "ready")
      })
    )
  })

  describe("processes", () => {
    it.effect(
      "leaves none behind when the runtime stops, not even what a server has started and what ignores a signal",
      () =>
        Effect.gen(function* () {
          const { endpoint, folder } = yield* McpServers.scripted()
          const respond = script([calls([call("fork"), call("wait")])])
          const { session, stop } = yield* worldOf(respond, endpoint, { effects: { fork: "pure", wait: "pure" } })
          yield* session.send("go")
          yield* World.until(session, ({ type }) => type === "call.completed")
          assert.lengthOf(McpServers.processesOf(folder), 2)
          yield* stop
          assert.isEmpty(McpServers.processesOf(folder))
        })
    )
  })
})
