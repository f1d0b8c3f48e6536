/**
 * Counts what this process records, by the type of event: Turns and how they end, steps, calls, guards, repairs.
 *
 * - M1. An event is counted where it is written, and once: not by who reads it, and not by another process.
 */
import type { Journal } from "@turnstep/core/Journal"
import type { TurnEvent, Type } from "@turnstep/core/TurnEvent"
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"

/** The journal with its writes counted (M1). */
export const counted = (journal: Journal["Service"]): Effect.Effect<Journal["Service"]> =>
  Effect.map(Effect.context<never>(), (context) => {
    const byType = new Map<Type, ReturnType<typeof ofType>>()
    const count = (events: ReadonlyArray<TurnEvent>): void => {
      for (const { type } of events) {
        let counter = byType.get(type)
        if (counter === undefined) byType.set(type, (counter = ofType(type)))
        counter.updateUnsafe(1, context)
      }
    }
    const tally = Effect.map((events: ReadonlyArray<TurnEvent>) => {
      count(events)
      return events
    })
    return {
      ...journal,
      create: (sessionId, data) => tally(journal.create(sessionId, data)),
      append: (write) => tally(journal.append(write)),
      admit: (sessionId, lookup, decide) =>
        Effect.map(journal.admit(sessionId, lookup, decide), (admitted) => {
          count(admitted.events)
          return admitted
        })
    }
  })

/** A counter of its own for each type, because attributes that are put around one are looked up at every update. */
const ofType = (type: Type) =>
  Metric.counter("turnstep_events", {
    description: "Events recorded by this process, by type",
    incremental: true,
    attributes: { type }
  })
