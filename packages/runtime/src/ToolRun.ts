/**
 * One tool call, run to the one answer it gets.
 *
 * Owns: turning everything a tool can do (answer, fail, throw, take too long, be told to stop, give more than fits) into
 * facts. Does not own: which calls run (`TurnPlan.accept`), or the receipts of calls that were cut off (`Ledger`).
 *
 * - T1. Whatever the tool does, the Turn goes on: the failure is the model's to read, never the engine's to throw.
 * - T2. A tool that ignores being told to stop is left behind after a grace; it never holds the Turn. When it ends is
 *   recorded, with what it says then, and is no answer of its call.
 * - T3. A call is run again only where that does no harm, and every attempt is recorded before it starts.
 */
import * as Canonical from "@turnstep/core/Canonical"
import * as CrashPoint from "@turnstep/core/CrashPoint"
import * as DurableRead from "@turnstep/core/DurableRead"
import type { SessionId } from "@turnstep/core/Ids"
import * as Ids from "@turnstep/core/Ids"
import * as Ledger from "@turnstep/core/Ledger"
import * as SpillStore from "@turnstep/core/SpillStore"
import * as ToolOutput from "@turnstep/core/ToolOutput"
import * as ToolPolicy from "@turnstep/core/ToolPolicy"
import type { Fact } from "@turnstep/core/TurnEvent"
import * as AiError from "effect/ai/AiError"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import * as LargeOutput from "./LargeOutput.ts"
import type { WriteError } from "./Owner.ts"
import * as ToolCall from "./ToolCall.ts"
import * as ToolHandler from "./ToolHandler.ts"
import type { Answer } from "./ToolHandler.ts"
import type { TurnConfig } from "./TurnConfig.ts"

/** How long a tool may take to stop when it is told to (T2). */
export const stopGrace = Duration.seconds(2)

/** What of a tool's progress is shown at most: one word in so many milliseconds. A tool that floods would drive watchers away. */
const progressEvery = 100

/** Characters of a progress at most, as JSON: a larger one is not shown. Watchers that stand still hold thousands of them. */
const largestProgress = 16_384

/** What happens around a call while it runs. */
export interface Around {
  readonly onProgress: (progress: Canonical.Json) => Effect.Effect<void>
  /** Records that the call is started once more; done when that is durable. */
  readonly onRetry: (attempt: number) => Effect.Effect<void, WriteError>
  /** What a call of the session was answered; `undefined` where there is no such answer. */
  readonly outputOf: (callId: Ids.CallId) => Effect.Effect<Canonical.Json | undefined>
  /** Takes what waits for a tool that was left behind: the facts of an end nobody waits for any more. */
  readonly onLate: (late: Effect.Effect<ReadonlyArray<Fact>>) => Effect.Effect<void>
}

/** Runs a call and returns the facts that answer it (T1). Interruption stops the tool and is passed on. */
export const run = Effect.fnUntraced(
  function* (config: TurnConfig, sessionId: SessionId, call: Ledger.Call, around: Around) {
    const policy = config.policies.get(call.name) ?? ToolPolicy.unknownTool
    const store = yield* SpillStore.SpillStore
    const base = { config, sessionId, call, around, policy, store }
    const first = Math.max(1, call.attempt)
    // Judged by what the call was registered as (T3): its tool may have another policy by now.
    if (policy.retry === undefined || !ToolPolicy.mayRunAgain(call.effects)) {
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
      Effect.retry({ schedule: policy.retry, while: (error) => error._tag === "AttemptFailed" }),
      Effect.catchTag("AttemptFailed", Effect.succeed),
      Effect.map(({ facts }) => facts)
    )
  },
  // Where the span is made is known: capturing a stack for every call would cost more than the span.
  (running, _, __, call) =>
    Effect.withSpan(running, "ToolRun.run", {
      attributes: { tool: call.name, call: call.callId },
      captureStackTrace: false
    })
)

/**
 * Asks what became of a call that was lost with its process, and returns the facts that answer it: the result, or the receipt
 * where nobody can tell. Nothing is run again.
 */
