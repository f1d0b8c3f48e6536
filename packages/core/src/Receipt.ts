/**
 * The one answer a call gets: the tool's own result, or a receipt the runtime writes in its place.
 *
 * Owns: the classes of outcome and their wording for the model. Does not own: which calls are open (`Ledger`) or where
 * the answer is kept (`Journal`).
 *
 * - R1. A receipt never claims more than is known: never "failed" and never "succeeded" for a call that may have had effects.
 */
import * as Schema from "effect/Schema"
import type { EffectClass } from "./ToolPolicy.ts"

/**
 * Why a call has no result of its own.
 *
 * - `not-started`: it never ran
 * - `cancelled`: it was stopped and cannot have had effects
 * - `timed-out`: it exceeded its time and cannot have had effects
 * - `outcome-unknown`: it was started and may have had effects
 */
export const Outcome = Schema.Literals(["not-started", "cancelled", "timed-out", "outcome-unknown"])
export type Outcome = typeof Outcome.Type

/** Why the Turn stopped waiting for a call. */
export type Cause = "cancelled" | "timed-out" | "failed" | "lost"

/** How far a call had come when the Turn stopped waiting for it. */
export interface Progress {
  readonly isStarted: boolean
  readonly effects: EffectClass
}

/** Decides the outcome of a call that will never be answered by its tool (R1). */
export const outcomeOf = (progress: Progress, cause: Cause): Outcome => {
  if (!progress.isStarted) return "not-started"
  if (progress.effects !== "pure") return "outcome-unknown"
  return cause === "timed-out" ? "timed-out" : "cancelled"
}

/** What the model reads in place of a result. */
export const textFor = (tool: string, outcome: Outcome): string => {
  switch (outcome) {
    case "not-started":
      return `[receipt: not started] The turn ended before ${tool} was started. It has had no effect.`
    case "cancelled":
      return `[receipt: cancelled] ${tool} was stopped before it finished. It only reads, so it has changed nothing.`
    case "timed-out":
      return `[receipt: timed out] ${tool} did not finish in its time and was stopped. It only reads, so it has changed nothing.`
    case "outcome-unknown":
      return (
        `[receipt: outcome unknown] ${tool} was started, and its result was not recorded. ` +
        "It may or may not have taken effect. Check before you call it again."
      )
  }
}
