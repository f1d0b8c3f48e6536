#!/usr/bin/env node
// Starts the command line on a Node that can run it: from dist where the package is built, from source in a checkout.
// Plain JavaScript for old Nodes too: everything newer is loaded after the version check.
import { spawn } from "node:child_process"
import { existsSync, lstatSync, mkdirSync } from "node:fs"
import { createRequire } from "node:module"
import * as module from "node:module"
import { homedir } from "node:os"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { setFlagsFromString } from "node:v8"

const FLOOR = [22, 19]
const home = dirname(dirname(fileURLToPath(import.meta.url)))

const [major, minor] = process.versions.node.split(".").map(Number)
if (major > FLOOR[0] || (major === FLOOR[0] && minor >= FLOOR[1])) {
  // A large answer leaves a large heap behind: by default V8 lets it double before it collects.
  setFlagsFromString("--heap-growing-percent=30")
  const cache = compileCache()
  if (cache !== undefined) module.enableCompileCache(cache)
  await start()
} else {
  restart()
}

/**
 * A folder for compiled code that only this user can write, or none. Node's own default lies in the shared temporary folder,
 * where whoever comes first decides which code runs.
 */
function compileCache() {
  if (module.enableCompileCache === undefined || !existsSync(homedir())) return undefined
  const above = join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "turnstep")
  const folder = join(above, "compiled")
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    return [above, folder].every(isOurs) ? folder : undefined
  } catch {
    return undefined
  }
}

function isOurs(folder) {
  const info = lstatSync(folder)
  if (!info.isDirectory()) return false
  return process.getuid === undefined || (info.uid === process.getuid() && (info.mode & 0o022) === 0)
}

/** A checkout has the sources of its packages beside each other; a published package has none of a workspace around it. */
async function start() {
  const isCheckout = existsSync(join(home, "../../packages/server/src/main.ts"))
  if (!isCheckout) return import(new URL("../dist/main.js", import.meta.url).href)
  module.registerHooks({
    resolve: (specifier, context, next) =>
      specifier.startsWith("@turnstep/")
        ? next(specifier, { ...context, conditions: [...(context.conditions || []), "@turnstep/source"] })
        : next(specifier, context)
  })
  return import(new URL("../src/main.ts", import.meta.url).href)
}

/** Runs the same command on the Node that came with the packages. */
function restart() {
  const node = shipped()
  if (node === undefined) {
    console.error(
      `turnstep: needs Node ${FLOOR.join(".")} or newer, and this is ${process.versions.node}. Install Node 24 from https://nodejs.org.`
    )
    process.exit(1)
  }
  const child = spawn(node, [...process.execArgv, ...process.argv.slice(1)], { stdio: "inherit" })
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal))
  child.on("exit", (code) => process.exit(code === null ? 1 : code))
}

function shipped() {
  const platform = process.platform === "win32" ? "win" : process.platform
  const name = `node-${platform}-${process.arch}`
  const file = process.platform === "win32" ? "bin/node.exe" : "bin/node"
  try {
    const found = join(dirname(createRequire(import.meta.url).resolve(`${name}/package.json`)), file)
    return existsSync(found) ? found : undefined
  } catch {
    return undefined
  }
}