export const ask = Effect.fnUntraced(
  function* (config: TurnConfig, sessionId: SessionId, call: Ledger.Call, around: Around) {
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
        return staysWhole(attempt) ? Effect.succeed(answer) : fitting(answer, keeper(attempt, spills))
      })
    )
    const exit = yield* detached(told, policy.timeout, () => Effect.void)
    if (Option.isNone(exit) || Exit.isFailure(exit.value)) {
      yield* Effect.logWarning(
        `what became of a call of ${call.name} could not be told`,
        Option.isSome(exit) && Exit.isFailure(exit.value) ? exit.value.cause : "it took too long"
      )
      return [Ledger.receipt(call, "lost")]
    }
    return answering(attempt, spills, exit.value.value, (yield* Clock.currentTimeMillis) - asked)
  },
  (asking, _, __, call) =>
    Effect.withSpan(asking, "ToolRun.ask", {
      attributes: { tool: call.name, call: call.callId },
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
  readonly call: Ledger.Call
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
    const answer = Exit.isSuccess(exit) ? exit.value : yield* failed(attempt, failureText(call, exit.cause), keep)
    return answering(attempt, spills, answer, (yield* Clock.currentTimeMillis) - started)
  })
  const late = Effect.fnUntraced(function* (fiber: Fiber.Fiber<Answer, unknown>) {
    const exit = yield* Fiber.await(fiber)
    const ms = (yield* Clock.currentTimeMillis) - started
    const data = { callId: call.callId, ms }
    // A tool that was told to stop mostly ends without a word.
    if (Exit.isFailure(exit) && Cause.hasInterrupts(exit.cause)) return [{ type: "call.late", data } as const]
    const facts = yield* answered(exit)
    return facts.map((fact): Fact => {
      if (fact.type !== "call.completed") return fact
      const { isFailure, output } = fact.data
      return { type: "call.late", data: { ...data, answer: { isFailure, output } } }
    })
  })
  const exit = yield* detached(handle(attempt, spills, keep), policy.timeout, (fiber) => around.onLate(late(fiber)))
  if (Option.isNone(exit)) {
    return { facts: [Ledger.receipt({ ...call, attempt: attempt.attempt }, "timed-out")], mayPass: false }
  }
  yield* CrashPoint.hit("tool-finished", "after-ack")
  if (isUnknown(exit.value) && !ToolPolicy.mayRunAgain(call.effects)) {
    return { facts: [Ledger.receipt({ ...call, attempt: attempt.attempt }, "lost")], mayPass: false }
  }
  return { facts: yield* answered(exit.value), mayPass: mayPass(exit.value) }
})

/** Whether to fail again is not certain: arguments that do not fit today will not fit tomorrow. */
const mayPass = (exit: Exit.Exit<Answer, unknown>): boolean => {
  if (Exit.isSuccess(exit)) return exit.value.isFailure
  const error = Option.getOrUndefined(Cause.findErrorOption(exit.cause))
  return !(AiError.isAiError(error) && error.reason._tag === "ToolParameterValidationError")
}

/**
 * Runs a tool in a fiber of its own, so that neither a timeout nor an interruption of the Turn waits for one that does not
 * stop (T2): `left` is told of that one. `None` when its time is over.
 */
const detached = <A>(
  tool: Effect.Effect<A, unknown>,
  timeout: Duration.Duration,
  left: (fiber: Fiber.Fiber<A, unknown>) => Effect.Effect<void>
) =>
  Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(Effect.forkDetach(tool, { startImmediately: true }), (fiber) => {
      const exit = fiber.pollUnsafe()
      if (exit !== undefined) return Effect.succeedSome(exit)
      const ended = Effect.andThen(stop(fiber), () =>
        Effect.as(fiber.pollUnsafe() === undefined ? left(fiber) : Effect.void, lastMinute(fiber))
      )
      return restore(Effect.timeoutOption(Fiber.await(fiber), timeout)).pipe(
        Effect.onInterrupt(() => ended),
        Effect.filterOrElse(Option.isSome, () => ended)
      )
    })
  )

