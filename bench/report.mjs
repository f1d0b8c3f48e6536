// node bench/report.mjs [results/file.json …]: medians and ratios as Markdown, of the files named or of all results.
//
// A ratio is taken run by run, inside one invocation, and its median is shown: what disturbs the machine for a while
// disturbs both sides of it.
import { readdirSync, readFileSync } from "node:fs"
import { basename, join } from "node:path"
import { fileURLToPath } from "node:url"
import { median } from "./lib/stats.mjs"

const folder = fileURLToPath(new URL("results", import.meta.url))
const named = process.argv.slice(2)
const files =
  named.length > 0
    ? named
    : readdirSync(folder)
        .filter((file) => file.endsWith(".json"))
        .map((file) => join(folder, file))

/** A number as people read it; `–` for what was not measured. */
const show = (value, digits = 2) => {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–"
  if (Math.abs(value) >= 1000) return Math.round(value).toLocaleString("en")
  return value.toFixed(Math.abs(value) >= 100 ? 0 : digits)
}

const table = (head, rows) => {
  const line = (cells) => `| ${cells.join(" | ")} |`
  const rule = `|${head.map((_, i) => (i === 0 ? "---" : "---:")).join("|")}|`
  console.log([line(head), rule, ...rows.map(line)].join("\n") + "\n")
}

/** Reads one invocation: `value` is the median over its runs, `ratio` the median of the ratios to another driver. */
const reader = ({ results }) => {
  const runsOf = (name) => (results[name] ?? []).filter((run) => run.error === undefined && run.skipped === undefined)
  const pick = (run, get) => {
    try {
      return get(run)
    } catch {
      return undefined // this driver or this run has no such figure
    }
  }
  const value = (name, get) => median(runsOf(name).map((run) => pick(run, get)))
  const ratio = (name, base, get) => {
    const others = new Map(runsOf(base).map((run) => [run.run, pick(run, get)]))
    return median(runsOf(name).map((run) => pick(run, get) / others.get(run.run)))
  }
  const times = (name, base, get) => {
    const found = ratio(name, base, get)
    return found === null ? "–" : `${show(found)}×`
  }
  const names = Object.keys(results).filter((name) => runsOf(name).length > 0)
  return { names, value, times, count: (name) => runsOf(name).length }
}

const sizesIn = (invocation) => {
  const found = new Set()
  for (const runs of Object.values(invocation.results)) {
    for (const run of runs) for (const key of Object.keys(run)) if (/^\d+$/.test(key)) found.add(Number(key))
  }
  return [...found].toSorted((a, b) => a - b)
}

const growth = (invocation) => {
  const { names, value, times, count } = reader(invocation)
  const sizes = sizesIn(invocation)
  console.log(
    "Milliseconds per step outside the model server, and CPU milliseconds per step of the runtime's process.\n"
  )
  table(
    ["driver", "runs", ...sizes.flatMap((n) => [`N=${n}`, "× raw", "CPU", "× raw"])],
    names.map((name) => [
      name,
      count(name),
      ...sizes.flatMap((n) => [
        show(value(name, (run) => run[n].overheadPerStep)),
        times(name, "raw", (run) => run[n].overheadPerStep),
        show(value(name, (run) => run[n].cpuPerStep)),
        times(name, "raw", (run) => run[n].cpuPerStep)
      ])
    ])
  )
  const longest = sizes.at(-1)
  if (longest >= 100) {
    const marks = [10, 25, 50, 100, 200, 300, 400].filter((mark) => mark <= longest)
    console.log(`Milliseconds before the request of a step, by its place in a turn of ${longest} steps.\n`)
    table(
      ["driver", ...marks.map((mark) => `step ${mark}`), `step ${longest} × raw`],
      names.map((name) => [
        name,
        ...marks.map((mark) => show(value(name, (run) => run[longest].curve[mark]))),
        times(name, "raw", (run) => run[longest].curve[longest])
      ])
    )
  }
  const durable = names.filter((name) => value(name, (run) => run[sizes[0]].walPerStep) !== null)
  if (durable.length === 0) return
  console.log("What one more tool step costs in the database: commits, bytes of the write-ahead log, growth, CPU.\n")
  table(
    ["driver", "commits", "WAL bytes", ...sizes.flatMap((n) => [`WAL N=${n}`, `size N=${n}`, `PG CPU ms N=${n}`])],
    durable.map((name) => [
      name,
      show(value(name, (run) => run.commits.perStep)),
      show(
        value(name, (run) => run.commits.walPerStep),
        0
      ),
      ...sizes.flatMap((n) => [
        show(
          value(name, (run) => run[n].walPerStep),
          0
        ),
        show(
          value(name, (run) => run[n].sizePerStep),
          0
        ),
        show(value(name, (run) => run[n].pgCpuPerStep))
      ])
    ])
  )
}

