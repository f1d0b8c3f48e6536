/**
 * Faults that one message shows by itself, and their mending.
 *
 * Owns: walking messages and their parts. Does not own: what is wrong with them (`formats/`).
 *
 * - M1. Parts of a suspended call are left as they are; their faults are reported with the choice to answer it first.
 */
import type { Blemish, Fault, History } from "./Format.ts"
import { isSuspended } from "./History.ts"
import { isObject, listOf, step, type JsonObject } from "./Json.ts"
import type { Note, Rewritten } from "./Rewritten.ts"

/** The faults inside messages. */
export const partFaults = (history: History): ReadonlyArray<Fault> => {
  const faults: Array<Fault> = []
  const { format, messages } = history
  messages.forEach((message, index) => {
    if (!isObject(message)) {
      return void faults.push({
        code: "MESSAGE_UNKNOWN",
        severity: "error",
        index,
        path: "",
        message: "is no message",
        choices: ["remove-message"]
      })
    }
    for (const { inspect, list } of format.parts) {
      const parts = listOf(message, list)
      for (let slot = 0; slot < parts.length; slot++) {
        const blemishes = inspect(parts[slot], message, history)
        if (blemishes !== undefined) report(faults, history, index, slot, step(list) + step(slot), blemishes)
      }
    }
    const blemishes = format.inspect(message, index, history)
    if (blemishes !== undefined) report(faults, history, index, -1, "", blemishes)
  })
  return faults
}

/** Mends what can be mended inside messages; `undefined` if that is nothing. */
export const mendParts = (history: History): Rewritten | undefined => {
  const messages: Array<unknown> = []
  const origins: Array<number> = []
  const notes: Array<Note> = []
  history.messages.forEach((message, index) => {
    const mended = isObject(message) ? mendMessage(history, message, index, notes) : [message]
    for (const next of mended) {
      messages.push(next)
      origins.push(index)
    }
  })
  return notes.length === 0 ? undefined : { messages, origins, notes }
}

const report = (
  faults: Array<Fault>,
  history: History,
  index: number,
  slot: number,
  path: string,
  blemishes: ReadonlyArray<Blemish>
) => {
  const isDeferred = isSuspended(history, index, slot) // M1
  for (const { fix: _, ...blemish } of blemishes) {
    const choices = isDeferred ? ({ choices: ["answer-call"] } as const) : undefined
    faults.push({ ...blemish, ...choices, index, path: path + blemish.path })
  }
}

const mendMessage = (
  history: History,
  message: JsonObject,
  index: number,
  notes: Array<Note>
): ReadonlyArray<unknown> => {
  let current = message
  for (const { inspect, list } of history.format.parts) {
    const parts = listOf(current, list)
    const before = notes.length
    const mended = parts.flatMap((part, slot) =>
      isSuspended(history, index, slot)
        ? [part]
        : mendValue(part, (value) => inspect(value, message, history), index, step(list) + step(slot), notes)
    )
    if (notes.length > before) current = { ...current, [list]: mended }
  }
  if (isSuspended(history, index, -1)) return [current]
  const inspect = (value: unknown) => (isObject(value) ? history.format.inspect(value, index, history) : undefined)
  return mendValue(current, inspect, index, "", notes)
}

/** Applies the first fix again and again, until there is none or the value became none or several. */
const mendValue = (
  value: unknown,
  inspect: (value: unknown) => ReadonlyArray<Blemish> | undefined,
  index: number,
  path: string,
  notes: Array<Note>
): ReadonlyArray<unknown> => {
  let current = value
  for (;;) {
    const blemish = inspect(current)?.find((blemish) => blemish.fix !== undefined)
    if (blemish?.fix === undefined) return [current]
    const { action, dropped, note, to } = blemish.fix
    const content = dropped === undefined ? {} : { dropped }
    notes.push({ index, path: path + blemish.path, code: blemish.code, action, note, ...content })
    if (to.length !== 1) return to
    current = to[0]
  }
}
