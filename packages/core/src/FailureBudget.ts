/**
 * The failures a Turn takes from a place it does not control (mechanism D4): after so many in a row the tools of that place
 * are out of use for the rest of the Turn, and the model is told so instead of trying again.
 *
 * - F1. Only what was executed counts: a call refused before that says nothing about the place.
 * - F2. What is spent stays spent: only a new Turn starts anew.
 */
import type { Domain } from "./ToolPolicy.ts"

/** Failures in a row, unless the agent says otherwise. */
export const defaultLimit = 5

/** How it stands with one domain: failures in a row, and the most there ever were in this Turn. */
interface Streak {
  readonly current: number
  readonly longest: number
}

/** The domains that have such a budget, as far as they have been used in the Turn. */
export type FailureBudget = ReadonlyMap<Domain, Streak>

export const empty: FailureBudget = new Map()

/** Whether calls of a domain are counted here, and so not by the `Breaker`. */
export const counts = (domain: Domain): boolean => domain === "local" || domain === "desktop" || domain === "plugin"

/** Counts an executed call (F1). */
export const observe = (budget: FailureBudget, domain: Domain, isFailure: boolean): FailureBudget => {
  if (!counts(domain)) return budget
  const { current, longest } = budget.get(domain) ?? { current: 0, longest: 0 }
  const now = isFailure ? current + 1 : 0
  return new Map(budget).set(domain, { current: now, longest: Math.max(longest, now) })
}

/** Whether a domain is out of use (F2). */
export const isSpent = (budget: FailureBudget, domain: Domain, limit: number = defaultLimit): boolean =>
  (budget.get(domain)?.longest ?? 0) >= limit

/** What the model reads instead of a result of a domain that is out of use; `undefined` while it is in use. */
export const refused = (
  budget: FailureBudget,
  tool: string,
  domain: Domain,
  limit: number = defaultLimit
): string | undefined =>
  isSpent(budget, domain, limit)
    ? `This call was not executed: ${limit} calls of ${domain} tools have failed in a row, so no ${domain} tool is used any more ` +
      `in this turn, ${tool} included. Do without them, or say what you could not do.`
    : undefined