const age = (invocation) => {
  const { names, value } = reader(invocation)
  const ages = sizesIn(invocation)
  const [youngest] = ages
  console.log("Milliseconds per step, and until the first request, of sessions with so many events on record.\n")
  table(
    ["driver", ...ages.flatMap((n) => [`step, ${show(n, 0)} events`, `× ${youngest}`, "first request"])],
    names.map((name) => [
      name,
      ...ages.flatMap((n) => [
        show(value(name, (run) => run[n].stepMs)),
        `${show(value(name, (run) => run[n].stepMs / run[youngest].stepMs))}×`,
        show(value(name, (run) => run[n].firstMs))
      ])
    ])
  )
}

const conc = (invocation) => {
  const { names, value, times, count } = reader(invocation)
  const levels = sizesIn(invocation)
  console.log("Steps per second of S sessions of ten steps at once.\n")
  const most = levels.at(-1)
  table(
    [
      "driver",
      "runs",
      ...levels.flatMap((s) => [`S=${s}`, "× raw", "CPU ms"]),
      `× raw-pg2 S=${most}`,
      `WAL bytes S=${most}`,
      `writes S=${most}`,
      `peak RSS MB S=${most}`
    ],
    names.map((name) => [
      name,
      count(name),
      ...levels.flatMap((s) => [
        show(
          value(name, (run) => run[s].stepsPerSecond),
          0
        ),
        times(name, "raw", (run) => run[s].stepsPerSecond),
        show(value(name, (run) => run[s].cpuPerStep))
      ]),
      times(name, "raw-pg2", (run) => run[most].stepsPerSecond),
      show(
        value(name, (run) => run[most].walPerStep),
        0
      ),
      show(value(name, (run) => run[most].writesPerStep)),
      show(
        value(name, (run) => run[most].peakRssMb),
        0
      )
    ])
  )
}

/** A table of plain figures: `columns` are heading, getter, digits, and whether the ratio to a base is shown. */
const plain = (invocation, base, columns) => {
  const { names, value, times, count } = reader(invocation)
  table(
    ["driver", "runs", ...columns.flatMap(({ head, isCompared }) => (isCompared ? [head, `× ${base}`] : [head]))],
    names.map((name) => [
      name,
      count(name),
      ...columns.flatMap(({ get, digits, isCompared }) => {
        const cell = show(value(name, get), digits)
        return isCompared ? [cell, times(name, base, get)] : [cell]
      })
    ])
  )
}

const column = (head, get, digits = 0, isCompared = false) => ({ head, get, digits, isCompared })

const printers = {
  growth,
  age,
  conc,
  mem: (invocation) =>
    plain(invocation, "raw", [
      column("RSS MB", (run) => run.baseRssMb),
      column("heap MB", (run) => run.baseHeapMb, 1),
      column("KB per idle session (20 messages)", (run) => run.idleKb, 1, true),
      column("KB per session waiting for the model", (run) => run.activeKb, 1, true)
    ]),
  delta: (invocation) =>
    plain(invocation, "raw", [
      column("delta p50 µs", (run) => run.p50Us, 0, true),
      column("p99 µs", (run) => run.p99Us),
      column("burst µs per delta", (run) => run.burstUsPerDelta, 1, true),
      column("burst CPU µs", (run) => run.burstCpuUsPerDelta, 1)
    ]),
  cold: (invocation) =>
    plain(invocation, "raw", [
      column("boot ms", (run) => run.boot),
      column("import ms", (run) => run.import),
      column("set-up ms", (run) => run.setUp),
      column("first model request ms", (run) => run.firstRequest, 0, true),
      column("one step done ms", (run) => run.done),
      column("RSS MB", (run) => run.rssMb)
    ]),
  recover: (invocation) =>
    plain(
      invocation,
      "raw-pg",
      [20, 400].flatMap((n) => [
        column(`kill to model request ms, N=${n}`, (run) => run[n].resumedMs, 0, true),
        column("set-up ms", (run) => run[n].setUp),
        column("model calls repeated", (run) => run[n].repeatedModelCalls),
        column("tools repeated", (run) => run[n].repeatedTools)
      ])
    )
}

for (const file of files) {
  const invocation = JSON.parse(readFileSync(file, "utf8"))
  const print = printers[invocation.scenario]
  if (print === undefined) continue
  const { machine, load } = invocation
  console.log(`### ${basename(file, ".json")}\n`)
  print(invocation)
  const loads =
    load.length === 0 ? "" : `, load average ${Math.min(...load).toFixed(1)}–${Math.max(...load).toFixed(1)}`
  console.log(`${invocation.at}, ${machine.cores} × ${machine.cpu}, Node ${machine.node}${loads}.\n`)
  for (const [name, runs] of Object.entries(invocation.results)) {
    for (const run of runs) if (run.error !== undefined) console.log(`- ${name}: ${String(run.error).split("\n")[0]}`)
  }
}
