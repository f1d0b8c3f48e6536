/**
 * A claimed session in memory: its state, and the only way its owner writes.
 *
 * Owns: keeping the state in step with the journal. Does not own: what is written (`TurnPlan`, `Turn`).
 *
 * - O1. Writes of one owner happen one at a time, and the state holds every fact up to its `seq`.
 * - O2. `ahead` folds its facts before they are durable. If they then cannot be written as decided, the owner is *stale*:
 *   it writes nothing more and is thrown away; whoever drives the session next reads the journal. Results of tools are
 *   written even then, by themselves: they depend on nothing that others write. What storage does not take is left to the
 *   next owner in this process (O6).
 * - O3. A write that began is carried to its end, whoever asked for it is interrupted or not.
 * - O4. Every decision sees what was announced before it: a message that was acknowledged in time is in time.
 * - O5. A fact that only an owner writes, and this one has not written, is a new owner's: it is not followed, and nothing it
 *   asks for is done here.
 * - O6. No result is lost with an owner that is thrown away: `leaves` hands on what could not be written, and why.
 */
import type { Json } from "@turnstep/core/Canonical"
import { Claim } from "@turnstep/core/Claim"
import * as CrashPoint from "@turnstep/core/CrashPoint"
import type { CallId, ItemId, SessionId } from "@turnstep/core/Ids"
import { Journal, type SeqBehind } from "@turnstep/core/Journal"
import * as Ledger from "@turnstep/core/Ledger"
import * as SessionState from "@turnstep/core/SessionState"
import { FactTooLarge, FenceLost } from "@turnstep/core/TurnError"
import type { Fact, TurnEvent } from "@turnstep/core/TurnEvent"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Latch from "effect/Latch"
import * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import { EventHub } from "./EventHub.ts"
import * as StorageWords from "./StorageWords.ts"

/**
 * The state in memory no longer follows from the journal (O2): because others changed what a write was about, so that the
 * session can be read anew at once (`overtaken`); because the session is another owner's, or may be (`lost`); or because
 * storage did not take a write (`refused`).
 */
export class OwnerStale extends Error {
  readonly _tag = "OwnerStale"
  override readonly name = "OwnerStale"
  readonly why: "overtaken" | "lost" | "refused"
  /** Whether storage would refuse the same write again, however often. */
  readonly isFinal: boolean
  constructor(why: OwnerStale["why"], message: string, isFinal = false) {
    super(message)
    this.why = why
    this.isFinal = isFinal
  }
}

/** What an owner hands on to the next one in its process (O6). */
export interface Legacy {
  /** Why storage refused a write of the open Turn. */
  readonly refusal: OwnerStale | undefined
  readonly results: ReadonlyArray<Ledger.Kept>
}

export type WriteError = FenceLost | OwnerStale

export interface Owner {
  readonly sessionId: SessionId
  readonly state: SessionState.SessionState
  /** Whether the former owner died without giving the session back. */
  readonly wasLeft: boolean
  /** Whether this process is about to stop: what can wait for the next owner is not begun. */
  readonly isLettingGo: () => boolean
  /** Why this owner is to be thrown away, if it is (O2). */
  readonly stale: () => OwnerStale | undefined
  /** Decides on the latest state and writes; when others wrote in between, decides again. */
  readonly decide: (
    decision: (state: SessionState.SessionState) => ReadonlyArray<Fact>
  ) => Effect.Effect<void, WriteError>
  /**
   * Decides on the latest state, once, folds the facts and writes them behind the caller's back; the returned effect waits
   * until they are durable (O2). Fails at once when the owner is stale, so that nobody goes on with what is never written.
   */
  readonly ahead: (
    decision: (state: SessionState.SessionState) => ReadonlyArray<Fact>
  ) => Effect.Effect<Effect.Effect<void, WriteError>, WriteError>
  /** Completes when the open Turn has been told to stop, or is not to go on here: overtaken, or another owner's (O2, O5). */
  readonly cancelled: Effect.Effect<void>
  /** Records results that are there when nothing else can be written any more (O2); the owner is not to be used after it. */
  readonly salvage: (results: ReadonlyArray<Fact>) => Effect.Effect<void>
  /** Why storage refused a write of the owner before this one in this process; told once (O6). */
  readonly refusal: () => OwnerStale | undefined
  /** Writes the results that the owner before this one in this process could not write (O6). */
  readonly restore: Effect.Effect<void, WriteError>
  /** What this one could not write (O6). */
  readonly leaves: () => Legacy
  /** Fails when the lease of the claim has run out, so that the session may have another owner already. */
  readonly confirm: Effect.Effect<void, OwnerStale>
  /** Does something beside everything else, for as long as the session is held here; what becomes of it is not told. */
  readonly aside: (work: Effect.Effect<void, WriteError>) => Effect.Effect<void>
  /** Whether something is still done aside. */
  readonly isWaited: () => boolean
  /** Reads from the journal what a call was answered, all of it. */
  readonly outputOf: (callId: CallId) => Effect.Effect<Json | undefined>
  /** Reads what others wrote, announced or not. */
  readonly catchUp: Effect.Effect<void, WriteError>
}

