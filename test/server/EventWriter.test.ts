import { assert, describe, it } from "@effect/vitest"
import type { CallId, SessionId, TurnId } from "@turnstep/core/Ids"
import * as TurnEvent from "@turnstep/core/TurnEvent"
import { StreamEvent } from "@turnstep/server/api/EventEnvelope"
import * as EventStream from "@turnstep/server/api/EventStream"
import * as EventWriter from "@turnstep/server/http/EventWriter"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"

const session = "ses_1" as SessionId
const turnId = "trn_2" as TurnId
const awkward = 'line\nbreak\r "quote" \\ \u2028 \ud83d\ude00 \u0000 id: 7\n\n'

/** What a client reads of these bytes, however they are cut. */
const read = (text: string, size = 7) => {
  const bytes = new TextEncoder().encode(text)
  const pieces = Array.from({ length: Math.ceil(bytes.length / size) }, (_, n) => bytes.slice(n * size, (n + 1) * size))
  return Stream.runCollect(EventStream.decode(Stream.fromIterable(pieces)))
}

describe("EventWriter", () => {
  it.effect.prop(
    "writes every fact so that its schema reads the same back",
    { fact: TurnEvent.Fact },
    ({ fact }) =>
      Effect.gen(function* () {
        const event = { ...fact, seq: 5, at: 1_764_475_200_123 } as TurnEvent.TurnEvent
        const decoded = yield* Schema.decodeUnknownEffect(StreamEvent)(JSON.parse(EventWriter.json(session, event)))
        assert.deepInclude<object>(decoded, { v: 1, seq: 5, at: event.at, sessionId: session, type: fact.type })
        assert.deepStrictEqual<unknown>(
          TurnEvent.decodeFact({ type: decoded.type, data: decoded.data }),
          TurnEvent.decodeFact(JSON.parse(JSON.stringify(fact)))
        )
      }),
    { arbitrary: { runs: 300 } }
  )

  it.effect("writes ephemeral events that the schema reads, without an id", () =>
    Effect.gen(function* () {
      const retrying = { attempt: 2, attempts: 4, reason: { code: "rate-limited", message: awkward }, waitMs: 500 }
      const text = [
        EventWriter.openingFrame(session, 4),
        EventWriter.ephemeralFrame(session, {
          type: "delta",
          turnId,
          step: 3,
          channel: "text",
          offset: 9,
          delta: awkward
        }),
        EventWriter.ephemeralFrame(session, { type: "step.reset", turnId, step: 3, reason: "rate-limit" }),
        EventWriter.ephemeralFrame(session, { type: "model.retrying", turnId, step: 3, ...retrying }),
        EventWriter.ephemeralFrame(session, {
          type: "call.progress",
          callId: "cal_2_3_0" as CallId,
          progress: { done: false }
        }),
        EventWriter.keepAlive,
        EventWriter.snapshotFrame(session, { turnId, step: 3, text: awkward, reasoning: "" }),
        EventWriter.closingFrame(session, "turn-end")
      ].join("")
      assert.notMatch(text, /^id:/m)
      const place = { v: 1, sessionId: session, turnId, step: 3 }
      assert.deepStrictEqual<unknown>(yield* read(text), [
        { v: 1, sessionId: session, type: "stream.opened", data: { after: 4 } },
        { ...place, type: "delta", data: { channel: "text", offset: 9, delta: awkward } },
        { ...place, type: "step.reset", data: { reason: "rate-limit" } },
        { ...place, type: "model.retrying", data: retrying },
        { ...place, type: "call.progress", data: { callId: "cal_2_3_0", progress: { done: false } } },
        { ...place, type: "stream.snapshot", data: { text: awkward, reasoning: "" } },
        { v: 1, sessionId: session, type: "stream.closed", data: { reason: "turn-end" } }
      ])
    })
  )

  it("writes a recorded event with its seq as id and its type as event", () => {
    const frame = EventWriter.frame(session, { type: "session.status", data: { status: "idle" }, seq: 12, at: 0 })
    assert.strictEqual(
      frame,
      'id: 12\nevent: session.status\ndata: {"v":1,"seq":12,"at":"1970-01-01T00:00:00.000Z","sessionId":"ses_1",' +
        '"type":"session.status","data":{"status":"idle"}}\n\n'
    )
  })

  it("names the Turn and step that an event is about", () => {
    const place = (fact: unknown) => {
      const event = { ...TurnEvent.decodeFact(fact), seq: 1, at: 0 }
      const { turnId, step } = JSON.parse(EventWriter.json(session, event))
      return [turnId, step]
    }
    const parts = [{ type: "text", text: "x" }]
    assert.deepStrictEqual(place({ type: "step.started", data: { turnId, step: 4, kind: "work" } }), ["trn_2", 4])
    assert.deepStrictEqual(place({ type: "call.started", data: { callId: "cal_3_4_1", attempt: 1 } }), ["trn_3", 4])
    assert.deepStrictEqual(place({ type: "message.added", data: { messageId: "msg_5_6", role: "assistant", parts } }), [
      "trn_5",
      6
    ])
    assert.deepStrictEqual(place({ type: "message.added", data: { messageId: "msg_inb_1", role: "user", parts } }), [
      undefined,
      undefined
    ])
  })
})
