/**
 * Lines and interrupts from whoever sits at standard input, person or pipe.
 *
 * Owns: reading them, and the prompt. Does not own: what they mean (`Chat`). In a terminal Ctrl-C is a stroke; without
 * one it is the process' signal and ends the command.
 */
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"
import * as readline from "node:readline"

export type Stroke =
  | { readonly _tag: "Line"; readonly text: string }
  | { readonly _tag: "Interrupt" }
  | { readonly _tag: "End" }

export interface Keyboard {
  /** Whether a person sits there. */
  readonly isPerson: boolean
  readonly strokes: Queue.Dequeue<Stroke>
  readonly write: (text: string) => void
  readonly prompt: () => void
}

/** Opens standard input until the scope closes. */
export const open: Effect.Effect<Keyboard, never, Scope.Scope> = Effect.gen(function* () {
  const isPerson = process.stdin.isTTY === true && process.stdout.isTTY === true
  const strokes = yield* Queue.unbounded<Stroke>()
  const lines = yield* Effect.acquireRelease(
    Effect.sync(() =>
      readline.createInterface({
        input: process.stdin,
        ...(isPerson ? { output: process.stdout } : {}),
        terminal: isPerson,
        prompt: "> "
      })
    ),
    (open) => Effect.sync(() => open.close())
  )
  const push = (stroke: Stroke) => void Queue.offerUnsafe(strokes, stroke)
  lines.on("line", (text) => push({ _tag: "Line", text }))
  lines.on("SIGINT", () => push({ _tag: "Interrupt" }))
  lines.on("close", () => push({ _tag: "End" }))
  return {
    isPerson,
    strokes,
    write: (text) => void process.stdout.write(text),
    prompt: () => {
      if (isPerson) lines.prompt(true)
    }
  }
})
