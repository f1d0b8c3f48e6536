/**
 * The call a tool's handler is run for, for handlers that want to know: who asks, a way to tell how far they have come, and
 * a way to give outputs of any size.
 *
 * ```ts
 * const build = () => Effect.gen(function* () {
 *   yield* ToolCall.progress({ done: 1, of: 3 })
 *   const log = yield* ToolCall.keep(lines)          // { text, bytes, spill? }
 *   return { exitCode: 0, log }
 * })
 * ```
 *
 * What must not be told as "outcome unknown" once it has happened is committed:
 *
 * ```ts
 * const charge = ({ amount }) => ToolCall.commit(payments.charge(amount))
 * ```
 *
 * A handler needs nothing of the application for it. Outside of a Turn, progress is told to nobody and large outputs are
 * refused.
 */
import type { Json } from "@turnstep/core/Canonical"
import type { CallId, SessionId } from "@turnstep/core/Ids"
import { SpillRefused } from "@turnstep/core/SpillStore"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as LargeOutput from "./LargeOutput.ts"

/** What a handler has committed: the result that counts when it is stopped. */
export interface Committed {
  value?: { readonly result: unknown }
}

export interface Current {
  readonly sessionId: SessionId
  readonly callId: CallId
  /** 1, and one more for every time it is run again. */
  readonly attempt: number
  readonly progress: (progress: Json) => Effect.Effect<void>
  readonly keep: LargeOutput.Keep
  /** What a call of this session has answered, as a text; `undefined` where there is no such answer. */
  readonly recorded: (callId: CallId) => Effect.Effect<string | undefined>
  /** Where what the handler commits is left. */
  readonly committed?: Committed
}

/** The call the current fiber works for. */
export const ToolCall = Context.Reference<Current | undefined>("runtime/ToolCall", { defaultValue: () => undefined })

/** Tells whoever watches how far the call has come; it is shown and not kept. */
export const progress = (progress: Json): Effect.Effect<void> =>
  Effect.flatMap(ToolCall, (call) => (call === undefined ? Effect.void : call.progress(progress)))

/** Collects an output of any size: small ones as they are, large ones into the session's spills. */
export const keep = <E>(
  content: LargeOutput.Content<E>
): Effect.Effect<LargeOutput.Output, LargeOutput.OutputLost | E> =>
  Effect.flatMap(ToolCall, (call) => LargeOutput.collect(content, call?.keep ?? keepsNothing))

/**
 * Runs something that is to be finished once it has begun, and whose value is the result of the tool: it is not interrupted,
 * and when the call is stopped meanwhile, its value is the answer of the call, provided that it ends within the grace of two
 * seconds. After that it is told in `call.late`. (Effect drops the value of an uninterruptible region when its fiber was told
 * to stop in it.) A failure of it is a failure like any other.
 */
export const commit = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.flatMap(ToolCall, (call) =>
    Effect.uninterruptible(
      Effect.tap(effect, (result) =>
        Effect.sync(() => {
          if (call?.committed !== undefined) call.committed.value = { result }
        })
      )
    )
  )

/** Where there is no store. */
export const keepsNothing: LargeOutput.Keep = () =>
  Effect.fail(new SpillRefused({ reason: "unavailable", message: "This runtime keeps no large outputs." }))
