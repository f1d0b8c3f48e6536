/**
 * One tool call, run to the one answer it gets.
 *
 * Owns: turning everything a tool can do (answer, fail, throw, take too long, be told to stop, give more than fits) into
 * facts. Does not own: which calls run (`Accept.withCalls`), or the receipts of calls that were cut off (`Ledger`).
 *
 * - T1. Whatever the tool does, the Turn goes on: the failure is the model's to read, never the engine's to throw.
 * - T2. A tool that is told to stop has a grace: what it has committed by its end (`ToolCall.commit`) is its answer. One that
 *   does not end in it is left behind and never holds the Turn; when it ends is recorded, with what it committed, and is no
 *   answer of its call.
 * - T3. A call is run again only where that does no harm, and every attempt is recorded before it starts.
 */
import * as Call from "@turnstep/core/Call"
import type * as Canonical from "@turnstep/core/Canonical"
import * as CrashPoint from "@turnstep/core/CrashPoint"
import type { SessionId } from "@turnstep/core/Ids"
import * as Ids from "@turnstep/core/Ids"
import * as SpillStore from "@turnstep/core/SpillStore"
import * as ToolOutput from "@turnstep/core/ToolOutput"
import * as ToolPolicy from "@turnstep/core/ToolPolicy"
import type { Fact } from "@turnstep/core/TurnEvent"
import * as AiError from "effect/ai/AiError"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as References from "effect/References"
import * as Tracer from "effect/Tracer"
import * as LargeOutput from "./LargeOutput.ts"
import type { WriteError } from "./Owner.ts"
import * as Telemetry from "./Telemetry.ts"
import * as ToolAnswer from "./ToolAnswer.ts"
import * as ToolCall from "./ToolCall.ts"
import type { Answer } from "./ToolHandler.ts"
import * as ToolStop from "./ToolStop.ts"
import type { TurnConfig } from "./TurnConfig.ts"

/** What of a tool's progress is shown at most: one word in so many milliseconds. A tool that floods would drive watchers away. */
const progressEvery = 100

/** Characters of a progress at most, as JSON: a larger one is not shown. Watchers that stand still hold thousands of them. */
const largestProgress = 16_384

/** What happens around a call while it runs. */
export interface Around {
  /** Bytes that the results of the batch may still take in the log. */
  readonly allowance: ToolAnswer.Allowance
  readonly onProgress: (progress: Canonical.Json) => Effect.Effect<void>
  /** Records that the call is started once more; done when that is durable. */
  readonly onRetry: (attempt: number) => Effect.Effect<void, WriteError>
  /** What a call of the session was answered; `undefined` where there is no such answer. */
  readonly outputOf: (callId: Ids.CallId) => Effect.Effect<Canonical.Json | undefined>
  /** Takes what waits for a tool that was left behind: the facts of an end nobody waits for any more. */
  readonly onLate: (late: Effect.Effect<ReadonlyArray<Fact>>) => Effect.Effect<void>
  /** Hears of a tool that was left behind. */
  readonly onLeft: (fiber: Fiber.Fiber<unknown, unknown>) => Effect.Effect<void>
  /** Hears the answer of a call as soon as there is one: whoever is told to stop just then does not get it as a value. */
  readonly onAnswer: (facts: ReadonlyArray<Fact>) => void
}

