/**
 * How much room spills have, and how much of it is taken.
 *
 * Owns: the counting of bytes, of all spills and of each session's. Does not own: the files that are counted (`SpillFolder`).
 *
 * - R1. What is being written is counted as it grows, so that writes at the same time cannot take more than there is.
 * - R2. Other processes on the same folder are seen when files are measured again: their limits hold to within an hour.
 */
import type { SpillId } from "@turnstep/core/Ids"
import * as SpillStore from "@turnstep/core/SpillStore"

/** Bytes of the spills of each session's folder, by their ids. */
export type Measured = ReadonlyMap<string, ReadonlyMap<string, number>>

/** Room for one spill while it is written. */
export interface Reserved {
  /** Takes more; says why not when there is none. */
  readonly take: (bytes: number) => SpillStore.SpillRefused | undefined
  /** The spill is there: what was taken is its own from now on, unless it was there before. */
  readonly keep: (id: SpillId) => void
  /** Gives back what was taken and not kept. */
  readonly release: () => void
}

export interface SpillRoom {
  readonly reserve: (home: string) => Reserved
  /** Takes over what was found on the disk. */
  readonly measured: (found: Measured) => void
}

export const make = (limits: { readonly quota: number; readonly sessionQuota: number }): SpillRoom => {
  let kept = new Map<string, Map<string, number>>()
  const growing = new Set<{ readonly home: string; bytes: number }>()
  const used = (home: string | undefined): number => {
    let sum = 0
    for (const [of, spills] of kept) {
      if (home === undefined || of === home) for (const bytes of spills.values()) sum += bytes
    }
    for (const each of growing) if (home === undefined || each.home === home) sum += each.bytes
    return sum
  }
  return {
    measured: (found) => {
      kept = new Map([...found].map(([home, spills]) => [home, new Map(spills)]))
    },
    reserve: (home) => {
      const mine = { home, bytes: 0 }
      growing.add(mine)
      // Counted once: others that grow meanwhile are seen at the next mebibyte.
      let free = 0
      return {
        take: (bytes) => {
          mine.bytes += bytes
          free -= bytes
          if (free >= 0) return undefined
          const left = [limits.sessionQuota - used(home), limits.quota - used(undefined)] as const
          if (left[0] < 0) return SpillStore.quotaSpent("session", limits.sessionQuota)
          if (left[1] < 0) return SpillStore.quotaSpent("store", limits.quota)
          free = Math.min(SpillStore.threshold, ...left)
          return undefined
        },
        keep: (id) => {
          const spills = kept.get(home) ?? new Map<string, number>()
          kept.set(home, spills)
          spills.set(id, mine.bytes)
        },
        release: () => void growing.delete(mine)
      }
    }
  }
}
