import { assert, describe, it } from "@effect/vitest"
import * as Mcp from "@turnstep/runtime/tools/Mcp"
import * as McpProtocol from "effect/ai/McpProtocol"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as McpHttp from "../../fixtures/McpHttp.ts"
import * as McpServers from "../../fixtures/McpServers.ts"

/** Connects to a server as `s`; a tool is called by the server's own name. */
const connected = Effect.fnUntraced(function* (endpoint: Mcp.Endpoint) {
  const log = McpServers.makeLog()
  const server = Mcp.toolkit("s", endpoint)
  const context = yield* Layer.build(Layer.provide(server.layer, log.layer))
  const tools = yield* Effect.provideContext(server.tools, context)
  const call = (name: string, params = {}) => {
    const found = tools.find(({ tool }) => tool.name === `s__${name}`)
    return Effect.exit(found?.handler.run(params, "key", () => Effect.void) ?? assert.fail(`no tool ${name}`))
  }
  return { log, call, tools, status: Effect.provideContext(server.status, context) }
})

describe("An MCP server over HTTP", () => {
  for (const protocol of [McpProtocol.v2025_06_18, McpProtocol.v2025_11_25, McpProtocol.v2026_07_28]) {
    it.live(`is spoken to in ${protocol.protocolVersion} when it speaks nothing else`, () =>
      Effect.gen(function* () {
        const { call, status } = yield* connected({ url: yield* McpHttp.effectServer([protocol]) })
        const { protocolVersion, serverInfo, state } = yield* status
        assert.deepStrictEqual([state, protocolVersion, serverInfo?.name], ["ready", protocol.protocolVersion, "sums"])
        const exit = yield* call("sum", { a: 2, b: 3 })
        assert.deepInclude(JSON.parse(JSON.stringify(exit)), { _tag: "Success" })
        assert.include(JSON.stringify(exit), "5")
      })
    )
  }

  it.live("gets its headers, and they are told nowhere when it refuses them", () =>
    Effect.gen(function* () {
      const { refused, url } = yield* McpHttp.raw()
      const good = yield* connected({ url, headers: { authorization: Redacted.make(McpHttp.key) } })
      assert.strictEqual((yield* good.status).state, "ready")

      const wrong = "Bearer sk-wrong-987654321"
      const bad = yield* connected({ url, headers: { authorization: Redacted.make(wrong) } })
      const { reason, state } = yield* bad.status
      assert.strictEqual(state, "down")
      assert.strictEqual(reason, "it refuses the credentials it was given (HTTP 401)")
      // However often it is tried, and by whichever handshake: the same reason is told once.
      yield* Effect.repeat(refused, { until: (times) => times >= 4, schedule: Schedule.spaced("20 millis") })
      assert.lengthOf(
        bad.log.lines.filter((line) => line.includes("cannot be used")),
        1
      )
      assert.notInclude(JSON.stringify([bad.log.lines, reason]), "sk-wrong-987654321")
      assert.isEmpty(bad.tools)
    })
  )

  it.live("gives no part of a key away where a long answer of it is cut", () =>
    Effect.gen(function* () {
      const { url } = yield* McpHttp.raw()
      const { call } = yield* connected({ url, headers: { authorization: McpHttp.key } })
      const told = JSON.stringify(yield* call("leaky"))
      assert.include(told, "x".repeat(400))
      assert.notInclude(told, "sk-h")
    })
  )

  it.live("steers no terminal and writes no line of the log by what it calls itself, or answers", () =>
    Effect.gen(function* () {
      const { url } = yield* McpHttp.raw()
      const { call, status } = yield* connected({ url, headers: { authorization: McpHttp.key } })
      assert.strictEqual((yield* status).serverInfo?.name, "raw [2J ready")
      assert.include(JSON.stringify(yield* call("broken")), "bad [2J gateway")
    })
  )

  it.live("may have its secret in its address, of which only the host is told", () =>
    Effect.gen(function* () {
      const { refused, url } = yield* McpHttp.raw()
      const secret = "c0ffee-0123456789-abcdef"
      const good = yield* connected({
        url: url.replace("/mcp", `/s/${secret}/mcp`),
        headers: { authorization: McpHttp.key }
      })
      assert.strictEqual((yield* good.status).state, "ready")
      const bad = yield* connected({ url: url.replace("/mcp", `/s/${secret}/mcp`) })
      yield* Effect.repeat(refused, { until: (times) => times >= 1, schedule: Schedule.spaced("20 millis") })
      const told = JSON.stringify([good.log.lines, bad.log.lines, yield* bad.status])
      assert.include(told, "http://127.0.0.1")
      assert.notInclude(told, secret)
    })
  )

  it.live("is called once more, in a new session, where it has forgotten the old one", () =>
    Effect.gen(function* () {
      const raw = yield* McpHttp.raw()
      const { call } = yield* connected({ url: raw.url, headers: { authorization: McpHttp.key } })
      yield* raw.forget
      assert.deepInclude(JSON.stringify(yield* call("quick")), '"output":"quick"')
      assert.lengthOf(
        raw.asked.filter((asked) => asked === "quick"),
        2
      )
    })
  )

  it.live("loses one call to a proxy, and no other that is on its way", () =>
    Effect.gen(function* () {
      const raw = yield* McpHttp.raw()
      const { call, status } = yield* connected({ url: raw.url, headers: { authorization: McpHttp.key } })
      const slow = yield* Effect.forkChild(call("slow"), { startImmediately: true })
      assert.include(JSON.stringify(yield* call("broken")), "OutcomeUnknown")
      assert.include(JSON.stringify(yield* call("quick")), '"output":"quick"')
      yield* raw.release
      assert.include(JSON.stringify(yield* Fiber.join(slow)), '"output":"slow"')
      assert.strictEqual((yield* status).state, "ready")
      assert.lengthOf(
        raw.asked.filter((asked) => asked === "broken"),
        1
      )
    })
  )

  it.live("loses a call whose stream ends without an answer", () =>
    Effect.gen(function* () {
      const { url } = yield* McpHttp.raw()
      const { call } = yield* connected({ url, headers: { authorization: McpHttp.key } })
      const exit = yield* Effect.timeoutOption(call("silent"), "10 seconds")
      assert.include(JSON.stringify(exit), "its stream has ended")
      assert.include(JSON.stringify(yield* call("quick")), '"output":"quick"')
    })
  )

  for (const kind of ["endless_json", "endless_event", "endless_error"]) {
    it.live(`does not fill the memory with an answer that never ends (${kind})`, () =>
      Effect.gen(function* () {
        const { url } = yield* McpHttp.raw()
        const { call } = yield* connected({ url, headers: { authorization: McpHttp.key } })
        const exit = yield* Effect.timeoutOption(call(kind), "20 seconds")
        assert.isTrue(Option.isSome(exit) && Exit.isFailure(exit.value), JSON.stringify(exit))
        // The server is still there for others.
        assert.deepInclude(JSON.stringify(yield* call("quick")), '"output":"quick"')
      })
    )
  }
})
