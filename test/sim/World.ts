/**
 * One thread, one clock and several hosts: a computer room that fits in a function call.
 *
 * Every fiber of a world runs on its seeded scheduler, and time passes only when no fiber can run. Nothing waits for real
 * time and nothing is asynchronous, so a world is as fast as its fibers, and the same seed gives the same order of them.
 * A clock of our own instead of `TestClock`: a host that is killed takes its timers with it, one that is stopped
 * keeps them, and no real timer guards the clock.
 *
 * Owns: the order of fibers, time, the life of hosts. Does not own: what runs on them.
 *
 * - W1. Which fiber runs next, and after which operation one is preempted, depends on the seed alone.
 * - W2. A killed host executes no further operation: no finalizer, no timer, no continuation.
 * - W3. A stopped host executes nothing until it is resumed; then it goes on as if no time had passed.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import * as Random from "effect/Random"
import * as References from "effect/References"
import * as Scheduler from "effect/Scheduler"
import * as Dice from "./Dice.ts"

/** A process of the simulated world. */
export interface Host {
  readonly name: string
  readonly state: () => "running" | "stopped" | "dead"
  /** When it died or was stopped; `undefined` while it runs. */
  readonly silentSince: () => number | undefined
  /** Ends it here and now, as `kill -9` does (W2). */
  readonly kill: () => void
  /** Stops it, as `kill -STOP` does, until `resume` (W3). */
  readonly stop: () => void
  readonly resume: () => void
  /** Runs an effect on this host for a fiber outside; fails when this host dies before it ends. */
  readonly call: <A, E>(effect: Effect.Effect<A, E>) => Effect.Effect<A, E | HostDied>
}

/** The host that was to answer is dead. */
export class HostDied {
  readonly _tag = "HostDied"
}

/** How the world's fibers came to rest: the main one ended, all wait for ever, or they never rest. */
export type Rest<A, E> =
  | { readonly _tag: "Ended"; readonly exit: Exit.Exit<A, E> }
  | { readonly _tag: "Deadlock" }
  | { readonly _tag: "Busy" }

export interface World {
  readonly dice: Dice.Dice
  /** Milliseconds since the world began. */
  readonly now: () => number
  readonly host: (name: string, services: (host: Host) => Context.Context<never>) => Host
  /** Runs something outside after a number of milliseconds. */
  readonly later: (millis: number, run: () => void) => void
  /** Notes what happened, for the trace. */
  readonly note: (what: string) => void
  /** What was noted, each with its time; the last line is a digest of every choice made (W1). */
  readonly trace: () => ReadonlyArray<string>
  /** Runs the world until its main fiber ends. `tasks` bounds the work. */
  readonly run: <A, E>(main: Effect.Effect<A, E>, tasks: number) => Rest<A, E>
}

/** Operations after which a fiber yields in any case, and how often that may happen before the world is called busy. */
const longRun = 2_048
const mostLongRuns = 500

interface Task {
  readonly host: Mutable
  readonly run: () => void
}

interface Timer extends Task {
  readonly at: number
  isCancelled: boolean
}

interface Mutable {
  state: "running" | "stopped" | "dead"
  silentSince: number | undefined
  /** What it was to do when it was stopped. */
  readonly parked: Array<Task>
  readonly onDeath: Set<() => void>
}

