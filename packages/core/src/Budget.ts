/**
 * How many steps a Turn may take, and the words with which it gives control back when they are spent (mechanism A4).
 *
 * - B1. Only a new Turn starts a budget; nothing inside a Turn refills it.
 * - B2. The hand-back names what was done and what is open; it never claims success for an unfinished call.
 */

/** Steps a Turn takes unless its agent says otherwise. */
export const defaultMaxSteps = 15

/** Whether another step with tools may start. */
export const isSpent = (budget: { readonly steps: number; readonly maxSteps: number }): boolean =>
  budget.steps >= budget.maxSteps

/** What the model is asked when the budget is spent: its last request has no tools. */
export const handBackPrompt = (maxSteps: number): string =>
  `The step budget of this turn (${maxSteps}) is spent and no tool can be called any more. ` +
  "Hand control back to the human now: say what was done, what is still open, and what you suggest as the next step. " +
  "Do not claim that unfinished work is finished."

/** One answered call of the Turn, for the deterministic hand-back. */
export interface Done {
  readonly tool: string
  readonly isFailure: boolean
}

/** The hand-back the runtime writes when the model could not (B2). */
export const handBackText = (maxSteps: number, calls: ReadonlyArray<Done>): string => {
  const counts = new Map<string, { ok: number; failed: number }>()
  for (const call of calls) {
    const count = counts.get(call.tool) ?? { ok: 0, failed: 0 }
    if (call.isFailure) count.failed++
    else count.ok++
    counts.set(call.tool, count)
  }
  const lines = [...counts].map(
    ([tool, { ok, failed }]) => `- ${tool}: ${ok} answered${failed === 0 ? "" : `, ${failed} without success`}`
  )
  return [
    `This turn used its ${maxSteps} steps and stopped before the work was finished.`,
    lines.length === 0 ? "No tool was called." : `Calls made:\n${lines.join("\n")}`,
    "Nothing beyond these calls was done. Send a message to go on; the next turn has a full budget again."
  ].join("\n")
}
