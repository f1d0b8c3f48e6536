/**
 * Seeded chance: the same seed throws the same numbers on every machine.
 *
 * Owns: the numbers. Does not own: what they decide.
 */

export interface Dice {
  /** A number from 0 (included) to 1 (excluded). */
  readonly next: () => number
  /** An integer from 0 to `n` - 1. */
  readonly below: (n: number) => number
  /** An integer from `low` to `high`, both included. */
  readonly between: (low: number, high: number) => number
  readonly chance: (probability: number) => boolean
  readonly pick: <A>(choices: readonly [A, ...ReadonlyArray<A>]) => A
  /** One of the names, as often as its weight says. */
  readonly weighted: <K extends string>(weights: Readonly<Record<K, number>>) => K
  /** Dice of their own: what they throw does not depend on how often others are thrown. */
  readonly fork: () => Dice
}

export const make = (seed: number): Dice => {
  let state = scatter(seed)
  const next = () => {
    // mulberry32
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }
  const below = (n: number) => Math.floor(next() * n)
  return {
    next,
    below,
    between: (low, high) => low + below(high - low + 1),
    chance: (probability) => next() < probability,
    pick: (choices) => choices[below(choices.length)] ?? choices[0],
    weighted: <K extends string>(weights: Readonly<Record<K, number>>): K => {
      const names = Object.keys(weights) as Array<K>
      let left = next() * names.reduce((sum, name) => sum + weights[name], 0)
      const found = names.find((name) => (left -= weights[name]) < 0) ?? names.at(-1)
      if (found === undefined) throw new Error("nothing to choose from")
      return found
    },
    fork: () => make(below(0x7fffffff))
  }
}

/** Neighbouring seeds must not throw alike. */
const scatter = (seed: number): number => {
  let h = Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b)
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35)
  return h ^ (h >>> 16)
}
