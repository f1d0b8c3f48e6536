// Finding drivers: one module per runtime, in one or more folders.
import { readdirSync } from "node:fs"
import { resolve } from "node:path"
import { pathToFileURL } from "node:url"

/** The URLs of drivers by name: all of the first folder, or those of a comma-separated list. The first folder wins. */
export const find = (folders, wanted) => {
  const known = new Map()
  for (const [place, folder] of folders.entries()) {
    for (const file of readdirSync(folder)) {
      const name = file.replace(/\.(mjs|js|ts)$/, "")
      if (name === file || known.has(name)) continue
      known.set(name, { url: pathToFileURL(resolve(folder, file)).href, isOwn: place === 0 })
    }
  }
  const names = wanted?.split(",") ?? [...known].filter(([, driver]) => driver.isOwn).map(([name]) => name)
  return new Map(
    names.map((name) => {
      const driver = known.get(name)
      if (driver === undefined)
        throw new Error(`no driver ${name}; there are ${[...known.keys()].toSorted().join(", ")}`)
      return [name, driver.url]
    })
  )
}
