/**
 * What goes wrong in a history: at most three faults, drawn from the seed before it begins.
 *
 * Owns: which faults there are and where each strikes. Does not own: what follows from one (`SimStore`, `Operator`).
 *
 * - F1. A history has at most `most` faults.
 * - F2. After `end` no fault strikes any more.
 */
import * as CrashPoint from "@turnstep/core/CrashPoint"
import type { Type } from "@turnstep/core/TurnEvent"
import type { Dice } from "./Dice.ts"
import type { World } from "./World.ts"

/** Faults a history has at the most (F1). */
export const most = 3

/**
 * - `kill`: the process ends at a place of `CrashPoint`
 * - `kill-in-store`: the process ends inside an operation of storage, after it happened and before it is answered
 * - `fail-before`, `fail-after`: storage fails, and the operation has not happened, or it has
 * - `outage`: every operation of storage fails for a while
 * - `refuse`: storage refuses every write of one type of fact, for a while or for good; reads and other writes pass
 * - `deaf`: every read of storage fails for a while; writes pass
 * - `stop`: the process is stopped inside an operation, for less than its lease or for longer
 * - `steal`: the process is taken for dead although it lives
 * - `shutdown`: the process is told to end
 */
export type Fault =
  | { readonly kind: "kill"; readonly where: "any" | CrashPoint.Boundary; readonly cut: CrashPoint.Cut; nth: number }
  | { readonly kind: "kill-in-store" | "fail-before" | "fail-after"; nth: number }
  | { readonly kind: "outage" | "deaf" | "stop"; nth: number; readonly millis: number }
  | { readonly kind: "refuse"; nth: number; readonly millis: number; readonly type: Type }
  | { readonly kind: "steal" | "shutdown"; nth: number }

export type AtStore = Exclude<Fault, { readonly kind: "kill" }>

export interface Faults {
  readonly all: ReadonlyArray<Fault>
  /** Whether the process is to die at this place. */
  readonly atPlace: (boundary: CrashPoint.Boundary, cut: CrashPoint.Cut) => boolean
  /** The fault that strikes this operation of storage. */
  readonly atStore: () => AtStore | undefined
  /** Faults that have struck. */
  readonly struck: () => number
  /** Their kinds. */
  readonly kinds: () => ReadonlyArray<Fault["kind"]>
  /** Their kinds; of a kill also its place. */
  readonly seen: () => ReadonlyArray<string>
  /** No further fault (F2). */
  readonly end: () => void
}

/** Draws the faults of a history. The seeds take turns with the places of `CrashPoint`. */
export const draw = (world: World, dice: Dice, seed: number): Faults => {
  const count = Number(dice.weighted({ 0: 2, 1: 4, 2: 3, [most]: 2 }))
  const all = Array.from({ length: count }, (_, n) => (n === 0 && dice.chance(0.6) ? atPlace(dice, seed) : one(dice)))
  let waiting: Array<Fault> = [...all]
  const seen: Array<string> = []
  const kinds: Array<Fault["kind"]> = []
  let struck = 0
  const strike = (fault: Fault, place?: string) => {
    waiting = waiting.filter((other) => other !== fault)
    struck++
    kinds.push(fault.kind)
    seen.push(fault.kind, ...(place === undefined ? [] : [place]))
    world.note(`fault ${fault.kind} ${place ?? ""}`)
  }
  return {
    all,
    atPlace: (boundary, cut) => {
      for (const fault of waiting) {
        if (fault.kind !== "kill") continue
        if (fault.where !== "any" && (fault.where !== boundary || fault.cut !== cut)) continue
        if (--fault.nth > 0) continue
        strike(fault, placeOf(boundary, cut))
        return true
      }
      return false
    },
    atStore: () => {
      for (const fault of waiting) {
        if (fault.kind === "kill" || --fault.nth > 0) continue
        strike(fault)
        return fault
      }
      return undefined
    },
    struck: () => struck,
    kinds: () => kinds,
    seen: () => seen,
    end: () => {
      waiting = []
    }
  }
}

/** A place of `CrashPoint` in one word. */
export const placeOf = (boundary: CrashPoint.Boundary, cut: CrashPoint.Cut): string => `${boundary}:${cut}`

const atPlace = (dice: Dice, seed: number): Fault => {
  const { boundary, cut } = CrashPoint.places[seed % CrashPoint.places.length] ?? { boundary: "any", cut: "after-ack" }
  return { kind: "kill", where: boundary, cut, nth: Number(dice.weighted({ 1: 6, 2: 2, 3: 1 })) }
}

/** Facts that a full disk, a missing grant or a limit of size may keep out, while smaller ones pass. */
const refusable = ["turn.started", "call.requested", "call.completed", "step.completed", "turn.completed"] as const

const one = (dice: Dice): Fault => {
  const kind = dice.weighted({
    kill: 3,
    "kill-in-store": 1,
    "fail-before": 2,
    "fail-after": 2,
    outage: 1,
    deaf: 1,
    refuse: 2,
    stop: 2,
    steal: 2,
    shutdown: 2
  })
  // Operations of storage in a history: some dozens. A fault that is drawn too late does not strike.
  const nth = 1 + Math.floor(dice.next() ** 2 * 60)
  switch (kind) {
    case "kill":
      return { kind, where: "any", cut: "after-ack", nth }
    case "refuse": {
      const type = dice.pick(refusable)
      return { kind, nth, type, millis: dice.pick([3_000, 20_000, Infinity]) }
    }
    case "deaf":
      return { kind, nth, millis: dice.between(100, 20_000) }
    case "outage":
      return { kind, nth, millis: dice.between(100, 20_000) }
    case "stop":
      return { kind, nth, millis: dice.pick([500, 14_000, 17_000, 40_000]) }
    default:
      return { kind, nth }
  }
}
