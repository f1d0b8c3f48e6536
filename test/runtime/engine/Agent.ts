import { assert, describe } from "@effect/vitest"
import * as Agent from "@turnstep/runtime/Agent"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Sound from "../../fixtures/Sound.ts"
import type { It } from "../../fixtures/Stores.ts"
import * as Tools from "../../fixtures/Tools.ts"
import * as World from "../../fixtures/World.ts"

const { calls, script, text } = StrictProvider

/** Made anew for every Turn. */
class Notebook extends Context.Service<Notebook, { readonly lines: Array<string> }>()("test/Notebook") {}
/** Made once for the application. */
class Library extends Context.Service<Library, { readonly name: string }>()("test/Library") {}

const Note = Tool.make("note", {
  parameters: Schema.Struct({ line: Schema.String }),
  success: Schema.String,
  dependencies: [Notebook, Library]
})
const kit = Toolkit.make(Note)
const handlers = kit.toLayer({
  note: ({ line }) =>
    Effect.gen(function* () {
      const { lines } = yield* Notebook
      lines.push(line)
      return `${(yield* Library).name}: ${lines.join(",")}`
    })
})

/** A notebook layer that keeps count of what is open. */
const counted = () => {
  const count = { made: 0, open: 0 }
  const notebook = Layer.effect(
    Notebook,
    Effect.acquireRelease(
      Effect.sync(() => {
        count.made++
        count.open++
        return { lines: [] }
      }),
      () => Effect.sync(() => count.open--)
    )
  )
  return { count, notebook }
}

const library = Layer.succeed(Library, { name: "lib" })

const told = (provider: StrictProvider.StrictProvider) =>
  (provider.requests.at(-1)?.messages ?? []).flatMap(({ content, role }) => (role === "tool" ? [content] : []))

const note = (line: string) => ({ name: "note", arguments: { line } })

