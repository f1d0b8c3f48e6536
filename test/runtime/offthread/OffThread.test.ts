import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import * as OffThread from "@turnstep/runtime/offthread/OffThread"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schedule from "effect/Schedule"
import * as Scheduler from "effect/Scheduler"
import * as TestClock from "effect/testing/TestClock"
import { execFileSync, spawn } from "node:child_process"
import * as fs from "node:fs/promises"
import * as path from "node:path"
import * as Folder from "../../fixtures/Folder.ts"
import type * as tasks from "./tasks.ts"

const task = <Name extends keyof typeof tasks>(name: Name) =>
  OffThread.task<(typeof tasks)[Name]>(import.meta.url, "./tasks", name)

const gate = Effect.gen(function* () {
  const folder = yield* Effect.provide(Folder.make({}), NodeServices.layer)
  const made: tasks.Gate = { running: path.join(folder, "running"), open: path.join(folder, "open") }
  execFileSync("mkfifo", [made.running, made.open])
  return made
})
const running = (gate: tasks.Gate) => Effect.promise(() => fs.readFile(gate.running))
const open = (gate: tasks.Gate) => Effect.promise(() => fs.writeFile(gate.open, ""))

/** Completes when there is no such process. */
const gone = (pid: number) =>
  Effect.sync(() => {
    try {
      return process.kill(pid, 0)
    } catch {
      return false
    }
  }).pipe(Effect.repeat({ schedule: Schedule.spaced("10 millis"), while: (isThere) => isThere }))

const reasonOf = <A>(work: Effect.Effect<A, OffThread.WorkStopped>) =>
  Effect.map(Effect.flip(work), ({ reason }) => reason)

