/**
 * What happens in this process, as it happens: committed events, and the ephemeral deltas between them.
 *
 * Owns: handing them to whoever listens, and the text of the answer in progress for those who come late.
 * Does not own: the record (`Journal`); a listener that was too slow, or that hears a gap, reads it there.
 *
 * - H1. A listener never slows the Turn: its queue is bounded, and when it is full the listener is told so and dropped.
 * - H2. A listener of a session that is driven elsewhere is told to look into the journal every second, and once more when
 *   the session is driven here.
 * - H3. An ear hears in the publisher's own stack, and nothing is kept for it: it must be quick, and must not throw.
 */
import type { SessionId, TurnId } from "@turnstep/core/Ids"
import type { Ephemeral, TurnEvent } from "@turnstep/core/TurnEvent"
import type * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Queue from "effect/Queue"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"

/** A committed event, an ephemeral one, or the advice to look into the journal, because another process may be writing. */
export type Heard = { readonly event: TurnEvent } | { readonly ephemeral: Ephemeral } | { readonly look: true }

/** The answer a step has given so far. */
export interface Partial {
  readonly turnId: TurnId
  readonly step: number
  readonly text: string
  readonly reasoning: string
}

/** A listener's queue; it ends when the listener was dropped (H1) or the hub closes. */
export type Listener = Queue.Dequeue<Heard, Cause.Done>

/** What is told to who waits for one event: events as they are committed, or the advice to look into the journal. */
export type Ear = (news: ReadonlyArray<TurnEvent> | "look") => void

export class EventHub extends Context.Service<
  EventHub,
  {
    readonly publish: (sessionId: SessionId, events: ReadonlyArray<TurnEvent>) => void
    readonly show: (sessionId: SessionId, ephemeral: Ephemeral) => void
    /** Says that this process drives the session, until the scope closes: what it does not publish has not happened. */
    readonly drive: (sessionId: SessionId) => Effect.Effect<void, never, Scope.Scope>
    /** Whether nothing more will ever be heard: the runtime is closing. */
    readonly isClosed: () => boolean
    /** Lends an ear until the scope closes (H3); it is told to look when the hub closes. */
    readonly overhear: (sessionId: SessionId, ear: Ear) => Effect.Effect<void, never, Scope.Scope>
    /** Listens until the scope closes, and returns the answer in progress at that moment. */
    readonly listen: (
      sessionId: SessionId
    ) => Effect.Effect<{ readonly heard: Listener; readonly partial: Partial | undefined }, never, Scope.Scope>
  }
>()("runtime/EventHub") {}

/** How many events a listener may be behind (H1). */
const capacity = 8192

/** How often listeners of sessions that are driven elsewhere look (H2). */
const lookEvery = Duration.seconds(1)

interface Topic {
  readonly listeners: Set<Queue.Queue<Heard, Cause.Done>>
  readonly ears: Set<Ear>
  partial: Partial | undefined
}

export const layer: Layer.Layer<EventHub> = Layer.effect(
  EventHub,
  Effect.gen(function* () {
    const topics = new Map<SessionId, Topic>()
    const driven = new Set<SessionId>()
    let isClosed = false
    const topic = (sessionId: SessionId): Topic => {
      let found = topics.get(sessionId)
      if (found === undefined)
        topics.set(sessionId, (found = { listeners: new Set(), ears: new Set(), partial: undefined }))
      return found
    }
    const send = (found: Topic, heard: Heard): void => {
      for (const listener of found.listeners) {
        if (Queue.offerUnsafe(listener, heard)) continue
        found.listeners.delete(listener)
        Queue.endUnsafe(listener)
      }
    }
    const look = (found: Topic): void => {
      send(found, { look: true })
      for (const ear of found.ears) ear("look")
    }
    const forget = (sessionId: SessionId, found: Topic): void => {
      const isHeard = found.listeners.size > 0 || found.ears.size > 0
      if (!isHeard && found.partial === undefined && topics.get(sessionId) === found) topics.delete(sessionId)
    }
    /** Is among those of a topic until the scope closes. */
    const join = <A>(sessionId: SessionId, among: (topic: Topic) => Set<A>, who: A) =>
      Effect.acquireRelease(
        Effect.sync(() => void among(topic(sessionId)).add(who)),
        () =>
          Effect.sync(() => {
            const found = topics.get(sessionId)
            if (found === undefined) return
            among(found).delete(who)
            forget(sessionId, found)
          })
      )
    yield* Effect.sync(() => {
      for (const [sessionId, found] of topics) {
        if (!driven.has(sessionId)) look(found)
      }
    }).pipe(Effect.schedule(Schedule.spaced(lookEvery)), Effect.forkScoped)
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        isClosed = true
        for (const { ears, listeners } of topics.values()) {
          for (const listener of listeners) Queue.endUnsafe(listener)
          for (const ear of ears) ear("look")
        }
        topics.clear()
      })
    )
    return EventHub.of({
      drive: (sessionId) =>
        Effect.acquireRelease(
          Effect.sync(() => {
            driven.add(sessionId)
            // What the former owner wrote last has not been looked for yet, and the new one may have nothing to write.
            const found = topics.get(sessionId)
            if (found !== undefined) look(found)
          }),
          () =>
            Effect.sync(() => {
              driven.delete(sessionId)
              const found = topics.get(sessionId)
              if (found === undefined) return
              const { partial } = found
              found.partial = undefined
              // Whoever drives the session next, the answer that was in progress here is void.
              if (partial !== undefined) {
                const { step, turnId } = partial
                send(found, { ephemeral: { type: "step.reset", turnId, step, reason: "let-go" } })
              }
              forget(sessionId, found)
            })
        ),
      isClosed: () => isClosed,
      publish: (sessionId, events) => {
        const found = topics.get(sessionId)
        if (found === undefined) return
        for (const event of events) {
          if (endsAnswer(event)) found.partial = undefined
          send(found, { event })
        }
        for (const ear of found.ears) ear(events)
        forget(sessionId, found)
      },
      show: (sessionId, ephemeral) => {
        const found = topic(sessionId)
        found.partial = grow(found.partial, ephemeral)
        send(found, { ephemeral })
        forget(sessionId, found)
      },
      overhear: (sessionId, ear) =>
        Effect.suspend(() => (isClosed ? Effect.void : join(sessionId, ({ ears }) => ears, ear))),
      listen: (sessionId) =>
        Effect.gen(function* () {
          const listener = yield* Queue.make<Heard, Cause.Done>({ capacity, strategy: "dropping" })
          if (isClosed) {
            Queue.endUnsafe(listener)
            return { heard: listener, partial: undefined }
          }
          yield* join(sessionId, ({ listeners }) => listeners, listener)
          return { heard: listener, partial: topic(sessionId).partial }
        })
    })
  })
)

const endsAnswer = (event: TurnEvent): boolean =>
  event.type === "message.added" || event.type === "turn.settled" || event.type === "step.started"

const grow = (partial: Partial | undefined, ephemeral: Ephemeral): Partial | undefined => {
  if (ephemeral.type === "step.reset") return undefined
  if (ephemeral.type !== "delta") return partial
  const { turnId, step, channel, delta } = ephemeral
  const base = partial?.turnId === turnId && partial.step === step ? partial : { turnId, step, text: "", reasoning: "" }
  return { ...base, [channel]: base[channel] + delta }
}
