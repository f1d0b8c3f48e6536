/** What the documents name is there. */
import { assert, describe, it } from "@effect/vitest"
import * as ModelPreset from "@turnstep/runtime/model/ModelPreset"
import * as Question from "@turnstep/runtime/model/demo/Question"
import * as fs from "node:fs"
import * as path from "node:path"

const repository = path.join(import.meta.dirname, "..")
const { scripts } = JSON.parse(fs.readFileSync(path.join(repository, "package.json"), "utf8"))
const documents = [
  "README.md",
  ...fs.readdirSync(path.join(repository, "docs"), { recursive: true, encoding: "utf8" }).map((name) => `docs/${name}`)
].filter((name) => name.endsWith(".md"))

/** A file, a folder, or the name of a suite. */
const isThere = (name: string): boolean =>
  ["", ".ts", ".test.ts"].some((end) => fs.existsSync(path.join(repository, name + end)))

/** All of a text that a pattern's first group finds in the documents. */
const found = (pattern: RegExp): ReadonlyArray<string> =>
  documents.flatMap((document) =>
    [...fs.readFileSync(path.join(repository, document), "utf8").matchAll(pattern)].map(([, text = ""]) => text)
  )

describe("The documents", () => {
  it("ask the demo only what it understands", () => {
    const questions = found(/"\/files ([^"]+)"/g)
    assert.isAbove(questions.length, 2)
    assert.isEmpty(questions.filter((question) => Question.read(question).word === undefined))
  })

  it("name every provider, its keys and its address", () => {
    const rows = found(/^\| (`\w+` \| `[A-Z_]+`.* \| .*) \|$/gm).map((row) => row.split(" | "))
    assert.deepStrictEqual(
      rows.map(([name, keys = "", address = "", variable]) => ({
        name,
        keys: keys.replace(", not needed", ""),
        needsKey: !keys.includes("not needed"),
        address: address.startsWith("none") ? undefined : address,
        variable
      })),
      ModelPreset.all.map((preset) => ({
        name: `\`${preset.name}\``,
        keys: preset.keyVariables.map((key) => `\`${key}\``).join(", "),
        needsKey: preset.needsKey,
        address: preset.baseUrl === undefined ? undefined : `\`${preset.baseUrl}\``,
        variable: `\`${preset.baseUrlVariable}\``
      }))
    )
  })

  it("say how long the first example is", () => {
    const lines = fs.readFileSync(path.join(repository, "examples/01-hello.ts"), "utf8").trimEnd().split("\n")
    assert.deepStrictEqual(found(/01-hello\.ts\) is (\d+) lines/g), [String(lines.length)])
  })

  it("keep the README on a page", () => {
    assert.isAtMost(fs.readFileSync(path.join(repository, "README.md"), "utf8").trimEnd().split("\n").length, 120)
  })

  for (const document of documents) {
    it(`name what is there: ${document}`, () => {
      const text = fs.readFileSync(path.join(repository, document), "utf8")
      const files = [...text.matchAll(/`((?:packages|test|bench|examples|scripts|docs)\/[\w./-]+)`/g)].map(
        ([, name = ""]) => name
      )
      const commands = [...text.matchAll(/npm run ([\w:]+)/g)].map(([, name = ""]) => name)
      assert.isEmpty(files.filter((name) => !isThere(name)))
      assert.isEmpty(commands.filter((name) => !(name in scripts)))
    })
  }
})
