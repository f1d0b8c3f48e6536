// What is measured. Each scenario runs in a fresh process and returns one JSON value.
import { finalText } from "./script.mjs"
import { median, percentile } from "./stats.mjs"
import * as Probe from "./probe.mjs"

export const now = () => Number(process.hrtime.bigint()) / 1e6
const sleep = (ms) => new Promise((done) => setTimeout(done, ms))

/**
 * The tools of a scenario. `bench`: `{ env, driver, ctx, job, times }`, where `env` is what the parent sent, `job` the
 * module with the driver's tool counter, and `times` when this process had booted, imported and set up.
 */
const kit = ({ env, driver, ctx, job }) => {
  let minted = 0
  const sessionId = () => `${env.run}x${process.pid}x${minted++}`
  const ask = async (path) => (await fetch(env.model + path)).json()
  const turn = async (session, id, n, extra, onDelta) => {
    const text = await driver.turn(ctx, session, job.prompt(id, n, extra), onDelta)
    const isTimed = extra?.includes("gap=") === true
    if (!isTimed && !String(text).startsWith(finalText(id, n))) throw new Error(`wrong final text: ${text}`)
  }
  /** A new session with one turn of `n` steps. */
  const fresh = async (n, extra, onDelta) => {
    const id = sessionId()
    const session = await driver.open(ctx, id)
    const from = now()
    await turn(session, id, n, extra, onDelta)
    return { id, session, from, to: now() }
  }
  const warmUp = async (turns) => {
    for (let i = 0; i < (env.warm ?? turns); i++) await fresh(10)
  }
  /** Costs per step of `work`, which must run the tool exactly `steps` times. */
  const measure = async (steps, work) => {
    const database = driver.durable === true ? await Probe.database(env.pgUrl, env.pgPid) : undefined
    const before = await database?.read()
    const toolRuns = job.counter.tool
    const modelCpu = Probe.cpuOf(env.modelPid)
    const cpu = process.cpuUsage()
    const from = now()
    const extra = await work()
    const wall = now() - from
    const used = process.cpuUsage(cpu)
    const ran = job.counter.tool - toolRuns
    if (ran !== steps) throw new Error(`the tool ran ${ran} times, expected ${steps}`)
    const modelCpuPerStep = modelCpu === undefined ? null : (Probe.cpuOf(env.modelPid) - modelCpu) / steps
    await sleep(20) // what was answered but not yet written counts too
    const costs = database === undefined ? {} : Probe.perStep(before, await database.read(), steps)
    await database?.end()
    return {
      steps,
      wallPerStep: wall / steps,
      stepsPerSecond: (steps / wall) * 1000,
      cpuPerStep: (used.user + used.system) / 1000 / steps,
      modelCpuPerStep,
      ...costs,
      ...extra
    }
  }
  /** Time outside the model: the gaps between an answer and the next request, and both ends. */
  const outside = async ({ id, from, to }, n) => {
    const log = await ask(`/stats?id=${id}`)
    if (log.length !== n + 1) throw new Error(`${log.length} model requests, expected ${n + 1}`)
    const gaps = [log[0][0] - from]
    for (let k = 1; k <= n; k++) gaps.push(log[k][0] - log[k - 1][1])
    const total = gaps.reduce((sum, gap) => sum + gap, 0) + to - log[n][1]
    return { gaps, total, bytes: log[n][2] }
  }
  return { ask, fresh, measure, outside, sessionId, turn, warmUp }
}

/** One session, one turn of N steps: the cost of a step, and how it grows with the history. */
const growth = async (bench) => {
  const { fresh, measure, outside, warmUp } = kit(bench)
  await warmUp(40)
  const result = {}
  for (const [n, turns] of bench.env.sizes) {
    const done = []
    result[n] = await measure(n * turns, async () => {
      for (let i = 0; i < turns; i++) done.push(await fresh(n))
    })
    const seen = []
    for (const each of done) seen.push(await outside(each, n))
    result[n].overheadPerStep = median(seen.map((each) => each.total)) / n
    result[n].lastRequestBytes = seen[0].bytes
    if (n >= 100) result[n].curve = curve(seen, n)
  }
  return result
}