/** Runs a call and returns the facts that answer it (T1). Interruption stops the tool and is passed on. */
export const run = Effect.fnUntraced(
  function* (config: TurnConfig, sessionId: SessionId, call: Call.Call, around: Around) {
    const policy = config.policies.get(call.name) ?? ToolPolicy.unknownTool
    const store = yield* SpillStore.SpillStore
    const base = { config, sessionId, call, around, policy, store }
    const first = call.attempt
    const retry = retryOf(policy, call)
    if (retry === undefined) {
      return (yield* attempted({ ...base, attempt: first })).facts
    }
    let attempt = first
    const tried = Effect.suspend(() => attempted({ ...base, attempt: attempt++ })).pipe(
      Effect.filterOrFail(
        ({ mayPass }) => !mayPass,
        ({ facts }) => new AttemptFailed(facts)
      )
    )
    return yield* Effect.suspend(() =>
      attempt === first ? tried : Effect.andThen(around.onRetry(attempt), tried)
    ).pipe(
      Effect.retry({ schedule: retry, while: (error) => error._tag === "AttemptFailed" }),
      Effect.catchTag("AttemptFailed", Effect.succeed),
      Effect.map(({ facts }) => facts)
    )
  },
  // Where the span is made is known: capturing a stack for every call would cost more than the span.
  (running, _, __, call) =>
    Effect.withSpan(running, "ToolRun.run", {
      attributes: Telemetry.callAttributes(call.name, call.callId),
      captureStackTrace: false
    }).pipe(Telemetry.call(call.name), Effect.annotateLogs({ call: call.callId, tool: call.name }))
)

/**
 * Asks what became of a call that was lost with its process, and returns the facts that answer it: the result, or the receipt
 * where nobody can tell. Nothing is run again.
 */
export const ask = Effect.fnUntraced(
  function* (config: TurnConfig, sessionId: SessionId, call: Call.Call, around: Around) {
    const policy = config.policies.get(call.name) ?? ToolPolicy.unknownTool
    const { query } = policy
    const store = yield* SpillStore.SpillStore
    const asked = yield* Clock.currentTimeMillis
    const spills: Array<SpillStore.Spill> = []
    const attempt: Attempt = { config, sessionId, call, around, policy, store, attempt: call.attempt }
    const callKey = Ids.callKey(sessionId, call.callId)
    const told = Effect.suspend(() => query?.({ params: call.params, callKey }) ?? Effect.succeedNone).pipe(
      Effect.flatMap(Effect.fromOption),
      Effect.flatMap((output) => {
        const answer: Answer = { isFailure: false, output }
        return fitting(attempt, answer, keeper(attempt, spills))
      })
    )
    const exit = yield* ToolStop.detached(told, { timeout: policy.timeout })
    if (Option.isNone(exit) || Exit.isFailure(exit.value)) {
      yield* Effect.logWarning(
        `what became of a call of ${call.name} could not be told`,
        Option.isSome(exit) && Exit.isFailure(exit.value) ? exit.value.cause : "it took too long"
      )
      return [Call.receipt(call, "lost")]
    }
    return ToolAnswer.facts(attempt, spills, exit.value.value, (yield* Clock.currentTimeMillis) - asked)
  },
  (asking, _, __, call) =>
    Effect.withSpan(asking, "ToolRun.ask", {
      attributes: Telemetry.callAttributes(call.name, call.callId),
      captureStackTrace: false
    })
)

/** An attempt after which the call may be run again, with the facts that answer it if it is not. */
class AttemptFailed {
  readonly _tag = "AttemptFailed"
  readonly facts: ReadonlyArray<Fact>
  constructor(facts: ReadonlyArray<Fact>) {
    this.facts = facts
  }
}

/** What one attempt came to. `mayPass`: it failed, and not for a reason that is the same every time. */
interface Attempted {
  readonly facts: ReadonlyArray<Fact>
  readonly mayPass: boolean
}

interface Attempt {
  readonly config: TurnConfig
  readonly sessionId: SessionId
  readonly call: Call.Call
  readonly around: Around
  readonly policy: ToolPolicy.ToolPolicy
  readonly store: SpillStore.Service | undefined
  readonly attempt: number
}

