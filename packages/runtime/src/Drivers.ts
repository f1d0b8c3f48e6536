/**
 * The sessions this process drives: one fiber each, from the first waiting item until there is nothing left to do.
 *
 * Owns: starting a driver when there is work, waking it, letting go of idle sessions and of everything at shutdown.
 * Does not own: a Turn (`Turn`), or whose session it is (`Claim`).
 *
 * - D1. A session has at most one driver in this process, and a driver runs at most one Turn.
 * - D2. A wake-up is a hint: what it announces is read from the journal. A lost one is made good by the sweep. What this
 *   process cannot do, or lets go of, it announces to the others.
 * - D3. Closing the scope lets go: Turns stop at the end of their step, or where they are when the drain is over; nothing is
 *   settled, claims are released.
 * - D4. A process claims no more sessions with work than it has workers for.
 * - D5. A process claims no session of an agent that it does not know, also when a message is admitted here: another version
 *   of the application may know the agent. The process rings and hangs up, and the message waits.
 * - D6. A session whose driver dies of a defect, or whose writes storage refuses, is left alone for a while, longer each time
 *   in a row, and holds up no other. What could not be written is kept for its next owner here.
 * - D7. A driver runs in the runtime's context, never in that of the caller who woke it: no transaction, tenant, span or log
 *   annotation of a request is seen by a Turn.
 */
import type { Claim } from "@turnstep/core/Claim"
import { Doorbell } from "@turnstep/core/Doorbell"
import type { SessionId } from "@turnstep/core/Ids"
import { Journal } from "@turnstep/core/Journal"
import * as SessionState from "@turnstep/core/SessionState"
import * as TurnPlan from "@turnstep/core/TurnPlan"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FiberMap from "effect/FiberMap"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type { EventHub } from "./EventHub.ts"
import * as Owner from "./Owner.ts"
import { Prepare } from "./Prepare.ts"
import type { Senders } from "./Senders.ts"
import * as Telemetry from "./Telemetry.ts"
import * as Turn from "./Turn.ts"