/** The result of a tool that came to its end while it was being stopped: what is known is not called unknown. */
const lastMinute = <A>(fiber: Fiber.Fiber<A, unknown>): Option.Option<Exit.Exit<A, unknown>> => {
  const exit = fiber.pollUnsafe()
  return exit === undefined || (Exit.isFailure(exit) && Cause.hasInterrupts(exit.cause))
    ? Option.none()
    : Option.some(exit)
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

/** Whether an answer is recorded whole, whatever its size. */
const staysWhole = ({ policy, store }: Attempt): boolean =>
  store === undefined || (policy.output === "exempt" && policy.durableRead === undefined)

/** What a tool that failed says is as large as it likes. */
const failed = (attempt: Attempt, text: string, keep: LargeOutput.Keep): Effect.Effect<Answer> => {
  const answer = { isFailure: true, output: text }
  if (staysWhole(attempt)) return Effect.succeed(answer)
  return Effect.catch(fitting(answer, keep), ({ message }) => Effect.succeed({ isFailure: true, output: message }))
}

/** Calls the handler, and keeps what is too large for the log. */
const handle = (
  tried: Attempt,
  spills: ReadonlyArray<SpillStore.Spill>,
  keep: LargeOutput.Keep
): Effect.Effect<Answer, unknown> => {
  const { around, attempt, call, config, policy, sessionId } = tried
  const handler = config.handlers.get(call.name)
  if (handler === undefined) return Effect.die(new Error(`the application provides no handler for ${call.name}`))
  const progress = throttled(around.onProgress)
  const recorded: ToolCall.Current["recorded"] = (callId) =>
    Effect.map(around.outputOf(callId), (output) => (output === undefined ? undefined : ToolOutput.toText(output)))
  const current: ToolCall.Current = { sessionId, callId: call.callId, attempt, progress, keep, recorded }
  const kept = (answer: Answer) =>
    policy.durableRead !== undefined && !answer.isFailure
      ? received(answer, policy.durableRead(call.params), spills, keep)
      : fitting(answer, keep)
  return handler.run(call.params, Ids.callKey(sessionId, call.callId), progress).pipe(
    Effect.filterOrElse(() => staysWhole(tried), kept),
    Effect.provideContext(Context.add(config.context, ToolCall.ToolCall, current))
  )
}

/** The proof of a read whose text is kept beside the history, whatever its size; one that is a spill by now is that spill. */
const received = (
  answer: Answer,
  path: string,
  spills: ReadonlyArray<SpillStore.Spill>,
  keep: LargeOutput.Keep
): Effect.Effect<Answer, LargeOutput.OutputLost> => {
  const streamed = spills.find(({ id }) => id === answer.spill)
  const text = Buffer.from(answer.modelText ?? ToolOutput.toText(answer.output))
  const kept = streamed === undefined ? keep(Stream.make(text)) : Effect.succeed(streamed)
  return kept.pipe(
    Effect.map((spill) => ({ isFailure: false, output: DurableRead.proof(path, spill), received: spill })),
    Effect.mapError(
      ({ message }) => new LargeOutput.OutputLost({ message: `What was read could not be kept. ${message}` })
    )
  )
}

/** The answer itself, or where it is kept when it is too large for the log. */
const fitting = (answer: Answer, keep: LargeOutput.Keep): Effect.Effect<Answer, LargeOutput.OutputLost> => {
  const text = ToolOutput.toText(answer.output)
  // A code unit has three bytes of UTF-8 at the most.
  if (text.length * 3 <= SpillStore.threshold || Buffer.byteLength(text) <= SpillStore.threshold) {
    return Effect.succeed(answer)
  }
  return Effect.map(LargeOutput.collect(Stream.make(text), keep), (output) => ({
    ...ToolHandler.streamed(output),
    isFailure: answer.isFailure
  }))
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

const stop = (fiber: Fiber.Fiber<unknown, unknown>) =>
  Effect.suspend(() => Effect.forkDetach(Fiber.interrupt(fiber))).pipe(
    Effect.flatMap((stopping) => Effect.timeoutOption(Effect.interruptible(Fiber.await(stopping)), stopGrace))
  )

/** The facts of an answer: what was kept for it, and the answer itself. */
const answering = (
  { call, policy }: Attempt,
  spills: ReadonlyArray<SpillStore.Spill>,
  answer: Answer,
  ms: number
): ReadonlyArray<Fact> => [
  ...spills.map(({ bytes, id, lines }): Fact => ({
    type: "spill.created",
    data: { callId: call.callId, spillId: id, bytes, lines }
  })),
  completed(call, policy, answer, ms)
]

const completed = (
  call: Ledger.Call,
  policy: ToolPolicy.ToolPolicy,
  answer: Answer,
  ms: number
): Extract<Fact, { readonly type: "call.completed" }> => {
  const text = answer.modelText ?? ToolOutput.toText(answer.output)
  const view =
    policy.output === "exempt" ? { text, omitted: 0 } : ToolOutput.slim(text, policy.effects, undefined, call.callId)
  const isSame = view.omitted === 0 && answer.modelText === undefined
  return {
    type: "call.completed",
    data: {
      callId: call.callId,
      isFailure: answer.isFailure,
      output: answer.output,
      ...(isSame ? {} : { modelView: view }),
      ...(answer.received === undefined
        ? {}
        : { received: { spillId: answer.received.id, bytes: answer.received.bytes } }),
      ...comparedBy(policy, answer.output),
      ms
    }
  }
}

/** The digest of what repeated results are told apart by, when that is not the output itself. */
const comparedBy = (
  { normalise }: ToolPolicy.ToolPolicy,
  output: Canonical.Json
): { readonly resultDigest?: string } => {
  if (normalise === undefined) return {}
  const whole = Canonical.stringify(output)
  const compared = Result.getOrElse(
    Result.try(() => Canonical.stringify(normalise(output))),
    () => whole
  )
  return compared === whole ? {} : { resultDigest: Canonical.digestText(compared) }
}

/** Whether the tool itself cannot say what has become of it. */
const isUnknown = (exit: Exit.Exit<Answer, unknown>): boolean => {
  const error = Exit.isFailure(exit) ? Cause.findErrorOption(exit.cause) : Option.none()
  return Option.isSome(error) && error.value instanceof ToolHandler.OutcomeUnknown
}

/** What the model reads of a tool that failed or threw. A defect's details stay in the log. */
const failureText = (call: Ledger.Call, cause: Cause.Cause<unknown>): string => {
  const error = Cause.findErrorOption(cause)
  if (Option.isNone(error)) {
    return Cause.hasInterruptsOnly(cause)
      ? `${call.name} was interrupted from within and gave no result.`
      : `${call.name} failed unexpectedly. It may have had effects before it failed.`
  }
  const failure = error.value
  if (AiError.isAiError(failure)) return failure.reason.message
  if (failure instanceof Error && failure.message !== "") return failure.message
  return ToolOutput.toText(Canonical.toJson(failure))
}

const logDefect = (call: Ledger.Call, cause: Cause.Cause<unknown>) =>
  Option.isSome(Cause.findErrorOption(cause)) ? Effect.void : Effect.logError(`tool ${call.name} threw`, cause)
