import { assert, it } from "@effect/vitest"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Effect from "effect/Effect"
import * as Server from "../fixtures/Server.ts"
import * as Sse from "../fixtures/Sse.ts"
import * as Tools from "../fixtures/Tools.ts"

interface Sent {
  readonly item: { readonly id: string; readonly delivery: string }
  readonly effect: string
  readonly turnId?: string
  readonly after: number
  readonly code?: string
}

interface Item {
  readonly id: string
  readonly state: string
  readonly delivery: string
  readonly step?: number
}

/** A session whose first Turn stands still inside its first tool. */
const standing = Effect.gen(function* () {
  const gate = yield* Tools.gate
  const world = yield* Server.scripted(({ index }) =>
    index === 0 ? StrictProvider.calls([Tools.call("look", "wait")]) : StrictProvider.text(`answer ${index}`)
  )
  world.tools.on("wait", Effect.as(gate.pass, "waited"))
  const { server } = world
  yield* server.json("/api/sessions", { method: "POST", body: { id: "s", input: "begin" } })
  yield* gate.reached
  const send = (body: object, headers: Readonly<Record<string, string>> = {}) =>
    server.json<Sent>("/api/sessions/s/messages", { method: "POST", body, headers })
  const items = Effect.map(
    server.json<{ readonly data: ReadonlyArray<Item> }>("/api/sessions/s/inbox"),
    ({ body }) => body.data
  )
  /** Waits for the end of a Turn. */
  const ended = (turn: string) =>
    Effect.scoped(
      Effect.flatMap(Sse.open(server, "/api/sessions/s/events"), ({ until }) =>
        until(
          (frame) => /^turn\.(completed|cancelled|failed|exhausted)$/.test(frame.event) && frame.data.turnId === turn
        )
      )
    )
  return { ...world, gate, send, items, ended }
})

it.live("steers the running Turn, and queues behind it", () =>
  Effect.gen(function* () {
    const { ended, gate, items, provider, send } = yield* standing
    const steer = yield* send({ text: "this way", delivery: "steer" })
    assert.strictEqual(steer.status, 202)
    assert.deepInclude(steer.body, { effect: "steering", turnId: "trn_1", item: { id: "inb_2", delivery: "steer" } })
    const auto = yield* send({ parts: [{ type: "text", text: "and that" }] })
    assert.deepInclude(auto.body, { effect: "steering", item: { id: "inb_3", delivery: "steer" } })
    const queued = yield* send({ text: "then this", delivery: "follow-up" })
    assert.deepInclude(queued.body, { effect: "queued", item: { id: "inb_4", delivery: "follow-up" } })
    assert.isUndefined(queued.body.turnId)
    assert.deepStrictEqual(
      (yield* items).map(({ state }) => state),
      ["applied", "waiting", "waiting", "waiting"]
    )
    yield* gate.open
    yield* ended("trn_2")
    assert.deepStrictEqual(
      provider.requests[1]?.messages.slice(-2).map(({ content }) => content),
      ["this way", "and that"]
    )
    assert.deepStrictEqual(
      (yield* items).map(({ state, step }) => [state, step]),
      [
        ["applied", 1],
        ["applied", 2],
        ["applied", 2],
        ["applied", 1]
      ]
    )
    assert.deepStrictEqual(provider.refusals, [])
  })
)

it.live("refuses to start a Turn beside the running one, to steer another, and to steer none", () =>
  Effect.gen(function* () {
    const { ended, gate, send } = yield* standing
    const started = yield* send({ text: "now", delivery: "start" })
    assert.deepStrictEqual([started.status, started.body.code], [409, "turn-active"])
    const other = yield* send({ text: "there", expectedTurnId: "trn_9" })
    assert.deepStrictEqual([other.status, other.body.code], [409, "turn-mismatch"])
    assert.strictEqual((yield* send({ text: "here", expectedTurnId: "trn_1" })).status, 202)
    yield* gate.open
    yield* ended("trn_1")
    const late = yield* send({ text: "late", delivery: "steer" })
    assert.deepStrictEqual([late.status, late.body.code], [409, "no-active-turn"])
    assert.strictEqual((yield* send({ text: "again", delivery: "start" })).body.effect, "started")
  })
)

