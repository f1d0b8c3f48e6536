import { assert, describe, it, layer } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as MemoryStore from "@turnstep/core/MemoryStore"
import * as Agent from "@turnstep/runtime/Agent"
import * as ToolList from "@turnstep/runtime/mcp/ToolList"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Mcp from "@turnstep/runtime/tools/Mcp"
import * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as McpServers from "../../fixtures/McpServers.ts"
import * as Stores from "../../fixtures/Stores.ts"
import * as World from "../../fixtures/World.ts"

const descriptor = (
  name: string,
  description?: string,
  properties: Record<string, { readonly description: string }> = {}
) => ({
  name,
  ...(description === undefined ? {} : { description }),
  inputSchema: { type: "object" as const, properties }
})

const listOf = (descriptors: ReadonlyArray<ReturnType<typeof descriptor>>, rules: ToolList.Rules = {}) =>
  ToolList.make("s", descriptors, rules, undefined)

const described = (list: ToolList.ToolList, name: string) =>
  Tool.getDescription((list.tools.get(name) ?? assert.fail(name)).tool as Tool.Any) ?? ""

describe("what is taken of a server", () => {
  it("is a thousand tools: the first, or those the application names", () => {
    const many = Array.from({ length: 1_234 }, (_, n) => descriptor(`t${n}`))
    const list = listOf(many)
    assert.strictEqual(list.tools.size, 1_000)
    assert.isTrue(list.tools.has("t999"))
    assert.deepStrictEqual(list.shortened, ["234 tools are left out: one server may have 1000"])
    const named = listOf(many, { tools: ["t1233"] })
    assert.deepStrictEqual([...named.tools.keys()], ["t1233"])
    assert.isEmpty(named.shortened)
  })

  it("is the beginning of a long description, cut between characters", () => {
    const family = "👨‍👩‍👧"
    const list = listOf([
      descriptor("fits", "x".repeat(4_096)),
      descriptor("long", "x".repeat(5_000)),
      descriptor("emoji", `${"x".repeat(4_088)}${family.repeat(5)}`)
    ])
    assert.strictEqual(described(list, "fits"), "x".repeat(4_096))
    assert.strictEqual(described(list, "long"), `${"x".repeat(4_092)} […]`)
    assert.strictEqual(described(list, "emoji"), `${"x".repeat(4_088)} […]`)
    assert.deepStrictEqual(list.shortened, ["2 tools are described in more than 4096 characters, and cut"])
    // A change beyond the cut is a change all the same: it is the tool that is pinned, not what is shown of it.
    assert.notStrictEqual(list.digest, listOf([descriptor("long", `${"x".repeat(5_000)}y`)]).digest)
  })

  it("is no tool whose schema is larger than what it could be asked with", () => {
    const list = listOf([
      descriptor("put", "Puts", { text: { description: "x".repeat(65_536) } }),
      descriptor("get", "Gets")
    ])
    assert.deepStrictEqual([...list.tools.keys()], ["get"])
    assert.deepStrictEqual(list.shortened, ["1 tool is left out: a schema may have 65536 characters"])
  })
})

layer(Layer.merge(MemoryStore.layer, NodeServices.layer), Stores.live)("a server with too many tools", (it) => {
  it.effect("has the first thousand offered to the model, and the log tells of the others", () =>
    Effect.gen(function* () {
      const { endpoint } = yield* McpServers.scripted({ MCP_MANY: "1000" })
      const log = McpServers.makeLog()
      const server = Mcp.toolkit("s", endpoint)
      const world = yield* World.make({
        respond: StrictProvider.script([StrictProvider.text("done")]),
        agents: [Agent.make("a", { instructions: "i", sources: [server] })],
        services: server.layer.pipe(Layer.provide(log.layer))
      })
      yield* log.tried("s")
      const session = yield* world.sessions.open()
      yield* session.run("go")
      assert.strictEqual(world.provider.requests[0]?.toolNames.length, 1_000)
      const told = log.lines.filter((line) => line.includes("offers more than is taken of it"))
      assert.strictEqual(told.length, 1)
      assert.match(
        told[0] ?? "",
        /\d+ tools are left out: one server may have 1000; 1 tool is described in more than 4096/
      )
    })
  )
})
