/**
 * Streams of server-sent events: one per connected reader.
 *
 * Owns: how many there may be, their heartbeat, why and how each ends. Does not own: the text of an event (`EventWriter`),
 * or the events (`Session.watch`).
 *
 * - R1. A stream ends with `stream.closed` and its reason; only a lost connection ends without.
 * - R2. A batch of the watch is one text, and one write.
 * - R3. A reader who is too slow holds one batch here and a bounded number of events in the hub, which then drops it.
 * - R4. When the server stops, streams end first: nothing else can wait for connections that never end by themselves.
 */
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import type { Seen, Session } from "@turnstep/runtime/Session"
import { isTerminal, type Type } from "@turnstep/core/TurnEvent"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as Pull from "effect/Pull"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { ServerResponse } from "node:http"
import type { ApiError } from "../api/ApiError.ts"
import type { EphemeralEvent } from "../api/EventEnvelope.ts"
import * as EventWriter from "./EventWriter.ts"
import * as Problem from "./Problem.ts"

/** What a reader asked for. */
export interface Reading {
  readonly session: Session
  /** The events after this `seq`. */
  readonly after: number
  /** Only these, besides what the stream says of itself. */
  readonly types: ReadonlySet<Type | EphemeralEvent["type"]> | undefined
  /** Where the stream ends by itself: after the next end of a Turn, or at the latest at this `seq`. */
  readonly until: { readonly seq: number } | undefined
  readonly status: number
}

export class Streams extends Context.Service<
  Streams,
  {
    /** A response that streams until the reader leaves, the reading is over or the server stops. */
    readonly open: (
      reading: Reading
    ) => Effect.Effect<HttpServerResponse.HttpServerResponse, ApiError, HttpServerRequest | Scope.Scope>
    /** Ends every stream and lets no new one begin (R4). */
    readonly close: Effect.Effect<void>
    readonly isClosing: () => boolean
  }
>()("server/Streams") {}

/** Streams a process serves at once. */
export const maxStreams = 256

/** How long a stream may be silent. */
const heartbeat = Duration.seconds(15)

export const layer: Layer.Layer<Streams> = Layer.effect(
  Streams,
  Effect.sync(() => {
    const closing = Latch.makeUnsafe(false)
    let open = 0
    return Streams.of({
      close: Effect.asVoid(closing.open),
      isClosing: () => closing.isOpen(),
      open: Effect.fnUntraced(function* (reading) {
        if (open >= maxStreams) {
          return yield* Problem.refuse("too-many-streams", `${maxStreams} event streams are open already.`)
        }
        open++
        yield* Effect.addFinalizer(() => Effect.sync(() => open--))
        const response = NodeHttpServerRequest.toServerResponse(yield* HttpServerRequest) as ServerResponse
        const body = Stream.fromEffectDrain(written(reading, closing, response))
        return HttpServerResponse.stream(body, { status: reading.status, contentType: mediaType, headers })
      })
    })
  })
)

const mediaType = "text/event-stream"
const headers = { "cache-control": "no-store", "x-accel-buffering": "no" }

type Reason = Parameters<typeof EventWriter.closingFrame>[1]

/**
 * Writes the whole stream to Node's response, after its head. Not a `Stream` of bytes: every delta of every reader comes
 * through here, and a queue between the watch and the socket would cost more than writing does.
 */
const written = (reading: Reading, closing: Latch.Latch, response: ServerResponse): Effect.Effect<void> =>
  Effect.gen(function* () {
    const { after, session } = reading
    const write = (text: string) => Effect.suspend(() => (response.write(text) ? Effect.void : drained(response)))
    yield* write(EventWriter.openingFrame(session.id, after))
    yield* Effect.sleep(heartbeat).pipe(
      Effect.andThen(write(EventWriter.keepAlive)),
      Effect.forever,
      Effect.forkScoped({ startImmediately: true })
    )
    const reason = yield* Effect.raceFirst(pump(reading, write), Effect.as(closing.await, "shutdown" as const))
    yield* write(EventWriter.closingFrame(session.id, reason))
  }).pipe(Effect.scoped)

/** Waits until the connection takes more (R3). A connection that is lost ends the request, and with it this wait. */
const drained = (response: ServerResponse): Effect.Effect<void> =>
  Effect.callback((resume) => {
    if (!response.writableNeedDrain) return resume(Effect.void)
    const drain = () => resume(Effect.void)
    response.once("drain", drain)
    return Effect.sync(() => response.off("drain", drain))
  })

/** Writes what is seen, batch by batch (R2), until the reading is over or the watch ends (R3). */
const pump = (reading: Reading, write: (text: string) => Effect.Effect<unknown>): Effect.Effect<Reason> =>
  Effect.gen(function* () {
    const { after, session, until } = reading
    if (until !== undefined && after >= until.seq) return "turn-end" as const
    const pull = yield* Stream.toPull(session.watch(after))
    for (;;) {
      const batch = textOf(reading, yield* pull)
      if (batch.text !== "") yield* write(batch.text)
      if (batch.isLast) return "turn-end" as const
    }
  }).pipe(
    Effect.scoped,
    Pull.catchDone(() => Effect.succeed("lagged" as const)),
    Effect.catchDefect((defect) => Effect.as(Effect.logError("an event stream failed", defect), "lagged" as const))
  )

const textOf = (reading: Reading, seen: ReadonlyArray<Seen>): { readonly text: string; readonly isLast: boolean } => {
  const { session, types, until } = reading
  let text = ""
  for (const each of seen) {
    switch (each._tag) {
      case "Event":
        if (types === undefined || types.has(each.event.type)) text += EventWriter.frame(session.id, each.event)
        if (until !== undefined && (isTerminal(each.event) || each.event.seq >= until.seq))
          return { text, isLast: true }
        break
      case "Ephemeral":
        if (types === undefined || types.has(each.ephemeral.type)) {
          text += EventWriter.ephemeralFrame(session.id, each.ephemeral)
        }
        break
      case "Snapshot":
        text += EventWriter.snapshotFrame(session.id, each.snapshot)
    }
  }
  return { text, isLast: false }
}
