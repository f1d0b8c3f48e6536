// Writes the bill of materials (CycloneDX) of what the server's package brings along, from the lock file, into its `dist`.
import { spawnSync } from "node:child_process"
import { mkdirSync, writeFileSync } from "node:fs"

const npm = process.platform === "win32" ? "npm.cmd" : "npm"
const args = ["sbom", "--package-lock-only", "--omit=dev", "--sbom-format=cyclonedx", "--workspace=packages/server"]
const run = spawnSync(npm, args, {
  encoding: "utf8",
  maxBuffer: 64 * 1024 * 1024,
  shell: process.platform === "win32",
  stdio: ["ignore", "pipe", "inherit"]
})
if (run.status !== 0) process.exit(run.status ?? 1)
mkdirSync("packages/server/dist", { recursive: true })
writeFileSync("packages/server/dist/sbom.cdx.json", run.stdout)