/**
 * Claims a session for the current scope and loads its state. `news` is open while something is announced and not read (O4);
 * `left` comes from the owner before, if that was in this process (O6).
 */
export const acquire = Effect.fn("Owner.acquire")(function* (
  sessionId: SessionId,
  news: Latch.Latch,
  isLettingGo: () => boolean,
  left: Legacy
) {
  const journal = yield* Journal
  const claims = yield* Claim
  const hub = yield* EventHub
  const scope = yield* Scope.Scope
  const { fence, isCurrent, wasLeft } = yield* Effect.acquireRelease(claims.acquire(sessionId), (held) =>
    claims.release(sessionId, held.fence)
  )
  const state = yield* load(journal, sessionId)
  yield* hub.drive(sessionId)
  const lock = yield* Semaphore.make(1)
  const stopping = yield* Latch.make(false)
  let stale: OwnerStale | undefined
  let asides = 0
  let before = left.refusal
  let kept = left.results

  const write = (facts: ReadonlyArray<Fact>, expectedSeq: number) =>
    CrashPoint.hitAll(facts, "before-commit").pipe(
      Effect.andThen(journal.append({ sessionId, fence, expectedSeq, facts })),
      Effect.tap(CrashPoint.hitAll(facts, "after-commit")),
      Effect.tapErrorTag("FenceLost", () => lost)
    )

  const spoil = (cause: Cause.Cause<unknown>) =>
    Effect.sync(() => {
      stale ??= new OwnerStale("refused", StorageWords.ofCause(cause), Cause.squash(cause) instanceof FactTooLarge)
    })

  // What still runs for the session is stopped: it is another owner's, and this process may have to take it up again.
  const lost = Effect.sync(() => {
    stale ??= new OwnerStale("lost", "the session has a new owner")
    stopping.openUnsafe()
  })

  const record = (events: ReadonlyArray<TurnEvent>): void => {
    for (const event of events) {
      SessionState.apply(state, event)
      if (event.type === "turn.cancelling") stopping.openUnsafe()
      else if (state.turn === undefined) stopping.closeUnsafe()
    }
    hub.publish(sessionId, events)
  }

  const follow = (events: ReadonlyArray<TurnEvent>): Effect.Effect<void, FenceLost> =>
    Effect.suspend(() => {
      if (!events.every(isFromOutside)) return Effect.andThen(lost, Effect.fail(new FenceLost({ sessionId }))) // O5
      record(events)
      return Effect.void
    })

  const foreign = Effect.flatMap(
    Effect.suspend(() => journal.read(sessionId, { after: state.seq })),
    follow
  )

  // Closed before it is read, so that what is announced meanwhile is announced again.
  const announced = Effect.suspend(() => {
    if (!news.isOpen()) return Effect.void
    news.closeUnsafe()
    return foreign
  })

  /** O3, and a failure of storage leaves the owner stale (O2). */
  const exclusive = <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E | OwnerStale> =>
    lock.withPermits(1)(
      Effect.suspend(() => (stale === undefined ? effect : Effect.fail<E | OwnerStale>(stale))).pipe(
        Effect.onError((cause) => spoil(cause)),
        Effect.uninterruptible
      )
    )

  const decide: Owner["decide"] = (decision) =>
    exclusive(
      Effect.gen(function* () {
        yield* announced
        for (;;) {
          const facts = decision(state)
          if (facts.length === 0) return
          const done = yield* Effect.result(write(facts, state.seq))
          if (done._tag === "Success") {
            record(done.success)
            return yield* CrashPoint.hitAll(facts, "after-ack")
          }
          if (!isBehind(done.failure)) return yield* done.failure
          yield* foreign
        }
      })
    )

  const ahead: Owner["ahead"] = (decision) =>
    Effect.suspend(() => (stale === undefined ? announced : Effect.void)).pipe(
      Effect.andThen(
        Effect.suspend(() => {
          if (stale !== undefined) return Effect.fail(stale)
          const ledger = state.turn?.ledger
          const facts = decision(state)
          if (facts.length === 0) return Effect.as(lock.release(1), Effect.void)
          const keep = Effect.sync(() => {
            if (ledger !== undefined) kept = [...kept, ...Ledger.keep(ledger, resultsBefore(facts))]
          })
          return Effect.sync(() => {
            for (const fact of facts) SessionState.applyFact(state, fact)
          }).pipe(
            Effect.andThen(
              behindBack(facts).pipe(
                Effect.onError((cause) => Effect.andThen(keep, spoil(cause))),
                Effect.ensuring(lock.release(1)),
                Effect.forkIn(scope, { startImmediately: true, uninterruptible: true })
              )
            ),
            Effect.map((writing) => Fiber.join(writing))
          )
        })
      ),
      Effect.onError((cause) => Effect.andThen(spoil(cause), lock.release(1))),
      (writing) => Effect.andThen(lock.take(1), writing),
      Effect.uninterruptible
    )

  const behindBack = Effect.fnUntraced(function* (facts: ReadonlyArray<Fact>) {
    for (;;) {
      const done = yield* Effect.result(write(facts, state.seq))
      if (done._tag === "Success") {
        state.seq += done.success.length
        hub.publish(sessionId, done.success)
        return yield* CrashPoint.hitAll(facts, "after-ack")
      }
      if (!isBehind(done.failure)) return yield* done.failure
      // Others wrote in between. What they can write (admissions, cancels) follows as well from the state that is ahead,
      // unless both touched the same item of the inbox, or the Turn is told to stop and this would take it further.
      const events = yield* journal.read(sessionId, { after: state.seq })
      if (events.some((event) => touchesSameItem(event, facts) || forbids(event, facts))) {
        stale ??= new OwnerStale("overtaken", "others changed what a write was about")
        // The model may have been asked already what it is not to be asked.
        stopping.openUnsafe()
        return yield* Effect.fail(stale)
      }
      yield* follow(events)
    }
  })

  // Calls may still run whose results are to be saved: a cancel stops them, though nothing is followed any more.
  const overheard = Effect.suspend(() => {
    news.closeUnsafe()
    return journal.read(sessionId, { after: state.seq, types: ["turn.cancelling"] })
  }).pipe(
    Effect.onError(() => Effect.sync(() => void news.openUnsafe())),
    Effect.map((told) => {
      if (told.length > 0) stopping.openUnsafe()
    })
  )

  // A read that fails has changed nothing: what was announced stays so, and the owner is as good as before.
  const catchUp = lock.withPermits(1)(
    Effect.suspend((): Effect.Effect<void, WriteError> => {
      if (stale !== undefined) return stale.why === "refused" ? overheard : Effect.fail(stale)
      news.closeUnsafe()
      return journal.read(sessionId, { after: state.seq }).pipe(
        Effect.onError(() => Effect.sync(() => void news.openUnsafe())),
        Effect.flatMap((events) => Effect.onError(follow(events), spoil))
      )
    }).pipe(Effect.uninterruptible)
  )

  const save = Effect.fnUntraced(function* ({ callId, facts, wireId }: Ledger.Kept) {
    const done = yield* Effect.exit(journal.append({ sessionId, fence, expectedSeq: undefined, facts }))
    const isLost = Exit.isFailure(done) && Cause.hasFails(done.cause)
    if (Exit.isSuccess(done)) hub.publish(sessionId, done.value)
    if (Exit.isSuccess(done) || isLost) kept = kept.filter((each) => each.callId !== callId || each.wireId !== wireId)
    else
      yield* Effect.logWarning(
        `the result of ${callId} is kept until storage takes it: ${StorageWords.ofCause(done.cause)}`
      )
  })

  // What was written and what was not is read from the journal: the state in memory cannot tell.
  const salvage: Owner["salvage"] = (results) =>
    Effect.gen(function* () {
      if (state.turn !== undefined) kept = [...kept, ...Ledger.keep(state.turn.ledger, results)]
      if (kept.length === 0) return
      const { turn } = yield* load(journal, sessionId)
      kept = turn === undefined ? [] : Ledger.awaited(turn.ledger, kept)
      yield* Effect.forEach(kept, save, { discard: true })
      stale ??= new OwnerStale("lost", "the session is let go")
    }).pipe(
      Effect.catchDefect((defect) =>
        Effect.logWarning(`results are kept until storage takes them: ${StorageWords.of(defect)}`)
      ),
      lock.withPermits(1),
      Effect.uninterruptible
    )

  const restore: Owner["restore"] = Effect.gen(function* () {
    for (const each of state.turn === undefined ? [] : Ledger.awaited(state.turn.ledger, kept)) {
      yield* decide(() => each.facts)
      kept = kept.filter((other) => other !== each)
    }
    kept = []
  })

  const outputOf: Owner["outputOf"] = (callId) =>
    Effect.map(journal.resultOf(sessionId, callId), (data) => data?.output)

  if (state.turn?.cancelling !== undefined) stopping.openUnsafe()

  const owner: Owner = {
    sessionId,
    state,
    wasLeft,
    isLettingGo,
    stale: () => stale,
    decide,
    ahead,
    cancelled: stopping.await,
    salvage,
    refusal: () => {
      const told = before
      before = undefined
      return told
    },
    restore,
    leaves: () => ({ refusal: stale?.why === "refused" ? stale : before, results: kept }),
    confirm: Effect.flatMap(isCurrent, (isHeld) => {
      if (!isHeld) stale ??= new OwnerStale("lost", "the lease ran out")
      return stale === undefined ? Effect.void : Effect.fail(stale)
    }),
    outputOf,
    aside: (work) => {
      const left = Effect.sync(() => void asides--)
      return Effect.sync(() => void asides++).pipe(
        Effect.andThen(Effect.forkIn(Effect.ensuring(Effect.ignore(work), left), scope)),
        Effect.asVoid,
        Effect.uninterruptible
      )
    },
    isWaited: () => asides > 0,
    catchUp
  }
  return owner
})

