import { assert, describe, it } from "@effect/vitest"
import * as ModelName from "@turnstep/runtime/mcp/ModelName"
import * as fc from "fast-check"

const server = fc.stringMatching(/^[A-Za-z0-9](?:[A-Za-z0-9_-]{0,30}[A-Za-z0-9])?$/)
/** Names that are alike, long, strange or plain. */
const tool = fc.oneof(
  fc.string({ minLength: 1, unit: "grapheme" }),
  fc.string({ minLength: 60, maxLength: 70, unit: fc.constantFrom("a", "b", "/", ".") }),
  fc.constantFrom("a.b", "a/b", "a_b", "a b")
)

describe("The names of a server's tools", () => {
  it("are names for every provider, one for each tool, whatever the server calls them", () => {
    fc.assert(
      fc.property(server, fc.uniqueArray(tool, { maxLength: 20 }), (name, tools) => {
        assert.isTrue(ModelName.isServerName(name))
        const names = ModelName.all(name, tools)
        assert.deepStrictEqual([...names.keys()], tools)
        assert.strictEqual(new Set(names.values()).size, tools.length)
        for (const given of names.values()) assert.match(given, /^[a-zA-Z0-9_-]{1,64}$/)
      })
    )
  })

  it("are those of the server where they can be", () => {
    assert.deepStrictEqual(
      [...ModelName.all("files", ["read_file", "get-info"]).values()],
      ["files__read_file", "files__get-info"]
    )
  })

  it("do not change with the tools beside them, unless those have the same name", () => {
    const long = "x".repeat(80)
    assert.strictEqual(ModelName.all("s", [long]).get(long), ModelName.all("s", ["a", long, "b"]).get(long))
  })
})
