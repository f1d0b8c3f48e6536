/**
 * One task thread as seen from the serving thread.
 *
 * Owns: starting it, asking it, and its end. Does not own: which task it gets (`OffThread`).
 *
 * - T1. A request is answered once: by the task, or with the reason why the thread ended.
 * - T2. An interrupted request terminates the thread, and the interruption waits until the thread has ended: a thread that is
 *   not counted any more uses no processor.
 * - T3. A thread without a request does not keep the process alive.
 */
import * as Effect from "effect/Effect"
import { Worker } from "node:worker_threads"
import type { Answer, Request, Stopped } from "./TaskMessage.ts"

export interface TaskThread {
  /** Runs a task and gives its output (T1, T2). */
  readonly ask: (request: Request) => Effect.Effect<unknown, Stopped>
  /** False once the thread has ended. */
  readonly isAlive: () => boolean
  /** Ends the thread. */
  readonly close: () => void
}

// `.ts` when run from source, `.js` when built: neither tsc nor Node rewrites a URL.
const isSource = import.meta.url.endsWith(".ts")
const entry = new URL(`./TaskWorker${isSource ? ".ts" : ".js"}`, import.meta.url)

/** Starts a thread with a heap of at most so many MiB. */
export const start = (memoryMiB: number): Effect.Effect<TaskThread, Stopped> =>
  Effect.callback((resume) => {
    const worker = new Worker(entry, {
      // The packages' sources are found by a condition; no other flag of the parent is for these modules.
      execArgv: isSource ? ["--conditions=@turnstep/source"] : [],
      // A task needs no setting and no secret of the process.
      env: {},
      resourceLimits: { maxOldGenerationSizeMb: memoryMiB },
      name: "turnstep-task"
    })
    let isAlive = true
    let waiting: ((answer: Answer) => void) | undefined = (answer) =>
      resume(answer.kind === "stopped" ? Effect.fail(answer) : Effect.succeed(thread))
    const answered = (answer: Answer): void => {
      const hear = waiting
      waiting = undefined
      worker.unref() // T3
      hear?.(answer)
    }
    const stopped = (reason: Stopped["reason"], detail: string): void => {
      isAlive = false
      answered({ kind: "stopped", reason, detail })
    }
    worker.on("message", answered)
    worker.on("error", (cause: unknown) =>
      stopped(isOutOfMemory(cause) ? "memory" : "crashed", cause instanceof Error ? cause.message : String(cause))
    )
    worker.on("exit", (code) => stopped("crashed", `its thread ended with code ${code}`))

    const terminate = () => {
      isAlive = false
      waiting = undefined
      return worker.terminate()
    }
    const ended = Effect.asVoid(Effect.promise(terminate))
    const ask = (request: Request): Effect.Effect<unknown, Stopped> =>
      Effect.callback((resume) => {
        waiting = (answer) =>
          resume(
            answer.kind === "stopped"
              ? Effect.fail(answer)
              : Effect.succeed("output" in answer ? answer.output : undefined)
          )
        worker.ref()
        worker.postMessage(request, [])
        return ended // T2
      })
    const thread: TaskThread = { ask, isAlive: () => isAlive, close: () => void terminate() }
    return ended
  })

const isOutOfMemory = (cause: unknown): boolean =>
  cause instanceof Error && "code" in cause && cause.code === "ERR_WORKER_OUT_OF_MEMORY"
