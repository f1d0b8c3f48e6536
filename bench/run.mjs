// The benchmark: `npm run bench -- --scenario growth`. README.md beside this file says what is measured.
import { fork } from "node:child_process"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { cpus, loadavg, tmpdir, totalmem } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import { Bench, scenarios } from "./lib/bench.mjs"
import * as Drivers from "./lib/drivers.mjs"
import * as Postgres from "./lib/postgres.mjs"

const { values: options } = parseArgs({
  options: {
    scenario: { type: "string", default: "growth" },
    peer: { type: "string" },
    drivers: { type: "string", multiple: true, default: [] },
    runs: { type: "string" },
    n: { type: "string" },
    sessions: { type: "string" },
    quick: { type: "boolean", default: false },
    slow: { type: "boolean", default: false },
    built: { type: "boolean", default: false },
    latency: { type: "string", default: "0" },
    budget: { type: "string", default: "520" },
    tag: { type: "string" },
    "pg-url": { type: "string" }
  }
})

const here = fileURLToPath(new URL(".", import.meta.url))
const startedAt = Date.now()
const elapsed = () => (Date.now() - startedAt) / 1000

if (!scenarios.includes(options.scenario)) {
  console.error(`no scenario ${options.scenario}; there are ${scenarios.join(", ")}`)
  process.exit(2)
}
const urls = Drivers.find([join(here, "drivers"), ...options.drivers], options.peer)
const runs = Number(options.runs ?? (options.quick ? 1 : 5))

const model = fork(join(here, "lib/model.mjs"), { env: { ...process.env, MODEL_LATENCY_MS: options.latency } })
const { port } = await new Promise((resolve) => model.once("message", resolve))
const scratch = mkdtempSync(join(tmpdir(), "turnstep-bench-files-"))
const bench = new Bench({ options, urls, model: { url: `http://127.0.0.1:${port}`, pid: model.pid }, scratch })
const given = options["pg-url"] ?? process.env.DATABASE_URL
const server = async () => (given === undefined ? Postgres.start() : { url: given, stop: async () => undefined })

const stop = async () => {
  await bench.stop()
  if (model.connected) model.disconnect()
  rmSync(scratch, { recursive: true, force: true })
}
process.on("SIGINT", () => void stop().then(() => process.exit(130)))

const names = [...urls.keys()]
const results = Object.fromEntries(names.map((name) => [name, []]))
const load = []
try {
  await bench.describe()
  await bench.prepare(server)
  // Not measured: whether each driver does the job at all. It also creates the tables.
  const sound = []
  for (const name of names) {
    const seen = await bench.check(name)
    if (seen.error === undefined) sound.push(name)
    else results[name].push(seen)
    if (seen.error !== undefined || options.scenario === "check") console.log(name, JSON.stringify(seen))
  }
  rounds: for (let run = 0; run < runs && options.scenario !== "check"; run++) {
    // Interleaved and rotated: what disturbs the machine disturbs every driver alike.
    for (let i = 0; i < sound.length; i++) {
      if (elapsed() > Number(options.budget)) {
        console.log(`the budget of ${options.budget} s is spent in run ${run + 1}`)
        break rounds
      }
      const name = sound[(i + run) % sound.length]
      load.push(loadavg()[0])
      const from = elapsed()
      const seen = { run, ...(await bench.measure(name, run)) }
      results[name].push(seen)
      if (run === 0 || seen.error)
        console.log(name, `${(elapsed() - from).toFixed(1)} s`, JSON.stringify(seen).slice(0, 300))
    }
  }
} finally {
  await stop()
}

const machine = {
  cpu: cpus()[0]?.model,
  cores: cpus().length,
  memoryGb: Math.round(totalmem() / 2 ** 30),
  node: process.version
}
const labels = Object.fromEntries(names.map((name) => [name, bench.drivers.get(name).label]))
const file = join(here, "results", `${options.scenario}${options.tag === undefined ? "" : `-${options.tag}`}.json`)
mkdirSync(join(here, "results"), { recursive: true })
writeFileSync(
  file,
  JSON.stringify(
    {
      scenario: options.scenario,
      at: new Date().toISOString(),
      machine,
      options,
      seconds: elapsed(),
      load,
      labels,
      results
    },
    null,
    1
  )
)
console.log(`wrote ${file} after ${elapsed().toFixed(0)} s; node bench/report.mjs turns it into tables`)
process.exit(
  Object.values(results)
    .flat()
    .some((seen) => seen.error !== undefined)
    ? 1
    : 0
)
