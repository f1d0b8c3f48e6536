// One driver, one scenario, one fresh process: what it is to do comes in BENCH, its result goes back as a message.
import { existsSync } from "node:fs"
import { byName, now } from "./scenarios.mjs"

const env = JSON.parse(process.env.BENCH)
const times = { booted: now() }
process.on("disconnect", () => process.exit(0))

/** The job module of the driver's own set: its drivers count the runs of the tool there. */
const jobOf = (driverUrl) => {
  const own = new URL("../lib/job.mjs", driverUrl)
  return import(existsSync(own) ? own.href : "./job.mjs")
}

const run = async () => {
  const { default: driver } = await import(env.driver)
  if (env.scenario === "describe") {
    const { age, durable, label, recover } = driver
    return { label, durable: durable ?? false, canRecover: recover !== undefined, canAge: age !== undefined }
  }
  if (env.scenario === "release") return driver.release?.({ pgUrl: env.pgUrl }) ?? {}
  const job = { ...(await import("./job.mjs")), counter: (await jobOf(env.driver)).counter }
  times.imported = now()
  const ctx = await driver.setup({ baseURL: `${env.model}/v1`, pgUrl: env.pgUrl, dir: env.dir })
  times.setUp = now()
  const result = await byName[env.scenario]({ env, driver, ctx, job, times })
  await driver.teardown?.(ctx)
  return result
}

const report = (message) => process.send(message, () => process.exit(0))

run().then(
  (result) => report({ result }),
  (error) => report({ result: { error: String(error?.stack ?? error).slice(0, 800) } })
)
