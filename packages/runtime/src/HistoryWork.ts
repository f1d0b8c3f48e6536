/**
 * Work on message histories of any size that never holds up the serving thread.
 *
 * Owns: where the work runs. Does not own: the work itself (`HistoryTask`, `core/history`).
 *
 * - W1. A small history is worked on at once; a large one, of up to a second or more of work, in a task process.
 */
import type { Exported } from "@turnstep/core/history/Export"
import * as Import from "@turnstep/core/history/Import"
import { FactTooLarge } from "@turnstep/core/TurnError"
import * as Effect from "effect/Effect"
import * as HistoryTask from "./HistoryTask.ts"
import * as OffThread from "./offthread/OffThread.ts"

/** A history that is to be checked; `messages` and `context` as a client sent them. */
export interface Check extends Omit<HistoryTask.CheckInput, "messages"> {
  readonly messages: ReadonlyArray<unknown>
}

/** Tells what is wrong with a history, at most so many findings. */
export const verify = Effect.fnUntraced(function* (check: Check, most: number) {
  return isLarge(check.messages)
    ? yield* OffThread.run(task.verify, { ...check, messages: asText(check.messages), most })
    : HistoryTask.verify({ ...check, messages: { value: check.messages }, most })
})

/** Mends a history; gives the JSON text of the answer. */
export const repair = Effect.fnUntraced(function* (check: Check) {
  return isLarge(check.messages)
    ? yield* OffThread.run(task.repair, { ...check, messages: asText(check.messages) })
    : HistoryTask.repair({ ...check, messages: { value: check.messages } })
})

/** Why a history cannot be read. */
export type ReadError = Import.HistoryFormatUnclear | Import.HistoryEmpty | FactTooLarge | OffThread.WorkStopped

/** Reads a history for a session. */
export const read = Effect.fnUntraced(function* (
  history: Import.History
): Effect.fn.Return<HistoryTask.ReadHistory, ReadError> {
  const found = isLarge(history.messages)
    ? yield* OffThread.run(task.read, asText(history))
    : HistoryTask.read({ value: history })
  if ("largest" in found) {
    return yield* new FactTooLarge({ type: "A message", bytes: found.largest, most: HistoryTask.maxMessage })
  }
  if ("candidates" in found) return yield* new Import.HistoryFormatUnclear(found)
  return "emptyFormat" in found ? yield* new Import.HistoryEmpty({ format: found.emptyFormat }) : found
})

/** Writes the messages of a session in a format. */
export const write = Effect.fnUntraced(function* (
  input: HistoryTask.WriteInput
): Effect.fn.Return<Exported, OffThread.WorkStopped> {
  return isLarge(input.events) ? yield* OffThread.run(task.write, input) : HistoryTask.write(input)
})

const task = {
  verify: OffThread.task<typeof HistoryTask.verify>(import.meta.url, "./HistoryTask", "verify"),
  repair: OffThread.task<typeof HistoryTask.repair>(import.meta.url, "./HistoryTask", "repair"),
  read: OffThread.task<typeof HistoryTask.read>(import.meta.url, "./HistoryTask", "read"),
  write: OffThread.task<typeof HistoryTask.write>(import.meta.url, "./HistoryTask", "write")
}

const asText = (value: unknown) => ({ text: JSON.stringify(value) })

/** Characters and entries of a history that take some milliseconds (W1). */
const smallWeight = 256 * 1024

/** Whether a value of JSON weighs more than `smallWeight`; it looks at no more of it than that. */
const isLarge = (value: unknown): boolean => {
  const left: Array<unknown> = [value]
  let weight = 0
  while (left.length > 0 && weight + left.length <= smallWeight) {
    const next = left.pop()
    weight += typeof next === "string" ? next.length : 1
    if (typeof next !== "object" || next === null) continue
    for (const key in next) {
      left.push((next as Readonly<Record<string, unknown>>)[key])
      weight += Array.isArray(next) ? 0 : key.length
      if (weight + left.length > smallWeight) return true
    }
  }
  return left.length > 0 || weight > smallWeight
}
