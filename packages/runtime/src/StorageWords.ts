/**
 * Why storage refused something, in its own words.
 *
 * Owns: finding these words in an error. Does not own: what follows from the refusal (`Owner`, `Drivers`).
 */
import * as Cause from "effect/Cause"

/** Characters of storage's words at most. */
const longest = 500

/** What the innermost error says: storage's own words, and not those of the layers around them. */
export const of = (defect: unknown): string => {
  let error = defect
  for (let depth = 0; depth < 8; depth++) {
    const inner = causeOf(error)
    if (inner === undefined) break
    error = inner
  }
  return (error instanceof Error ? error.message : String(error)).slice(0, longest)
}

/** The same of whatever ended an effect. */
export const ofCause = (cause: Cause.Cause<unknown>): string => of(Cause.squash(cause))

const causeOf = (error: unknown): unknown => {
  if (typeof error !== "object" || error === null) return undefined
  if ("cause" in error && error.cause instanceof Error) return error.cause
  return "reason" in error && typeof error.reason === "object" ? causeOf(error.reason) : undefined
}
