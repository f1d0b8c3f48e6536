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
import * as Prompt from "effect/ai/Prompt"
import type * as Tool from "effect/ai/Tool"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type { TurnConfig } from "./TurnConfig.ts"

/** How long a tool may take to stop when it is told to (T2). */
export const stopGrace = Duration.seconds(2)

/** Runs a call and returns the fact that answers it (T1). Interruption stops the tool and is passed on. */
export const run = Effect.fn("ToolRun.run")(function* (
  config: TurnConfig,
  sessionId: SessionId,
  call: Ledger.Call,
  onProgress: (progress: Canonical.Json) => void
) {
  const policy = config.policies.get(call.name) ?? ToolPolicy.unknownTool
  const started = yield* Clock.currentTimeMillis
  // Detached, so that neither a timeout nor an interruption of the Turn waits for a tool that does not stop (T2).
  const exit = yield* Effect.uninterruptibleMask((restore) =>
    Effect.gen(function* () {
      const fiber = yield* Effect.forkDetach(Effect.interruptible(handle(config, sessionId, call, onProgress)))
      const awaited = restore(Effect.timeoutOption(Fiber.await(fiber), policy.timeout))
      const exit = yield* Effect.onInterrupt(awaited, () => stop(fiber))
      if (Option.isNone(exit)) yield* stop(fiber)
      return exit
    })
  )
  if (Option.isNone(exit)) return Ledger.receipt({ ...call, attempt: Math.max(1, call.attempt) }, "timed-out")
  yield* CrashPoint.hit("tool-finished", "after-ack")
  const ms = (yield* Clock.currentTimeMillis) - started
  if (Exit.isFailure(exit.value)) {
    yield* logDefect(call, exit.value.cause)
    return completed(call, policy, { isFailure: true, output: failureText(call, exit.value.cause) }, ms)
  }
  return completed(call, policy, exit.value.value, ms)
})

interface Answer {
  readonly isFailure: boolean
  readonly output: Canonical.Json
  readonly modelText?: string | undefined
}

const handle = (
  config: TurnConfig,
  sessionId: SessionId,
  call: Ledger.Call,
  onProgress: (progress: Canonical.Json) => void
): Effect.Effect<Answer, unknown> =>
  Effect.flatMap(
    config.toolkit.handle(call.name, call.params as never, Ids.callKey(sessionId, call.callId)),
    (results) =>
      Stream.runFold(
        results,
        () => undefined as Answer | undefined,
        (last, result: Tool.HandlerResult<Tool.Any>) => {
          if (!result.preliminary) return answerOf(result)
          onProgress(Canonical.toJson(result.encodedResult))
          return last
        }
      )
  ).pipe(
    Effect.map((answer) => answer ?? { isFailure: true, output: `${call.name} ended without a result.` }),
    Effect.provideContext(config.context)
  ) as Effect.Effect<Answer, unknown>

const answerOf = (result: Tool.HandlerResult<Tool.Any>): Answer => ({
  isFailure: result.isFailure,
  output:
    result.isFailure && AiError.isAiError(result.result)
      ? result.result.reason.message
      : Canonical.toJson(result.encodedResult),
  modelText: result.modelOutput === undefined ? undefined : Prompt.toolModelOutputToText(result.modelOutput)
})

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
      ms
    }
  }
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
