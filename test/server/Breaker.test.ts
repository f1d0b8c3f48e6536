/** A Turn that goes round in circles, as a client of the server sees it. */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Server from "../fixtures/Server.ts"
import * as Sse from "../fixtures/Sse.ts"

interface Page<A> {
  readonly data: ReadonlyArray<A>
}

interface Turn {
  readonly id: string
  readonly state: string
  readonly steps: number
  readonly tripped?: { readonly code: string; readonly reason: string }
}

interface Call {
  readonly state: string
  readonly receipt?: { readonly outcome: string; readonly text: string }
}

layer(Server.layer(), { excludeTestServices: true })("a Turn over HTTP", (it) => {
  const run = Effect.fn(function* (id: string, input: string) {
    const server = yield* Server.TestServer
    yield* server.json("/api/sessions", { method: "POST", body: { id, input } })
    const frames = yield* Effect.scoped(
      Effect.flatMap(Sse.open(server, `/api/sessions/${id}/events`), ({ until }) =>
        until((frame) => /^turn\.(completed|exhausted|tripped|cancelled|failed)$/.test(frame.event))
      )
    )
    const data = <A>(what: string) =>
      Effect.map(server.json<Page<A>>(`/api/sessions/${id}/${what}`), ({ body }) => body.data)
    return { frames, turns: yield* data<Turn>("turns"), calls: yield* data<Call>("calls") }
  })

  it.effect("is stopped when it makes the same call again and again, and says so in events, calls and turns", () =>
    Effect.gen(function* () {
      const { calls, frames, turns } = yield* run("loop", "/loop")
      const verdicts = frames.filter(({ event }) => event === "guard.repeated").map(({ data }) => data.data)
      assert.deepStrictEqual(
        verdicts.map(({ count, verdict }) => [verdict, count]),
        [
          ["noted", 2],
          ["noted", 3],
          ["tripped", 4]
        ]
      )
      assert.strictEqual(frames.at(-1)?.event, "turn.tripped")
      assert.deepStrictEqual(
        calls.map(({ state }) => state),
        ["completed", "completed", "completed", "receipted"]
      )
      assert.strictEqual(calls[3]?.receipt?.outcome, "not-started")
      assert.match(calls[3]?.receipt?.text ?? "", /count_step was not executed \(REPEATED_IDENTICAL_TOOL_CALL\)/)
      const [turn] = turns
      assert.deepInclude({ ...turn }, { id: "trn_1", state: "tripped", steps: 4 })
      assert.strictEqual(turn?.tripped?.code, "REPEATED_IDENTICAL_TOOL_CALL")
    })
  )

  it.effect("goes on when the same call shows something new each time", () =>
    Effect.gen(function* () {
      const { calls, frames, turns } = yield* run("poll", "/poll 3")
      assert.isEmpty(frames.filter(({ event }) => event === "guard.repeated"))
      assert.deepInclude({ ...turns[0] }, { state: "completed" })
      assert.isAtLeast(calls.length, 6)
    })
  )
})
