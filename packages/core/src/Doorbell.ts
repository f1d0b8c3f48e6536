/**
 * Hints between the processes that share a store: somebody should look at a session now, and not at the next sweep.
 *
 * - D1. A ring is a hint. It may be lost, repeated or late, and says nothing that is not in the journal (mechanism J1).
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { SessionId } from "./Ids.ts"

export interface Doorbell {
  /** Tells every process that uses the store, this one too. Never fails, and takes no longer than a second. */
  readonly ring: (sessionId: SessionId) => Effect.Effect<void>
  /** What is rung from now on. Never ends. */
  readonly rings: Stream.Stream<SessionId>
}

/** Default: silent, as it is right for a store that no other process uses. */
export const Doorbell = Context.Reference<Doorbell>("core/Doorbell", {
  defaultValue: () => ({ ring: () => Effect.void, rings: Stream.never })
})