/** What of a session is read at once, in events and bytes: the memory of a load is bounded by the page, not by the log. */
const page = { limit: 200, bytes: 4 * 1024 * 1024 }

const load = Effect.fnUntraced(function* (journal: Journal["Service"], sessionId: SessionId) {
  const state = SessionState.make(sessionId)
  for (;;) {
    const events = yield* journal.read(sessionId, { ...page, after: state.seq })
    for (const event of events) SessionState.apply(state, event)
    // A page may be short for its bytes: only one without events is behind the last.
    if (events.length === 0) return state
  }
})

const isBehind = (error: FenceLost | SeqBehind): error is SeqBehind => error._tag === "SeqBehind"

/** Whether anybody may have recorded this, not only the session's owner. */
const isFromOutside = (event: TurnEvent): boolean =>
  event.type === "inbox.admitted" ||
  event.type === "inbox.moved" ||
  event.type === "turn.cancelling" ||
  (event.type === "inbox.returned" && event.data.reason !== "turn-ended")

/** Whether what was recorded stops a Turn that the facts would take further. */
const forbids = (event: TurnEvent, facts: ReadonlyArray<Fact>): boolean =>
  event.type === "turn.cancelling" && !facts.every(isResult)

/** The results a write begins with. */
const resultsBefore = (facts: ReadonlyArray<Fact>): ReadonlyArray<Fact> => {
  const end = facts.findIndex((fact) => !isResult(fact))
  return end === -1 ? facts : facts.slice(0, end)
}

/** Facts of a tool's answer: they depend on nothing that others write. */
const isResult = (fact: Fact): boolean =>
  fact.type === "call.completed" || fact.type === "call.receipt" || fact.type === "spill.created"

const itemOf = (fact: Fact): ItemId | undefined =>
  "itemId" in fact.data && fact.type !== "inbox.admitted" ? fact.data.itemId : undefined

const touchesSameItem = (event: TurnEvent, facts: ReadonlyArray<Fact>): boolean => {
  const item = itemOf(event)
  return item !== undefined && facts.some((fact) => itemOf(fact) === item)
}
