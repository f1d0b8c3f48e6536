// One invocation: a database and a folder per driver, a child process per measurement.
import { spawn } from "node:child_process"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { now } from "./scenarios.mjs"

export const scenarios = ["growth", "age", "conc", "mem", "delta", "cold", "recover", "check"]

const child = fileURLToPath(new URL("child.mjs", import.meta.url))
const sleep = (ms) => new Promise((done) => setTimeout(done, ms))

/** Turns of each length in one measurement. */
const turnsOf = { 10: 15, 100: 2, 400: 1 }
/** Rounds of each number of sessions in one measurement. */
const roundsOf = { 1: 15, 16: 3, 128: 1 }

export class Bench {
  constructor({ options, urls, model, scratch }) {
    this.options = options
    this.urls = urls
    /** What is known of each driver: label, durable, canRecover. */
    this.drivers = new Map()
    this.model = model
    this.scratch = scratch
    this.running = new Set()
    this.settings = settingsOf(options)
  }

  /** Asks the drivers what they are. They are loaded in processes of their own, this one stays as it is. */
  async describe() {
    for (const name of this.urls.keys()) {
      const told = await this.spawn(name, { scenario: "describe" }).done
      if (told.error !== undefined) throw new Error(`driver ${name}: ${told.error}`)
      this.drivers.set(name, told)
    }
  }

  /** Gives every driver with `durable: true` an empty database; `start` is asked for a server if one is needed. */
  async prepare(start) {
    const durable = [...this.drivers].filter(([, driver]) => driver.durable === true)
    if (durable.length === 0) return
    this.postgres = await start()
    const { Client } = await import("pg")
    this.admin = new Client({ connectionString: `${this.postgres.url}/postgres` })
    await this.admin.connect()
    for (const [name] of durable) {
      await this.admin.query(`drop database if exists ${databaseOf(name)} with (force)`)
      await this.admin.query(`create database ${databaseOf(name)}`)
    }
  }

  /** Whether a driver does the job; a refusal of the model is told with its words. */
  async check(name) {
    await this.ask("/reset", "POST")
    const seen = await this.spawn(name, { scenario: "check", run: "check" }).done
    const { refused, lastRefusal } = await this.ask("/totals")
    return refused === 0 ? seen : { ...seen, error: seen.error ?? "refused", lastRefusal }
  }

  async measure(name, run) {
    await this.ask("/reset", "POST")
    const { scenario } = this.options
    if (scenario === "recover") return this.recover(name, run)
    if (scenario === "age" && !this.drivers.get(name).canAge) return { skipped: "the driver has no record that ages" }
    const result = await this.spawn(name, { scenario, run: `r${run}`, ...this.settings }).done
    const wantsCommits = scenario === "growth" && run === 0 && this.drivers.get(name).durable === true
    return wantsCommits && result.error === undefined ? { ...result, commits: await this.commits(name) } : result
  }

  /**
   * Commits and WAL bytes that one more tool step costs: two processes run one turn each, and the difference is what
   * their difference in length costs. The counters are exact once the connections of a process are closed.
   */
  async commits(name) {
    const cost = async (n) => {
      const before = await this.counters(name)
      const { error } = await this.spawn(name, { scenario: "commits", run: `c${n}`, n }).done
      if (error !== undefined) throw new Error(error)
      await sleep(300)
      const after = await this.counters(name)
      return {
        commits: after.commits - before.commits,
        wal: after.wal - before.wal,
        rollbacks: after.rollbacks - before.rollbacks
      }
    }
    const short = await cost(10)
    const long = await cost(60)
    return {
      perStep: (long.commits - short.commits) / 50,
      walPerStep: (long.wal - short.wal) / 50,
      rollbacks: short.rollbacks + long.rollbacks
    }
  }

  async counters(name) {
    const { rows } = await this.admin.query(
      `select xact_commit::float8 as commits, xact_rollback::float8 as rollbacks,
              (pg_current_wal_insert_lsn() - '0/0')::float8 as wal
       from pg_stat_database where datname = $1`,
      [databaseOf(name)]
    )
    return rows[0]
  }

