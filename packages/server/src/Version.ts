/**
 * The version of this package, as it is published.
 */
import { readFileSync } from "node:fs"

export const version: string = (() => {
  const text = readFileSync(new URL("../package.json", import.meta.url), "utf8")
  const { version } = JSON.parse(text) as { readonly version: string }
  return version
})()
