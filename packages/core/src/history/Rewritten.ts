/**
 * A message list after one pass of a repair.
 *
 * Owns: how changes keep naming the messages that were given while the list changes under them. Does not own: passes.
 */
import type { Change } from "./Contract.ts"
import { step } from "./Json.ts"

/** A change that names its message by the index in the list this pass was given. */
export interface Note extends Omit<Change, "at"> {
  readonly index: number
  readonly path: string
}

/** The new list. `origins[i]` is the index message `i` had before this pass, -1 for a message this pass wrote. */
export interface Rewritten {
  readonly messages: ReadonlyArray<unknown>
  readonly origins: ReadonlyArray<number>
  readonly notes: ReadonlyArray<Note>
}

/** A list no pass has touched. */
export const untouched = (messages: ReadonlyArray<unknown>): Rewritten => ({
  messages,
  origins: messages.map((_, index) => index),
  notes: []
})

/** Two passes as one: the second worked on the messages of the first. */
export const andThen = (first: Rewritten, second: Rewritten): Rewritten => ({
  messages: second.messages,
  origins: second.origins.map((origin) => (origin < 0 ? -1 : first.origins[origin]!)),
  notes: [...first.notes, ...second.notes.map((note) => moved(first.origins, note))]
})

/** The changes, pointing into the list the first pass was given. */
export const changesOf = (rewritten: Rewritten): ReadonlyArray<Change> =>
  rewritten.notes.map(({ index, path, ...change }) => ({ ...change, at: step(index) + path }))

// A change of a message the repair wrote itself is told of the message in front of it.
const moved = (origins: ReadonlyArray<number>, note: Note): Note => {
  for (let index = note.index; index >= 0; index--) {
    const origin = origins[index]
    if (origin !== undefined && origin >= 0) {
      return index === note.index ? { ...note, index: origin } : { ...note, index: origin, path: "" }
    }
  }
  return { ...note, index: 0, path: "" }
}
