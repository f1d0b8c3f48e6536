/**
 * A Turn: from an input to control back with the human, as a scoped resource.
 *
 * Acquiring it opens the Turn in the journal (or takes up one that is open); its finalizer settles it, whatever the exit:
 * one receipt for every call still open, then the terminal fact. Only two exits write nothing, because the Turn is to go
 * on elsewhere: the host told this process to let go, or another owner holds the session.
 *
 * Owns: the loop of steps and the end of the Turn. Does not own: the facts of each moment (`TurnPlan`), the session's next
 * Turn (`Session`).
 *
 * - T1. A Turn that ends here is settled here: no call without an answer, one terminal fact.
 * - T2. Interruption is the host letting go, never a cancel: a cancel is recorded first (`turn.cancelling`) and then obeyed.
 * - T3. The response is recorded before its effects, the results before the next response is accepted.
 * - T4. No model is asked for a Turn before storage has taken that it is open, nor again before storage has taken that it
 *   refused something: what cannot be recorded is not paid for again and again.
 * - T5. What an application makes anew for a Turn is waited for no longer than a bound, at its beginning and at its end.
 */
import * as Accept from "@turnstep/core/Accept"
import type * as Call from "@turnstep/core/Call"
import * as Consent from "@turnstep/core/Consent"
import * as Inbox from "@turnstep/core/Inbox"
import * as Ids from "@turnstep/core/Ids"
import * as Ledger from "@turnstep/core/Ledger"
import type { OpenTurn } from "@turnstep/core/OpenTurn"
import type { SessionState } from "@turnstep/core/SessionState"
import type { AgentNotFound } from "@turnstep/core/TurnError"
import { FenceLost } from "@turnstep/core/TurnError"
import type { Fact, Failure } from "@turnstep/core/TurnEvent"
import * as TurnPlan from "@turnstep/core/TurnPlan"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Approval from "./Approval.ts"
import { EventHub } from "./EventHub.ts"
import { ModelFailed } from "./ModelCall.ts"
import { type Owner, OwnerStale, type WriteError } from "./Owner.ts"
import { Prepare } from "./Prepare.ts"
import * as Senders from "./Senders.ts"
import * as Step from "./Step.ts"
import * as Telemetry from "./Telemetry.ts"
import { limitsOf, type TurnConfig, type TurnRequest } from "./TurnConfig.ts"

/**
 * Runs the session's open Turn, or opens the next one from its inbox, to its end.
 * Fails only when this process must not write any more; the Turn's own failures are recorded, not thrown.
 */
export const run = Effect.fn("Turn.run", { root: true })(
  function* (owner: Owner) {
    const hub = yield* EventHub
    yield* Effect.annotateCurrentSpan({ "gen_ai.operation.name": "invoke_agent", ...Telemetry.spanOf(placeOf(owner)) })
    yield* Senders.link(owner.sessionId)
    const unrecorded: Array<Fact> = []
    const made = yield* Scope.make()
    yield* Effect.addFinalizer((exit) => release(owner, made, exit))
    // Before the Turn is opened, so that a preparation that fails is settled like everything after it.
    yield* Effect.addFinalizer((exit) => settle(owner, unrecorded, exit))
    const opened = yield* open(owner, made)
    if (Option.isNone(opened)) return
    yield* Effect.annotateCurrentSpan("gen_ai.request.model", opened.value.config.modelName)
    const steps = loop({ owner, hub, unrecorded, ...opened.value })
    yield* Effect.raceFirst(steps, owner.cancelled)
  },
  Effect.scoped,
  // An interruption that comes from within, not from the host, has ended the Turn as a failure: the session goes on.
  (turn, owner) =>
    Effect.flatMap(Effect.exit(turn), (exit) =>
      Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause) && !owner.isLettingGo() ? Effect.void : exit
    ),
  Effect.catchIf(
    (error): error is ModelFailed | AgentNotFound | GivenUp => !isWriteError(error),
    () => Effect.void
  ),
  Effect.tapCauseIf(Cause.hasDies, (cause) => Effect.logError("a turn met an unexpected error", cause)),
  Effect.catchDefect(() => Effect.void),
  (turn, owner) => turn.pipe(Telemetry.turn(owner.state.agent), Telemetry.within(placeOf(owner)))
)

