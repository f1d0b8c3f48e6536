/**
 * A history made ready for the rules: its entries, its pairing, its suspended calls.
 *
 * Owns: the order in which these are found. Does not own: the rules.
 */
import type { Context } from "./Contract.ts"
import { rulesFor } from "./Contract.ts"
import { waitOf } from "./CallRules.ts"
import type { Draft, Format, History, Pairing, Place } from "./Format.ts"
import { pair } from "./Pairing.ts"

/** Reads a message array in a format. Linear in its length. */
export const make = (format: Format, messages: ReadonlyArray<unknown>, context: Context): History => {
  const rules = rulesFor(format.name, context)
  const entries = messages.map(format.entry)
  const pairing =
    format.calls === undefined ? unpaired : pair(format.calls, rules, context.openCalls, messages, entries)
  const draft: Draft = { format, messages, context, rules, entries, pairing }
  return { ...draft, suspended: suspendedIn(draft) }
}

/** Whether the value at this place is a suspended call. */
export const isSuspended = (history: History, message: number, slot: number): boolean =>
  history.suspended.get(message)?.has(slot) === true

const unpaired: Pairing = { batches: [], orphans: [], isLive: false }

const suspendedIn = (draft: Draft): ReadonlyMap<number, ReadonlySet<number>> => {
  const places = draft.format.suspended?.(draft) ?? waitingIn(draft)
  const suspended = new Map<number, Set<number>>()
  for (const { message, slot } of places) {
    const slots = suspended.get(message)
    if (slots === undefined) suspended.set(message, new Set([slot]))
    else slots.add(slot)
  }
  return suspended
}

const waitingIn = (draft: Draft): ReadonlyArray<Place> => {
  const last = draft.pairing.batches.length - 1
  if (last < 0 || !draft.pairing.isLive) return []
  return draft.pairing.batches[last]!.calls.filter((_, slot) => waitOf(draft, last, slot)?.isSuspended === true)
}