/** The gap before a request by its place in the turn: the median over the steps just before each mark. */
const curve = (seen, n) => {
  const marks = [10, 25, 50, 100, 200, 300, 400].filter((mark) => mark <= n)
  return Object.fromEntries(
    marks.map((mark) => {
      const from = Math.max(2, Math.floor(mark * 0.9))
      return [mark, median(seen.flatMap(({ gaps }) => gaps.slice(from, mark + 1)))]
    })
  )
}

/** One turn of N steps and nothing else, so that the parent can count the commits of the whole process. */
const commits = async (bench) => {
  await kit(bench).fresh(bench.env.n)
  return {}
}

/**
 * The same turn in sessions of different age: what a step costs when the session's record already holds so many events that
 * are not in the model's context. `firstMs`: until the model is asked in a session that is not in memory yet.
 */
const age = async (bench) => {
  const { ask, sessionId, turn, warmUp } = kit(bench)
  const { env, driver, ctx } = bench
  await warmUp(40)
  const sessions = []
  for (const events of env.ages) {
    const id = sessionId()
    sessions.push({ events, id, session: await driver.open(ctx, id), firstMs: 0, gaps: [] })
    await driver.age(ctx, id, events)
  }
  const n = 20
  // Turn by turn, so that what disturbs the machine disturbs them alike; the first is not counted: it loads the session.
  for (let round = 0; round < 6; round++) {
    for (const each of sessions) {
      const from = now()
      await turn(each.session, each.id, n)
      const log = (await ask(`/stats?id=${each.id}`)).slice(-n - 1)
      if (round === 0) each.firstMs = log[0][0] - from
      else each.gaps.push(...log.slice(1).map(([asked], k) => asked - log[k][1]))
    }
  }
  return Object.fromEntries(sessions.map(({ events, firstMs, gaps }) => [events, { firstMs, stepMs: median(gaps) }]))
}

/** S sessions of ten steps at once. */
const conc = async (bench) => {
  const { fresh, measure, warmUp } = kit(bench)
  await warmUp(40)
  const result = {}
  for (const [sessions, rounds] of bench.env.levels) {
    const round = () => Promise.all(Array.from({ length: sessions }, () => fresh(10)))
    if (bench.env.warm === undefined) await round() // connections are opened once, code is compiled once
    let peak = 0
    const watch = setInterval(() => {
      peak = Math.max(peak, process.memoryUsage.rss())
    }, 50)
    result[sessions] = await measure(sessions * rounds * 10, async () => {
      for (let i = 0; i < rounds; i++) await round()
    })
    clearInterval(watch)
    result[sessions].peakRssMb = Math.max(peak, process.memoryUsage.rss()) / 2 ** 20
  }
  return result
}

/** Heap of an idle session with 20 messages, and of one that waits for the model in the middle of a turn. */
const mem = async (bench) => {
  const { ask, fresh, sessionId, turn, warmUp } = kit(bench)
  const { env, driver, ctx } = bench
  const kept = []
  const grow = async (count) => {
    let left = count
    const worker = async () => {
      while (left-- > 0) kept.push((await fresh(9)).session)
    }
    await Promise.all(Array.from({ length: 8 }, worker))
  }
  await warmUp(20)
  const base = await heap()
  const count = env.idle ?? 240
  await grow(count >> 2)
  const few = await heap()
  await grow(count)
  const many = await heap()
  const active = env.active ?? 64
  const ids = Array.from({ length: active }, sessionId)
  const holdMs = env.hold ?? 6000
  const from = now()
  const running = Promise.all(ids.map(async (id) => turn(await driver.open(ctx, id), id, 6, `hold=${holdMs}@5`)))
  running.catch(() => undefined) // told below, when it is awaited
  const isWaiting = async (id) => (await ask(`/stats?arrivals=1&id=${id}`)).some(([, step]) => step === 5)
  const waiting = async () => {
    for (const id of ids) if (!(await isWaiting(id))) return false
    return true
  }
  while (!(await waiting()) && now() - from < holdMs) await sleep(100)
  const isLate = now() - from > holdMs - 500
  const busy = await heap()
  await running
  return {
    baseRssMb: base.rss / 1024,
    baseHeapMb: base.heap / 1024,
    idleKb: (many.heap - few.heap) / count,
    activeKb: isLate ? null : (busy.heap - many.heap) / active
  }
}

