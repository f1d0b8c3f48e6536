/** What a server of tools sends that is not as it could be wished: broken tools, details beside the text, attempts again. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, it } from "@effect/vitest"
import * as Mcp from "@turnstep/runtime/tools/Mcp"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as McpServers from "../../fixtures/McpServers.ts"

const run = Effect.fnUntraced(function* (name: string, key: string) {
  const { endpoint } = yield* McpServers.scripted()
  const server = Mcp.toolkit("s", endpoint)
  return yield* Effect.gen(function* () {
    const tools = yield* server.tools
    const tool = tools.find(({ tool }) => tool.name === `s__${name}`) ?? assert.fail(name)
    return yield* tool.handler.run({}, key, () => Effect.void)
  }).pipe(Effect.provide(server.layer))
}, Effect.provide(NodeServices.layer))

it.live("a tool that nobody could use is left out and named, and takes no other away", () =>
  Effect.gen(function* () {
    const { endpoint } = yield* McpServers.scripted({ MCP_BROKEN: "1" })
    const log = McpServers.makeLog()
    const server = Mcp.toolkit("s", endpoint)
    yield* Effect.gen(function* () {
      const names = (yield* server.tools).map(({ tool }) => tool.name)
      assert.include(names, "s__echo")
      assert.isEmpty(names.filter((name) => /no_|root_choice|bad_/.test(name)))
      const { shortened } = yield* server.status
      for (const fault of [
        "no_schema has no inputSchema",
        'no_type has an inputSchema that is not of "type": "object"',
        'root_choice has "oneOf" at the root',
        "no_properties has properties that are no schemas",
        'bad_required has a "required"',
        "bad_description is not of the form",
        "a tool has no name"
      ]) {
        assert.isTrue(
          shortened.some((line) => line.includes(`the tool ${fault}`) || line.includes(fault)),
          `${fault} in ${shortened.join("; ")}`
        )
        assert.isTrue(
          log.lines.some((line) => line.includes(JSON.stringify(fault).slice(1, -1))),
          fault
        )
      }
    }).pipe(Effect.provide(Layer.provide(server.layer, log.layer)))
  }).pipe(Effect.provide(NodeServices.layer))
)

it.live("the details of a structured result are read by the model beside its text, also of a failure", () =>
  Effect.gen(function* () {
    const rows = yield* run("rows", "k")
    assert.strictEqual(rows.modelText, 'Found 2 rows\n{"rows":[{"id":1},{"id":2}]}')
    const rejected = yield* run("rejected", "k")
    assert.isTrue(rejected.isFailure)
    assert.strictEqual(rejected.modelText, 'Rejected\n{"field":"email","why":"taken"}')
  })
)

it.live("what the text has already is not said twice", () =>
  Effect.gen(function* () {
    assert.strictEqual((yield* run("told_twice", "k")).modelText, 'Two:\n{"a":  1}')
  })
)

it.live("every attempt of a call carries the key of the call", () =>
  Effect.gen(function* () {
    const { endpoint, received } = yield* McpServers.scripted()
    const server = Mcp.toolkit("s", endpoint)
    yield* Effect.gen(function* () {
      const put = (yield* server.tools).find(({ tool }) => tool.name === "s__put") ?? assert.fail("put")
      for (const key of ["s/c1", "s/c1", "s/c2"]) yield* put.handler.run({}, key, () => Effect.void)
    }).pipe(Effect.provide(server.layer))
    const calls = (yield* received).filter(({ method }) => method === "tools/call")
    assert.deepStrictEqual(
      calls.map(({ params }) => params?._meta?.["turnstep/call-key"]),
      ["s/c1", "s/c1", "s/c2"]
    )
  }).pipe(Effect.provide(NodeServices.layer))
)
