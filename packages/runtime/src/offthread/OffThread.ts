/**
 * Work of somebody else's choosing (a model's pattern, a client's history), away from the thread that serves everybody.
 *
 * Owns: the task processes of the server, who gets one, and for how long. Does not own: what a task does.
 *
 * - O1. The serving thread never runs such work: it asks, and is answered.
 * - O2. The server is bounded, not only the call: so many task processes, so much heap for each, so much waiting work. Work that
 *   finds no place is refused at once.
 * - O3. Work ends. A task process that takes too long, needs too much memory or crashes ends with its task; the task's caller gets
 *   `WorkStopped`, and the server goes on.
 * - O4. Lanes (sessions) take turns, and a lane whose work is stopped for its time again and again gets no more of it for a while.
 * - O5. Task processes start when there is work, and end when there is none for some seconds.
 */
import { WorkStopped } from "@turnstep/core/TurnError"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as os from "node:os"
import { setTimeout as after } from "node:timers/promises"
import { ToolCall } from "../ToolCall.ts"
import * as Lanes from "./Lanes.ts"
import type { Request, Stopped } from "./TaskMessage.ts"
import * as TaskProcess from "./TaskProcess.ts"

export { WorkStopped }

/** A function of a module that can run in a task process: its argument and its output are plain data. */
export interface Task<Input, Output> {
  readonly url: string
  readonly name: string
  readonly types?: { readonly input: Input; readonly output: Output }
}

/**
 * Names the function `name` of the module `file` (without its ending) beside the module `parent` (its `import.meta.url`):
 * `task<typeof TextEdit.edit>(import.meta.url, "./TextEdit", "edit")`.
 */
export const task = <F extends (input: never) => unknown>(
  parent: string,
  file: string,
  name: string
): Task<Parameters<F>[0], Awaited<ReturnType<F>>> => ({
  url: new URL(`${file}${parent.endsWith(".ts") ? ".ts" : ".js"}`, parent).href,
  name
})

export interface RunOptions {
  /** Milliseconds the task may take once it has a process; default 60,000. */
  readonly millis?: number | undefined
  /** Whose work it is; default the session of the tool call that asks. */
  readonly lane?: string | undefined
}

export interface Service {
  /** Runs a task with a copy of `input`; an interruption stops it. */
  readonly run: <Input, Output>(
    task: Task<Input, Output>,
    input: Input,
    options?: RunOptions
  ) => Effect.Effect<Output, WorkStopped>
}

export interface Options {
  /** Task processes at once; default the processor's cores, at least 2 and at most 4. */
  readonly processes?: number | undefined
  /** Tasks that wait for a process; default 256. */
  readonly waiting?: number | undefined
  /** Heap of a task process in MiB; default 512. */
  readonly memory?: number | undefined
  /** Milliseconds a task process without work lives; default 10,000. */
  readonly idle?: number | undefined
}

/** The task processes of this one (O2). */
export const OffThread = Context.Reference<Service>("runtime/OffThread", { defaultValue: () => make() })

/** Runs a task in a task process. */
export const run = <Input, Output>(
  task: Task<Input, Output>,
  input: Input,
  options?: RunOptions
): Effect.Effect<Output, WorkStopped> => Effect.flatMap(OffThread, (pool) => pool.run(task, input, options))

