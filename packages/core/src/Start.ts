/**
 * Which registered calls of a batch start next.
 *
 * Owns: the order of starting: one call of an exclusive key at a time, and no more at once than the process takes. Does not
 * own: the keys and refusals themselves (`ToolPolicy`, `Consent`, `FailureBudget`), or how a call runs (`ToolRun`).
 *
 * - N1. The start of a call is recorded when its turn has come, not before: what is still queued when the Turn ends was never
 *   started, and its receipt says so.
 * - N2. Calls of one key start in the order of the response.
 * - N3. A refusal is an answer in place of the start; a refused call holds up nobody.
 */
import type * as Call from "./Call.ts"
import type { CallId } from "./Ids.ts"
import type { Fact } from "./TurnEvent.ts"

/** Calls of one Turn that run at the same time, unless the process says otherwise. */
export const defaultAtOnce = 16

/** A call of the batch, as far as its start depends on it. */
export type Waiting = Pick<Call.Call, "callId" | "name" | "params" | "argsDigest" | "effects" | "domain" | "state">

/** What a start depends on beside the batch. */
export interface Rules {
  /** The exclusive key of a call. */
  readonly keyOf: (call: Waiting) => string | undefined
  /** Why a call must not run, in words for the model. */
  readonly refusalOf: (call: Waiting) => string | undefined
  readonly atOnce: number
}

/** Starts and refusals (N2, N3). `answered`: calls whose answers are written before these facts. */
export const next = (
  calls: ReadonlyArray<Waiting>,
  answered: ReadonlySet<CallId>,
  { atOnce, keyOf, refusalOf }: Rules
): ReadonlyArray<Fact> => {
  const isRunning = ({ callId, state }: Waiting) => state === "started" && !answered.has(callId)
  const running = calls.filter(isRunning)
  const held = new Set(running.map(keyOf))
  let free = atOnce - running.length
  return calls.flatMap((call): ReadonlyArray<Fact> => {
    if (call.state !== "registered" || answered.has(call.callId)) return []
    const refusal = refusalOf(call)
    if (refusal !== undefined) return [refused(call.callId, refusal)]
    const key = keyOf(call)
    const isHeld = key !== undefined && held.has(key)
    // Whoever comes later with this key waits behind this call, also where it waits itself.
    held.add(key)
    if (isHeld || free <= 0) return []
    free--
    return [{ type: "call.started", data: { callId: call.callId, attempt: 1 } }]
  })
}

/** The answer of a call that is not started. */
export const refused = (callId: CallId, why: string): Fact => ({
  type: "call.completed",
  data: { callId, isFailure: true, output: why, ms: 0 }
})
