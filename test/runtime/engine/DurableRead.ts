/** Reads whose texts are kept beside the history: the model has them, the record has their proof. */
import { assert, describe } from "@effect/vitest"
import * as Ids from "@turnstep/core/Ids"
import * as SpillStore from "@turnstep/core/SpillStore"
import * as ToolPolicy from "@turnstep/core/ToolPolicy"
import * as Agent from "@turnstep/runtime/Agent"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as ToolStream from "@turnstep/runtime/ToolStream"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { createHash } from "node:crypto"
import * as Sound from "../../fixtures/Sound.ts"
import type { It } from "../../fixtures/Stores.ts"
import * as Tools from "../../fixtures/Tools.ts"
import * as World from "../../fixtures/World.ts"

const { calls, script, text } = StrictProvider

const Read = Tool.make("read_local", {
  parameters: Schema.Struct({ path: Schema.String }),
  success: Schema.String,
  failure: Schema.String,
  failureMode: "return"
})
  .annotate(Tool.Readonly, true)
  .annotate(ToolPolicy.DurableRead, (params) => String(Object(params).path))
const ReadStream = Tool.make("read_stream", { parameters: Schema.Struct({}), success: ToolStream.schema })
  .annotate(Tool.Readonly, true)
  .annotate(ToolPolicy.DurableRead, () => "large.txt")
const kit = Toolkit.make(Read, ReadStream)

const secret = "the café's door code is 4711\n"
/** More than the spill threshold, with words that are told at its ends alone. */
const largeText = `${secret}${"a line in between\n".repeat(100_000)}${secret}`
const digest = createHash("sha256").update(secret).digest("hex")
const proof = { status: "received", path: "notes.txt", digest, bytes: Buffer.byteLength(secret), lines: 1 }
const read = (path = "notes.txt") => calls([{ name: "read_local", arguments: { path } }])

const worldOf = (respond: StrictProvider.Respond, spills: Layer.Layer<never> = SpillStore.layerMemory()) =>
  World.make({
    respond,
    agents: [Agent.make("reader", { instructions: "", toolkit: kit })],
    services: Layer.merge(
      kit.toLayer({
        read_local: ({ path }) =>
          path === "none"
            ? Effect.fail("there is no such file")
            : Effect.succeed(path === "large.txt" ? `${largeText}and twice\n` : secret),
        read_stream: () => Effect.succeed(ToolStream.make(Stream.make(largeText)))
      }),
      spills
    )
  })

/** What the model reads of its calls in a request. */
const results = (request: StrictProvider.Request | undefined): ReadonlyArray<string> =>
  (request?.messages ?? []).flatMap(({ content, role }) => (role === "tool" ? [String(content)] : []))

const gone = (id: Ids.SpillId) => Stream.fail(SpillStore.notFound(id))