/** Runs the tool once. */
const attempted = Effect.fnUntraced(function* (attempt: Attempt): Effect.fn.Return<Attempted> {
  const { around, call, policy } = attempt
  const started = yield* Clock.currentTimeMillis
  const spills: Array<SpillStore.Spill> = []
  const keep = keeper(attempt, spills)
  const answered = Effect.fnUntraced(function* (exit: Exit.Exit<Answer, unknown>) {
    if (Exit.isFailure(exit)) yield* logDefect(call, exit.cause)
    const answer = Exit.isSuccess(exit)
      ? exit.value
      : yield* failed(attempt, ToolAnswer.failureText(call, exit.cause), keep)
    return ToolAnswer.facts(attempt, spills, answer, (yield* Clock.currentTimeMillis) - started)
  })
  let committed: Answer | undefined
  const running = handle(attempt, spills, keep, (answer) => {
    committed = answer
  })
  const factsOf = (exit: Exit.Exit<Answer, unknown>): Effect.Effect<ReadonlyArray<Fact>> =>
    ToolAnswer.isUnknown(exit) && !ToolPolicy.mayRunAgain(call.effects)
      ? Effect.succeed([Call.receipt(call, "lost")])
      : answered(exit)
  const late = Effect.fnUntraced(function* (fiber: Fiber.Fiber<Answer, unknown>) {
    const exit = yield* Fiber.await(fiber)
    const data = { callId: call.callId, ms: (yield* Clock.currentTimeMillis) - started }
    const isStopped = Exit.isFailure(exit) && Cause.hasInterrupts(exit.cause)
    // A tool that was told to stop mostly ends without a word.
    if (isStopped && committed === undefined) return [{ type: "call.late", data } as const]
    const facts = yield* answered(isStopped && committed !== undefined ? Exit.succeed(committed) : exit)
    return facts.map((fact): Fact => {
      if (fact.type !== "call.completed") return fact
      const { isFailure, output } = fact.data
      return { type: "call.late", data: { ...data, answer: { isFailure, output } } }
    })
  })
  let facts: ReadonlyArray<Fact> = []
  const exit = yield* ToolStop.detached(running, {
    timeout: policy.timeout,
    onEnded: (exit, isStopped) =>
      Effect.map(factsOf(exit), (known) => {
        facts = known
        if (isStopped || !mayPass(exit) || retryOf(policy, call) === undefined) around.onAnswer(known)
      }),
    onLeft: (fiber) => Effect.andThen(around.onLeft(fiber), around.onLate(late(fiber))),
    committed: () => committed
  })
  if (Option.isNone(exit)) return { facts: [Call.receipt(call, "timed-out")], mayPass: false }
  yield* CrashPoint.hit("tool-finished", "after-ack")
  return { facts, mayPass: mayPass(exit.value) }
})

/** How a failure is tried again, judged by what the call was registered as (T3): its tool may have another policy by now. */
const retryOf = ({ retry }: ToolPolicy.ToolPolicy, { effects }: Call.Call): ToolPolicy.ToolPolicy["retry"] =>
  ToolPolicy.mayRunAgain(effects) ? retry : undefined

/** Whether to fail again is not certain: arguments that do not fit today will not fit tomorrow. */
const mayPass = (exit: Exit.Exit<Answer, unknown>): boolean => {
  if (Exit.isSuccess(exit)) return exit.value.isFailure
  const error = Option.getOrUndefined(Cause.findErrorOption(exit.cause))
  return !(AiError.isAiError(error) && error.reason._tag === "ToolParameterValidationError")
}

/** Keeps contents for a call and notes them in `spills`. */
const keeper = ({ sessionId, store }: Attempt, spills: Array<SpillStore.Spill>): LargeOutput.Keep =>
  store === undefined
    ? ToolCall.keepsNothing
    : (content) =>
        store.write(sessionId, content).pipe(
          Effect.tap((spill) => Effect.sync(() => void spills.push(spill))),
          Effect.tap(() => CrashPoint.hit("spill-written", "after-ack"))
        )