/** Where the work of the open Turn belongs, or of the next one. */
const placeOf = ({ sessionId, state }: Owner): Telemetry.Place => ({
  sessionId,
  agent: state.agent,
  turnId: state.turn?.id ?? Ids.turnId(state.turns + 1)
})

interface Opened {
  readonly config: TurnConfig
  readonly toAsk: ReadonlySet<Ids.CallId>
}

/** Opens the next Turn, or prepares to go on with the open one: its calls are recovered first (T4). */
const open = Effect.fnUntraced(function* (owner: Owner, made: Scope.Scope) {
  const { state, sessionId } = owner
  const isOpen = state.turn !== undefined
  if (!isOpen && Inbox.nextStart(state.pending) === undefined) return Option.none<Opened>()
  // There is nothing to do in it but to end it.
  if (state.turn?.cancelling !== undefined) return Option.none<Opened>()
  const turnId = state.turn?.id ?? Ids.turnId(state.turns + 1)
  const prepared = yield* Effect.exit(prepareIn(made, owner, { sessionId, turnId }))
  const config = Exit.isSuccess(prepared) ? prepared.value : { modelName: "unknown", policy: {} }
  let toAsk: ReadonlySet<Ids.CallId> = new Set()
  if (isOpen) toAsk = yield* takeUp(owner, Exit.isSuccess(prepared) ? prepared.value : undefined)
  else {
    const limits = limitsOf(config.policy, yield* Clock.currentTimeMillis)
    yield* owner.decide((current) => {
      const item = Inbox.nextStart(current.pending)
      return item === undefined ? [] : TurnPlan.startTurn(current, item, { model: config.modelName, limits })
    })
    // What waited may have been withdrawn while the Turn was prepared.
    if (state.turn === undefined) return Option.none<Opened>()
  }
  // The Turn is open now: a preparation that failed ends it by the finalizer, like every other failure.
  if (Exit.isFailure(prepared)) return yield* Effect.failCause(prepared.cause)
  return Option.some<Opened>({ config: prepared.value, toAsk })
})

/** How long a Turn may take to be prepared (T5). */
const prepareTime = Duration.minutes(2)

/** How long what was made for a Turn may take to be released before the session goes on without waiting for it (T5). */
const releaseGrace = Duration.seconds(5)

/** Prepares the Turn in a fiber of its own, so that neither a cancel nor the next Turn waits for one that does not end (T5). */
const prepareIn = Effect.fnUntraced(function* (made: Scope.Scope, owner: Owner, request: TurnRequest) {
  const { prepare } = yield* Prepare
  return yield* Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(
      Effect.forkDetach(Scope.provide(prepare(owner.state.agent, request), made), { startImmediately: true }),
      (preparing) =>
        restore(
          Effect.raceFirst(
            Effect.timeoutOrElse(Fiber.join(preparing), { duration: prepareTime, orElse: () => unprepared }),
            Effect.andThen(owner.cancelled, Effect.interrupt)
          )
        ).pipe(Effect.ensuring(Effect.sync(() => preparing.interruptUnsafe())))
    )
  )
})

/** Releases what was made for the Turn, and leaves behind what does not end (T5). */
const release = (owner: Owner, made: Scope.Closeable, exit: Exit.Exit<unknown, unknown>): Effect.Effect<void> =>
  Effect.gen(function* () {
    const releasing = yield* Effect.forkDetach(Scope.close(made, exit), { startImmediately: true })
    const released = yield* Effect.timeoutOption(Effect.interruptible(Fiber.await(releasing)), releaseGrace)
    if (Option.isNone(released)) {
      yield* Effect.logWarning(`what was made for a turn of session ${owner.sessionId} is still being released`)
    } else if (Exit.isFailure(released.value)) {
      yield* Effect.logError("what was made for a turn was not released well", released.value.cause)
    }
  })

