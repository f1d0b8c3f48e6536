/**
 * New call ids, for calls whose own id no provider takes or another call has.
 *
 * Owns: their form: nine letters and digits, which every profile accepts. Ids are counted, not random: the same history
 * gets the same ids, and a longer history keeps those of its beginning.
 */

/** Gives ids that are not in use. */
export const minter = (used: Set<string>): (() => string) => {
  let count = 0
  return () => {
    for (;;) {
      const id = `call${(++count).toString(36).padStart(5, "0")}`
      if (used.has(id)) continue
      used.add(id)
      return id
    }
  }
}
