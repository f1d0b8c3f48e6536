/**
 * Streams of server-sent events: one per connected reader.
 *
 * Owns: how many there may be, their heartbeat, why and how each ends. Does not own: the text of an event (`EventWriter`),
 * or the events (`Session.watch`).
 *
 * - R1. A stream ends with `stream.closed` and its reason; only a lost connection ends without.
 * - R2. A batch of the watch is one text, and nothing is written into the midst of it.
 * - R3. A reader who is too slow holds one batch here and a bounded number of events in the hub, which then drops it. How long
 *   it may take nothing, and how much may wait for all readers, `Outflow` says; who is hung up on gives its place back.
 * - R4. No stream lasts longer than an hour: what was allowed once is not allowed for good.
 * - R5. When the server stops, streams end first: nothing else can wait for connections that never end by themselves.
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
import * as Outflow from "./Outflow.ts"
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
    /**
     * Takes a place, until the request is over, for a response that streams until the reader leaves, the reading is over or
     * the server stops. A request that also does something takes it first: refused later, it would be sent again.
     */
    readonly place: Effect.Effect<
      (reading: Reading) => Effect.Effect<HttpServerResponse.HttpServerResponse, never, HttpServerRequest>,
      ApiError,
      HttpServerRequest | Scope.Scope
    >
    /** Takes a place among the downloads, until the request is over; gives how a block of it is written. */
    readonly download: Effect.Effect<Outflow.Outflow["bytes"], ApiError, HttpServerRequest | Scope.Scope>
    /** Ends every stream and lets no new one begin (R5). */
    readonly close: Effect.Effect<void>
    readonly isClosing: () => boolean
  }
>()("server/Streams") {}

/** Streams, and downloads of large outputs, that a process serves at once. */
export const maxStreams = 256
export const maxDownloads = 64

/** How long a stream may be silent. */
const heartbeat = Duration.seconds(15)

/** How long a stream may last (R4). */
const life = Duration.hours(1)

export const layer: Layer.Layer<Streams> = Layer.effect(
  Streams,
  Effect.sync(() => {
    const closing = Latch.makeUnsafe(false)
    const outflow = Outflow.make()
    const streams = places(
      maxStreams,
      Problem.refuse("too-many-streams", `${maxStreams} event streams are open already.`)
    )
    const downloads = places(
      maxDownloads,
      Problem.refuse("too-many-downloads", `${maxDownloads} downloads are under way already.`)
    )
    return Streams.of({
      close: Effect.asVoid(closing.open),
      isClosing: () => closing.isOpen(),
      download: Effect.as(downloads, outflow.bytes),
      place: Effect.as(streams, (reading) =>
        Effect.map(HttpServerRequest, (request) => {
          const response = NodeHttpServerRequest.toServerResponse(request) as ServerResponse
          const body = Stream.fromEffectDrain(written(reading, closing, outflow, response))
          return HttpServerResponse.stream(body, { status: reading.status, contentType: mediaType, headers })
        })
      )
    })
  })
)

/** So many at once: takes a place until the scope closes, or refuses. */
const places = <E, R>(most: number, refuse: Effect.Effect<never, E, R>) => {
  let taken = 0
  return Effect.suspend((): Effect.Effect<void, E, R | Scope.Scope> => {
    if (taken >= most) return refuse
    taken++
    return Effect.addFinalizer(() => Effect.sync(() => taken--))
  })
}

const mediaType = "text/event-stream"
const headers = { "cache-control": "no-store", "x-accel-buffering": "no" }

type Reason = Parameters<typeof EventWriter.closingFrame>[1]

/**
 * Writes the whole stream to Node's response, after its head. Not a `Stream` of bytes: every delta of every reader comes
 * through here, and a queue between the watch and the socket would cost more than writing does.
 */
const written = (
  reading: Reading,
  closing: Latch.Latch,
  outflow: Outflow.Outflow,
  response: ServerResponse
): Effect.Effect<void> =>
  Effect.gen(function* () {
    const { after, session } = reading
    let isWriting = false
    const write = (text: string | Buffer) =>
      Effect.suspend(() => {
        isWriting = true
        return Effect.ensuring(
          outflow.text(response, text),
          Effect.sync(() => (isWriting = false))
        )
      })
    yield* write(EventWriter.openingFrame(session.id, after))
    yield* Effect.sleep(heartbeat).pipe(
      // A stream that waits for its reader in the midst of a text is not silent (R2).
      Effect.andThen(Effect.sync(() => isWriting || response.write(EventWriter.keepAlive))),
      Effect.forever,
      Effect.forkScoped({ startImmediately: true })
    )
    const reason = yield* Effect.raceAllFirst<Effect.Effect<Reason>>([
      pump(reading, write),
      Effect.as(closing.await, "shutdown"),
      Effect.as(Effect.sleep(life), "expired")
    ])
    yield* write(EventWriter.closingFrame(session.id, reason))
  }).pipe(Effect.scoped)

/** Writes what is seen, batch by batch (R2), until the reading is over or the watch ends (R3). */
const pump = (reading: Reading, write: (text: string | Buffer) => Effect.Effect<unknown>): Effect.Effect<Reason> =>
  Effect.gen(function* () {
    const { after, session, until } = reading
    if (until !== undefined && after >= until.seq) return "turn-end" as const
    const pull = yield* Stream.toPull(session.watch(after))
    // No name holds a batch while it is written: what a slow reader has not taken is in the connection, and only there.
    const next = Effect.flatMap(pull, (seen) => {
      const { isLast, texts } = textsOf(reading, seen)
      return Effect.as(Effect.forEach(texts, write, { discard: true }), isLast)
    })
    yield* Effect.repeat(next, { until: (isLast) => isLast })
    return "turn-end" as const
  }).pipe(
    Effect.scoped,
    Pull.catchDone(() => Effect.succeed("lagged" as const)),
    Effect.catchTags({
      RuntimeClosed: () => Effect.succeed("shutdown" as const),
      StorageUnavailable: () => Effect.succeed("storage-unavailable" as const)
    }),
    Effect.catchDefect((defect) => Effect.as(Effect.logError("an event stream failed", defect), "failed" as const))
  )

/** The texts of a batch, small ones joined. */
const textsOf = (
  reading: Reading,
  seen: ReadonlyArray<Seen>
): { readonly texts: Array<string | Buffer>; readonly isLast: boolean } => {
  const { session, types, until } = reading
  const texts: Array<string | Buffer> = []
  const add = (text: string | Buffer): void => {
    const last = texts.at(-1)
    if (typeof text === "string" && typeof last === "string") texts[texts.length - 1] = last + text
    else texts.push(text)
  }
  for (const each of seen) {
    switch (each._tag) {
      case "Event":
        if (types === undefined || types.has(each.event.type)) add(EventWriter.frameOnce(session.id, each.event))
        if (until !== undefined && (isTerminal(each.event) || each.event.seq >= until.seq))
          return { texts, isLast: true }
        break
      case "Ephemeral":
        if (types === undefined || types.has(each.ephemeral.type)) {
          add(EventWriter.ephemeralFrame(session.id, each.ephemeral))
        }
        break
      case "Snapshot":
        add(EventWriter.snapshotFrame(session.id, each.snapshot))
    }
  }
  return { texts, isLast: false }
}
