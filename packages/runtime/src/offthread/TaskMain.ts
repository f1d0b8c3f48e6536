/**
 * The task process: imports a module, calls one of its functions, sends the output.
 *
 * Started by `TaskProcess` as plain Node, from source as well as from the build. A task module should import little: a new
 * process loads it again. A task bounds its own output, and ends by itself: a task whose server was killed has nobody to stop it.
 */
import * as os from "node:os"
import { type Answer, OutOfTime, type Request } from "./TaskMessage.ts"

const send = (answer: Answer): void => {
  // A server that is gone hears no answer.
  process.send?.(answer, undefined, undefined, () => {})
}

const perform = async ({ input, name, url }: Request): Promise<void> => {
  try {
    const module = (await import(url)) as Readonly<Record<string, (input: unknown) => unknown>>
    const output = await module[name]?.(input)
    send({ kind: "done", output })
  } catch (cause) {
    const detail = cause instanceof Error ? cause.message : String(cause)
    send({ kind: "stopped", reason: cause instanceof OutOfTime ? "time" : "crashed", detail })
  }
}

// A terminal sends these to the whole group of processes; the server alone decides.
process.on("SIGINT", () => {})
process.on("SIGTERM", () => {})
process.on("disconnect", () => process.exit())
// The server's own work comes first where processors are few.
os.setPriority(os.constants.priority.PRIORITY_BELOW_NORMAL)
process.on("message", (request: Request) => void perform(request))
send({ kind: "ready" })
