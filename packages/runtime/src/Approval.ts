/**
 * Whether the calls of a response need an approval, for tools that decide from case to case.
 *
 * Owns: asking the rule of a tool, and what counts as its answer. Does not own: what follows from it (`core/Consent`).
 *
 * - C1. Silence is no approval: a rule that fails, throws or takes too long is taken for a yes, and so are arguments that do
 *   not fit the tool.
 */
import type * as Accept from "@turnstep/core/Accept"
import type { Json } from "@turnstep/core/Canonical"
import * as Ids from "@turnstep/core/Ids"
import type { CallId, SessionId } from "@turnstep/core/Ids"
import type * as Prompt from "effect/ai/Prompt"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as ToolStop from "./ToolStop.ts"
import type { TurnConfig } from "./TurnConfig.ts"

/** How long a rule may think about one call. */
const patience = Duration.seconds(5)

/** Milliseconds that the rules of one response may think in all: what is not judged by then needs an approval (C1). */
const longest = 30_000

/** A call whose need for an approval is asked. */
interface Asked {
  readonly callId: CallId
  readonly name: string
  readonly params: Json
}

/** The calls that need no approval, of those whose tools decide from case to case (C1). `messages`: what the session has said so far. */
export const free = Effect.fnUntraced(function* (
  { context, policies }: Pick<TurnConfig, "context" | "policies">,
  sessionId: SessionId,
  calls: ReadonlyArray<Asked>,
  messages: ReadonlyArray<Prompt.Message>
) {
  const judgeable = calls.flatMap((call) => {
    const rule = policies.get(call.name)?.needsApproval
    return typeof rule === "function" ? [{ ...call, rule }] : []
  })
  if (judgeable.length === 0) return new Set<CallId>()
  const until = (yield* Clock.currentTimeMillis) + longest
  const judged = yield* Effect.forEach(
    judgeable,
    Effect.fnUntraced(function* ({ callId, name, params, rule }) {
      const asked = Effect.suspend(() => rule(params, { toolCallId: Ids.callKey(sessionId, callId), messages }))
      const exit = yield* ToolStop.detached(Effect.provideContext(asked, context), {
        timeout: Duration.min(patience, Duration.millis(Math.max(0, until - (yield* Clock.currentTimeMillis))))
      })
      if (Option.isSome(exit) && Exit.isSuccess(exit.value)) return exit.value.value === false ? [callId] : []
      yield* Effect.logWarning(
        `whether a call of ${name} needs an approval could not be told: it is taken for one that does`,
        Option.isSome(exit) && Exit.isFailure(exit.value) ? exit.value.cause : "the rule took too long"
      )
      return []
    }),
    { concurrency: 8 }
  )
  return new Set(judged.flat())
})

/** The calls of a response under the ids they get. */
export const callsOf = (turn: number, step: number, response: Accept.Response): ReadonlyArray<Asked> =>
  response.parts
    .filter((part) => part.type === "tool-call")
    .map(({ name, params }, index) => ({ callId: Ids.callId(turn, step, index), name, params }))
