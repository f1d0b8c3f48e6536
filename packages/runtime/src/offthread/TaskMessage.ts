/**
 * Messages between the server and a task process, which has one request at a time.
 */

/** A function to run: the module's URL, the name of the function in it, and the function's only argument. */
export interface Request {
  readonly url: string
  readonly name: string
  readonly input: unknown
}

/** Why a task has no output. */
export interface Stopped {
  readonly kind: "stopped"
  readonly reason: "time" | "memory" | "crashed"
  readonly detail: string
}

/** `ready`: the process has started and takes a request. */
export type Answer = { readonly kind: "ready" } | { readonly kind: "done"; readonly output: unknown } | Stopped

/** A task throws this when it has spent its time; `message` is written for the model. */
export class OutOfTime extends Error {
  override readonly name = "OutOfTime"
}
