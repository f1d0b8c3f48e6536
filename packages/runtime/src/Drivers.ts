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
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FiberMap from "effect/FiberMap"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
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

/** Something may be new: `catchUp` tells what. */
interface Bell {
  readonly news: Latch.Latch
}

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
        known.news.openUnsafe()
        return
      }
      const bell: Bell = { news: Latch.makeUnsafe(true) }
      bells.set(sessionId, bell)
      const driven = drive(sessionId, bell, () => bells.delete(sessionId)).pipe(
        Effect.ensuring(Effect.sync(() => bells.get(sessionId) === bell && bells.delete(sessionId))),
        Effect.provideContext(context)
      )
      yield* FiberMap.run(fibers, sessionId, driven)
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

/** Drives a session until it is idle for long, or no longer ours. */
const drive = Effect.fn("Drivers.drive")(
  function* (sessionId: SessionId, bell: Bell, leave: () => void) {
    const owner = yield* Owner.acquire(sessionId)
    const changed = yield* Latch.make(true)
    yield* bell.news.await.pipe(
      Effect.andThen(Effect.sync(() => bell.news.closeUnsafe())),
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
      if (owner.isStale()) return leave()
      if (SessionState.hasWork(owner.state)) {
        yield* Turn.run(owner)
        continue
      }
      const woken = yield* Effect.timeoutOption(changed.await, idleTime)
      // No suspension between the look at the bell and leaving: a wake-up finds either this driver or none.
      if (woken._tag === "None" && !bell.news.isOpen()) return leave()
    }
  },
  Effect.scoped,
  Effect.catchTags({
    // Another process drives it, or it is gone: nothing for us to do.
    SessionClaimed: () => Effect.void,
    SessionNotFound: () => Effect.void,
    FenceLost: (error) => Effect.logInfo(`session ${error.sessionId} has a new owner`),
    OwnerStale: () => Effect.logWarning("a session is read anew from the journal")
  }),
  Effect.catchDefect((defect) => Effect.logError("a session's driver met an unexpected error", defect))
)