/** What was tried often enough, or for long enough: the Turn ends, and says why. */
class GivenUp extends Schema.TaggedError<GivenUp>()("GivenUp", { code: Schema.String, message: Schema.String }) {}

const unprepared = Effect.fail(
  new GivenUp({
    code: "preparation-timed-out",
    message: `The turn was not ready to begin after ${Duration.toSeconds(prepareTime)} seconds: see what its agent makes anew for every turn.`
  })
)

/** `running` are the calls that had begun and have no answer: one of them may be what the processes died of. */
const hopeless = (takeovers: number, running: ReadonlyArray<Call.Call>) =>
  new GivenUp({
    code: "crash-loop",
    message:
      `${takeovers + 1} processes died over the turn, one after the other, before it came further` +
      (running.length === 0 ? ". " : `, while they ran ${named(running)}. `) +
      "It is given back: look at what it was doing before you try it again."
  })

const named = (calls: ReadonlyArray<Call.Call>): string => {
  const names = calls.slice(0, 5).map(({ callId, name }) => `${name} (${callId})`)
  return calls.length > names.length ? `${names.join(", ")} and ${calls.length - names.length} more` : names.join(", ")
}

const refused = (reason: string, times: number) =>
  new GivenUp({
    code: "write-refused",
    message:
      `Storage refused what the turn had to record ${times === 1 ? "once" : `${times} times`}: ${reason} ` +
      "It is given back, and the model is not asked again: its answer would be refused as well."
  })

/**
 * Takes up an open Turn where its former owner left it; the calls it gives were lost, and their tools can be asked. Without a
 * configuration nothing is started.
 */
const takeUp = Effect.fnUntraced(function* (owner: Owner, config: TurnConfig | undefined) {
  const refusal = owner.refusal()
  if (refusal !== undefined) {
    yield* owner.decide(({ turn }) => (turn === undefined ? [] : TurnPlan.refused(turn, refusal.message)))
  }
  const refusals = owner.state.turn?.refusals ?? 0
  if (refusal?.isFinal === true || refusals >= TurnPlan.maxRefusals) {
    return yield* refused(refusal?.message ?? "see its log.", refusals)
  }
  yield* owner.restore
  let isHopeless = false
  let toAsk: ReadonlySet<Ids.CallId> = new Set()
  const { turn: left } = owner.state
  const open = left === undefined ? [] : Ledger.openCalls(left.ledger)
  const free =
    config === undefined ? undefined : yield* Approval.free(config, owner.sessionId, open, owner.state.window)
  const now = yield* Clock.currentTimeMillis
  yield* owner.decide(({ turn }) => {
    if (turn === undefined || turn.cancelling !== undefined) return []
    if (config !== undefined)
      toAsk = Ledger.askable(turn.ledger, (tool) => config.policies.get(tool)?.query !== undefined)
    // By the tools as they are now: nothing runs unasked that the former owner would have run.
    const refusalOf = ({ callId, name }: Call.Call) =>
      Consent.refusal(name, config?.policies.get(name) ?? {}, { isFree: free?.has(callId) })
    // What there is no time for any more is not begun again: it would be stopped at once, in the middle of its effects.
    const isLate = turn.limits.deadline !== undefined && turn.limits.deadline <= now
    if (isLate) toAsk = new Set()
    const recovery =
      config === undefined
        ? []
        : isLate
          ? Ledger.receipts(turn.ledger, "lost")
          : Ledger.recovery(turn.ledger, refusalOf, toAsk)
    const facts = TurnPlan.takeUp(turn, owner.wasLeft, recovery)
    isHopeless = facts === undefined
    return facts ?? []
  })
  if (isHopeless)
    return yield* hopeless(
      left?.takeovers ?? 0,
      open.filter(({ attempt }) => attempt > 0)
    )
  return toAsk
})

