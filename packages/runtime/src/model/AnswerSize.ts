/**
 * An answer that is larger than it may be, as an error of `effect/ai`.
 *
 * `effect/ai` has no reason of its own for it, so it travels as an `InvalidResponseError` with a mark in its metadata.
 *
 * - A1. It is not retried: the same request would be answered at the same length, and billed again.
 */
import * as AiError from "effect/ai/AiError"

/** The stable code of the failure. */
export const code = "answer-too-large"

/** Characters that a wire holds of one line, event or document, and of what it cannot tell before the answer is whole. */
export const mostHeld = 8 * 1024 * 1024

/** The reason. */
export const tooLarge = (description: string): AiError.InvalidResponseError =>
  new AiError.InvalidResponseError({ description, metadata: { turnstep: { code } } })

/** Is this error about the size of an answer? */
export const isTooLarge = (reason: AiError.AiErrorReason): boolean => {
  if (reason._tag !== "InvalidResponseError") return false
  const mark = reason.metadata["turnstep"]
  return typeof mark === "object" && mark !== null && Reflect.get(mark, "code") === code
}