/** Makes a set of task processes; none is started yet (O5). */
export const make = (options: Options = {}): Service => {
  const {
    idle: idleMillis = 10_000,
    memory = 512,
    processes = Math.min(4, Math.max(2, os.availableParallelism())),
    waiting: mostWaiting = 256
  } = options
  const lanes = Lanes.make<() => void>()
  const debts = Lanes.makeDebts(forgiven)
  let idle: Array<{ readonly child: TaskProcess.TaskProcess; uses: number }> = []
  let places = processes
  let isSweeping = false

  /** Takes a place, or waits for one where `restore` lets it be interrupted: no interruption loses a place that was taken. */
  const place = (lane: string, restore: Restore): Effect.Effect<void, WorkStopped> =>
    Effect.suspend(() => {
      if (places > 0) {
        places--
        return Effect.void
      }
      if (lanes.size() >= mostWaiting) return Effect.fail(tooMuch)
      const turn = Deferred.makeUnsafe<void>()
      const enter = () => void Deferred.doneUnsafe(turn, Effect.void)
      lanes.add(lane, enter)
      return Effect.onInterrupt(restore(Deferred.await(turn)), () =>
        Effect.suspend(() => (lanes.remove(lane, enter) ? Effect.void : leave))
      )
    })
  const leave = Effect.sync(() => {
    const next = lanes.take()
    if (next === undefined) places++
    else next()
  })

  /** Ends processes that had no work since the last look (O5). */
  const sweep = async (): Promise<void> => {
    isSweeping = true
    while (idle.length > 0) {
      const before = new Map(idle.map((entry) => [entry, entry.uses]))
      await after(idleMillis, undefined, { ref: false })
      const over = idle.filter((entry) => before.get(entry) === entry.uses)
      idle = idle.filter((entry) => !over.includes(entry))
      for (const { child } of over) child.close()
    }
    isSweeping = false
  }

  const perform = Effect.fnUntraced(function* (lane: string, request: Request, millis: number, restore: Restore) {
    const owed = debts.of(lane, yield* Clock.currentTimeMillis)
    if (owed > mostDebt) return yield* wasteful(owed - mostDebt)
    idle = idle.filter(({ child }) => child.isAlive()) // the system may have ended one meanwhile
    const kept = idle.pop()
    const child = kept?.child ?? (yield* started(memory, restore))
    const giveBack = Effect.sync(() => {
      if (!child.isAlive()) return
      idle.push({ child, uses: (kept?.uses ?? 0) + 1 })
      if (!isSweeping) void sweep()
    })
    const began = yield* Clock.currentTimeMillis
    return yield* child.ask(request).pipe(
      Effect.tapError(({ detail, reason }) =>
        reason === "crashed" ? Effect.logWarning(`a task failed: ${detail}`) : Effect.void
      ),
      Effect.mapError(stopped),
      Effect.timeoutOrElse({ duration: millis, orElse: () => Effect.fail(tookTooLong(millis)) }),
      restore,
      Effect.ensuring(giveBack),
      Effect.tapError(({ reason }) =>
        Effect.map(Clock.currentTimeMillis, (now) => {
          if (reason === "time" && lane !== nobody) debts.add(lane, now - began, now) // O4
        })
      )
    )
  })

  const run: Service["run"] = <Input, Output>({ name, url }: Task<Input, Output>, input: Input, given?: RunOptions) =>
    Effect.uninterruptibleMask((restore) =>
      Effect.gen(function* () {
        const lane = given?.lane ?? (yield* ToolCall)?.sessionId ?? nobody
        yield* place(lane, restore)
        const output = perform(lane, { url, name, input }, given?.millis ?? usualMillis, restore)
        return (yield* Effect.ensuring(output, leave)) as Output
      })
    )
  return { run }
}

/** A process of its own; an interruption at any moment leaves none behind. */
const started = (memory: number, restore: Restore): Effect.Effect<TaskProcess.TaskProcess, WorkStopped> =>
  Effect.suspend(() => {
    let child: TaskProcess.TaskProcess | undefined
    return TaskProcess.start(memory).pipe(
      Effect.tap((made) => Effect.sync(() => void (child = made))),
      Effect.mapError(stopped),
      restore,
      Effect.onInterrupt(() => Effect.sync(() => child?.close()))
    )
  })

type Restore = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>

/** The lane of work that is of no session: nobody else is refused for it. */
const nobody = ""

const usualMillis = 60_000

/** Milliseconds of wasted time a lane may owe before its work is refused (O4), and the share of passing time that is forgiven. */
const mostDebt = 10_000
const forgiven = 1 / 6

const tooMuch = new WorkStopped({
  reason: "full",
  message: "Too much of this kind of work waits already. Try again later, and ask for less at once."
})

const wasteful = (millis: number): WorkStopped =>
  new WorkStopped({
    reason: "full",
    message:
      "Earlier work of this session was stopped for taking too long, so no more is done for " +
      `${Math.ceil(millis / forgiven / 1000)} seconds. Use simpler patterns, or literal: true.`
  })

const tookTooLong = (millis: number): WorkStopped =>
  new WorkStopped({
    reason: "time",
    message: `This took longer than ${millis / 1000} seconds and was stopped. Ask for less.`
  })

const stopped = ({ detail, reason }: Stopped): WorkStopped =>
  new WorkStopped({ reason, message: reason === "time" ? detail : reason === "memory" ? tooLarge : brokeOff })

const brokeOff = "This failed inside the runtime and gave no result."
const tooLarge = "This needed more memory than it may have and was stopped. Ask for less."