/** Steps until the Turn is closed, or told to stop. What to do next is read off the state, so a recovered Turn needs no other path. */
const loop = Effect.fnUntraced(function* (context: Step.StepContext) {
  const { owner, config, hub, unrecorded } = context
  let saved: Effect.Effect<void, WriteError> = Effect.void
  let began = yield* Clock.currentTimeMillis
  for (;;) {
    const turn = owner.state.turn
    if (turn === undefined || turn.cancelling !== undefined) return
    if (owner.isLettingGo()) return yield* saved
    if (turn.step?.state === "requested") yield* owner.confirm
    if (turn.step?.kind === "hand-back") return yield* handBack(context, turn, saved)
    if (turn.step?.state === "requested") {
      const response = yield* beforeDeadline(turn, Step.ask(context, turn, saved, undefined))
      if (Option.isNone(response)) {
        yield* saved
        // What was shown of the answer is void: the step ends with the hand-back, for which the time has a reserve (A5).
        hub.show(owner.sessionId, { type: "step.reset", turnId: turn.id, step: turn.step.step, reason: "time" })
        return yield* handBack(context, turn, saved, "time")
      }
      if (!response.value.parts.some((part) => part.type === "tool-call")) {
        yield* Telemetry.step(config.agent, (yield* Clock.currentTimeMillis) - began)
        return yield* end(owner, { type: "completed" }, (state, open) => Accept.final(state, open, response.value))
      }
      const asked = Approval.callsOf(turn.number, turn.step.step, response.value)
      const free = yield* Approval.free(config, owner.sessionId, asked, owner.state.window)
      const rules = yield* Step.rulesOf(context)
      saved = yield* owner.ahead((state) =>
        // No call is registered, and none started, for a Turn that has been told to stop.
        state.turn?.cancelling === undefined
          ? Accept.withCalls(state, turn, response.value, (tool) => config.policies.get(tool), { ...rules, free })
          : []
      )
    } else {
      const calls = Step.runCalls(context, Ledger.openCalls(turn.ledger), saved)
      const done = yield* beforeDeadline(turn, Telemetry.inStep(Accept.stepOf(turn))(calls))
      const now = yield* Clock.currentTimeMillis
      yield* Telemetry.step(config.agent, now - began)
      began = now
      if (Option.isNone(done)) {
        yield* Effect.flatten(record(owner, unrecorded, () => []))
        yield* Effect.flatten(record(owner, unrecorded, () => Ledger.receipts(turn.ledger, "timed-out")))
      }
      saved = yield* record(owner, unrecorded, (state, results) => TurnPlan.nextStep(state, turn, now, results))
    }
  }
})

/** Writes what is not recorded yet, and what comes after it unless the Turn has been told to stop, ahead. */
const record = (
  owner: Owner,
  unrecorded: Array<Fact>,
  next: (state: SessionState, results: ReadonlyArray<Fact>) => ReadonlyArray<Fact>
) =>
  owner.ahead((state) => {
    const results = unrecorded.splice(0)
    return [...results, ...(state.turn?.cancelling === undefined ? next(state, results) : [])]
  })

/** Stops what runs when the Turn's time is over; what would begin after it does not. */
const beforeDeadline = <A, E, R>(
  turn: OpenTurn,
  work: Effect.Effect<A, E, R>
): Effect.Effect<Option.Option<A>, E, R> => {
  const { deadline } = turn.limits
  if (deadline === undefined) return Effect.asSome(work)
  return Effect.flatMap(Clock.currentTimeMillis, (now) =>
    now >= deadline ? Effect.succeedNone : Effect.timeoutOption(work, deadline - now)
  )
}

/** How long the hand-back may take in a Turn whose time is limited. */
const reserve = Duration.minutes(1)

