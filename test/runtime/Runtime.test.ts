/** Several agents in one runtime, and several runtimes in one application. */
import { assert, describe, it } from "@effect/vitest"
import * as MemoryStore from "@turnstep/core/MemoryStore"
import * as Agent from "@turnstep/runtime/Agent"
import * as Runtime from "@turnstep/runtime/Runtime"
import { Sessions } from "@turnstep/runtime/Session"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import type * as LanguageModel from "effect/ai/LanguageModel"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { SqlClient } from "effect/sql/SqlClient"
import * as Databases from "../fixtures/Databases.ts"

const { calls, text } = StrictProvider

class Sales extends Context.Service<Sales, Sessions["Service"]>()("test/Sales") {}
class Support extends Context.Service<Support, Sessions["Service"]>()("test/Support") {}

/** A runtime under a name of the application. */
const named = <I, E, R>(key: Context.Key<I, Sessions["Service"]>, runtime: Layer.Layer<Runtime.Services, E, R>) =>
  Layer.effect(key, Sessions).pipe(Layer.provide(runtime))

const sales = Agent.make("sales", { instructions: "Sell." })
const support = Agent.make("support", { instructions: "Help." })

/** A model that answers every request with one text. */
const saying = (words: string) =>
  Layer.unwrap(Effect.map(StrictProvider.make({ respond: () => text(words) }), ({ layer }) => layer))

/** What the application with both runtimes sees: agents, answers and whose sessions are where. */
const seen = Effect.gen(function* () {
  const both = [yield* Sales, yield* Support]
  const told = []
  for (const [index, sessions] of both.entries()) {
    const session = yield* sessions.open({ id: `of-${index}` })
    const outcome = yield* session.run("hello")
    told.push([(yield* session.summary).agent, outcome._tag === "Answered" ? outcome.text : outcome._tag])
  }
  const kept = yield* Effect.forEach(both, (sessions) => sessions.list({ limit: 10 }))
  return { told, kept: kept.map((list) => list.map(({ sessionId }) => String(sessionId))), isOne: both[0] === both[1] }
})

const apart = {
  told: [
    ["sales", "sold"],
    ["support", "helped"]
  ],
  kept: [["of-0"], ["of-1"]],
  isOne: false
}

describe("Two runtimes in one application", () => {
  it.live("are two in memory, each with its agents, its model and its sessions", () =>
    Effect.gen(function* () {
      const both = Layer.mergeAll(
        named(Sales, Layer.provide(Runtime.layerMemory([sales]), saying("sold"))),
        named(Support, Layer.provide(Runtime.layerMemory([support]), saying("helped")))
      )
      assert.deepStrictEqual(yield* Effect.provide(seen, both), apart)
    }).pipe(Effect.scoped)
  )

  for (const [first, second] of [
    ["PostgreSQL", "PostgreSQL"],
    ["PGlite", "PostgreSQL"]
  ] as const) {
    it.live(
      `are two on two databases, ${first} and ${second}`,
      () =>
        Effect.gen(function* () {
          const database = (name: Databases.Database["name"]) =>
            Effect.map(
              Layer.build(Layer.fresh(Databases.make().find((each) => each.name === name)!.layer)),
              Layer.succeedContext
            )
          const databases = [yield* database(first), yield* database(second)] as const
          const both = Layer.mergeAll(
            named(Sales, Layer.provide(Runtime.layerSql([sales]), [saying("sold"), databases[0]])),
            named(Support, Layer.provide(Runtime.layerSql([support]), [saying("helped"), databases[1]]))
          )
          assert.deepStrictEqual(yield* Effect.provide(seen, both), apart)
          const rows = yield* Effect.forEach(databases, (database) =>
            Effect.flatMap(
              SqlClient,
              (sql) => sql<{ readonly id: string }>`select session_id as id from turnstep.sessions order by session_no`
            ).pipe(Effect.provide(database))
          )
          assert.deepStrictEqual(
            rows.map((found) => found.map(({ id }) => id)),
            apart.kept
          )
        }).pipe(Effect.scoped),
      60_000
    )
  }

  it.live("share a store that the application provides to both, one after the other", () =>
    Effect.gen(function* () {
      const store = yield* Layer.build(MemoryStore.layer)
      const runtime = Layer.provide(Runtime.layer([sales]), [saying("sold"), Layer.succeedContext(store)])
      const run = Effect.flatMap(Sessions, (sessions) =>
        Effect.flatMap(sessions.open({ id: "kept" }), (s) => s.run("a"))
      )
      yield* Effect.provide(run, runtime)
      const again = Effect.flatMap(Sessions, (sessions) => Effect.flatMap(sessions.get("kept"), (s) => s.run("b")))
      assert.strictEqual((yield* Effect.provide(again, Layer.fresh(runtime))).turnId, "trn_2")
    }).pipe(Effect.scoped)
  )

  it.live("are one where one layer is used in two places", () =>
    Effect.gen(function* () {
      const runtime = Layer.provide(Runtime.layerMemory([sales]), saying("sold"))
      const both = Layer.mergeAll(named(Sales, runtime), named(Support, runtime))
      const isOne = Effect.gen(function* () {
        return (yield* Sales) === (yield* Support)
      })
      assert.isTrue(yield* Effect.provide(isOne, both))
    }).pipe(Effect.scoped)
  )
})

