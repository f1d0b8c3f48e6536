/**
 * The spans of those who sent the messages that wait, so that a Turn's trace leads to theirs.
 *
 * Owns: which span sent which message, in this process. Does not own: a span. A Turn is linked to its senders and is no child
 * of theirs: it outlives them, and may have several.
 *
 * - S1. What is remembered is bounded: the oldest is forgotten first, and with it no more than a link.
 */
import type { ItemId, SessionId } from "@turnstep/core/Ids"
import type { TurnEvent } from "@turnstep/core/TurnEvent"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Tracer from "effect/Tracer"
import { EventHub } from "./EventHub.ts"

export class Senders extends Context.Service<
  Senders,
  {
    /** Remembers the current span as the sender of the messages admitted by these events. */
    readonly sent: (sessionId: SessionId, events: ReadonlyArray<TurnEvent>) => Effect.Effect<void>
    /** The span a message was sent from, once. */
    readonly take: (sessionId: SessionId, itemId: ItemId) => Tracer.Span | undefined
  }
>()("runtime/Senders") {}

/** Spans remembered at most (S1). */
const capacity = 10_000

export const layer: Layer.Layer<Senders> = Layer.sync(Senders, () => {
  const spans = new Map<string, Tracer.Span>()
  return Senders.of({
    sent: Effect.fnUntraced(function* (sessionId, events) {
      const span = yield* Effect.option(Effect.currentSpan)
      if (Option.isNone(span)) return
      for (const { data, type } of events) {
        if (type !== "inbox.admitted") continue
        spans.set(`${sessionId}/${data.itemId}`, span.value)
        const [oldest] = spans.keys()
        if (spans.size > capacity && oldest !== undefined) spans.delete(oldest)
      }
    }),
    take: (sessionId, itemId) => {
      const key = `${sessionId}/${itemId}`
      const span = spans.get(key)
      spans.delete(key)
      return span
    }
  })
})

/** Links the current span to the senders of the messages that a Turn of the session applies, until the scope closes. */
export const link = Effect.fnUntraced(function* (sessionId: SessionId) {
  const { take } = yield* Senders
  const hub = yield* EventHub
  const turn = yield* Effect.option(Effect.currentSpan)
  if (Option.isNone(turn)) return
  yield* hub.overhear(sessionId, (news) => {
    if (news === "look") return
    for (const { data, type } of news) {
      const span = type === "inbox.applied" ? take(sessionId, data.itemId) : undefined
      if (span !== undefined) turn.value.addLinks([{ span, attributes: {} }])
    }
  })
})
