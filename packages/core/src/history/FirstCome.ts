/**
 * Things that are looked for under keys and taken once each, the first that came first.
 *
 * Owns: finding them without a look at all the others: a batch may have a hundred thousand calls. Does not own: what they are.
 */

export interface FirstCome<A> {
  readonly add: (item: A, keys: ReadonlyArray<string>) => void
  /** Takes the first of those under any of the keys. */
  readonly take: (keys: ReadonlyArray<string>) => A | undefined
  /** What nobody has taken, in its order. */
  readonly rest: () => ReadonlyArray<A>
}

interface Entry<A> {
  readonly item: A
  readonly place: number
  isTaken: boolean
}

/** Entries under a key; those before `next` are taken. */
interface Line<A> {
  readonly entries: Array<Entry<A>>
  next: number
}

export const make = <A>(): FirstCome<A> => {
  const all: Array<Entry<A>> = []
  const lines = new Map<string, Line<A>>()
  const firstOf = (key: string): Entry<A> | undefined => {
    const line = lines.get(key)
    if (line === undefined) return undefined
    while (line.entries[line.next]?.isTaken === true) line.next++
    return line.entries[line.next]
  }
  return {
    add: (item, keys) => {
      const entry: Entry<A> = { item, place: all.length, isTaken: false }
      all.push(entry)
      for (const key of keys) {
        const line = lines.get(key)
        if (line === undefined) lines.set(key, { entries: [entry], next: 0 })
        else line.entries.push(entry)
      }
    },
    take: (keys) => {
      let first: Entry<A> | undefined
      for (const key of keys) {
        const found = firstOf(key)
        if (found !== undefined && (first === undefined || found.place < first.place)) first = found
      }
      if (first !== undefined) first.isTaken = true
      return first?.item
    },
    rest: () => all.flatMap(({ isTaken, item }) => (isTaken ? [] : [item]))
  }
}
