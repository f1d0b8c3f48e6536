// Checks the types of the whole tree. The compiler with Effect's own diagnostics is published for Linux on x64; elsewhere
// the plain compiler of the same version does it, without them.
import { spawnSync } from "node:child_process"
import { existsSync } from "node:fs"

const withEffect = "node_modules/@effect/tsgo-linux-x64/lib/tsc"
const isThere = existsSync(withEffect)
if (!isThere) console.error("typecheck: without Effect diagnostics, their compiler is not published for this platform")
const run = spawnSync(isThere ? withEffect : "tsc", ["-p", "tsconfig.json"], { stdio: "inherit", shell: !isThere })
process.exit(run.status ?? 1)