export class Drivers extends Context.Service<
  Drivers,
  {
    /** Sees to it that the session of an agent is driven, here or elsewhere, and hears of what is new (D1, D2, D5). */
    readonly wake: (sessionId: SessionId, agent: string) => Effect.Effect<void>
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

/** Idle times after which a session is let go of although a tool that was left behind in it has not ended: ten minutes. */
const mostIdle = 20

/** How long a listener whose read failed waits before it reads again. */
const listenAgain = Duration.millis(100)

/** The floor of liveness: how often unattended sessions are looked for (D2). */
const sweepEvery = Duration.seconds(2)

/** Sessions taken up in one sweep. */
const sweepLimit = 100

/** Open while something may be new that the driver has not read. */
type Bell = Latch.Latch

/**
 * Why a driver stopped: nothing to do, its owner was overtaken and the session is to be read anew, no worker is free, it is
 * not ours any more, or storage refused a write.
 */
type Left = "idle" | "overtaken" | "crowded-out" | "gone" | "refused"

type Needs = Journal | Claim | EventHub | Prepare | Senders

export const layer: Layer.Layer<Drivers, never, Needs> = Layer.effect(
  Drivers,
  Effect.gen(function* () {
    const journal = yield* Journal
    const doorbell = yield* Doorbell
    const { agents } = yield* Prepare
    const bells = new Map<SessionId, Bell>()
    const workers = yield* Workers
    const drain = yield* Drain
    const fibers = yield* FiberMap.make<SessionId>()
    /** Opened when there may be a session for this process to take up. */
    const early = yield* Latch.make(false)
    const process: Process = {
      workers,
      busy: 0,
      isShort: false,
      freed: Effect.suspend(() => (process.isShort ? early.open : Effect.void)),
      doorbell,
      isClosing: () => isClosing
    }
    const failing = new Map<SessionId, Failing>()
    let isClosing = workers === 0
    const scope = yield* Effect.scope
    const context = yield* Effect.context<Needs>()
    // D7: the context is replaced, not added to: a fiber begins with the context of the one that forks it.
    const inRuntime = (work: Effect.Effect<void, never, Needs>): Effect.Effect<void> =>
      Effect.updateContext(work, () => context)

    // D3
    yield* Effect.addFinalizer(() =>
      Effect.suspend(() => {
        isClosing = true
        for (const bell of bells.values()) bell.openUnsafe()
        return Duration.isZero(drain) ? Effect.void : Effect.ignore(Effect.timeout(FiberMap.awaitEmpty(fibers), drain))
      })
    )

    const ringElsewhere = (sessionId: SessionId) =>
      Effect.asVoid(Effect.forkIn(inRuntime(doorbell.ring(sessionId)), scope))

    const wake = Effect.fnUntraced(function* (sessionId: SessionId, agent: string) {
      if (!agents.includes(agent)) {
        yield* Effect.logInfo(`session ${sessionId} waits for a process that knows the agent "${agent}"`)
        return yield* ringElsewhere(sessionId)
      }
      yield* drive(sessionId)
    })

    const drive = Effect.fnUntraced(function* (sessionId: SessionId) {
      const known = bells.get(sessionId)
      if (known !== undefined) {
        known.openUnsafe()
        return
      }
      // D4: with all workers busy it waits unclaimed, for whichever process has one free first.
      if (isClosing || isFull(process)) {
        process.isShort = true
        return yield* ringElsewhere(sessionId)
      }
      const bell = Latch.makeUnsafe(true)
      bells.set(sessionId, bell)
      const hangUp = () => {
        if (bells.get(sessionId) === bell) bells.delete(sessionId)
      }
      const place = takePlace(process)
      const attended = attend(sessionId, bell, process, place, hangUp, failing).pipe(
        Effect.tapDefect(() => remember(failing, sessionId)),
        Effect.catchDefect((defect) => Effect.logError("a session's driver met an unexpected error", defect)),
        Effect.ensuring(Effect.andThen(Effect.sync(hangUp), giveBack(process, place)))
      )
      yield* FiberMap.run(fibers, sessionId, inRuntime(attended))
    })

    // With all workers busy nothing is looked for, and nothing is rung: every process sweeps, and a ring makes them sweep.
    const hasRoom = () => !isClosing && !isFull(process)
    const sweep = Effect.suspend(() => {
      process.isShort = !hasRoom()
      if (process.isShort) return Effect.void
      return Effect.gen(function* () {
        const now = yield* monotonic
        const limit = sweepLimit + failing.size
        const found = yield* journal.unattended(agents, limit)
        forgetOld(failing, now, new Set(found))
        yield* Effect.forEach(
          found,
          (id) => Effect.suspend(() => (hasRoom() && !isTooEarly(failing, id, now) ? drive(id) : Effect.void)),
          { discard: true }
        )
        if (found.length === limit || !hasRoom()) process.isShort = true
      })
    })
    yield* sweep.pipe(
      Effect.catchDefect((defect) => Effect.logError("the sweep failed", defect)),
      Effect.andThen(Effect.timeoutOption(early.await, sweepEvery)),
      Effect.tap((isEarly) => {
        // Another process may have recorded something for a session that is driven here.
        if (Option.isNone(isEarly)) for (const bell of bells.values()) bell.openUnsafe()
        return early.close
      }),
      Effect.forever,
      Effect.forkScoped
    )
    const rings = workers === 0 ? Stream.empty : doorbell.rings
    yield* rings.pipe(
      Stream.runForEach((sessionId) => {
        const known = bells.get(sessionId)
        return known === undefined ? early.open : known.open
      }),
      Effect.forkScoped
    )
    return Drivers.of({ wake })
  })
)

/** What the drivers of a process share. */
interface Process {
  readonly workers: number
  /** Turns that run, and sessions that are being claimed for one (D4). */
  busy: number
  /** Whether sessions may wait that were not taken up for want of a worker, or because there were so many. */
  isShort: boolean
  /** Says that a worker is free: then the sweep may have something for it. */
  readonly freed: Effect.Effect<unknown>
  readonly doorbell: Doorbell
  readonly isClosing: () => boolean
}

/** The worker that a session is claimed for: taken before the claim, and its first Turn's from then on (D4). */
interface Place {
  isHeld: boolean
}

const takePlace = (process: Process): Place => {
  process.busy++
  return { isHeld: true }
}

/** Gives a place back that came to no Turn. */
const giveBack = (process: Process, place: Place) =>
  Effect.suspend(() => {
    if (!place.isHeld) return Effect.void
    place.isHeld = false
    process.busy--
    return process.freed
  })

/** A session whose driver failed: when the sweep may take it up again, how often it has failed, and what is left of it (D6). */
interface Failing {
  /** Nanoseconds of the monotonic clock: a clock that is set back keeps nobody waiting. */
  readonly notBefore: bigint
  readonly times: number
  readonly legacy: Owner.Legacy
}

const nothing: Owner.Legacy = { refusal: undefined, results: [] }

const monotonic = Clock.clockWith((clock) => clock.monotonicTimeNanos)

/** Two seconds doubled each time, up to five minutes. */
const remember = (failing: Map<SessionId, Failing>, id: SessionId, legacy?: Owner.Legacy) =>
  Effect.map(monotonic, (now) => {
    const before = failing.get(id)
    const times = (before?.times ?? 0) + 1
    const pause = BigInt(Math.min(300_000, 1_000 * 2 ** times)) * 1_000_000n
    failing.set(id, { times, notBefore: now + pause, legacy: legacy ?? before?.legacy ?? nothing })
  })

const isTooEarly = (failing: ReadonlyMap<SessionId, Failing>, id: SessionId, now: bigint): boolean =>
  now < (failing.get(id)?.notBefore ?? 0n)

/**
 * Forgets sessions that storage does not list as unattended ten minutes after they could have been taken up here: another
 * process has taken them. Storage that does not answer lists nothing, and nothing is forgotten.
 */
const forgetOld = (failing: Map<SessionId, Failing>, now: bigint, unattended: ReadonlySet<SessionId>): void => {
  for (const [id, { notBefore }] of failing) {
    if (!unattended.has(id) && now - notBefore > 600_000_000_000n) failing.delete(id)
  }
}

/** Whether no worker is free for another Turn. */
const isFull = ({ busy, workers }: Process): boolean => busy >= workers

/** Runs a Turn on the worker the session was claimed for, or on another that is free. */
const work = (owner: Owner.Owner, process: Process, place: Place) =>
  Effect.suspend(() => {
    if (place.isHeld) place.isHeld = false
    else process.busy++
    return Turn.run(owner)
  }).pipe(
    Effect.ensuring(
      Effect.suspend(() => {
        process.busy--
        return process.freed
      })
    )
  )

/** Drives a session for as long as the bell rings. The bell is known until its last driver has let go of the session (D1). */
const attend = Effect.fnUntraced(function* (
  sessionId: SessionId,
  bell: Bell,
  process: Process,
  place: Place,
  hangUp: () => void,
  failing: Map<SessionId, Failing>
) {
  for (;;) {
    let legacy = failing.get(sessionId)?.legacy ?? nothing
    const left: Left = yield* hold(sessionId, bell, process, place, legacy, (leaves) => {
      legacy = leaves
    })
    if (left === "refused") yield* remember(failing, sessionId, legacy)
    else failing.delete(sessionId)
    // No suspension between the look at the bell and hanging up: a wake-up finds either this driver or none.
    if (left === "overtaken" || (left === "idle" && bell.isOpen())) continue
    hangUp()
    // A worker may have been freed while the session was given back.
    return left === "crowded-out" ? yield* process.freed : undefined
  }
})

/** Holds a session and drives it until it is idle for long, or no longer ours. */
const hold = Effect.fn("Drivers.hold")(
  function* (
    sessionId: SessionId,
    bell: Bell,
    process: Process,
    place: Place,
    legacy: Owner.Legacy,
    bequeath: (legacy: Owner.Legacy) => void
  ) {
    let isLeft = (): boolean => false
    yield* Effect.addFinalizer(() => (isLeft() ? process.doorbell.ring(sessionId) : Effect.void))
    const owner = yield* Owner.acquire(sessionId, bell, process.isClosing, legacy).pipe(
      // Whoever drives it is to hear what is new.
      Effect.tapErrorTag("SessionClaimed", () => process.doorbell.ring(sessionId))
    )
    yield* Effect.addFinalizer(() => Effect.sync(() => bequeath(owner.leaves())))
    let isCrowdedOut = false
    isLeft = () => (process.isClosing() || isCrowdedOut) && SessionState.hasWork(owner.state)
    const changed = yield* Latch.make(true)
    yield* listen(owner, bell, process).pipe(
      Effect.tap((isNew) => (isNew ? changed.open : Effect.void)),
      Effect.forever,
      Effect.ignore,
      // Whatever ended the listening, the driver is to look at its owner again.
      Effect.ensuring(changed.open),
      Effect.forkScoped
    )
    let idleFor = 0
    for (;;) {
      yield* changed.close
      const stale = owner.stale()
      if (stale !== undefined) return yield* Effect.fail(stale)
      if (process.isClosing()) return "gone" as Left
      if (SessionState.hasWork(owner.state)) {
        idleFor = 0
        // D4: another process may have a worker free, and this one takes the session up again when it has.
        isCrowdedOut = !place.isHeld && isFull(process)
        process.isShort ||= isCrowdedOut
        if (isCrowdedOut) return "crowded-out" as Left
        yield* work(owner, process, place)
        continue
      }
      yield* giveBack(process, place)
      yield* owner.decide(TurnPlan.rest)
      if (SessionState.hasWork(owner.state)) continue
      if (Option.isSome(yield* Effect.timeoutOption(changed.await, idleTime))) continue
      yield* owner.catchUp
      if (SessionState.hasWork(owner.state)) continue
      // A tool that was left behind may still end: that is to be recorded.
      if (!owner.isWaited() || ++idleFor >= mostIdle) return "idle" as Left
    }
  },
  Effect.scoped,
  Effect.catchTags({
    // Another process drives it, or it is gone: nothing for us to do.
    SessionClaimed: () => Effect.succeed<Left>("gone"),
    SessionNotFound: () => Effect.succeed<Left>("gone"),
    FenceLost: (error) => Effect.as(Effect.logInfo(`session ${error.sessionId} has a new owner`), "gone" as Left)
  }),
  (held, sessionId) =>
    Effect.catchTag(held, "OwnerStale", ({ message, why }) =>
      why === "refused"
        ? Effect.as(
            Effect.logWarning(`session ${sessionId} is left alone for a while: storage refused a write: ${message}`),
            why
          )
        : Effect.as(
            Effect.logInfo(`session ${sessionId} is read anew: ${message}`),
            why === "overtaken" ? why : ("gone" as Left)
          )
    ),
  (held, sessionId) => Telemetry.ofSession(sessionId)(held)
)

/** Waits for the bell and reads what it announced; whether there was something. A read that fails is made again (D2). */
const listen = (owner: Owner.Owner, bell: Bell, process: Process): Effect.Effect<boolean, Owner.WriteError> =>
  bell.await.pipe(
    Effect.andThen(Effect.sync(() => owner.state.seq)),
    Effect.flatMap((seen) => Effect.map(owner.catchUp, () => owner.state.seq > seen || process.isClosing())),
    Effect.catchDefect((defect) =>
      Effect.logWarning(`session ${owner.sessionId}: what is new could not be read`, defect).pipe(
        Effect.andThen(Effect.sleep(listenAgain)),
        Effect.as(false)
      )
    )
  )
