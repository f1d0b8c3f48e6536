/**
 * Somebody who watches the session through whatever process there is, is cut off, and comes back with the last number seen.
 *
 * Owns: what a watcher may demand of its stream. Does not own: the stream (`Watch`).
 *
 * - W1. Events come in order, without a gap and without a duplicate, over all connections.
 * - W2. In one connection the deltas of an answer, with the snapshot before them, are one text without gap or duplicate.
 * - W3. Where nothing went wrong that text is the answer that is then recorded.
 */
import * as Transcript from "@turnstep/core/Transcript"
import type { TurnEvent } from "@turnstep/core/TurnEvent"
import type { Seen } from "@turnstep/runtime/Session"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { Operator, Room } from "./Operator.ts"

export interface SimWatcher {
  /** Watches for ever, with interruptions. */
  readonly watch: Effect.Effect<never>
  /** The number of the last event seen. */
  readonly last: () => number
}

/** The answer in progress, as a connection knows it. */
interface Shown {
  readonly turnId: string
  readonly step: number
  text: string
}

export const make = (room: Room, operator: Operator, name: string): SimWatcher => {
  const { dice, faults, store, witness, world } = room
  let last = 0

  const onEvent = (event: TurnEvent, shown: Shown | undefined): void => {
    if (event.seq !== last + 1) witness.violate(`${name} sees #${event.seq} after #${last} (W1)`)
    if (store.eventAt(event.seq) !== event) witness.violate(`${name} sees another #${event.seq} than the log's (W1)`)
    last = event.seq
    if (event.type !== "message.added" || event.data.role !== "assistant" || shown === undefined) return
    if (event.data.messageId !== `msg_${shown.turnId.slice(4)}_${shown.step}` || faults.struck() > 0) return
    if (event.data.figures?.finishReason === "hand-back") return
    const text = Transcript.textOf(event.data.parts)
    if (shown.text !== "" && shown.text !== text) witness.violate(`${name} was shown "${shown.text}" of "${text}" (W3)`)
  }

  const connection = () => {
    let shown: Shown | undefined
    let isOpen = true
    const see = (seen: Seen): void => {
      if (!isOpen) return
      if (seen._tag === "Event") return onEvent(seen.event, shown)
      if (seen._tag === "Snapshot") {
        const { turnId, step, text } = seen.snapshot
        shown = { turnId, step, text }
        return
      }
      const { ephemeral } = seen
      if (ephemeral.type === "step.reset") shown = undefined
      if (ephemeral.type !== "delta") return
      const { delta, offset, step, turnId } = ephemeral
      if (shown?.turnId !== turnId || shown.step !== step) shown = { turnId, step, text: "" }
      if (offset !== shown.text.length) {
        witness.violate(`${name} gets a delta of ${turnId}:${step} at ${offset}, with ${shown.text.length} shown (W2)`)
      }
      shown.text = shown.text.slice(0, offset) + delta
    }
    const close = () => {
      isOpen = false
    }
    return { see, close }
  }

  const connect = Effect.gen(function* () {
    const process = operator.pick()
    if (process === undefined) return
    const { close, see } = connection()
    world.note(`${name} watches ${process.host.name} after #${last}`)
    const session = Effect.orDie(process.sessions.get(store.sessionId))
    const watching = Effect.flatMap(session, (found) =>
      Stream.runForEach(found.watch(last), (seen) => Effect.sync(() => see(seen)))
    )
    const cut = dice.chance(0.5) ? Effect.sleep(dice.between(0, 20_000)) : Effect.never
    yield* Effect.raceFirst(Effect.exit(process.host.call(watching)), cut)
    close()
  })

  return {
    watch: Effect.forever(
      Effect.andThen(
        connect,
        Effect.suspend(() => Effect.sleep(dice.between(0, 3_000)))
      )
    ),
    last: () => last
  }
}
