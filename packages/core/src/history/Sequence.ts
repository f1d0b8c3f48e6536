/**
 * Faults that only several messages together show, and their mending.
 *
 * Owns: applying the edits such faults bring along. Does not own: the rules (`Order`, `formats/`).
 *
 * - Q1. One rule is mended at a time: its edits change what the next rule sees. A rule replaces a message at most once.
 */
import type { Edit, Fault, History } from "./Format.ts"
import type { Note, Rewritten } from "./Rewritten.ts"

/** The faults of the order of messages. */
export const sequenceFaults = (history: History): ReadonlyArray<Fault> =>
  history.format.sequence.flatMap((rule) => rule(history))

/** Mends the first rule that has something to mend (Q1); `undefined` if none has. */
export const mendSequence = (history: History): Rewritten | undefined => {
  for (const rule of history.format.sequence) {
    const faults = rule(history).filter((fault) => fault.edits !== undefined)
    if (faults.length > 0) return apply(history.messages, faults)
  }
  return undefined
}

const apply = (messages: ReadonlyArray<unknown>, faults: ReadonlyArray<Fault>): Rewritten => {
  const notes: Array<Note> = []
  const edits = new Map<number, Array<Edit>>()
  for (const { code, edits: own = [], index, path } of faults) {
    for (const edit of own) {
      edits.set(edit.index, [...(edits.get(edit.index) ?? []), edit])
      const content = edit.dropped === undefined ? {} : { dropped: edit.dropped }
      notes.push({ index, path, code, action: edit.action, note: edit.note, ...content })
    }
  }
  const placed = messages.flatMap((message, index): ReadonlyArray<readonly [unknown, number]> => {
    const here = edits.get(index)
    if (here === undefined) return [[message, index]]
    const fresh = (values: ReadonlyArray<unknown>) => values.map((value) => [value, -1] as const)
    const replaced = here.find((edit) => edit.replace !== undefined)?.replace ?? [message]
    return [
      ...fresh(here.flatMap((edit) => edit.before ?? [])),
      ...replaced.map((value) => [value, index] as const),
      ...fresh(here.flatMap((edit) => edit.after ?? []))
    ]
  })
  return { messages: placed.map(([message]) => message), origins: placed.map(([, origin]) => origin), notes }
}
