/**
 * Calls that nobody may run unasked: those that a person has to approve, and those that are executed at the user's side.
 *
 * Until a call can wait for a person, such a call is answered in words and not started.
 *
 * Owns: which tools these are, and the words for the model. Does not own: whether a call of a tool that decides from case to
 * case needs an approval (`runtime/Approval`).
 *
 * - C1. Silence is no approval: a call whose need is not known is not started.
 */
import type { Domain, ToolPolicy } from "./ToolPolicy.ts"

/** What a policy says about being asked; what it leaves out needs nobody. */
export type Asking = Partial<Pick<ToolPolicy, "domain" | "needsApproval">>

/** Whether calls of a domain are executed at the user's side, not by this process. */
export const isAtUser = (domain: Domain): boolean =>
  domain === "client" || domain === "local" || domain === "desktop" || domain === "plugin"

/** What is known for one call; nothing is known by default (C1). */
export interface Known {
  /** It needs no approval, although calls of its tool may. */
  readonly isFree?: boolean | undefined
  /** Domains at the user's side that calls can be handed over to. */
  readonly reachable?: ReadonlySet<Domain> | undefined
}

/** Why a call is not started, in words for the model. */
export const refusal = (
  tool: string,
  { domain = "server", needsApproval = false }: Asking,
  { isFree = false, reachable }: Known
): string | undefined => {
  if (isAtUser(domain) && reachable?.has(domain) !== true) {
    return (
      `This call was not executed: ${tool} is executed at the user's side (${domain}), and calls cannot be handed over to it here. ` +
      "Do without it, or say what the user would have to do."
    )
  }
  if (needsApproval === false || (needsApproval !== true && isFree)) return undefined
  return (
    `This call was not executed: ${tool} needs approval by a person, who cannot be asked for it here. ` +
    "Do without it, or say what you would have done."
  )
}
