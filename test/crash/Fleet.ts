/** What clients of several servers do and find: they ask whichever answers, and read what became of their messages. */
import { assert } from "@effect/vitest"
import type { SessionId } from "@turnstep/core/Ids"
import type { TurnEvent } from "@turnstep/core/TurnEvent"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import type * as Server from "../fixtures/Server.ts"
import * as Sound from "../fixtures/Sound.ts"

/** One of the servers: there is always a process, or one on its way. */
export interface Seat {
  readonly server: () => Server.TestServer["Service"]
}

/** A request to the servers as a whole. */
export type Ask = <A>(path: string, init?: Server.Init) => Effect.Effect<{ readonly status: number; readonly body: A }>

export const below = (n: number): number => Math.floor(Math.random() * n)

export const pick = <A>(from: ReadonlyArray<A>): A => from[below(from.length)] as A

/** Asks whichever answers, until one does. */
export const asking =
  (seats: ReadonlyArray<Seat>): Ask =>
  <A>(path: string, init?: Server.Init) =>
    Effect.suspend(() =>
      pick(seats)
        .server()
        .json<A>(path, { ...init, signal: AbortSignal.timeout(20_000) })
    ).pipe(
      Effect.catchDefect(Effect.fail),
      Effect.filterOrFail(
        ({ status }) => status < 500,
        ({ body }) => body
      ),
      Effect.retry(Schedule.spaced("100 millis")),
      Effect.orDie
    )

/** Sends a message and notes it in `sent` when it is accepted: what is on its way is waited for, so that it is known what was. */
export const send = (ask: Ask, id: string, text: string, sent: Array<string>) =>
  ask(`/api/sessions/${id}/messages`, {
    method: "POST",
    body: { text, delivery: pick(["auto", "follow-up"]) },
    headers: { "idempotency-key": `${id}-${sent.length}` }
  }).pipe(
    Effect.map(({ body, status }) => {
      assert.strictEqual(status, 202, JSON.stringify(body))
      sent.push(text)
    }),
    Effect.uninterruptible
  )

/** The events of a session once nothing runs or waits in it any more. */
export const recordOf = Effect.fnUntraced(function* (ask: Ask, id: string) {
  yield* ask<{ status: string }>(`/api/sessions/${id}`).pipe(
    Effect.repeat({ until: ({ body }) => body.status === "idle", schedule: Schedule.spaced("500 millis") })
  )
  const events: Array<TurnEvent> = []
  for (;;) {
    const { body } = yield* ask<{ data: ReadonlyArray<TurnEvent> }>(
      `/api/sessions/${id}/events?limit=1000&after=${events.length}`
    )
    events.push(...body.data)
    if (body.data.length < 1000) return events
  }
})

/** Complaints about a record: messages that are not those that were sent, calls without their answer, Turns that failed. */
export const complaintsOf = (id: string, events: ReadonlyArray<TurnEvent>, sent: ReadonlyArray<string>) => {
  const admitted = events.flatMap(({ data, type }) => (type === "inbox.admitted" ? [data] : []))
  const texts = admitted.map(({ parts }) => (parts[0]?.type === "text" ? parts[0].text : ""))
  assert.deepStrictEqual(texts, [...sent], id)
  const applied = events.flatMap(({ data, type }) => (type === "inbox.applied" ? [data.itemId] : []))
  assert.sameMembers(
    applied,
    admitted.map(({ itemId }) => itemId)
  )
  const answered = events.flatMap(({ data, type }) =>
    type === "call.completed" || type === "call.receipt" ? [data.callId] : []
  )
  assert.sameMembers(
    answered,
    events.flatMap(({ data, type }) => (type === "call.requested" ? [data.callId] : []))
  )
  return [
    ...Sound.ofEvents(id as SessionId, events),
    ...events.flatMap(({ data, type }) => (type === "turn.failed" ? [JSON.stringify(data)] : []))
  ]
}
