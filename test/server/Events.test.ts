import { assert, it } from "@effect/vitest"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Effect from "effect/Effect"
import * as Server from "../fixtures/Server.ts"
import * as Sse from "../fixtures/Sse.ts"
import * as Tools from "../fixtures/Tools.ts"

const events = "/api/sessions/s/events"
const create = { method: "POST", body: { id: "s", input: "begin" } }

/** A model that calls two tools, then says four words and stands still after the second. */
const speaking = Effect.gen(function* () {
  const gate = yield* Tools.gate
  const world = yield* Server.scripted(({ index }) =>
    index === 0
      ? StrictProvider.calls([Tools.call("look", "a"), Tools.call("put", "b")])
      : StrictProvider.text(["one ", "two ", gate.pass, "three ", "four"])
  )
  return { ...world, gate }
})

const seqs = (frames: ReadonlyArray<Sse.Frame>) => frames.flatMap(({ id }) => (id === undefined ? [] : [Number(id)]))
const ids = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, n) => from + n)
const textOf = (frames: ReadonlyArray<Sse.Frame>) =>
  frames.map((frame) => (frame.event === "delta" ? frame.data.data["delta"] : "")).join("")

it.live("streams the first Turn of a session to who creates it, in order, to its end", () =>
  Effect.gen(function* () {
    const { gate, server } = yield* speaking
    yield* gate.open
    const stream = yield* Sse.open(server, "/api/sessions", create)
    assert.strictEqual(stream.status, 201)
    assert.strictEqual(stream.headers.get("content-type"), "text/event-stream")
    assert.strictEqual(stream.headers.get("cache-control"), "no-store")
    assert.strictEqual(stream.headers.get("x-accel-buffering"), "no")
    const frames = yield* stream.rest
    assert.match(stream.text(), /^retry: 1000\n/)
    assert.deepStrictEqual(
      frames.map(({ event }) => event).filter((event, index, all) => event !== "delta" || all[index - 1] !== "delta"),
      [
        "stream.opened",
        "session.created",
        "inbox.admitted",
        "session.status",
        "turn.started",
        "inbox.applied",
        "message.added",
        "step.started",
        "message.added",
        "call.requested",
        "call.requested",
        "call.started",
        "call.started",
        "call.completed",
        "call.completed",
        "step.completed",
        "step.started",
        "delta",
        "message.added",
        "step.completed",
        "turn.settled",
        "turn.completed",
        "stream.closed"
      ]
    )
    assert.deepStrictEqual(seqs(frames), ids(1, seqs(frames).length))
    assert.strictEqual(textOf(frames), "one two three four")
    assert.deepStrictEqual(frames.at(-1)?.data.data, { reason: "turn-end" })
    for (const { data, event, id } of frames) {
      assert.strictEqual(id, data.seq === undefined ? undefined : String(data.seq), event)
    }
  })
)

it.live("goes on after Last-Event-ID without a gap or a duplicate, and tells what was said meanwhile", () =>
  Effect.gen(function* () {
    const { gate, server } = yield* speaking
    yield* server.json("/api/sessions", create)
    yield* gate.reached
    const first = yield* Sse.open(server, events)
    const head = yield* first.until((frame) => textOf([frame]) === "two " || frame.event === "stream.snapshot")
    yield* first.leave
    const last = seqs(head).at(-1) ?? 0
    assert.deepStrictEqual(seqs(head), ids(1, last))
    // `after` says something else, and Last-Event-ID wins
    const again = yield* Sse.open(server, `${events}?after=3&until=turn-end`, {
      headers: { "last-event-id": String(last) }
    })
    const opening = yield* again.until(Sse.isEvent("stream.snapshot"))
    assert.deepStrictEqual(opening[0]?.data.data, { after: last })
    assert.deepInclude(opening.at(-1)?.data, { turnId: "trn_1", step: 2 })
    assert.deepStrictEqual(opening.at(-1)?.data.data, { text: "one two ", reasoning: "" })
    yield* gate.open
    const rest = yield* again.rest
    const deltas = rest.filter(Sse.isEvent("delta"))
    assert.deepStrictEqual(
      deltas.map(({ data }) => [data.data["offset"], data.data["delta"]]),
      [
        [8, "three "],
        [14, "four"]
      ]
    )
    const all = [...seqs(head), ...seqs(opening), ...seqs(rest)]
    assert.deepStrictEqual(all, ids(1, all.length))
    assert.strictEqual(rest.at(-2)?.event, "turn.completed")
    assert.deepStrictEqual(rest.at(-1)?.data.data, { reason: "turn-end" })
  })
)

