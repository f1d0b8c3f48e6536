/**
 * One tool call, run to the one answer it gets.
 *
 * Owns: turning everything a tool can do (answer, fail, throw, take too long, be told to stop) into a fact.
 * Does not own: which calls run (`TurnPlan.accept`), or the receipts of calls that were cut off (`Ledger`).
 *
 * - T1. Whatever the tool does, the Turn goes on: the failure is the model's to read, never the engine's to throw.
 * - T2. A tool that ignores being told to stop is left behind after a grace; it never holds the Turn.
 */
import * as Canonical from "@turnstep/core/Canonical"
import * as CrashPoint from "@turnstep/core/CrashPoint"
import type { SessionId } from "@turnstep/core/Ids"
import * as Ids from "@turnstep/core/Ids"
import * as Ledger from "@turnstep/core/Ledger"
import * as ToolOutput from "@turnstep/core/ToolOutput"
import * as ToolPolicy from "@turnstep/core/ToolPolicy"
import type { Fact } from "@turnstep/core/TurnEvent"
import * as AiError from "effect/ai/AiError"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type { Answer } from "./ToolHandler.ts"
import type { TurnConfig } from "./TurnConfig.ts"

/** How long a tool may take to stop when it is told to (T2). */
export const stopGrace = Duration.seconds(2)

/** Runs a call and returns the fact that answers it (T1). Interruption stops the tool and is passed on. */
export const run = Effect.fnUntraced(
  function* (
    config: TurnConfig,
    sessionId: SessionId,
    call: Ledger.Call,
    onProgress: (progress: Canonical.Json) => Effect.Effect<void>
  ) {
    const policy = config.policies.get(call.name) ?? ToolPolicy.unknownTool
    const started = yield* Clock.currentTimeMillis
    const exit = yield* detached(handle(config, sessionId, call, onProgress), policy.timeout)
    if (Option.isNone(exit)) return Ledger.receipt({ ...call, attempt: Math.max(1, call.attempt) }, "timed-out")
    yield* CrashPoint.hit("tool-finished", "after-ack")
    const ms = (yield* Clock.currentTimeMillis) - started
    if (Exit.isFailure(exit.value)) {
      yield* logDefect(call, exit.value.cause)
      return completed(call, policy, { isFailure: true, output: failureText(call, exit.value.cause) }, ms)
    }
    return completed(call, policy, exit.value.value, ms)
  },
  // Where the span is made is known: capturing a stack for every call would cost more than the span.
  (running, _, __, call) =>
    Effect.withSpan(running, "ToolRun.run", {
      attributes: { tool: call.name, call: call.callId },
      captureStackTrace: false
    })
)

/**
 * Runs a tool in a fiber of its own, so that neither a timeout nor an interruption of the Turn waits for one that does not
 * stop (T2). `None` when its time is over.
 */
const detached = <A>(tool: Effect.Effect<A, unknown>, timeout: Duration.Duration) =>
  Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(Effect.forkDetach(tool, { startImmediately: true }), (fiber) => {
      const exit = fiber.pollUnsafe()
      if (exit !== undefined) return Effect.succeedSome(exit)
      return restore(Effect.timeoutOption(Fiber.await(fiber), timeout)).pipe(
        Effect.onInterrupt(() => stop(fiber)),
        Effect.flatMap((awaited) =>
          Option.isSome(awaited) ? Effect.succeed(awaited) : Effect.map(stop(fiber), () => lastMinute(fiber))
        )
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

const handle = (
  config: TurnConfig,
  sessionId: SessionId,
  call: Ledger.Call,
  onProgress: (progress: Canonical.Json) => Effect.Effect<void>
): Effect.Effect<Answer, unknown> => {
  const handler = config.handlers.get(call.name)
  if (handler === undefined) return Effect.die(new Error(`the application provides no handler for ${call.name}`))
  return Effect.provideContext(
    handler.run(call.params, Ids.callKey(sessionId, call.callId), onProgress),
    config.context
  )
}

const stop = (fiber: Fiber.Fiber<unknown, unknown>) =>
  Effect.suspend(() => Effect.forkDetach(Fiber.interrupt(fiber))).pipe(
    Effect.flatMap((stopping) => Effect.timeoutOption(Effect.interruptible(Fiber.await(stopping)), stopGrace))
  )

const completed = (
  call: Ledger.Call,
  policy: ToolPolicy.ToolPolicy,
  answer: Answer,
  ms: number
): Extract<Fact, { readonly type: "call.completed" }> => {
  const text = answer.modelText ?? ToolOutput.toText(answer.output)
  const view = policy.output === "exempt" ? { text, omitted: 0 } : ToolOutput.slim(text)
  const isSame = view.omitted === 0 && answer.modelText === undefined
  return {
    type: "call.completed",
    data: {
      callId: call.callId,
      isFailure: answer.isFailure,
      output: answer.output,
      ...(isSame ? {} : { modelView: view }),
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
  const digest = Canonical.digest(
    Result.getOrElse(
      Result.try(() => normalise(output)),
      () => output
    )
  )
  return digest === Canonical.digest(output) ? {} : { resultDigest: digest }
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
