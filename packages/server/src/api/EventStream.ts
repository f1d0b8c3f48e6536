/**
 * Reading a stream of server-sent events, for clients.
 *
 * Owns: bytes to events. Does not own: connecting again (the reader does, with the last `seq` as `after`).
 *
 * - R1. The server's `retry:` is for browsers; here it is passed over.
 */
import * as Sse from "effect/encoding/Sse"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { StreamEvent } from "./EventEnvelope.ts"

const decodeEvent = Schema.decodeUnknownEffect(Schema.fromJsonString(StreamEvent))

/** The events in a body of `text/event-stream`. */
export const decode = <E, R>(
  bytes: Stream.Stream<Uint8Array, E, R>
): Stream.Stream<StreamEvent, E | Schema.SchemaError | Sse.SseError, R> =>
  Stream.suspend(() => {
    const found: Array<string> = []
    const parser = Sse.makeParser((event) => {
      if (event._tag === "Event") found.push(event.data) // R1
    })
    const feed = (text: string): Effect.Effect<ReadonlyArray<StreamEvent>, Schema.SchemaError | Sse.SseError> => {
      const error = parser.feed(text)
      return error === undefined ? Effect.forEach(found.splice(0), (data) => decodeEvent(data)) : Effect.fail(error)
    }
    return bytes.pipe(Stream.decodeText, Stream.mapEffect(feed), Stream.flattenIterable)
  })
