/**
 * Who may drive a session: one owner at a time, known to every write by its fence.
 *
 * Owns: taking and giving back ownership. Does not own: the check of the fence, which every write repeats (`Journal` J1).
 *
 * - C1. A fence grows with every claim of its session and never shrinks.
 * - C2. A claim takes only what is free: released, or left by an owner whose lease has run out.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { SessionId } from "./Ids.ts"
import type { SessionClaimed, SessionNotFound } from "./TurnError.ts"

/**
 * A session that was taken: the fence for its writes, and whether its former owner died without giving it back. `isCurrent`
 * asks nobody: false when the lease has run out since, by this process's own clock, so that another owner may have the session.
 */
export interface Held {
  readonly fence: number
  readonly wasLeft: boolean
  readonly isCurrent: Effect.Effect<boolean>
}

export class Claim extends Context.Service<
  Claim,
  {
    /** Takes the session (C1, C2). */
    readonly acquire: (sessionId: SessionId) => Effect.Effect<Held, SessionNotFound | SessionClaimed>
    /** Gives the session back, unless another owner holds it already. */
    readonly release: (sessionId: SessionId, fence: number) => Effect.Effect<void>
  }
>()("core/Claim") {}
