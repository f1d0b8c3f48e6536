/** A Turn that kills its processes, and one that only happens to be in them. */
import { assert, layer } from "@effect/vitest"
import { Claim } from "@turnstep/core/Claim"
import * as MemoryStore from "@turnstep/core/MemoryStore"
import * as TurnPlan from "@turnstep/core/TurnPlan"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stores from "../fixtures/Stores.ts"
import * as Tools from "../fixtures/Tools.ts"
import * as World from "../fixtures/World.ts"

const { calls, text } = StrictProvider

/** A store whose owners all died: whoever claims a session finds it left. */
const graveyard = Layer.effectContext(
  Effect.map(Layer.build(MemoryStore.layer), (store) => {
    const { acquire, release } = Context.get(store, Claim)
    const left: Claim["Service"] = {
      acquire: (id) => Effect.map(acquire(id), (held) => ({ ...held, wasLeft: held.fence > 1 })),
      release
    }
    return Context.add(store, Claim, left)
  })
)

layer(graveyard, Stores.live)("A Turn whose owners die", (it) => {
  it.effect("is given back when as many died over it as may, and none brought it further", () =>
    Effect.gen(function* () {
      const gate = yield* Tools.gate
      const { journal, session, start, stop } = yield* World.withTools({ respond: () => text([gate.pass, "never"]) })
      yield* session.send("go")
      yield* gate.reached
      yield* stop
      for (let owner = 1; owner <= TurnPlan.maxTakeovers; owner++) {
        const { sessions, stop: kill } = yield* start
        const last = (yield* journal.read(session.id, { after: 0 })).length
        yield* World.until(yield* sessions.get(session.id), ({ seq, type }) => type === "worker.claimed" && seq > last)
        yield* kill
      }
      const end = yield* World.ended(yield* (yield* start).sessions.get(session.id), 1)
      assert.strictEqual(end.type === "turn.failed" ? end.data.error.code : end.type, "crash-loop")
      const events = yield* journal.read(session.id, { after: 0 })
      assert.lengthOf(World.dataOf(events, "worker.claimed"), TurnPlan.maxTakeovers)
      assert.lengthOf(World.dataOf(events, "turn.settled"), 1)
    })
  )

  it.effect("is given back when two died over the same call, and says which", () =>
    Effect.gen(function* () {
      const { journal, session, start, stop, tools } = yield* World.withTools({
        respond: () => calls([Tools.call("look", "a")])
      })
      tools.on("a", Effect.never)
      yield* session.send("go")
      yield* World.until(session, ({ type }) => type === "call.started")
      yield* stop
      const { sessions, stop: kill } = yield* start
      const last = (yield* journal.read(session.id, { after: 0 })).length
      yield* World.until(yield* sessions.get(session.id), ({ seq, type }) => type === "call.started" && seq > last)
      yield* kill
      const end = yield* World.ended(yield* (yield* start).sessions.get(session.id), 1)
      assert.include(
        end.type === "turn.failed" ? end.data.error.message : "",
        "2 processes died over the turn, one after the other, before it came further, while they ran look (cal_1_1_0)"
      )
      assert.lengthOf(tools.started, 2)
    })
  )

  it.effect("goes on as long as each brings it further", () =>
    Effect.gen(function* () {
      const owners = TurnPlan.maxTakeovers + 2
      const world = yield* World.withTools({
        respond: ({ index }) => (index < owners ? calls([Tools.call("look", `${index}`)]) : text("done"))
      })
      const gates = yield* Effect.forEach(Array.from({ length: owners }), () => Tools.gate)
      gates.forEach((gate, act) => world.tools.on(`${act}`, Effect.as(gate.pass, "late")))
      yield* world.session.send("go")
      let running: World.Running = world
      for (const [act, gate] of gates.entries()) {
        yield* gate.reached
        yield* running.stop
        world.tools.on(`${act}`, Effect.succeed("again"))
        running = yield* world.start
      }
      const session = yield* running.sessions.get(world.session.id)
      assert.strictEqual((yield* World.ended(session, 1)).type, "turn.completed")
      assert.lengthOf(World.dataOf(yield* World.events(session), "worker.claimed"), owners)
    })
  )
})
