/**
 * What one answer of a model may take: bytes, parts and time.
 *
 * Owns: the limits and the measuring. Does not own: what a spent limit leads to (`ModelCall`).
 *
 * - B1. Every model is measured, also one that an application brings along: what counts are the parts it tells.
 * - B2. Keep-alives, empty deltas and metadata are no progress.
 */
import type * as Response from "effect/ai/Response"
import type * as Tool from "effect/ai/Tool"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"

/** The limits of one answer. */
export interface Limits {
  /** Bytes of text, reasoning, arguments and what goes back with them. */
  readonly bytes: number
  /** Blocks of text and reasoning, calls, files and sources. */
  readonly parts: number
  /** Time without progress, after which the answer has stalled and the request is made again. */
  readonly silence: Duration.Duration
  /** Time of the whole answer. */
  readonly longest: Duration.Duration
}

/** 4 MiB in at most 6,000 parts; ten minutes without progress, an hour in all. */
export const AnswerLimits = Context.Reference<Limits>("runtime/AnswerBudget/AnswerLimits", {
  defaultValue: () => ({
    bytes: 4 * 1024 * 1024,
    parts: 6_000,
    silence: Duration.minutes(10),
    longest: Duration.hours(1)
  })
})

/** A part as a model tells it to who runs its calls. */
export type StreamPart = Response.StreamPart<Record<string, Tool.Any>, "deferred">

/** Measures one answer. */
export interface Meter {
  /** Takes parts that have arrived at a time in milliseconds; gives the limit that is spent, in words. */
  readonly take: (parts: ReadonlyArray<StreamPart>, now: number) => string | undefined
  /** When the answer last made progress (B2). */
  readonly progressAt: () => number
}

/** Begins to measure. */
export const meter = (limits: Limits, startedAt: number): Meter => {
  let bytes = 0
  let count = 0
  let progressAt = startedAt
  const announced = new Map<string, number>()

  const measure = (part: StreamPart): boolean => {
    const before = bytes + count
    bytes += sizeOf(part.metadata)
    switch (part.type) {
      case "text-start":
      case "reasoning-start":
        count++
        return false
      case "text-delta":
      case "reasoning-delta":
        bytes += Buffer.byteLength(part.delta)
        return part.delta !== ""
      case "tool-params-start":
        count++
        announced.set(part.id, 0)
        return true
      case "tool-params-delta": {
        const size = Buffer.byteLength(part.delta)
        bytes += size
        announced.set(part.id, (announced.get(part.id) ?? 0) + size)
        return size > 0
      }
      case "tool-call": {
        const { id, params } = part as Response.ToolCallPart<string, unknown>
        const known = announced.get(id)
        if (known === undefined) count++
        bytes += Math.max(0, sizeOf(params) - (known ?? 0))
        return true
      }
      case "tool-result":
        count++
        bytes += sizeOf(part.encodedResult)
        return true
      case "file":
        count++
        bytes += part.data.length
        return true
      case "source":
        count++
        return true
      default:
        return bytes + count > before
    }
  }

  return {
    take: (parts, now) => {
      for (const part of parts) {
        if (measure(part)) progressAt = now
        if (bytes > limits.bytes) return `it is larger than ${limits.bytes} bytes`
        if (count > limits.parts) return `it has more than ${limits.parts} parts`
      }
      return undefined
    },
    progressAt: () => progressAt
  }
}

/** Bytes of a value as JSON; nothing for an empty object. */
const sizeOf = (value: unknown): number => {
  if (value === undefined || value === null) return 0
  if (typeof value === "string") return Buffer.byteLength(value)
  if (typeof value === "object" && Object.keys(value).length === 0) return 0
  try {
    return Buffer.byteLength(JSON.stringify(value) ?? "")
  } catch {
    return 0 // not JSON: it is recorded as a short word for that
  }
}
