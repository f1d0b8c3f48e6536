/**
 * The Turn that is open, as its events have left it.
 *
 * Owns: what a Turn is made of, and how it begins. Does not own: how events change it (`SessionState`).
 */
import * as Breaker from "./Breaker.ts"
import type * as Budget from "./Budget.ts"
import type * as DurableRead from "./DurableRead.ts"
import * as FailureBudget from "./FailureBudget.ts"
import type * as Ids from "./Ids.ts"
import * as Ledger from "./Ledger.ts"
import type { DataOf, Figures, Limits, Usage } from "./TurnEvent.ts"

/** The step a Turn is in. `requested` waits for the model, `accepted` for its calls. */
export interface OpenStep {
  readonly step: number
  readonly kind: "work" | "hand-back"
  state: "requested" | "accepted" | "completed"
  /** The figures of its accepted response. */
  figures: Figures
}

/** The Turn that is open. */
export interface OpenTurn {
  readonly id: Ids.TurnId
  readonly number: number
  readonly itemId: Ids.ItemId
  readonly model: string
  readonly limits: Limits
  step: OpenStep | undefined
  ledger: Ledger.Ledger
  usage: Usage
  cancelling: DataOf<"turn.cancelling"> | undefined
  /** Owners that died over it since it last came further. */
  takeovers: number
  /** Times storage refused what it had to record since its last response was accepted. */
  refusals: number
  /** Calls of this Turn that have an answer, for the hand-back. */
  readonly done: Array<Budget.Done>
  /** What was read in it beside the history. */
  readonly reads: Array<DurableRead.Read>
  breaker: Breaker.Breaker
  failures: FailureBudget.FailureBudget
  /** The loop that ends it. */
  tripped: DataOf<"guard.repeated"> | undefined
}

/** The figures of a response that is not there yet. */
export const noFigures: Figures = { finishReason: "unknown", usage: { inputTokens: 0, outputTokens: 0 }, ms: 0 }

/** A Turn as it begins; `number` counts the Turns of its session. */
export const started = ({ itemId, limits, model, turnId }: DataOf<"turn.started">, number: number): OpenTurn => ({
  id: turnId,
  number,
  itemId,
  model,
  limits,
  step: undefined,
  ledger: Ledger.empty(),
  usage: { inputTokens: 0, outputTokens: 0 },
  cancelling: undefined,
  takeovers: 0,
  refusals: 0,
  done: [],
  reads: [],
  breaker: Breaker.empty,
  failures: FailureBudget.empty,
  tripped: undefined
})