/** The answer as it is recorded. An exempt one stays whole for as long as its batch has room. */
const fitting = (
  { around, policy, store }: Attempt,
  answer: Answer,
  keep: LargeOutput.Keep
): Effect.Effect<Answer, LargeOutput.OutputLost> => {
  if (store === undefined) return Effect.succeed(answer)
  const isExempt = policy.output === "exempt" && policy.durableRead === undefined
  return ToolAnswer.fitting(answer, keep, around.allowance, isExempt ? Infinity : SpillStore.threshold)
}

/** A failure as it is recorded: its text may have any length. */
const failed = (attempt: Attempt, text: string, keep: LargeOutput.Keep): Effect.Effect<Answer> =>
  Effect.catch(fitting(attempt, { isFailure: true, output: text }, keep), ({ message }) =>
    Effect.succeed({ isFailure: true, output: message })
  )

/** Calls the handler, and keeps what is too large for the log. A handler that is stopped leaves what it has committed. */
const handle = (
  tried: Attempt,
  spills: ReadonlyArray<SpillStore.Spill>,
  keep: LargeOutput.Keep,
  onCommitted: (answer: Answer) => void
): Effect.Effect<Answer, unknown> => {
  const { around, attempt, call, config, policy, sessionId } = tried
  const handler = config.handlers.get(call.name)
  if (handler === undefined) return Effect.die(new Error(`the application provides no handler for ${call.name}`))
  const progress = throttled(around.onProgress)
  const recorded: ToolCall.Current["recorded"] = (callId) =>
    Effect.map(around.outputOf(callId), (output) => (output === undefined ? undefined : ToolOutput.toText(output)))
  const committed: ToolCall.Committed = {}
  const current: ToolCall.Current = { sessionId, callId: call.callId, attempt, progress, keep, recorded, committed }
  const kept = (answer: Answer): Effect.Effect<Answer, LargeOutput.OutputLost> =>
    policy.durableRead !== undefined && !answer.isFailure && tried.store !== undefined
      ? ToolAnswer.received(answer, policy.durableRead(call.params), spills, keep)
      : fitting(tried, answer, keep)
  return handler.run(call.params, Ids.callKey(sessionId, call.callId), progress).pipe(
    Effect.flatMap(kept),
    Effect.onInterrupt(() =>
      committed.value === undefined || handler.encode === undefined
        ? Effect.void
        : handler.encode(committed.value.result).pipe(
            Effect.flatMap(kept),
            Effect.map(onCommitted),
            Effect.catch((error) => Effect.logError(`what ${call.name} committed is no result of it`, error))
          )
    ),
    Effect.updateContext((own: Context.Context<never>) => inside(own, config.context, current))
  )
}

/** The context of a handler: what the application gave it, in the span and with the annotations of its call. */
const inside = (
  own: Context.Context<never>,
  given: Context.Context<never>,
  current: ToolCall.Current
): Context.Context<never> => {
  const context = Context.add(given, ToolCall.ToolCall, current).pipe(
    Context.add(References.CurrentLogAnnotations, Context.get(own, References.CurrentLogAnnotations)),
    Context.add(References.TracerSpanAnnotations, Context.get(own, References.TracerSpanAnnotations))
  )
  const span = Context.getOption(own, Tracer.ParentSpan)
  return Option.isNone(span) ? context : Context.add(context, Tracer.ParentSpan, span.value)
}

/** Passes on the first progress of every `progressEvery`, unless it is too large. */
const throttled = (show: Around["onProgress"]): Around["onProgress"] => {
  let shown = -Infinity
  return (progress) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => {
      if (now - shown < progressEvery) return Effect.void
      shown = now
      return ToolOutput.toText(progress).length > largestProgress ? Effect.void : show(progress)
    })
}

const logDefect = (call: Call.Call, cause: Cause.Cause<unknown>) =>
  Option.isSome(Cause.findErrorOption(cause)) ? Effect.void : Effect.logError(`tool ${call.name} threw`, cause)
