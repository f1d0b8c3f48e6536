/**
 * Events as text: the envelope of `api/EventEnvelope`, written by hand because it is written per delta.
 *
 * Owns: the bytes of an event, in a page and in a stream. Does not own: which events are written (`Streams`).
 *
 * - W1. What is written here decodes with `EventEnvelope.StreamEvent` (a test holds the two together).
 * - W2. An event's text depends on the event and its session alone, so it is the same whenever it is read.
 * - W3. A durable event carries its `seq` as SSE `id`; an ephemeral one carries none, so that a reconnect goes on from the
 *   last durable one.
 */
import type { SessionId, TurnId } from "@turnstep/core/Ids"
import * as Ids from "@turnstep/core/Ids"
import type { Ephemeral, Fact, TurnEvent } from "@turnstep/core/TurnEvent"
import type { Partial } from "@turnstep/runtime/EventHub"
import * as DateTime from "effect/DateTime"
import type { ClosingReason, EphemeralEvent } from "../api/EventEnvelope.ts"
import { version } from "../api/EventEnvelope.ts"

/** The envelope of a recorded event, as JSON (W2). */
export const json = (sessionId: SessionId, event: TurnEvent): string => {
  const { turnId, step } = placeOf(event)
  const at = DateTime.formatIso(DateTime.makeUnsafe(event.at))
  return JSON.stringify({ v: version, seq: event.seq, at, sessionId, turnId, step, type: event.type, data: event.data })
}

/** A recorded event in a stream (W3). */
export const frame = (sessionId: SessionId, event: TurnEvent): string =>
  `id: ${event.seq}\nevent: ${event.type}\ndata: ${json(sessionId, event)}\n\n`

/** Characters of a frame from which on its bytes are made once for all readers of the event. */
const large = 64 * 1024

const largeFrames = new WeakMap<TurnEvent, Buffer>()

/** The frame of a recorded event, as bytes where it is large: readers who get the same event share them. */
export const frameOnce = (sessionId: SessionId, event: TurnEvent): string | Buffer => {
  const known = largeFrames.get(event)
  if (known !== undefined) return known
  const text = frame(sessionId, event)
  if (text.length < large) return text
  const bytes = Buffer.from(text)
  largeFrames.set(event, bytes)
  return bytes
}

/** An ephemeral event in a stream (W3). */
export const ephemeralFrame = (sessionId: SessionId, event: Ephemeral): string => {
  switch (event.type) {
    case "delta": {
      const { channel, delta, offset, step, turnId } = event
      return (
        `event: delta\ndata: {"v":${version},"sessionId":"${sessionId}","turnId":"${turnId}","step":${step},` +
        `"type":"delta","data":{"channel":"${channel}","offset":${offset},"delta":${JSON.stringify(delta)}}}\n\n`
      )
    }
    case "step.reset": {
      const { reason, step, turnId } = event
      return transportFrame(sessionId, { type: "step.reset", data: { reason } }, { turnId, step })
    }
    case "model.retrying": {
      const { attempt, attempts, reason, step, turnId, waitMs } = event
      const data = { attempt, attempts, reason, waitMs }
      return transportFrame(sessionId, { type: "model.retrying", data }, { turnId, step })
    }
    case "call.progress": {
      const { callId, progress } = event
      return transportFrame(sessionId, { type: "call.progress", data: { callId, progress } }, callPlace(callId))
    }
  }
}

/** The answer in progress when a stream began. */
export const snapshotFrame = (sessionId: SessionId, { reasoning, step, text, turnId }: Partial): string =>
  transportFrame(sessionId, { type: "stream.snapshot", data: { text, reasoning } }, { turnId, step })

/** The first words of a stream: how soon to connect again, and where this one begins. */
export const openingFrame = (sessionId: SessionId, after: number): string =>
  `retry: 1000\n${transportFrame(sessionId, { type: "stream.opened", data: { after } })}`

/** The last words of a stream. */
export const closingFrame = (sessionId: SessionId, reason: ClosingReason): string =>
  transportFrame(sessionId, { type: "stream.closed", data: { reason } })

/** A comment, so that nobody between takes a quiet connection for a dead one. */
export const keepAlive = ": keep-alive\n\n"

interface Place {
  readonly turnId?: TurnId | undefined
  readonly step?: number | undefined
}

type Shown = EphemeralEvent extends infer E ? (E extends EphemeralEvent ? Pick<E, "type" | "data"> : never) : never

const transportFrame = (sessionId: SessionId, { data, type }: Shown, place: Place = {}): string =>
  `event: ${type}\ndata: ${JSON.stringify({ v: version, sessionId, ...place, type, data })}\n\n`

/** The Turn and step an event names itself. */
const placeOf = (fact: Fact): Place => {
  switch (fact.type) {
    case "call.requested":
    case "call.started":
    case "call.completed":
    case "call.receipt":
    case "call.late":
    case "spill.created":
      return callPlace(fact.data.callId)
    case "message.added": {
      const place = /^msg_([0-9]+)_([0-9]+)$/.exec(fact.data.messageId)
      return place === null ? {} : { turnId: Ids.turnId(Number(place[1])), step: Number(place[2]) }
    }
    default:
      return {
        turnId: "turnId" in fact.data ? fact.data.turnId : undefined,
        step: "step" in fact.data ? fact.data.step : undefined
      }
  }
}

const callPlace = (callId: Ids.CallId): Place => {
  const { step, turn } = Ids.placeOf(callId)
  return { turnId: Ids.turnId(turn), step }
}
