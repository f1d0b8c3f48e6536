// Makes a fresh clone usable on Node 18 or newer: installs the locked packages, and with them the Node the scripts run on.
// npm puts node_modules/.bin first in PATH, so whatever script follows this one already uses that Node.
import { spawnSync } from "node:child_process"
import { existsSync, readFileSync, statSync } from "node:fs"
import { join } from "node:path"

const NODE_FLOOR = [22, 19]
const installed = "node_modules/.package-lock.json"
const npm = process.platform === "win32" ? "npm.cmd" : "npm"

const isFresh = existsSync(installed) && statSync(installed).mtimeMs >= statSync("package-lock.json").mtimeMs
if (!isFresh) {
  console.error(
    "turnstep: installing the locked packages (once; about 700 MB, of which 190 MB are Node and 100 MB PostgreSQL)"
  )
  // No package needs its install script: the only ones make links that the tests make where they are missing.
  const run = spawnSync(npm, ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"], {
    stdio: ["ignore", "inherit", "inherit"],
    shell: process.platform === "win32"
  })
  if (run.status !== 0) {
    console.error(
      "turnstep: `npm ci` failed. Check the network and the npm registry setting, then run the command again."
    )
    process.exit(run.status ?? 1)
  }
}

// npm puts its folder of commands first in PATH for the scripts it runs; run by hand, this file looks there itself.
const own = join("node_modules", ".bin", process.platform === "win32" ? "node.cmd" : "node")
const node = existsSync(own) ? own : "node"
const version = spawnSync(node, ["--version"], { encoding: "utf8", shell: process.platform === "win32" }).stdout.trim()
const [major, minor] = version.slice(1).split(".").map(Number)
if (major < NODE_FLOOR[0] || (major === NODE_FLOOR[0] && minor < NODE_FLOOR[1])) {
  const { engines } = JSON.parse(readFileSync("packages/server/package.json", "utf8"))
  console.error(
    `turnstep: needs Node ${engines.node}, found ${version}. No Node package exists for ${process.platform}-${process.arch}: install Node 24.`
  )
  process.exit(1)
}
