/**
 * Waiting work in lanes, taken by turns: a lane with much work delays another lane by one piece of work at a time.
 */
export interface Lanes<A> {
  readonly add: (lane: string, item: A) => void
  /** Takes the first item of the lane that has waited longest; `undefined` when nothing waits. */
  readonly take: () => A | undefined
  /** Removes an item that waits; false when it does not wait any more. */
  readonly remove: (lane: string, item: A) => boolean
  readonly size: () => number
}

export const make = <A>(): Lanes<A> => {
  const lanes = new Map<string, Array<A>>()
  let size = 0
  return {
    add: (lane, item) => {
      const waiting = lanes.get(lane)
      if (waiting === undefined) lanes.set(lane, [item])
      else waiting.push(item)
      size++
    },
    take: () => {
      for (const [lane, waiting] of lanes) {
        const item = waiting.shift()
        lanes.delete(lane)
        if (waiting.length > 0) lanes.set(lane, waiting) // now the last
        if (item === undefined) continue
        size--
        return item
      }
      return undefined
    },
    remove: (lane, item) => {
      const waiting = lanes.get(lane)
      const index = waiting?.indexOf(item) ?? -1
      if (waiting === undefined || index < 0) return false
      waiting.splice(index, 1)
      if (waiting.length === 0) lanes.delete(lane)
      size--
      return true
    },
    size: () => size
  }
}

/** Time that lanes have wasted; it is forgiven while they wait. */
export interface Debts {
  /** Milliseconds a lane owes at a time. */
  readonly of: (lane: string, now: number) => number
  readonly add: (lane: string, millis: number, now: number) => void
}

/** Debts of which `share` is forgiven for each millisecond that passes. */
export const makeDebts = (share: number): Debts => {
  const debts = new Map<string, { readonly millis: number; readonly since: number }>()
  const of = (lane: string, now: number): number => {
    const debt = debts.get(lane)
    const left = debt === undefined ? 0 : debt.millis - (now - debt.since) * share
    if (left > 0) return left
    debts.delete(lane)
    return 0
  }
  return {
    of,
    add: (lane, millis, now) => {
      for (const known of debts.keys()) of(known, now) // drops what is forgiven
      debts.set(lane, { millis: of(lane, now) + millis, since: now })
    }
  }
}