  /** Kills a process while its model call hangs, and lets a new one finish the turn. */
  async recover(name, run) {
    if (!this.drivers.get(name).canRecover) return { skipped: "the driver cannot recover" }
    const result = {}
    for (const [n, at] of this.options.quick
      ? [[20, 10]]
      : [
          [20, 10],
          [400, 390]
        ]) {
      const id = `rec${run}n${n}${name.replace(/\W/g, "")}`
      const arrivals = () => this.ask(`/stats?arrivals=1&id=${id}`)
      const victim = this.spawn(name, { scenario: "victim", run: `r${run}`, id, n, at })
      let seen = []
      for (let i = 0; i < 900 && !seen.some(([, step]) => step === at); i++) {
        await sleep(100)
        seen = await arrivals()
      }
      await sleep(150) // writes on their way may land: the kill is a fair one
      victim.kill()
      await victim.done
      await this.spawn(name, { scenario: "release" }).done // what only time would free, a lease, is freed now
      const killed = now()
      const heir = await this.spawn(name, { scenario: "recover", run: `r${run}`, id, n }).done
      const after = (await arrivals()).slice(seen.length)
      result[n] = {
        ...heir,
        resumedMs: after.length === 0 ? null : after[0][0] - killed,
        repeatedModelCalls: after.length - (n - at + 1),
        repeatedTools: (heir.tools ?? 0) - (n - at)
      }
    }
    return result
  }

  /** Starts a child process; `done` is its result, or what went wrong. */
  spawn(name, settings) {
    const env = {
      driver: this.urls.get(name),
      model: this.model.url,
      modelPid: this.model.pid,
      pgUrl: this.postgres === undefined ? undefined : `${this.postgres.url}/${databaseOf(name)}`,
      pgPid: this.postgres?.pid,
      dir: join(this.scratch, name),
      spawnedAt: now(),
      ...settings
    }
    const condition = this.options.built ? [] : ["--conditions=@turnstep/source"]
    const started = spawn(process.execPath, ["--expose-gc", "--no-warnings", ...condition, child], {
      env: { ...process.env, NODE_ENV: "production", OPENAI_API_KEY: "none", BENCH: JSON.stringify(env) },
      stdio: ["ignore", "ignore", "pipe", "ipc"]
    })
    this.running.add(started)
    const kill = () => started.kill("SIGKILL")
    const done = new Promise((resolve) => {
      let said = ""
      let result
      const limit = Number(this.options.limit ?? 120) * 1000
      const timer = setTimeout(() => {
        result = { error: `not done after ${limit / 1000} s` }
        kill()
      }, limit)
      started.stderr.on("data", (text) => {
        said = (said + text).slice(-800)
      })
      started.on("message", (message) => {
        result = message.result
      })
      started.on("exit", () => {
        clearTimeout(timer)
        this.running.delete(started)
        resolve(result ?? { error: `no result: ${said}` })
      })
    })
    return { done, kill }
  }

  async ask(path, method = "GET") {
    return (await fetch(this.model.url + path, { method })).json()
  }

  async stop() {
    for (const started of this.running) started.kill("SIGKILL")
    await this.admin?.end()
    await this.postgres?.stop()
  }
}

const databaseOf = (name) => `bench_${name.replace(/\W/g, "_")}`

const settingsOf = ({ scenario, quick, slow, n, sessions }) => {
  // `slow`: for runtimes that take 100 ms and more per step, one small turn of each kind.
  const lengths = (n ?? (quick ? "10,100" : "10,100,400")).split(",").map(Number)
  const levels = (sessions ?? (quick || slow ? "1,16" : "1,16,128")).split(",").map(Number)
  const warm = slow ? { warm: 1 } : {}
  switch (scenario) {
    case "growth":
      return { ...warm, sizes: lengths.map((each) => [each, slow || (quick && each > 10) ? 1 : (turnsOf[each] ?? 1)]) }
    case "age":
      return { ...warm, ages: quick ? [0, 1_000] : [0, 1_000, 100_000] }
    case "conc":
      return { ...warm, levels: levels.map((each) => [each, slow ? 1 : (roundsOf[each] ?? 1)]) }
    case "mem":
      return slow ? { ...warm, idle: 16, active: 16 } : {}
    default:
      return warm
  }
}