export const suite = (it: It): void => {
  describe("Agent", () => {
    it.effect("builds its own layer anew for each Turn and closes it at the Turn's end", () =>
      Effect.gen(function* () {
        const { count, notebook } = counted()
        const { provider, sessions } = yield* World.make({
          respond: script([calls([note("a")]), calls([note("b")]), text("done"), calls([note("c")]), text("done")]),
          agents: [Agent.make("a", { instructions: "i", toolkit: kit, layer: notebook })],
          services: Layer.mergeAll(handlers, library)
        })
        const session = yield* sessions.open()
        yield* session.run("one")
        assert.deepStrictEqual(told(provider), ["lib: a", "lib: a,b"])
        yield* session.run("two")
        assert.strictEqual(told(provider).at(-1), "lib: c")
        yield* World.until(session, (event) => event.type === "session.status" && event.data.status === "idle")
        assert.deepStrictEqual(count, { made: 2, open: 0 })
        assert.isEmpty(yield* Sound.complaints(session, provider))
      })
    )

    it.effect("gives the Turns of two sessions layers of their own", () =>
      Effect.gen(function* () {
        const { count, notebook } = counted()
        const gates = yield* Effect.all([Tools.gate, Tools.gate])
        let asked = 0
        const { sessions } = yield* World.make({
          respond: () => {
            const gate = gates[asked++]
            return gate === undefined ? undefined : text([gate.pass, "ok"])
          },
          agents: [Agent.make("a", { instructions: "i", toolkit: kit, layer: notebook })],
          services: Layer.mergeAll(handlers, library)
        })
        const opened = yield* Effect.all([sessions.open(), sessions.open()])
        for (const session of opened) yield* session.send("go")
        yield* Effect.all(gates.map(({ reached }) => reached))
        assert.deepStrictEqual(count, { made: 2, open: 2 })
        for (const { open } of gates) yield* open
        for (const session of opened) yield* World.ended(session, 1)
      })
    )

    it.effect("closes its layer when the Turn is cancelled or fails, before the Turn is over", () =>
      Effect.gen(function* () {
        const { count, notebook } = counted()
        const gate = yield* Tools.gate
        const { sessions } = yield* World.make({
          respond: script([text([gate.pass]), StrictProvider.failure(401, { message: "no" })]),
          agents: [Agent.make("a", { instructions: "i", toolkit: kit, layer: notebook })],
          services: Layer.mergeAll(handlers, library)
        })
        const session = yield* sessions.open()
        yield* session.send("go")
        yield* gate.reached
        yield* session.cancel("trn_1")
        yield* World.ended(session, 1)
        assert.deepStrictEqual(count, { made: 1, open: 0 })
        yield* Effect.flip(session.run("go"))
        assert.deepStrictEqual(count, { made: 2, open: 0 })
      })
    )

    it.effect("settles its Turn even when closing its layer dies", () =>
      Effect.gen(function* () {
        const gate = yield* Tools.gate
        const brittle = Layer.effect(
          Notebook,
          Effect.acquireRelease(Effect.succeed({ lines: [] }), () => Effect.die("cannot close"))
        )
        const { provider, sessions } = yield* World.make({
          respond: script([text([gate.pass]), text("ok")]),
          agents: [Agent.make("a", { instructions: "i", toolkit: kit, layer: brittle })],
          services: Layer.mergeAll(handlers, library)
        })
        const session = yield* sessions.open()
        yield* session.send("go")
        yield* gate.reached
        yield* session.cancel("trn_1")
        assert.strictEqual((yield* World.ended(session, 1)).type, "turn.cancelled")
        assert.deepStrictEqual(World.brief(yield* session.run("again")), ["Answered", "ok", 1])
        assert.isEmpty(yield* Sound.complaints(session, provider))
      })
    )

    it.effect("fails its Turn when its layer cannot be built, and the next Turn builds it again", () =>
      Effect.gen(function* () {
        let tries = 0
        const moody = Layer.effect(
          Notebook,
          Effect.suspend(() => (++tries === 1 ? Effect.die("not today") : Effect.succeed({ lines: [] })))
        )
        const { provider, sessions } = yield* World.make({
          respond: script([text("ok")]),
          agents: [Agent.make("a", { instructions: "i", toolkit: kit, layer: moody })],
          services: Layer.mergeAll(handlers, library)
        })
        const session = yield* sessions.open()
        const error = yield* Effect.flip(session.run("go"))
        assert.strictEqual(error._tag === "TurnFailed" && error.error.code, "defect")
        assert.deepStrictEqual(World.brief(yield* session.run("again")), ["Answered", "ok", 1])
        assert.isEmpty(yield* Sound.complaints(session, provider))
      })
    )

    it.effect("keeps to the agent its session was opened with", () =>
      Effect.gen(function* () {
        const agents = [
          Agent.make("one", { instructions: "I am one." }),
          Agent.make("two", { instructions: "I am two." })
        ]
        const { agentName, provider, sessions } = yield* World.make({
          respond: () => text("ok"),
          agents,
          services: Layer.empty
        })
        const [first, second] = yield* Effect.all([sessions.open(), sessions.open({ agent: agentName("two") })])
        yield* second.run("go")
        yield* first.run("go")
        assert.deepStrictEqual(
          provider.requests.map(({ messages }) => messages[0]?.content),
          ["I am two.", "I am one."]
        )
      })
    )

    it.effect("asks without tools when it has none", () =>
      Effect.gen(function* () {
        const { provider, sessions } = yield* World.make({
          respond: () => text("ok"),
          agents: [Agent.make("bare", { instructions: "" })],
          services: Layer.empty
        })
        const session = yield* sessions.open()
        yield* session.run("go")
        assert.isUndefined(provider.requests[0]?.body.tools)
        assert.isEmpty(yield* Sound.complaints(session, provider))
      })
    )

    it.effect("records the model's name with its Turns", () =>
      Effect.gen(function* () {
        const { session } = yield* World.withTools({ respond: () => text("ok"), policy: { maxSteps: 4 } })
        yield* session.run("go")
        const [started] = World.dataOf(yield* World.events(session), "turn.started")
        assert.deepStrictEqual([started?.model, started?.limits], ["strict/strict", { maxSteps: 4 }])
      })
    )
  })
}
