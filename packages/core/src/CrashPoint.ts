/**
 * The places where a process can die: every boundary of the journal, at three cuts each.
 *
 * Production code passes through `CrashPoint` and nothing happens. A test provides one that kills the process, and takes
 * the list of places to try from here: a boundary that is not listed cannot be written, one that is listed and not tried
 * fails the matrix.
 *
 * Owns: the names of the boundaries and which facts are which. Does not own: what happens there.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { Fact } from "./TurnEvent.ts"

/**
 * - `before-commit`: the write is decided and not sent
 * - `after-commit`: the write is durable, its answer is lost
 * - `after-ack`: the answer has arrived, nothing has followed from it yet
 */
export type Cut = "before-commit" | "after-commit" | "after-ack"

export const cuts: ReadonlyArray<Cut> = ["before-commit", "after-commit", "after-ack"]

/** Boundaries that are crossed by recording a fact. */
export const recorded = [
  "input-accepted",
  "input-moved",
  "input-returned",
  "turn-opened",
  "follow-up-promoted",
  "step-requested",
  "response-accepted",
  "calls-registered",
  "breaker-tripped",
  "tool-started",
  "result-recorded",
  "step-completed",
  "turn-closing",
  "receipts-written",
  "turn-closed"
] as const

/**
 * Boundaries that are crossed outside, with nothing recorded yet: a large output is kept (`spill-written`), the tool has
 * answered (`tool-finished`).
 */
export const outside = ["spill-written", "tool-finished"] as const

export type Boundary = (typeof recorded)[number] | (typeof outside)[number]

/** Every place of the matrix: each recorded boundary at each cut, and those that are crossed outside. */
export const places: ReadonlyArray<{ readonly boundary: Boundary; readonly cut: Cut }> = [
  ...recorded.flatMap((boundary) => cuts.map((cut) => ({ boundary, cut }))),
  ...outside.map((boundary) => ({ boundary, cut: "after-ack" }) as const)
]

/** What happens at a place. */
export type Hit = (boundary: Boundary, cut: Cut) => Effect.Effect<void>

/** Nothing happens, unless a test says otherwise. */
export const CrashPoint = Context.Reference<Hit | undefined>("core/CrashPoint", { defaultValue: () => undefined })

/** Passes a place. */
export const hit = (boundary: Boundary, cut: Cut): Effect.Effect<void> =>
  Effect.flatMap(CrashPoint, (act) => (act === undefined ? Effect.void : act(boundary, cut)))

/** Passes every boundary that a write of these facts crosses. */
export const hitAll = (facts: ReadonlyArray<Fact>, cut: Cut): Effect.Effect<void> =>
  Effect.flatMap(CrashPoint, (act) =>
    act === undefined
      ? Effect.void
      : Effect.forEach(boundariesOf(facts), (boundary) => act(boundary, cut), { discard: true })
  )

/** The boundaries a write crosses, each once. */
export const boundariesOf = (facts: ReadonlyArray<Fact>): ReadonlyArray<Boundary> => [
  ...new Set(facts.flatMap((fact) => boundaryOf(fact)))
]

const boundaryOf = (fact: Fact): ReadonlyArray<Boundary> => {
  switch (fact.type) {
    case "inbox.admitted":
      return ["input-accepted"]
    case "inbox.moved":
      return ["input-moved"]
    case "inbox.returned":
      return ["input-returned"]
    case "turn.started":
      return fact.data.turnId === "trn_1" ? ["turn-opened"] : ["turn-opened", "follow-up-promoted"]
    case "step.started":
      return ["step-requested"]
    case "message.added":
      return fact.data.role === "assistant" ? ["response-accepted"] : []
    case "guard.repeated":
      return fact.data.verdict === "tripped" ? ["breaker-tripped"] : []
    case "call.requested":
      return ["calls-registered"]
    case "call.started":
      return ["tool-started"]
    case "call.completed":
      return ["result-recorded"]
    case "call.receipt":
      return ["receipts-written"]
    case "step.completed":
      return ["step-completed"]
    case "turn.cancelling":
      return ["turn-closing"]
    case "turn.completed":
    case "turn.exhausted":
    case "turn.tripped":
    case "turn.cancelled":
    case "turn.failed":
      return ["turn-closed"]
    default:
      return []
  }
}
