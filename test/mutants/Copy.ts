/**
 * A copy of the repository that can be spoilt: its own sources, the same dependencies.
 *
 * Owns: what is copied, and that the copy finds its own packages. Does not own: what is done in it (`Trial`).
 */
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"

const repository = path.join(import.meta.dirname, "../..")

/** What tests read. */
const parts = ["packages", "test", "package.json", "tsconfig.base.json", "tsconfig.json", "vitest.config.ts"]

/** Packages of this repository are linked into `node_modules`; the links of a copy lead into the copy. */
const own = "@turnstep"

export interface Copy {
  readonly directory: string
  /** Changes a file of the copy. */
  readonly edit: (file: string, change: (source: string) => string) => void
  readonly remove: () => void
}

/** Makes a copy in a temporary directory. */
export const make = (): Copy => {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), "turnstep-mutant-"))
  const isSource = (name: string) => !["node_modules", "dist"].includes(path.basename(name))
  for (const part of parts) {
    fs.cpSync(path.join(repository, part), path.join(directory, part), { recursive: true, filter: isSource })
  }
  const modules = path.join(directory, "node_modules")
  fs.mkdirSync(path.join(modules, own), { recursive: true })
  for (const name of fs.readdirSync(path.join(repository, "node_modules"))) {
    if (name === own || name.startsWith(".vi")) continue
    fs.symlinkSync(path.join(repository, "node_modules", name), path.join(modules, name))
  }
  for (const name of fs.readdirSync(path.join(directory, "packages"))) {
    fs.symlinkSync(path.join(directory, "packages", name), path.join(modules, own, name))
  }
  return {
    directory,
    edit: (file, change) => {
      const at = path.join(directory, file)
      fs.writeFileSync(at, change(fs.readFileSync(at, "utf8")))
    },
    remove: () => fs.rmSync(directory, { recursive: true, force: true })
  }
}