export const make = (seed: number): World => {
  const dice = Dice.make(seed)
  const order = dice.fork()
  const random = dice.fork()
  // The oldest task first makes long runs of one mind, a random one makes the rare orders.
  const oldestFirst = dice.pick([0, 0, 0.5, 0.9])
  const preemption = dice.pick([0, 0, 0.002, 0.02, 0.1])
  const lines: Array<string> = []
  const tasks: Array<Task> = []
  const timers: Array<Timer> = [] // the next one last
  let now = 0
  let choices = 0
  let longRuns = 0
  let digest = 0

  const schedule = (task: Task) => {
    if (task.host.state === "running") tasks.push(task)
    else if (task.host.state === "stopped") task.host.parked.push(task)
  }

  const takeTask = (): Task | undefined => {
    const index = oldestFirst > 0 && order.chance(oldestFirst) ? 0 : order.below(tasks.length)
    choices++
    digest = (Math.imul(digest, 31) + index) | 0
    if (index === 0) return tasks.shift()
    const task = tasks[index]
    const last = tasks.pop()
    if (last !== undefined && index < tasks.length) tasks[index] = last
    return task
  }

  const advance = (): boolean => {
    let timer = timers.pop()
    while (timer !== undefined && (timer.isCancelled || timer.host.state === "dead")) timer = timers.pop()
    if (timer === undefined) return false
    now = Math.max(now, timer.at)
    schedule(timer)
    for (let next = timers.at(-1); next !== undefined && next.at <= now; next = timers.at(-1)) {
      timers.pop()
      if (!next.isCancelled) schedule(next)
    }
    return true
  }

  const timerFor = (host: Mutable, millis: number, run: () => void): Timer => {
    const timer: Timer = { host, at: now + millis, isCancelled: false, run }
    let place = timers.length
    while (place > 0 && (timers[place - 1]?.at ?? 0) <= timer.at) place--
    timers.splice(place, 0, timer)
    return timer
  }

  const sleep = (host: Mutable, millis: number): Effect.Effect<void> => {
    if (millis <= 0) return Effect.yieldNow
    if (!Number.isFinite(millis)) return Effect.never
    return Effect.callback((resume) => {
      const timer = timerFor(host, millis, () => resume(Effect.void))
      return Effect.sync(() => {
        timer.isCancelled = true
      })
    })
  }

  const clockOf = (host: Mutable): Clock.Clock => {
    const millis = () => now
    const nanos = () => BigInt(Math.round(now * 1_000)) * 1_000n
    return {
      currentTimeMillisUnsafe: millis,
      currentTimeMillis: Effect.sync(millis),
      currentTimeNanosUnsafe: nanos,
      currentTimeNanos: Effect.sync(nanos),
      monotonicTimeNanosUnsafe: nanos,
      monotonicTimeNanos: Effect.sync(nanos),
      sleep: (duration) => sleep(host, Duration.toMillis(duration))
    }
  }

  const schedulerOf = (host: Mutable, isPreempted: boolean): Scheduler.Scheduler => ({
    executionMode: "async",
    // A host that is not running yields at its next operation, and what it yields to never comes (W2) or waits (W3).
    shouldYield: (fiber) => {
      if (host.state !== "running" || (isPreempted && preemption > 0 && order.next() < preemption)) return true
      if (fiber.currentOpCount < longRun) return false
      longRuns++
      return true
    },
    makeDispatcher: () => ({
      scheduleTask: (run) => schedule({ host, run }),
      flush: () => undefined
    })
  })

  const hostOf: World["host"] = (name, services) => {
    const mutable: Mutable = { state: "running", silentSince: undefined, parked: [], onDeath: new Set() }
    const host: Host = {
      name,
      state: () => mutable.state,
      silentSince: () => mutable.silentSince,
      kill: () => {
        if (mutable.state === "dead") return
        mutable.state = "dead"
        mutable.silentSince ??= now
        mutable.parked.length = 0
        for (const tell of mutable.onDeath) tell()
        mutable.onDeath.clear()
      },
      stop: () => {
        if (mutable.state !== "running") return
        mutable.state = "stopped"
        mutable.silentSince = now
      },
      resume: () => {
        if (mutable.state !== "stopped") return
        mutable.state = "running"
        mutable.silentSince = undefined
        for (const task of mutable.parked.splice(0)) schedule(task)
      },
      call: <A, E>(effect: Effect.Effect<A, E>) =>
        Effect.callback<A, E | HostDied>((resume) => {
          if (mutable.state === "dead") return resume(Effect.fail(new HostDied()))
          const answer = (result: Effect.Effect<A, E | HostDied>) => {
            mutable.onDeath.delete(died)
            schedule({ host: everybody, run: () => resume(result) })
          }
          const died = () => answer(Effect.fail(new HostDied()))
          mutable.onDeath.add(died)
          let fiber: ReturnType<typeof runFork> | undefined
          let isGivenUp = false
          schedule({
            host: mutable,
            run: () => {
              if (isGivenUp) return
              fiber = runFork(effect)
              fiber.addObserver((exit) => answer(exit as Exit.Exit<A, E>))
            }
          })
          return Effect.sync(() => {
            isGivenUp = true
            mutable.onDeath.delete(died)
            schedule({ host: mutable, run: () => fiber?.interruptUnsafe() })
          })
        })
    }
    const context = Context.merge(services(host), contextOf(mutable, true))
    const runFork = (effect: Effect.Effect<unknown, unknown>) => Effect.runForkWith(context)(effect)
    return host
  }

  const contextOf = (host: Mutable, isPreempted: boolean) =>
    Context.make(Clock.Clock, clockOf(host)).pipe(
      Context.add(Scheduler.Scheduler, schedulerOf(host, isPreempted)),
      Context.add(Random.Random, { nextDoubleUnsafe: random.next, nextIntUnsafe: () => random.below(2 ** 31) }),
      Context.add(References.TracerEnabled, false)
    )

  const everybody: Mutable = { state: "running", silentSince: undefined, parked: [], onDeath: new Set() }
  const outsideContext = contextOf(everybody, false)

  return {
    dice,
    now: () => now,
    host: hostOf,
    later: (millis, run) => void timerFor(everybody, millis, run),
    note: (what) => void lines.push(`${now} ${what}`),
    trace: () => [...lines, `${choices} choices, digest ${digest >>> 0}, ended at ${now}`],
    run: (main, limit) => {
      const fiber = Effect.runForkWith(outsideContext)(main)
      let left = limit
      for (;;) {
        const exit = fiber.pollUnsafe()
        if (exit !== undefined) return { _tag: "Ended", exit }
        if (left === 0 || longRuns > mostLongRuns) return { _tag: "Busy" }
        if (tasks.length === 0) {
          if (!advance()) return { _tag: "Deadlock" }
          continue
        }
        const task = takeTask()
        if (task?.host.state === "running") {
          left--
          task.run()
        } else if (task !== undefined) schedule(task)
      }
    }
  }
}
