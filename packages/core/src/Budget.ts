/**
 * What a Turn may use (steps, and where its agent says so tokens, cost, time), and the words with which it gives control
 * back when that is spent (mechanisms A4, A5).
 *
 * - B1. Only a new Turn starts a budget; nothing inside a Turn refills it.
 * - B2. The hand-back names what was done and what is open; it never claims success for an unfinished call.
 */

import type { Limit, Limits, Usage } from "./TurnEvent.ts"

/** Steps a Turn takes unless its agent says otherwise. */
export const defaultMaxSteps = 15

/** What a Turn has used. `now` is milliseconds since the epoch. */
export interface Used {
  readonly steps: number
  readonly usage: Usage
  readonly now: number
}

/**
 * The limit that is spent, if one is: then no further step with tools may start. The one request that is still made, for
 * the hand-back, is the reserve of every limit (mechanism A5).
 */
export const spent = (limits: Limits, used: Used): Limit | undefined => {
  if (used.steps >= limits.maxSteps) return "steps"
  if (limits.maxTokens !== undefined && used.usage.inputTokens + used.usage.outputTokens >= limits.maxTokens) {
    return "tokens"
  }
  if (limits.maxCost !== undefined && costOf(limits, used.usage) >= limits.maxCost) return "cost"
  return limits.deadline !== undefined && used.now >= limits.deadline ? "time" : undefined
}

/** What tokens cost at the Turn's price; 0 without one. */
export const costOf = ({ price }: Limits, usage: Usage): number => {
  if (price === undefined) return 0
  const cached = Math.min(usage.inputTokens, usage.cachedInputTokens ?? 0)
  const input = (usage.inputTokens - cached) * price.input + cached * (price.cachedInput ?? price.input)
  return (input + usage.outputTokens * price.output) / 1_000_000
}

/** What is spent, in words. */
export const reason = (limits: Limits, limit: Limit): string => {
  switch (limit) {
    case "steps":
      return `The step budget of this turn (${limits.maxSteps}) is spent`
    case "tokens":
      return `The token budget of this turn (${limits.maxTokens}) is spent`
    case "cost":
      return `The cost budget of this turn (${limits.maxCost}) is spent`
    case "time":
      return "The time of this turn is spent"
  }
}

/** What the model is asked when its Turn must end, for a reason such as `reason` gives: its last request has no tools. */
export const handBackPrompt = (why: string): string =>
  `${why}, and ${noMoreTools} ` +
  "Hand control back to the human now: say what was done, what is still open, and what you suggest as the next step. " +
  "Do not claim that unfinished work is finished."

/** By these words a text is known as such a question. */
export const noMoreTools = "no tool can be called any more."

/** One answered call of the Turn, for the deterministic hand-back. `unknown`: it may have had effects. */
export interface Done {
  readonly tool: string
  readonly outcome: "ok" | "failed" | "unknown"
}

/** The hand-back the runtime writes when the model could not (B2). */
export const handBackText = (why: string, calls: ReadonlyArray<Done>): string =>
  [
    `${why}; the work is not finished.`,
    callsMade(calls),
    "Nothing beyond these calls was done. Send a message to go on; the next turn has a full budget again."
  ].join("\n")

/** The calls of a Turn, counted by tool. */
export const callsMade = (calls: ReadonlyArray<Done>): string => {
  const counts = new Map<string, Record<Done["outcome"], number>>()
  for (const { outcome, tool } of calls) {
    const count = counts.get(tool) ?? { ok: 0, failed: 0, unknown: 0 }
    count[outcome]++
    counts.set(tool, count)
  }
  const some = (count: number, what: string) => (count === 0 ? "" : `, ${count} ${what}`)
  const lines = [...counts].map(
    ([tool, { failed, ok, unknown }]) =>
      `- ${tool}: ${ok} answered${some(failed, "without success")}${some(unknown, "with unknown outcome")}`
  )
  return lines.length === 0 ? "No tool was called." : `Calls made:\n${lines.join("\n")}`
}