describe("OffThread", () => {
  it.live("answers what the task gives, with no setting of the process in reach", () =>
    Effect.gen(function* () {
      const pool = OffThread.make()
      assert.strictEqual(yield* pool.run(task("add"), [2, 3]), 5)
      assert.deepStrictEqual(yield* pool.run(task("environment"), undefined as never), [])
    })
  )

  it.live(
    "answers in words when a task throws, leaves, aborts or takes all memory, and goes on with the next one",
    () =>
      Effect.gen(function* () {
        const pool = OffThread.make({ processes: 1, memory: 48 })
        assert.strictEqual(yield* reasonOf(pool.run(task("fail"), "x")), "crashed")
        assert.strictEqual(yield* reasonOf(pool.run(task("leave"), 7)), "crashed")
        assert.strictEqual(yield* reasonOf(pool.run(task("abort"), undefined as never)), "memory")
        assert.strictEqual(yield* reasonOf(pool.run(task("hoard"), undefined as never)), "memory")
        const told = yield* Effect.flip(pool.run(task("outOfTime"), "Ask for less."))
        assert.deepInclude(told, { reason: "time", message: "Ask for less." })
        assert.strictEqual(yield* pool.run(task("add"), [2, 3]), 5)
      })
  )

  it.live("says of an input that cannot be copied that it failed, and goes on with the next one", () =>
    Effect.gen(function* () {
      const pool = OffThread.make({ processes: 1 })
      const uncopyable = [2, () => 3] as unknown as [number, number]
      assert.strictEqual(yield* reasonOf(pool.run(task("add"), uncopyable)), "crashed")
      assert.strictEqual(yield* pool.run(task("add"), [2, 3]), 5)
    })
  )

  it.effect("stops what takes too long, on the clock of the runtime", () =>
    Effect.gen(function* () {
      const pool = OffThread.make({ processes: 1 })
      const here = yield* gate
      const fiber = yield* Effect.forkChild(reasonOf(pool.run(task("spin"), here, { millis: 5_000 })))
      yield* running(here)
      yield* TestClock.adjust("5 seconds")
      assert.strictEqual(yield* Fiber.join(fiber), "time")
      assert.strictEqual(yield* pool.run(task("add"), [2, 3]), 5)
    })
  )

  it.live("stops an interrupted task, and gives its place to what waits", () =>
    Effect.gen(function* () {
      const pool = OffThread.make({ processes: 1 })
      const here = yield* gate
      const fiber = yield* Effect.forkChild(pool.run(task("spin"), here))
      yield* running(here)
      const next = yield* Effect.forkChild(pool.run(task("add"), [2, 3]))
      yield* Fiber.interrupt(fiber)
      assert.strictEqual(yield* Fiber.join(next), 5)
    })
  )

  it.live("refuses what finds no place to wait, at once", () =>
    Effect.gen(function* () {
      const pool = OffThread.make({ processes: 1, waiting: 1 })
      const here = yield* gate
      const first = yield* Effect.forkChild(pool.run(task("hold"), here))
      yield* running(here)
      const second = yield* Effect.forkChild(pool.run(task("add"), [2, 3]))
      yield* Effect.yieldNow
      assert.strictEqual(yield* reasonOf(pool.run(task("add"), [2, 3])), "full")
      yield* open(here)
      assert.strictEqual(yield* Fiber.join(first), "done")
      assert.strictEqual(yield* Fiber.join(second), 5)
    })
  )

  it.live("forgets what was interrupted while it waited", () =>
    Effect.gen(function* () {
      const pool = OffThread.make({ processes: 1, waiting: 1 })
      const here = yield* gate
      const first = yield* Effect.forkChild(pool.run(task("hold"), here))
      yield* running(here)
      for (let n = 0; n < 3; n++) {
        const waiting = yield* Effect.forkChild(pool.run(task("add"), [2, 3]))
        yield* Effect.yieldNow
        yield* Fiber.interrupt(waiting)
      }
      const last = yield* Effect.forkChild(pool.run(task("add"), [2, 3]))
      yield* Effect.yieldNow
      yield* open(here)
      yield* Fiber.join(first)
      assert.strictEqual(yield* Fiber.join(last), 5)
    })
  )

  it.live("loses no place to an interruption, whenever it comes", () =>
    Effect.gen(function* () {
      // Every number of operations puts the pause of the fiber, and so the interruption, at another one.
      for (let operations = 4; operations < 24; operations++) {
        const pool = OffThread.make({ processes: 1, waiting: 0 })
        const interrupted = yield* Effect.forkChild(
          Effect.provideService(pool.run(task("add"), [2, 3]), Scheduler.MaxOpsBeforeYield, operations)
        )
        yield* Effect.yieldNow
        yield* Fiber.interrupt(interrupted)
        assert.strictEqual(yield* pool.run(task("add"), [2, 3]), 5, `after ${operations} operations`)
      }
    })
  )

  it.live("lets sessions take turns, however much one of them asks for", () =>
    Effect.gen(function* () {
      const pool = OffThread.make({ processes: 1 })
      const here = yield* gate
      const order: Array<string> = []
      const ask = (lane: string) =>
        Effect.forkChild(Effect.tap(pool.run(task("add"), [1, 1], { lane }), () => Effect.sync(() => order.push(lane))))
      const first = yield* Effect.forkChild(pool.run(task("hold"), here))
      yield* running(here)
      const fibers = yield* Effect.forEach(["a", "a", "a", "a", "b", "c"], ask)
      yield* Effect.yieldNow
      yield* open(here)
      yield* Fiber.join(first)
      yield* Fiber.joinAll(fibers)
      assert.strictEqual(order.join(""), "abcaaa")
    })
  )

  it.effect("refuses a session whose work is stopped for its time again and again, for a while, and no other", () =>
    Effect.gen(function* () {
      const pool = OffThread.make({ processes: 1 })
      const here = yield* gate
      const fiber = yield* Effect.forkChild(reasonOf(pool.run(task("spin"), here, { millis: 20_000, lane: "a" })))
      yield* running(here)
      yield* TestClock.adjust("20 seconds")
      assert.strictEqual(yield* Fiber.join(fiber), "time")
      const told = yield* Effect.flip(pool.run(task("add"), [2, 3], { lane: "a" }))
      assert.strictEqual(told.reason, "full")
      assert.include(told.message, "60 seconds")
      assert.strictEqual(yield* pool.run(task("add"), [2, 3], { lane: "b" }), 5)
      yield* TestClock.adjust("61 seconds")
      assert.strictEqual(yield* pool.run(task("add"), [2, 3], { lane: "a" }), 5)
    })
  )

  it.live("starts another task process when the system has ended the idle one", () =>
    Effect.gen(function* () {
      const pool = OffThread.make({ processes: 1 })
      const first = yield* pool.run(task("pid"), undefined)
      process.kill(first, "SIGKILL")
      yield* gone(first)
      assert.notStrictEqual(yield* pool.run(task("pid"), undefined), first)
    })
  )

  it.live("does not keep the process alive, and ends task processes that have no work", () =>
    Effect.gen(function* () {
      const file = path.join(import.meta.dirname, "../../fixtures/children/offThread.ts")
      const told = yield* Effect.promise(
        () =>
          new Promise<string>((resolve, reject) => {
            const child = spawn(process.execPath, ["--conditions=@turnstep/source", file], {
              stdio: ["ignore", "pipe", "inherit"]
            })
            let text = ""
            child.stdout.on("data", (bytes: Buffer) => (text += bytes.toString()))
            child.on("error", reject)
            child.on("exit", (code) => resolve(`${text}exit ${code}`))
          })
      )
      const second = /^the idle process ended\n(\d+)\nexit 0$/.exec(told)?.[1]
      assert.isDefined(second, told)
      yield* gone(Number(second))
    })
  )
})
