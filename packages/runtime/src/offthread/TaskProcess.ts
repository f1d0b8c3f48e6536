/**
 * One task process as seen from the server.
 *
 * Owns: starting it, asking it, and its end. Does not own: which task it gets (`OffThread`).
 *
 * - T1. A request is answered once: by the task, or with the reason why the process ended.
 * - T2. An interrupted request kills the process, and the interruption waits until the process has ended: one that is not
 *   counted any more uses no processor.
 * - T3. A task process without a request does not keep the server's process alive, and ends with it.
 */
import * as Effect from "effect/Effect"
import { fork } from "node:child_process"
import { fileURLToPath } from "node:url"
import type { Answer, Request, Stopped } from "./TaskMessage.ts"

export interface TaskProcess {
  /** Runs a task and gives its output (T1, T2). */
  readonly ask: (request: Request) => Effect.Effect<unknown, Stopped>
  /** False once the process has ended. */
  readonly isAlive: () => boolean
  /** Ends the process. */
  readonly close: () => void
}

// `.ts` when run from source, `.js` when built: neither tsc nor Node rewrites a URL.
const isSource = import.meta.url.endsWith(".ts")
const entry = new URL(`./TaskMain${isSource ? ".ts" : ".js"}`, import.meta.url)

/** Starts a process with a heap of at most so many MiB. */
export const start = (memoryMiB: number): Effect.Effect<TaskProcess, Stopped> =>
  Effect.callback((resume) => {
    const child = fork(entry, [], {
      // The packages' sources are found by a condition; no other flag of the parent is for these modules.
      execArgv: [`--max-old-space-size=${memoryMiB}`, ...(isSource ? ["--conditions=@turnstep/source"] : [])],
      // A task needs no setting and no secret of the server. Windows starts nothing without this one.
      env: process.env["SystemRoot"] === undefined ? {} : { SystemRoot: process.env["SystemRoot"] },
      cwd: fileURLToPath(new URL(".", entry)),
      serialization: "advanced",
      stdio: ["ignore", "ignore", "ignore", "ipc"]
    })
    let isAlive = true
    let waiting: ((answer: Answer) => void) | undefined = (answer) =>
      resume(answer.kind === "stopped" ? Effect.fail(answer) : Effect.succeed(taskProcess))
    let onEnd = (): void => {}
    const answered = (answer: Answer): void => {
      const hear = waiting
      waiting = undefined
      child.unref() // T3
      child.channel?.unref()
      hear?.(answer)
    }
    const stopped = (reason: Stopped["reason"], detail: string): void => {
      isAlive = false
      answered({ kind: "stopped", reason, detail })
      onEnd()
    }
    child.on("message", (answer) => answered(answer as Answer))
    child.on("error", ({ message }) => stopped("crashed", message))
    child.on("exit", (code, signal) =>
      stopped(isOutOfMemory(code, signal) ? "memory" : "crashed", `its process ended with ${signal ?? code}`)
    )

    const kill = (): void => {
      waiting = undefined
      child.kill("SIGKILL")
    }
    const ended = Effect.callback<void>((resume) => {
      if (!isAlive) return resume(Effect.void)
      onEnd = () => resume(Effect.void)
      kill()
    })
    const ask = (request: Request): Effect.Effect<unknown, Stopped> =>
      Effect.callback((resume) => {
        waiting = (answer) =>
          resume(
            answer.kind === "stopped"
              ? Effect.fail(answer)
              : Effect.succeed("output" in answer ? answer.output : undefined)
          )
        child.ref()
        child.channel?.ref()
        const unsent = (error: unknown): void => {
          stopped("crashed", error instanceof Error ? error.message : String(error))
          child.kill("SIGKILL")
        }
        try {
          child.send(request, undefined, undefined, (error) => void (error !== null && unsent(error)))
        } catch (error) {
          unsent(error) // an input that cannot be copied
        }
        return ended // T2
      })
    const taskProcess: TaskProcess = { ask, isAlive: () => isAlive, close: kill }
    return ended
  })

/** V8 aborts a process whose heap is full; the system kills one for want of memory. */
const isOutOfMemory = (code: number | null, signal: NodeJS.Signals | null): boolean =>
  signal === "SIGABRT" || signal === "SIGKILL" || code === 134