it.live("gives every reader the same bytes of an event, in streams and in pages, cut anywhere", () =>
  Effect.gen(function* () {
    const { gate, server } = yield* speaking
    yield* gate.open
    const stream = yield* Sse.open(server, "/api/sessions", create)
    yield* stream.rest
    const lines = (text: string) => [...text.matchAll(/^id: \d+\nevent: \S+\ndata: (.*)$/gm)].map(([, data]) => data)
    const live = lines(stream.text())
    const page = (query: string) =>
      Effect.flatMap(server.fetch(`${events}?${query}`), (r) => Effect.promise(() => r.text()))
    const whole = yield* page("limit=1000")
    assert.isTrue(whole.startsWith(`{"data":[${live.join(",")},`), whole.slice(0, 300))
    for (const after of [0, 1, 7, live.length - 1]) {
      const replay = yield* Sse.open(server, `${events}?after=${after}&until=turn-end`)
      yield* replay.rest
      assert.deepStrictEqual(lines(replay.text()), live.slice(after))
    }
  })
)

it.live("pages through events, of some types or of all", () =>
  Effect.gen(function* () {
    const { gate, server } = yield* speaking
    yield* gate.open
    yield* Effect.flatMap(Sse.open(server, "/api/sessions", create), ({ rest }) => rest)
    interface Page {
      readonly data: ReadonlyArray<{ readonly seq: number; readonly type: string }>
      readonly next: number | null
    }
    const seen: Array<number> = []
    for (let after: number | null = 0; after !== null;) {
      const { body }: { body: Page } = yield* server.json<Page>(`${events}?limit=5&after=${after}`)
      seen.push(...body.data.map(({ seq }) => seq))
      after = body.next
    }
    assert.deepStrictEqual(seen, ids(1, seen.length))
    const calls = yield* server.json<Page>(`${events}?types=call.requested,call.completed&limit=3`)
    assert.deepStrictEqual(
      calls.body.data.map(({ type }) => type),
      ["call.requested", "call.requested", "call.completed"]
    )
    assert.strictEqual(calls.body.next, calls.body.data.at(-1)?.seq)
  })
)

it.live("streams only the types that are asked for, and always what it says of itself", () =>
  Effect.gen(function* () {
    const { gate, server } = yield* speaking
    yield* gate.open
    yield* server.json("/api/sessions", create)
    const stream = yield* Sse.open(server, `${events}?types=call.started,turn.completed&until=turn-end`)
    assert.deepStrictEqual(
      (yield* stream.rest).map(({ event }) => event),
      ["stream.opened", "call.started", "call.started", "turn.completed", "stream.closed"]
    )
  })
)

it.live("ends at once where no Turn runs and nothing is left, and stays where nobody asked it to end", () =>
  Effect.gen(function* () {
    const { gate, server } = yield* speaking
    yield* gate.open
    const made = yield* Sse.open(server, "/api/sessions", create)
    yield* made.rest
    const { body } = yield* server.json<{ readonly headSeq: number }>("/api/sessions/s")
    const idle = yield* Sse.open(server, `${events}?after=${body.headSeq}&until=turn-end`)
    assert.deepStrictEqual(
      (yield* idle.rest).map(({ event }) => event),
      ["stream.opened", "stream.closed"]
    )
    const open = yield* Sse.open(server, `${events}?after=${body.headSeq}`)
    yield* open.until(Sse.isEvent("stream.opened"))
    yield* server.json("/api/sessions/s/messages", { method: "POST", body: { text: "more" } })
    const more = yield* open.until(Sse.isEvent("turn.completed"))
    assert.deepStrictEqual(seqs(more)[0], body.headSeq + 1)
  })
)

it.live("refuses a position that is none, or that the session has not reached", () =>
  Effect.gen(function* () {
    const { server } = yield* speaking
    yield* server.json("/api/sessions", { method: "POST", body: { id: "s" } })
    for (const id of ["", "abc", "-1", "1.5", "1e3", "0x1", "01", "9".repeat(30)]) {
      const { body } = yield* server.json(events, { headers: { accept: "text/event-stream", "last-event-id": id } })
      assert.deepInclude(body, { status: 400, code: "invalid-request" }, `"${id}"`)
    }
    const ahead = yield* server.json(events, { headers: { accept: "text/event-stream", "last-event-id": "2" } })
    assert.deepInclude(ahead.body, { status: 400, code: "invalid-request" })
    assert.strictEqual((yield* server.json(`${events}?types=turn.begun`)).status, 400)
    assert.strictEqual((yield* server.json(`${events}?after=x`)).status, 400)
    assert.strictEqual((yield* server.json(`${events}?until=never`)).status, 400)
  })
)
