/** What the documents name is there. */
import { assert, describe, it } from "@effect/vitest"
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

describe("The documents", () => {
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
