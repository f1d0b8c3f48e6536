/**
 * The task thread: imports a module, calls one of its functions, posts the output.
 *
 * Started by `TaskThread` as plain Node, from source as well as from the build. A task module should import little: a new
 * thread loads it again. A task bounds its own output.
 */
import { parentPort } from "node:worker_threads"
import { type Answer, OutOfTime, type Request } from "./TaskMessage.ts"

if (parentPort === null) throw new Error("TaskWorker runs as a worker thread")
const port = parentPort
const post = (answer: Answer): void => port.postMessage(answer)

const perform = async ({ input, name, url }: Request): Promise<void> => {
  try {
    const module = (await import(url)) as Readonly<Record<string, (input: unknown) => unknown>>
    const output = await module[name]?.(input)
    post({ kind: "done", output })
  } catch (cause) {
    const detail = cause instanceof Error ? cause.message : String(cause)
    post({ kind: "stopped", reason: cause instanceof OutOfTime ? "time" : "crashed", detail })
  }
}

port.on("message", (request: Request) => void perform(request))
post({ kind: "ready" })
