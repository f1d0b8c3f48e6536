/**
 * What happens in this process, as it happens: committed events, and the ephemeral deltas between them.
 *
 * Owns: handing them to whoever listens, and the text of the answer in progress for those who come late.
 * Does not own: the record (`Journal`); a listener that was too slow, or that hears a gap, reads it there.
 *
 * - H1. A listener never slows the Turn: its queue is bounded, in number and in bytes, and when it is full the listener is
 *   told so and dropped. In the place of a large event stands the advice to look into the journal.
 * - H2. A listener of a session that is driven elsewhere is told to look into the journal within a second of what is written
 *   there, and once more when the session is driven here. One question a second finds out for all listeners.
 * - H3. An ear hears in the publisher's own stack, and nothing is kept for it: it must be quick, and must not throw.
 */
import type { SessionId, TurnId } from "@turnstep/core/Ids"
import { Journal } from "@turnstep/core/Journal"
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

/** Takes all that was heard since, and waits for something; ends when the listener was dropped (H1) or the hub closes. */
export type Listener = Effect.Effect<ReadonlyArray<Heard>, Cause.Done>

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

/** How many events, and how many characters of them, a listener may be behind (H1). */
const capacity = 8192
const maxLength = 1024 * 1024

/** Characters of an event that a listener is told of, and not told itself (H1). */
const large = 64 * 1024

/** How often the hub asks for news of sessions that are driven elsewhere (H2). */
const askEvery = Duration.seconds(1)

/** A listener's queue, and the characters in it. */
interface Place {
  readonly queue: Queue.Queue<Heard, Cause.Done>
  length: number
}

interface Topic {
  readonly listeners: Set<Place>
  readonly ears: Set<Ear>
  partial: Partial | undefined
  /** The last sequence number that listeners were told to look for; none before the first time. */
  head: number | undefined
}

export const layer: Layer.Layer<EventHub, never, Journal> = Layer.effect(
  EventHub,
  Effect.gen(function* () {
    const journal = yield* Journal
    const topics = new Map<SessionId, Topic>()
    const driven = new Set<SessionId>()
    let isClosed = false
    const topic = (sessionId: SessionId): Topic => {
      let found = topics.get(sessionId)
      if (found === undefined)
        topics.set(sessionId, (found = { listeners: new Set(), ears: new Set(), partial: undefined, head: undefined }))
      return found
    }
    const send = (found: Topic, heard: Heard, length: number): void => {
      for (const place of found.listeners) {
        place.length += length
        if (place.length <= maxLength && Queue.offerUnsafe(place.queue, heard)) continue
        found.listeners.delete(place)
        Queue.endUnsafe(place.queue)
      }
    }
    const look = (found: Topic): void => {
      send(found, { look: true }, 0)
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
    const ask = Effect.suspend(() => {
      const asked = [...topics.keys()].filter((sessionId) => !driven.has(sessionId))
      if (asked.length === 0) return Effect.void
      return Effect.map(journal.heads(asked), (heads) => {
        for (const sessionId of asked) {
          const found = topics.get(sessionId)
          const head = heads.get(sessionId)
          if (found === undefined || head === undefined || head === found.head) continue
          found.head = head
          look(found)
        }
      })
    })
    yield* ask.pipe(
      // Storage that is away is told of by whoever needs it; the next second asks again.
      Effect.catchDefect(() => Effect.void),
      Effect.schedule(Schedule.spaced(askEvery)),
      Effect.forkScoped
    )
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        isClosed = true
        for (const { ears, listeners } of topics.values()) {
          for (const { queue } of listeners) Queue.endUnsafe(queue)
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
                send(found, { ephemeral: { type: "step.reset", turnId, step, reason: "let-go" } }, overhead)
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
          const length = found.listeners.size === 0 ? 0 : lengthOf(event.data)
          if (length > large) send(found, { look: true }, 0)
          else send(found, { event }, length)
        }
        for (const ear of found.ears) ear(events)
        forget(sessionId, found)
      },
      show: (sessionId, ephemeral) => {
        const found = topic(sessionId)
        found.partial = grow(found.partial, ephemeral)
        if (found.listeners.size > 0) send(found, { ephemeral }, lengthOf(ephemeral))
        forget(sessionId, found)
      },
      overhear: (sessionId, ear) =>
        Effect.suspend(() => (isClosed ? Effect.void : join(sessionId, ({ ears }) => ears, ear))),
      listen: (sessionId) =>
        Effect.gen(function* () {
          const queue = yield* Queue.make<Heard, Cause.Done>({ capacity, strategy: "dropping" })
          const place: Place = { queue, length: 0 }
          const heard = Effect.map(Queue.takeAll(queue), (all): ReadonlyArray<Heard> => {
            place.length = 0
            return all
          })
          if (isClosed) {
            Queue.endUnsafe(queue)
            return { heard, partial: undefined }
          }
          yield* join(sessionId, ({ listeners }) => listeners, place)
          return { heard, partial: topic(sessionId).partial }
        })
    })
  })
)

/** Characters of what is heard, as JSON, and of what comes with it. */
const lengthOf = (heard: unknown): number => overhead + JSON.stringify(heard).length
const overhead = 100

const endsAnswer = (event: TurnEvent): boolean =>
  event.type === "message.added" || event.type === "turn.settled" || event.type === "step.started"

const grow = (partial: Partial | undefined, ephemeral: Ephemeral): Partial | undefined => {
  if (ephemeral.type === "step.reset") return undefined
  if (ephemeral.type !== "delta") return partial
  const { turnId, step, channel, delta } = ephemeral
  const base = partial?.turnId === turnId && partial.step === step ? partial : { turnId, step, text: "", reasoning: "" }
  return { ...base, [channel]: base[channel] + delta }
}