const tool = <const Name extends string>(name: Name) => Toolkit.make(Tool.make(name, { success: Schema.String }))
const one = tool("one")
const two = tool("two")

describe("Agents with different tools", () => {
  const agents = [
    Agent.make("first", { instructions: "Use one.", toolkit: one }),
    Agent.make("second", { instructions: "Use two.", toolkit: two })
  ] as const

  it("need the handlers of all of them, as the types say", () => {
    type Needs = Runtime.NeedsOf<typeof agents>
    const all: Exact<Needs, LanguageModel.LanguageModel | Tool.Handler<"one"> | Tool.Handler<"two">> = true
    const none: Exact<Runtime.NeedsOf<readonly []>, never> = true
    assert.isTrue(all && none)
  })

  it("need the same when they are made in the runtime's own list", () => {
    class Tariff extends Context.Service<Tariff, number>()("test/Tariff") {}
    const built = Runtime.layerMemory([
      Agent.make("first", { instructions: "Use one.", toolkit: one }),
      Agent.make("second", { instructions: Effect.as(Tariff, "Use none."), layer: Layer.effectDiscard(Tariff) })
    ])
    type Needs = Layer.Services<typeof built>
    const all: Exact<Needs, LanguageModel.LanguageModel | Tool.Handler<"one"> | Tariff> = true
    const failing = { name: "failing", resolve: () => Effect.fail("no config") }
    const refused: Exact<Runtime.NeedsOf<readonly [typeof failing]>, never> = false
    assert.isTrue(all && !refused)
  })

  it.live("run in one runtime, each with its own", () =>
    Effect.gen(function* () {
      const provider = yield* StrictProvider.make({
        respond: ({ index, toolNames }) =>
          index % 2 === 0 ? calls(toolNames.map((name) => ({ name, arguments: {} }))) : text("done")
      })
      const used: Array<string> = []
      const runtime = Runtime.layerMemory(agents).pipe(
        Layer.provide([
          provider.layer,
          one.toLayer({ one: () => Effect.sync(() => (used.push("one"), "1")) }),
          two.toLayer({ two: () => Effect.sync(() => (used.push("two"), "2")) })
        ])
      )
      yield* Effect.gen(function* () {
        const sessions = yield* Sessions
        for (const agent of ["first", "second"]) yield* Effect.flatMap(sessions.open({ agent }), (s) => s.run("go"))
      }).pipe(Effect.provide(runtime))
      assert.deepStrictEqual(used, ["one", "two"])
    }).pipe(Effect.scoped)
  )
})

type Exact<A, B> = [A] extends [B] ? ([B] extends [A] ? true : false) : false