/** The last step of a Turn that must end: the model's words, or the runtime's when the model has none. */
const handBack = Effect.fnUntraced(function* (
  context: Step.StepContext,
  turn: OpenTurn,
  saved: Effect.Effect<void, WriteError>,
  spent?: TurnPlan.HandBackCause
) {
  const cause = spent ?? TurnPlan.mustEnd(turn, yield* Clock.currentTimeMillis) ?? "steps"
  const asked = Step.ask(context, turn, saved, TurnPlan.reasonToEnd(turn, cause))
  const isTimed = turn.limits.deadline !== undefined
  const response = yield* (isTimed ? Effect.timeoutOption(asked, reserve) : Effect.asSome(asked)).pipe(
    Effect.catchTag("ModelFailed", () => Effect.as(saved, Option.none<Accept.Response>()))
  )
  yield* end(context.owner, TurnPlan.afterHandBack(cause), (state, open) =>
    Option.isSome(response) && response.value.parts.some((part) => part.type === "text" && part.text.trim() !== "")
      ? Accept.final(state, open, response.value)
      : Accept.handBack(open, TurnPlan.reasonToEnd(open, cause))
  )
})

/** Closes the Turn with its last words, in one write, unless it has been told to stop meanwhile. */
const end = (
  owner: Owner,
  ending: TurnPlan.Ending,
  lastWords: (state: SessionState, turn: OpenTurn) => ReadonlyArray<Fact>
) =>
  owner.decide((state) =>
    state.turn === undefined || state.turn.cancelling !== undefined
      ? []
      : TurnPlan.endTurn(state, state.turn, ending, lastWords(state, state.turn))
  )

/** The finalizer (T1, T2): settles what the exit left open, or records no more than results when the Turn goes on elsewhere. */
const settle = (owner: Owner, unrecorded: Array<Fact>, exit: Exit.Exit<unknown, unknown>): Effect.Effect<void> => {
  const ending = endingOf(owner, exit)
  const results = unrecorded.splice(0)
  if (ending === undefined) return owner.salvage(results)
  return Effect.gen(function* () {
    yield* Effect.onError(
      owner.decide(() => results),
      () => owner.salvage(results)
    )
    // What is told at the last moment is obeyed as well: the write that is decided again ends the Turn as cancelled.
    yield* owner.decide((state) =>
      state.turn === undefined ? [] : TurnPlan.endTurn(state, state.turn, cancelledOf(state.turn) ?? ending)
    )
  }).pipe(
    // The session is another owner's now, or its storage is away: the next owner settles from the journal.
    Effect.catch((error) => Effect.logWarning(`the turn was not settled here: ${error.message}`)),
    Effect.catchDefect((defect) => Effect.logError("the turn was not settled here", defect))
  )
}

const endingOf = (owner: Owner, exit: Exit.Exit<unknown, unknown>): TurnPlan.Ending | undefined => {
  if (owner.stale() !== undefined || owner.state.turn === undefined) return undefined
  const cancelled = cancelledOf(owner.state.turn)
  if (cancelled !== undefined) return cancelled
  if (Exit.isSuccess(exit)) return undefined
  if (Cause.hasInterruptsOnly(exit.cause)) {
    return owner.isLettingGo() ? undefined : { type: "failed", error: interruptedWithin }
  }
  const error = Cause.findErrorOption(exit.cause)
  if (Option.isSome(error) && isWriteError(error.value)) return undefined
  return { type: "failed", error: failureOf(error) }
}

const cancelledOf = ({ cancelling }: OpenTurn): TurnPlan.Ending | undefined =>
  cancelling === undefined ? undefined : { type: "cancelled", by: cancelling.by, reason: cancelling.reason }

const interruptedWithin: Failure = {
  code: "interrupted",
  message: "The model or the preparation of the turn was interrupted from within."
}

const failureOf = (error: Option.Option<unknown>): Failure => {
  if (Option.isNone(error))
    return { code: "defect", message: "The runtime met an unexpected error. Its log has the details." }
  if (error.value instanceof GivenUp || error.value instanceof ModelFailed)
    return { code: error.value.code, message: error.value.message }
  return { code: "agent-not-found", message: error.value instanceof Error ? error.value.message : String(error.value) }
}

const isWriteError = (error: unknown): error is WriteError => error instanceof FenceLost || error instanceof OwnerStale
