/**
 * What a tool said, as the facts that answer its call.
 *
 * Owns: what of an answer is recorded, what of it the model reads, and the words for a failure. Does not own: how the tool is
 * run (`ToolRun`).
 */
import * as Call from "@turnstep/core/Call"
import * as Canonical from "@turnstep/core/Canonical"
import * as DurableRead from "@turnstep/core/DurableRead"
import * as SpillStore from "@turnstep/core/SpillStore"
import * as ToolOutput from "@turnstep/core/ToolOutput"
import type * as ToolPolicy from "@turnstep/core/ToolPolicy"
import type { Fact } from "@turnstep/core/TurnEvent"
import * as AiError from "effect/ai/AiError"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import * as LargeOutput from "./LargeOutput.ts"
import * as ToolHandler from "./ToolHandler.ts"
import type { Answer } from "./ToolHandler.ts"

/** The proof of a read whose text is kept beside the history, whatever its size; one that is a spill by now is that spill. */
export const received = (
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

/** Bytes that the results of one batch may still take in the log; beyond them every result over `smallResult` is spilled. */
export interface Allowance {
  left: number
}

/** The allowance of a batch: 4 MiB. */
export const allowance = (): Allowance => ({ left: 4 * 1024 * 1024 })

/** Bytes of a result that is recorded whole however much its batch has recorded. */
const smallResult = 32 * 1024

/** The answer itself, or its spill when the answer is larger than `limit` bytes or its batch has recorded enough. */
export const fitting = (
  answer: Answer,
  keep: LargeOutput.Keep,
  allowance: Allowance,
  limit: number
): Effect.Effect<Answer, LargeOutput.OutputLost> => {
  const text = ToolOutput.toText(answer.output)
  const bytes = Buffer.byteLength(text)
  const most = Math.min(limit, Math.max(smallResult, allowance.left))
  if (bytes <= most) {
    allowance.left -= bytes
    return Effect.succeed(answer)
  }
  return Effect.map(LargeOutput.collect(Stream.make(text), keep, most), (output) => ({
    ...ToolHandler.streamed(output),
    isFailure: answer.isFailure
  }))
}

/** The facts of an answer: what was kept for it, and the answer itself. */
export const facts = (
  { call, policy }: { readonly call: Call.Call; readonly policy: ToolPolicy.ToolPolicy },
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
  call: Call.Call,
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
export const isUnknown = (exit: Exit.Exit<Answer, unknown>): boolean => {
  const error = Exit.isFailure(exit) ? Cause.findErrorOption(exit.cause) : Option.none()
  return Option.isSome(error) && error.value instanceof ToolHandler.OutcomeUnknown
}

/** What the model reads of a tool that failed or threw. A defect's details stay in the log. */
export const failureText = (call: Call.Call, cause: Cause.Cause<unknown>): string => {
  const error = Cause.findErrorOption(cause)
  if (Option.isNone(error)) {
    return Cause.hasInterruptsOnly(cause)
      ? `${call.name} was interrupted from within and gave no result.`
      : `${call.name} failed unexpectedly. It may have had effects before it failed.`
  }
  const failure = error.value
  if (AiError.isAiError(failure)) return failure.reason.message
  const message = typeof failure === "object" && failure !== null && "message" in failure ? failure.message : failure
  // Anything else of it was meant for the application, not for the model.
  return typeof message === "string" && message !== "" ? message : `${call.name} failed.`
}