it.live("admits a message once under its key, whether it is the header or the message's own id", () =>
  Effect.gen(function* () {
    const { items, send } = yield* standing
    const first = yield* send({ text: "once" }, { "idempotency-key": "k1" })
    const again = yield* send({ id: "k1", text: "once" })
    assert.deepStrictEqual([again.status, again.body], [202, first.body])
    const other = yield* send({ text: "other" }, { "idempotency-key": "k1" })
    assert.deepStrictEqual([other.status, other.body.code], [422, "idempotency-key-reused"])
    const both = yield* send({ id: "k2", text: "x" }, { "idempotency-key": "k3" })
    assert.deepStrictEqual([both.status, both.body.code], [400, "invalid-request"])
    assert.strictEqual((yield* items).length, 2)
  })
)

it.live("takes either a text or parts", () =>
  Effect.gen(function* () {
    const { send } = yield* standing
    for (const body of [{}, { text: "" }, { parts: [] }, { text: "a", parts: [{ type: "text", text: "b" }] }]) {
      const { body: problem, status } = yield* send(body)
      assert.deepStrictEqual([status, problem.code], [400, "invalid-request"], JSON.stringify(body))
    }
  })
)

it.live("moves a waiting message into the running Turn, takes another back, and neither once they are read", () =>
  Effect.gen(function* () {
    const { ended, gate, items, send, server } = yield* standing
    const item = "/api/sessions/s/inbox/"
    yield* send({ text: "promoted", delivery: "follow-up" })
    yield* send({ text: "withdrawn", delivery: "follow-up" })
    const move = (id: string, delivery: string) => server.json(item + id, { method: "PATCH", body: { delivery } })
    assert.deepStrictEqual(yield* move("inb_2", "steer"), { status: 200, body: { id: "inb_2", delivery: "steer" } })
    assert.strictEqual((yield* server.fetch(`${item}inb_3`, { method: "DELETE" })).status, 204)
    assert.strictEqual((yield* server.fetch(`${item}inb_3`, { method: "DELETE" })).status, 204)
    assert.deepInclude((yield* move("inb_3", "steer")).body, { code: "inbox-already-returned" })
    assert.deepInclude((yield* move("inb_9", "steer")).body, { code: "item-not-found" })
    assert.deepInclude((yield* move("inb_1", "steer")).body, { status: 409, code: "inbox-already-applied" })
    yield* gate.open
    yield* ended("trn_1")
    const late = yield* server.json(`${item}inb_2`, { method: "DELETE" })
    assert.deepInclude(late.body, { status: 409, code: "inbox-already-applied" })
    assert.deepStrictEqual(
      (yield* items).map(({ state }) => state),
      ["applied", "applied", "returned"]
    )
  })
)

it.live("cancels a Turn once, with receipts for what it leaves open", () =>
  Effect.gen(function* () {
    const { ended, server } = yield* standing
    const cancel = (turn: string, init: Server.Init = {}) =>
      server.json(`/api/sessions/s/turns/${turn}/cancel`, { method: "POST", ...init })
    const first = yield* cancel("trn_1", { body: { reason: "enough" } })
    assert.deepStrictEqual(first, { status: 202, body: { turnId: "trn_1", state: "cancelling" } })
    yield* ended("trn_1")
    assert.deepStrictEqual(yield* cancel("trn_1"), { status: 202, body: { turnId: "trn_1", state: "ended" } })
    assert.deepInclude((yield* cancel("trn_7")).body, { status: 404, code: "turn-not-found" })
    const turn = yield* server.json("/api/sessions/s/turns/trn_1")
    assert.deepInclude(turn.body, {
      state: "cancelled",
      cancel: { by: "user", reason: "enough" },
      receipts: [{ callId: "cal_1_1_0", outcome: "cancelled" }]
    })
    const call = yield* server.json("/api/sessions/s/calls/cal_1_1_0")
    assert.deepInclude(call.body, { state: "receipted", name: "look" })
  })
)
