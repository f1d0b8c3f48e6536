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
  /** Begins to measure; the function takes over what was found on the disk. What was kept meanwhile counts as well. */
  readonly measure: () => (found: Measured) => void
}

export const make = (limits: { readonly quota: number; readonly sessionQuota: number }): SpillRoom => {
  /** Bytes of the spills of each home, and which were kept since they were last measured. */
  let kept = new Map<string, Map<string, { readonly bytes: number; readonly at: number }>>()
  /** Bytes of each home and of all, with those of spills that are being written (R1). */
  let homes = new Map<string, number>()
  let all = 0
  const growing = new Set<{ readonly home: string; bytes: number }>()
  let clock = 0
  const add = (home: string, bytes: number) => {
    all += bytes
    homes.set(home, (homes.get(home) ?? 0) + bytes)
  }
  const setKept = (home: string, id: string, bytes: number, at: number) => {
    const spills = kept.get(home) ?? new Map<string, { readonly bytes: number; readonly at: number }>()
    kept.set(home, spills)
    add(home, bytes - (spills.get(id)?.bytes ?? 0))
    spills.set(id, { bytes, at })
  }
  return {
    measure: () => {
      const begun = clock++
      return (found) => {
        const before = kept
        kept = new Map()
        homes = new Map()
        all = 0
        for (const [home, spills] of found) for (const [id, bytes] of spills) setKept(home, id, bytes, begun)
        for (const [home, spills] of before) {
          for (const [id, { at, bytes }] of spills) if (at > begun) setKept(home, id, bytes, at)
        }
        for (const { bytes, home } of growing) add(home, bytes)
      }
    },
    reserve: (home) => {
      const mine = { home, bytes: 0 }
      growing.add(mine)
      const release = () => {
        if (!growing.delete(mine)) return
        add(home, -mine.bytes)
      }
      return {
        take: (bytes) => {
          mine.bytes += bytes
          add(home, bytes)
          if ((homes.get(home) ?? 0) > limits.sessionQuota) {
            return SpillStore.quotaSpent("session", limits.sessionQuota)
          }
          return all > limits.quota ? SpillStore.quotaSpent("store", limits.quota) : undefined
        },
        keep: (id) => {
          release()
          setKept(home, id, mine.bytes, clock)
        },
        release
      }
    }
  }
}
