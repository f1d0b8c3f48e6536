import { assert, it } from "@effect/vitest"
import { StorageUnavailable } from "@turnstep/core/TurnError"
import { Sessions } from "@turnstep/runtime/Session"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Scope from "effect/Scope"
import * as Server from "../fixtures/Server.ts"

/** A server whose storage meets an accident whenever it lists sessions, and what it logged. */
const serverWith = Effect.fnUntraced(function* (accident: Effect.Effect<never>) {
  const logged: Array<string> = []
  const logger = Logger.make(({ message }) => logged.push(String(message)))
  const sessions = Layer.mock(Sessions, { takesWrites: Effect.void, list: () => accident })
  const built = yield* Layer.build(Layer.provideMerge(Server.layer(sessions), Logger.layer([logger])))
  return { server: Context.get(built, Server.TestServer), logged }
})

it.live("tells of an accident an id, and nothing else; the log has the cause under it", () =>
  Effect.gen(function* () {
    const inside = new Error('relation "secret" does not exist: SELECT * FROM secret at /srv/app/x.ts:3')
    const { logged, server } = yield* serverWith(Effect.die(inside))
    const response = yield* server.fetch("/api/sessions")
    const text = yield* Effect.promise(() => response.text())
    assert.strictEqual(response.status, 500)
    for (const word of ["secret", "SELECT", "/srv", "Error", "at "]) assert.notInclude(text, word)
    const { code, detail } = JSON.parse(text) as { readonly code: string; readonly detail: string }
    assert.strictEqual(code, "internal")
    const [id = ""] = /\[[0-9a-f-]{36}\]/.exec(detail) ?? []
    assert.include(logged.join("\n"), id)
  })
)

it.live("says that the database is away, to requests and to who asks whether it is ready", () =>
  Effect.gen(function* () {
    const { server } = yield* serverWith(Effect.die(new StorageUnavailable({ reason: "unreachable" })))
    const listed = yield* server.json("/api/sessions")
    assert.deepInclude(listed.body, { status: 503, code: "storage-unavailable" })
    const ready = yield* server.json("/readyz")
    assert.deepInclude(ready.body, { status: 503, code: "storage-unavailable" })
    assert.strictEqual((yield* server.fetch("/healthz")).status, 200)
  })
)

it.live("answers who reads within ten seconds, whatever storage does", () =>
  Effect.gen(function* () {
    const { server } = yield* serverWith(Effect.uninterruptible(Effect.never))
    const listed = yield* server.json("/api/sessions")
    assert.deepInclude(listed.body, { status: 503, code: "storage-unavailable" })
  })
)

it.live("refuses in words what the end of the server cuts off", () =>
  Effect.gen(function* () {
    const isAsked = yield* Deferred.make<void>()
    const never = Effect.andThen(Deferred.succeed(isAsked, undefined), Effect.uninterruptible(Effect.never))
    const sessions = Layer.mock(Sessions, { get: () => never })
    const scope = yield* Scope.make()
    const built = yield* Layer.buildWithScope(Server.layer(sessions), scope)
    const { json } = Context.get(built, Server.TestServer)
    const sent = yield* Effect.forkChild(json("/api/sessions/s/messages", { method: "POST", body: { text: "x" } }))
    yield* Deferred.await(isAsked)
    yield* Scope.close(scope, Exit.void)
    const { body, status } = yield* Fiber.join(sent)
    assert.deepStrictEqual([status, body["code"]], [503, "shutting-down"])
    assert.include(String(body["detail"]), "idempotency key")
  })
)

it.live("waits two seconds for storage and no longer before it says that it is not ready", () =>
  Effect.gen(function* () {
    const { server } = yield* serverWith(Effect.never)
    const ready = yield* server.json("/readyz")
    assert.deepInclude(ready.body, { status: 503, code: "storage-unavailable" })
  })
)
