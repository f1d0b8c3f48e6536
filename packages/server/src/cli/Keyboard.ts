/**
 * Lines and interrupts from whoever sits at standard input, person or pipe, and a screen that keeps both apart.
 *
 * Owns: reading lines, the prompt, and where output goes while a line is being typed. Does not own: what lines mean (`Chat`).
 * In a terminal Ctrl-C is a stroke; without one it is the process' signal and ends the command.
 *
 * - K1. Output never stands on the line that is being typed: it goes above it by whole lines, and waits for its line end.
 * - K2. A text that is pasted is one line, whatever ends of line are in it: Enter sends it.
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
  /** Writes output, which need not end its line. */
  readonly write: (text: string) => void
  /** Writes a line about the chat itself: above what is being typed, or to standard error for a pipe. */
  readonly notice: (text: string) => void
  readonly prompt: () => void
  /** Puts a text that could not be sent back into the line, where nothing else is typed yet. */
  readonly restore: (text: string) => void
}

/** The streams of a keyboard. */
export interface Streams {
  readonly input: NodeJS.ReadableStream
  readonly output: NodeJS.WritableStream
  readonly error: NodeJS.WritableStream
  readonly isPerson: boolean
}

/** Opens standard input until the scope closes. */
export const open: Effect.Effect<Keyboard, never, Scope.Scope> = Effect.suspend(() =>
  make({
    input: process.stdin,
    output: process.stdout,
    error: process.stderr,
    isPerson: process.stdin.isTTY === true && process.stdout.isTTY === true
  })
)

/** Opens a keyboard on these streams until the scope closes. */
export const make = Effect.fnUntraced(function* ({
  error,
  input,
  isPerson,
  output
}: Streams): Effect.fn.Return<Keyboard, never, Scope.Scope> {
  const strokes = yield* Queue.unbounded<Stroke>()
  const push = (stroke: Stroke) => void Queue.offerUnsafe(strokes, stroke)
  const lines = yield* Effect.acquireRelease(
    Effect.sync(() =>
      readline.createInterface({ input, ...(isPerson ? { output } : {}), terminal: isPerson, prompt: "> " })
    ),
    (lines) =>
      Effect.sync(() => {
        if (isPerson) output.write(pasteMode.off)
        lines.close()
      })
  )
  lines.on("SIGINT", () => push({ _tag: "Interrupt" }))
  lines.on("close", () => push({ _tag: "End" }))
  if (!isPerson) {
    lines.on("line", (text) => push({ _tag: "Line", text }))
    return {
      isPerson,
      strokes,
      write: (text) => void output.write(text),
      notice: (text) => void error.write(`${text}\n`),
      prompt: () => undefined,
      restore: () => undefined
    }
  }

  /** Whether the prompt and what is typed stand on the screen, below all output. */
  let isPrompted = false
  /** Whether the last line of the output has no end yet. */
  let isOpen = false
  /** Output that waits for its line end (K1). */
  let held = ""
  /** The lines of a paste so far, of which the last still is in the editor (K2). */
  let pasted: Array<string> = []
  let isPasting = false

  const show = () => {
    if (isOpen) output.write("\n")
    isOpen = false
    isPrompted = true
    lines.prompt(true)
  }
  const erase = () => {
    if (!isPrompted) return
    readline.moveCursor(output, 0, -lines.getCursorPos().rows)
    readline.cursorTo(output, 0)
    readline.clearScreenDown(output)
    isPrompted = false
  }
  const print = (text: string) => {
    if (text === "") return
    erase()
    output.write(text)
    isOpen = !text.endsWith("\n")
  }
  const isTyping = () => lines.line !== "" || pasted.length > 0
  const write = (text: string) => {
    held += text
    if (!isTyping()) {
      print(held)
      held = ""
      return
    }
    const end = held.lastIndexOf("\n") + 1
    if (end === 0) return
    print(held.slice(0, end))
    held = held.slice(end)
    show()
  }
  const prompt = () => {
    print(held)
    held = ""
    show()
  }
  // Before the editor echoes the key: what is typed begins on a line of its own.
  const onKey = (_text: string | undefined, key: readline.Key | undefined) => {
    if (key?.name === "paste-start") isPasting = true
    if (key?.name === "paste-end") isPasting = false
    if (!isPrompted && key?.ctrl !== true) show()
  }
  output.write(pasteMode.on)
  input.prependListener("keypress", onKey)
  yield* Effect.addFinalizer(() => Effect.sync(() => input.removeListener("keypress", onKey)))
  lines.on("line", (text) => {
    isPrompted = false
    pasted.push(text)
    if (isPasting) return
    const whole = pasted.join("\n").replace(/\n+$/, "")
    pasted = []
    write("")
    push({ _tag: "Line", text: whole })
  })
  return {
    isPerson,
    strokes,
    write,
    notice: (text) => {
      const wasPrompted = isPrompted
      print(isOpen ? `\n${text}\n` : `${text}\n`)
      if (wasPrompted || isTyping()) show()
    },
    prompt,
    restore: (text) => {
      if (isTyping()) return
      erase()
      const last = text.lastIndexOf("\n") + 1
      if (last > 0) pasted = text.slice(0, last - 1).split("\n")
      output.write(text.slice(0, last))
      show()
      lines.write(text.slice(last))
    }
  }
})

/** Makes the terminal mark what is pasted. */
const pasteMode = { on: "\u001b[?2004h", off: "\u001b[?2004l" } as const
