/** What a child of the crash matrix is given, and the lines it prints: one JSON value each, behind `@`. */
import type { Boundary, Cut } from "@turnstep/core/CrashPoint"
import type { Fact } from "@turnstep/core/TurnEvent"
import type { Tables } from "./Tables.ts"

/** Where a process is to stand still: the `nth` passing of a place. */
export interface Stop {
  readonly boundary: Boundary
  readonly cut: Cut
  readonly nth: number
  /** Milliseconds it stands there; without them for ever. Long enough for the parent to stop the process. */
  readonly pause?: number
}

export interface Task {
  readonly database: { readonly url: string } | { readonly dataDir: string }
  /** Times its one connection to PostgreSQL is cut, as soon as the runtime is there. */
  readonly cuts?: number
  readonly provider: string
  readonly outside: string
  /** The folder of the spill store. */
  readonly spills: string
  /** A client has the conversation of `Script`; a worker only drives what is there. */
  readonly role: "client" | "worker"
  readonly stop?: Stop | undefined
  /** Ends the leases of processes that are known to be dead: a test need not wait for them. */
  readonly endLeases: boolean
}

/** A session as its last process leaves it. */
export interface End {
  readonly events: ReadonlyArray<{ readonly seq: number; readonly fence: number; readonly fact: Fact }>
  readonly tables: Tables
  /** Sequence numbers of the events a watcher saw from the start of the process, in their order. */
  readonly watched: ReadonlyArray<number>
  /** The spills of the log that can be read whole, under the digest of their bytes. */
  readonly spills: ReadonlyArray<string>
}

export type Line =
  /** What the process finds: events, and answers of the model that are accepted. */
  | { readonly found: { readonly seq: number; readonly answers: number } }
  | { readonly admitted: { readonly name: string; readonly itemId: string } }
  | { readonly withdrawn: string }
  | { readonly release: string }
  /** It stands still. */
  | { readonly stopped: string }
  | { readonly cut: "question" | "answer" }
  | { readonly logged: string }
  | { readonly ready: true }
  /** It has closed what it had opened. */
  | { readonly ended: true }
  | { readonly end: End }
  /** How often each place was passed, at the end. */
  | { readonly passed: Readonly<Record<string, number>> }

export const placeOf = (boundary: string, cut: string): string => `${boundary} ${cut}`
