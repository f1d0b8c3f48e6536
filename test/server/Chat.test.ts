import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, layer } from "@effect/vitest"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Chat from "@turnstep/server/cli/Chat"
import * as Connection from "@turnstep/server/cli/Connection"
import * as ConfigProvider from "effect/ConfigProvider"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as Server from "../fixtures/Server.ts"
import * as Terminal from "../fixtures/Terminal.ts"

const environment = Layer.mergeAll(
  NodeServices.layer,
  FetchHttpClient.layer,
  SecureRandom.layerWebCrypto,
  ConfigProvider.layer(ConfigProvider.fromEnv({ env: { TURNSTEP_TOKEN: Server.token } }))
)

/** A chat at a terminal with a server of its own, which goes away with `scope`. */
const chatting = Effect.gen(function* () {
  const scope = yield* Scope.make()
  const { server } = yield* Scope.provide(
    Server.scripted(() => StrictProvider.text("fine")),
    scope
  )
  const connection = yield* Connection.open({ server: server.url, data: "unused" })
  yield* server.json("/api/sessions", { method: "POST", body: { id: "s" } })
  const { headSeq, id } = yield* connection.client.sessions.get({ params: { session: "s" } })
  const terminal = yield* Terminal.make
  const entered = { id, headSeq, activeTurn: undefined }
  const chat = yield* Effect.forkScoped(Chat.talk(connection, terminal.keyboard, entered, false, ""))
  yield* terminal.shows(">")
  return { scope, server, terminal, chat }
})

layer(environment, { excludeTestServices: true })("A chat at a terminal", (it) => {
  it.effect("keeps a line that could not be sent, and goes on", () =>
    Effect.gen(function* () {
      const { chat, scope, terminal } = yield* chatting
      yield* terminal.type("hello\r")
      yield* terminal.shows("fine")
      yield* Scope.close(scope, Exit.void)
      yield* terminal.shows("trying again")
      yield* terminal.type("do not lose me\r")
      yield* terminal.shows("(not sent: No server answers")
      assert.strictEqual(
        terminal.screen().findLast((line) => line !== ""),
        "> do not lose me"
      )
      assert.isUndefined(chat.pollUnsafe())
      yield* terminal.type("\r")
      yield* Effect.sync(() => terminal.screen().filter((line) => line.includes("not sent")).length).pipe(
        Effect.repeat({ until: (count) => count === 2 })
      )
      yield* terminal.type("\u0003")
      assert.strictEqual(yield* Fiber.join(chat), 0)
    })
  )

  it.effect("refuses a line that no request can hold, in words, and keeps it", () =>
    Effect.gen(function* () {
      const { chat, server, terminal } = yield* chatting
      terminal.keyboard.restore("x".repeat(1024 * 1024))
      yield* terminal.type("\r")
      yield* terminal.shows("(not sent: A message has 1047552 bytes at the most, and this one has 1048576.")
      const { body } = yield* server.json<{ data: ReadonlyArray<unknown> }>("/api/sessions/s/inbox")
      assert.isEmpty(body.data)
      yield* terminal.type("\u0003")
      assert.strictEqual(yield* Fiber.join(chat), 0)
    })
  )
})