const heap = async () => {
  for (let i = 0; i < 4; i++) {
    globalThis.gc()
    await sleep(50)
  }
  const used = process.memoryUsage()
  return { heap: (used.heapUsed + used.external) / 1024, rss: used.rss / 1024 }
}

/** From the model's write of a delta to the application's callback, and a burst of deltas. */
const delta = async (bench) => {
  const { fresh, warmUp } = kit(bench)
  await warmUp(3)
  const lags = []
  const onDelta = (text) => {
    const at = process.hrtime.bigint()
    for (const [, sent] of text.matchAll(/@(\d+) /g)) lags.push(Number(at - BigInt(sent)) / 1e3)
  }
  for (let i = 0; i < 2; i++) await fresh(0, "d=20 gap=1", onDelta)
  lags.length = 0
  await fresh(0, `d=${bench.env.deltas ?? 300} gap=2`, onDelta)
  const burst = bench.env.burst ?? 5000
  let callbacks = 0
  const count = () => {
    callbacks++
  }
  await fresh(0, "d=500", count)
  callbacks = 0
  const cpu = process.cpuUsage()
  const from = now()
  await fresh(0, `d=${burst}`, count)
  const wall = now() - from
  const used = process.cpuUsage(cpu)
  return {
    deltas: lags.length,
    p50Us: median(lags),
    p99Us: percentile(lags, 0.99),
    burstUsPerDelta: (wall * 1000) / burst,
    burstCpuUsPerDelta: (used.user + used.system) / burst,
    callbacks
  }
}

/** From the spawn of the process to the first model request and to the end of a turn of one step. */
const cold = async (bench) => {
  const { ask, fresh } = kit(bench)
  const { env, times } = bench
  const done = await fresh(1)
  const [first] = await ask(`/stats?id=${done.id}`)
  return {
    boot: times.booted - env.spawnedAt,
    import: times.imported - times.booted,
    setUp: times.setUp - times.imported,
    firstRequest: first[0] - env.spawnedAt,
    done: done.to - env.spawnedAt,
    rssMb: process.memoryUsage.rss() / 2 ** 20
  }
}

/** Runs into a hold, and is killed there. */
const victim = async (bench) => {
  const { env, driver, ctx } = bench
  await kit(bench).turn(await driver.open(ctx, env.id), env.id, env.n, `hold=100000@${env.at}`)
  return {}
}

/** A new process finishes the turn of a session whose process was killed. */
const recover = async ({ env, driver, ctx, job, times }) => {
  const text = await driver.recover(ctx, env.id)
  const done = now() - env.spawnedAt
  if (!String(text).startsWith(finalText(env.id, env.n))) throw new Error(`wrong final text: ${text}`)
  return { done, setUp: times.setUp - env.spawnedAt, tools: job.counter.tool }
}

/** Two turns of one session, to see that the driver does the job. */
const check = async (bench) => {
  const { sessionId, turn } = kit(bench)
  const id = sessionId()
  const session = await bench.driver.open(bench.ctx, id)
  let deltas = 0
  await turn(session, id, 3, "", () => {
    deltas++
  })
  await turn(session, id, 2, "")
  if (bench.job.counter.tool !== 5) throw new Error(`the tool ran ${bench.job.counter.tool} times, expected 5`)
  return { deltas }
}

/** By name; `commits`, `victim` and `recover` are parts of what the parent calls `growth` and `recover`. */
export const byName = { growth, commits, age, conc, mem, delta, cold, victim, recover, check }
