import { assert, describe, it } from "@effect/vitest"
import * as fs from "node:fs"
import * as path from "node:path"
import * as Mutants from "./Mutants.ts"

const repository = path.join(import.meta.dirname, "../..")

describe("A mutant", () => {
  for (const mutant of Mutants.mutants) {
    it(`still applies: ${mutant.name}`, () => {
      const source = fs.readFileSync(path.join(repository, mutant.file), "utf8")
      assert.notStrictEqual(Mutants.apply(mutant, source), source)
      for (const suite of mutant.suites) assert.isTrue(fs.existsSync(path.join(repository, suite)), suite)
    })
  }

  it("has a name of its own", () => {
    const names = Mutants.mutants.map(({ name }) => name)
    assert.lengthOf(names, new Set(names).size)
  })
})
