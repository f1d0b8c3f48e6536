/** A Turn that is announced to the sender of its message and not open yet, as the API shows it. */
import { assert, it } from "@effect/vitest"
import * as Demo from "@turnstep/runtime/model/Demo"
import * as Drivers from "@turnstep/runtime/Drivers"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Server from "../fixtures/Server.ts"

interface Page {
  readonly data: ReadonlyArray<{ readonly id: string; readonly state: string; readonly [field: string]: unknown }>
}

/** A process that admits messages and runs none. */
const admitting = Server.layer(
  Server.runtimeMemory(Demo.layerInstant).pipe(Layer.provide(Layer.succeed(Drivers.Workers, 0)))
)

it.live("is listed, read and cancelled like any other, and its message comes back", () =>
  Effect.gen(function* () {
    const server = yield* Server.TestServer
    yield* server.json("/api/sessions", { method: "POST", body: { id: "s", input: "hello" } })
    const turns = Effect.map(server.json<Page>("/api/sessions/s/turns"), ({ body }) => body.data)
    const [turn = assert.fail("it is not listed"), ...others] = yield* turns
    assert.isEmpty(others)
    assert.deepInclude(turn, { id: "trn_1", state: "queued", itemId: "inb_1" })
    assert.deepStrictEqual((yield* server.json("/api/sessions/s/turns/trn_1")).body, { ...turn })
    assert.strictEqual((yield* server.json("/api/sessions/s/turns/trn_2")).status, 404)
    const cancelled = yield* server.json("/api/sessions/s/turns/trn_1/cancel", { method: "POST" })
    assert.strictEqual(cancelled.status, 202)
    assert.isEmpty(yield* turns)
    assert.strictEqual((yield* server.json("/api/sessions/s/turns/trn_1")).status, 404)
    const inbox = yield* server.json<Page>("/api/sessions/s/inbox")
    assert.deepInclude(inbox.body.data[0], { id: "inb_1", state: "returned", reason: "cancelled" })
  }).pipe(Effect.provide(admitting))
)
