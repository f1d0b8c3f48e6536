/**
 * The sessions this process drives: one fiber each, from the first waiting item until there is nothing left to do.
 *
 * Owns: starting a driver when there is work, waking it, letting go of idle sessions and of everything at shutdown.
 * Does not own: a Turn (`Turn`), or whose session it is (`Claim`).
 *
 * - D1. A session has at most one driver in this process, and a driver runs at most one Turn.
 * - D2. A wake-up is a hint: what it announces is read from the journal. A lost one is made good by the sweep.
 * - D3. Closing the scope lets go: Turns stop at the end of their step, or where they are when the drain is over; nothing is
 *   settled, claims are released.
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
import * as Semaphore from "effect/Semaphore"
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

/** Turns that may run in this process at the same time; 0 for a process that only admits and reads. Default: no limit. */
export const Workers = Context.Reference<number>("runtime/Drivers/Workers", { defaultValue: () => Infinity })

/** How long a process that is told to stop lets running steps come to their end. Default: not at all. */
export const Drain = Context.Reference<Duration.Duration>("runtime/Drivers/Drain", {
  defaultValue: () => Duration.zero
})

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
    const workers = yield* Workers
    const drain = yield* Drain
    const fibers = yield* FiberMap.make<SessionId>()
    const process: Process = { turns: yield* Semaphore.make(workers), isClosing: () => isClosing }
    let isClosing = workers === 0
    const context = yield* Effect.context<Journal | Claim | EventHub | Prepare>()

    // D3
    yield* Effect.addFinalizer(() =>
      Effect.suspend(() => {
        isClosing = true
        for (const bell of bells.values()) bell.openUnsafe()
        return Duration.isZero(drain) ? Effect.void : Effect.ignore(Effect.timeout(FiberMap.awaitEmpty(fibers), drain))
      })
    )

    const wake = Effect.fnUntraced(function* (sessionId: SessionId) {
      if (isClosing) return
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
      const attended = Effect.ensuring(attend(sessionId, bell, process, hangUp), Effect.sync(hangUp))
      yield* FiberMap.run(fibers, sessionId, Effect.provideContext(attended, context))
    })

    const sweep = Effect.suspend(() => {
      if (isClosing) return Effect.void
      // Another process may have recorded something for a session that is driven here.
      for (const bell of bells.values()) bell.openUnsafe()
      return Effect.flatMap(journal.unattended(sweepLimit), Effect.forEach(wake, { discard: true }))
    })
    yield* sweep.pipe(
      Effect.catchDefect((defect) => Effect.logError("the sweep failed", defect)),
      Effect.repeat(Schedule.spaced(sweepEvery)),
      Effect.forkScoped
    )
    return Drivers.of({ wake })
  })
)

/** What the drivers of a process share. */
interface Process {
  /** One permit for every Turn that may run. */
  readonly turns: Semaphore.Semaphore
  readonly isClosing: () => boolean
}

/** Drives a session for as long as the bell rings. The bell is known until its last driver has let go of the session (D1). */
const attend = Effect.fnUntraced(function* (sessionId: SessionId, bell: Bell, process: Process, hangUp: () => void) {
  for (;;) {
    const left: Left = yield* drive(sessionId, bell, process)
    // No suspension between the look at the bell and hanging up: a wake-up finds either this driver or none.
    if (left === "gone" || (left === "idle" && !bell.isOpen())) return hangUp()
  }
})

/** Drives a session until it is idle for long, or no longer ours. */
const drive = Effect.fn("Drivers.drive")(
  function* (sessionId: SessionId, bell: Bell, process: Process) {
    const owner = yield* Owner.acquire(sessionId, bell, process.isClosing)
    const changed = yield* Latch.make(true)
    yield* bell.await.pipe(
      Effect.andThen(Effect.sync(() => owner.state.seq)),
      Effect.flatMap((seen) => Effect.map(owner.catchUp, () => owner.state.seq > seen || process.isClosing())),
      Effect.tap((isNew) => (isNew ? changed.open : Effect.void)),
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
      if (process.isClosing()) return "gone" as Left
      if (SessionState.hasWork(owner.state)) {
        yield* process.turns.withPermits(1)(Turn.run(owner))
        continue
      }
      yield* owner.decide(TurnPlan.rest)
      if (SessionState.hasWork(owner.state)) continue
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