export const suite = (it: It): void => {
  describe("A durable local read", () => {
    it.effect(
      "is the model's to read in the Turn that made it; the record has its proof, and so has the next Turn",
      () =>
        Effect.gen(function* () {
          const world = yield* worldOf(script([read(), read("again.txt"), text("done"), text("later")]))
          const session = yield* Effect.orDie(world.sessions.open())
          yield* session.run("read it")
          yield* session.run("and now?")
          const [, second, third, fourth] = world.provider.requests
          assert.deepStrictEqual(results(second), [secret])
          assert.deepStrictEqual(results(third), [secret, secret])
          const [first = "", other = ""] = results(fourth)
          assert.deepStrictEqual(JSON.parse(first), proof)
          assert.deepStrictEqual(JSON.parse(other), { ...proof, path: "again.txt" })
          const events = yield* World.events(session)
          assert.notInclude(JSON.stringify(events), "door code")
          assert.deepStrictEqual(World.dataOf(events, "call.completed")[0]?.output, proof)
          assert.lengthOf(World.dataOf(events, "spill.created"), 2)
          assert.isEmpty(yield* Sound.complaints(session, world.provider))
        })
    )

    it.effect("of a text too large to show is a proof as well, and the model sees its ends in that Turn alone", () =>
      Effect.gen(function* () {
        const both = calls([
          { name: "read_local", arguments: { path: "large.txt" } },
          { name: "read_stream", arguments: {} }
        ])
        const world = yield* worldOf(script([both, text("done"), text("later")]))
        const session = yield* Effect.orDie(world.sessions.open())
        yield* session.run("read them")
        yield* session.run("and now?")
        const [, second, third] = world.provider.requests
        for (const shown of results(second)) {
          assert.match(
            shown,
            /^\[This output is too large to show: 1800\d\d\d bytes in 10000[23] lines\. All of it is kept as spill /
          )
          assert.strictEqual(shown.split(secret).length, 3)
          assert.isBelow(shown.length, 9_000)
        }
        assert.deepStrictEqual(
          results(third).map((result) => Object.keys(JSON.parse(result))),
          [Object.keys(proof), Object.keys(proof)]
        )
        const events = yield* World.events(session)
        assert.notInclude(JSON.stringify(events), "door code")
        assert.lengthOf(World.dataOf(events, "spill.created"), 2)
        assert.isEmpty(yield* Sound.complaints(session, world.provider))
      })
    )

    it.effect("is handed to the model by the next owner as well", () =>
      Effect.gen(function* () {
        const gate = yield* Tools.gate
        let asked = 0
        // One store for both owners, as files are.
        const files = Layer.succeedContext(yield* Layer.build(SpillStore.layerMemory()))
        const world = yield* worldOf(() => {
          asked++
          return asked === 1 ? read() : asked === 2 ? text([gate.pass, "never"]) : text("done")
        }, files)
        const session = yield* Effect.orDie(world.sessions.open())
        yield* session.send("read it")
        yield* gate.reached
        yield* world.stop
        const next = yield* (yield* world.start).sessions.get(session.id)
        assert.strictEqual((yield* next.outcome(Ids.turnId(1)))._tag, "Answered")
        assert.deepStrictEqual(results(world.provider.requests[2]), [secret])
      })
    )

    it.effect("that fails is a result like any other, and one that cannot be kept says so", () =>
      Effect.gen(function* () {
        const world = yield* worldOf(script([read("none"), text("done")]))
        const session = yield* Effect.orDie(world.sessions.open())
        yield* session.run("read it")
        assert.deepStrictEqual(results(world.provider.requests[1]), ["there is no such file"])
        const full = yield* worldOf(script([read(), text("done")]), SpillStore.layerMemory({ quota: 5 }))
        const other = yield* Effect.orDie(full.sessions.open())
        assert.strictEqual((yield* other.run("read it"))._tag, "Answered")
        assert.match(results(full.provider.requests[1])[0] ?? "", /What was read could not be kept/)
        assert.notInclude(JSON.stringify(full.provider.requests[1]?.messages), "door code")
      })
    )

    it.effect("is a result like any other where there is no store for it", () =>
      Effect.gen(function* () {
        const world = yield* worldOf(script([read(), text("done")]), Layer.empty)
        const session = yield* Effect.orDie(world.sessions.open())
        yield* session.run("read it")
        assert.deepStrictEqual(results(world.provider.requests[1]), [secret])
        assert.strictEqual(World.dataOf(yield* World.events(session), "call.completed")[0]?.output, secret)
      })
    )

    it.effect("stays a proof when its text is gone", () =>
      Effect.gen(function* () {
        const forgetful = Layer.effect(
          SpillStore.SpillStore,
          Effect.map(SpillStore.SpillStore, (store) =>
            store === undefined ? undefined : { ...store, read: (_: unknown, id: Ids.SpillId) => gone(id) }
          )
        ).pipe(Layer.provide(SpillStore.layerMemory()))
        const world = yield* worldOf(script([read(), text("done")]), forgetful)
        const session = yield* Effect.orDie(world.sessions.open())
        assert.strictEqual((yield* session.run("read it"))._tag, "Answered")
        assert.deepStrictEqual(JSON.parse(results(world.provider.requests[1])[0] ?? ""), proof)
      })
    )
  })
}
