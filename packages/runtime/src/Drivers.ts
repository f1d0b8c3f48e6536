/**
 * The sessions this process drives: one fiber each, from the first waiting item until there is nothing left to do.
 *
 * Owns: starting a driver when there is work, waking it, letting go of idle sessions and of everything at shutdown.
 * Does not own: a Turn (`Turn`), or whose session it is (`Claim`).
 *
 * - D1. A session has at most one driver in this process, and a driver runs at most one Turn.
 * - D2. A wake-up is a hint: what it announces is read from the journal. A lost one is made good by the sweep.
 * - D3. Closing the scope lets go: Turns stop where they are, nothing is settled, claims are released.
 */
import type { Claim } from "@turnstep/core/Claim"
import type { SessionId } from "@turnstep/core/Ids"
import { Journal } from "@turnstep/core/Journal"
import * as SessionState from "@turnstep/core/SessionState"
import * as TurnPlan from "@turnstep/core/TurnPlan"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FiberMap from "effect/FiberMap"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import type { EventHub } from "./EventHub.ts"
import * as Owner from "./Owner.ts"
import type { Prepare } from "./Prepare.ts"
import * as Turn from "./Turn.ts"

export class Drivers extends Context.Service<
  Drivers,
  {
    /** Sees to it that the session is driven and hears of what is new (D1, D2). */
    readonly wake: (sessionId: SessionId) => Effect.Effect<void>
  }
>()("runtime/Drivers") {}

/** How long an idle session stays claimed and in memory. */
const idleTime = Duration.seconds(30)

/** The floor of liveness: how often unattended sessions are looked for (D2). */
const sweepEvery = Duration.seconds(2)

/** Sessions taken up in one sweep. */
const sweepLimit = 100

/** Open while something may be new that the driver has not read. */
type Bell = Latch.Latch

/** Why a driver stopped: nothing to do, its owner was overtaken and the session is to be read anew, or not ours any more. */
type Left = "idle" | "overtaken" | "gone"

export const layer: Layer.Layer<Drivers, never, Journal | Claim | EventHub | Prepare> = Layer.effect(
  Drivers,
  Effect.gen(function* () {
    const journal = yield* Journal
    const bells = new Map<SessionId, Bell>()
    const fibers = yield* FiberMap.make<SessionId>()
    const context = yield* Effect.context<Journal | Claim | EventHub | Prepare>()

    const wake = Effect.fnUntraced(function* (sessionId: SessionId) {
      const known = bells.get(sessionId)
      if (known !== undefined) {
        known.openUnsafe()
        return
      }
      const bell = Latch.makeUnsafe(true)
      bells.set(sessionId, bell)
      const hangUp = () => {
        if (bells.get(sessionId) === bell) bells.delete(sessionId)
      }
      const attended = Effect.ensuring(attend(sessionId, bell, hangUp), Effect.sync(hangUp))
      yield* FiberMap.run(fibers, sessionId, Effect.provideContext(attended, context))
    })

    const sweep = Effect.flatMap(journal.unattended(sweepLimit), Effect.forEach(wake, { discard: true }))
    yield* sweep.pipe(
      Effect.catchDefect((defect) => Effect.logError("the sweep failed", defect)),
      Effect.repeat(Schedule.spaced(sweepEvery)),
      Effect.forkScoped
    )
    return Drivers.of({ wake })
  })
)

/** Drives a session for as long as the bell rings. The bell is known until its last driver has let go of the session (D1). */
const attend = Effect.fnUntraced(function* (sessionId: SessionId, bell: Bell, hangUp: () => void) {
  for (;;) {
    const left: Left = yield* drive(sessionId, bell)
    // No suspension between the look at the bell and hanging up: a wake-up finds either this driver or none.
    if (left === "gone" || (left === "idle" && !bell.isOpen())) return hangUp()
  }
})

/** Drives a session until it is idle for long, or no longer ours. */
const drive = Effect.fn("Drivers.drive")(
  function* (sessionId: SessionId, bell: Bell) {
    const owner = yield* Owner.acquire(sessionId, bell)
    const changed = yield* Latch.make(true)
    yield* bell.await.pipe(
      Effect.andThen(owner.catchUp),
      Effect.andThen(changed.open),
      Effect.forever,
      Effect.ignore,
      // Whatever ended the listening, the driver is to look at its owner again.
      Effect.ensuring(changed.open),
      Effect.forkScoped
    )
    for (;;) {
      yield* changed.close
      const stale = owner.stale()
      if (stale !== undefined) return yield* Effect.fail(stale)
      if (SessionState.hasWork(owner.state)) {
        yield* Turn.run(owner)
        continue
      }
      yield* owner.decide(TurnPlan.rest)
      if (Option.isSome(yield* Effect.timeoutOption(changed.await, idleTime))) continue
      yield* owner.catchUp
      if (!SessionState.hasWork(owner.state)) return "idle" as Left
    }
  },
  Effect.scoped,
  Effect.catchTags({
    // Another process drives it, or it is gone: nothing for us to do.
    SessionClaimed: () => Effect.succeed<Left>("gone"),
    SessionNotFound: () => Effect.succeed<Left>("gone"),
    FenceLost: (error) => Effect.as(Effect.logInfo(`session ${error.sessionId} has a new owner`), "gone" as Left),
    OwnerStale: ({ isOvertaken, message }) =>
      Effect.as(Effect.logInfo(`a session is read anew: ${message}`), (isOvertaken ? "overtaken" : "gone") as Left)
  }),
  Effect.catchDefect((defect) =>
    Effect.as(Effect.logError("a session's driver met an unexpected error", defect), "gone" as Left)
  )
)
