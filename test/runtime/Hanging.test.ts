/** What an application makes anew for every Turn, and does not come to an end. */
import { assert, layer } from "@effect/vitest"
import * as MemoryStore from "@turnstep/core/MemoryStore"
import * as Agent from "@turnstep/runtime/Agent"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"
import * as Tools from "../fixtures/Tools.ts"
import * as World from "../fixtures/World.ts"

const { text } = StrictProvider

class Room extends Context.Service<Room, { readonly number: number }>()("test/Room") {}

/** A world whose agent makes a room for every Turn. */
const withRoom = (make: Effect.Effect<unknown>, release: Effect.Effect<unknown>) =>
  World.make({
    respond: () => text("done"),
    agents: [
      Agent.make("a", {
        instructions: "i",
        layer: Layer.effect(
          Room,
          Effect.as(
            Effect.acquireRelease(make, () => Effect.uninterruptible(release)),
            Room.of({ number: 1 })
          )
        )
      })
    ],
    services: Layer.empty
  })

/** Lets seconds pass as long as something runs. */
const pass = <A, E>(running: Fiber.Fiber<A, E>) =>
  Effect.andThen(
    Effect.repeat(Effect.andThen(TestClock.adjust("1 second"), Effect.yieldNow), {
      times: 300,
      until: () => running.pollUnsafe() !== undefined
    }),
    Fiber.join(running)
  )

layer(MemoryStore.layer)("What is made for a Turn", (it) => {
  it.effect("holds up neither the next Turn nor the end of the runtime when it is not released", () =>
    Effect.gen(function* () {
      const world = yield* withRoom(Effect.void, Effect.never)
      const session = yield* world.sessions.open()
      yield* session.run("one")
      const next = yield* Effect.forkChild(session.run("two"))
      assert.strictEqual((yield* pass(next))._tag, "Answered")
      assert.include(world.logged.join(), "still being released")
      yield* pass(yield* Effect.forkChild(world.stop))
    })
  )

  it.effect("is released after each Turn, before the next one begins", () =>
    Effect.gen(function* () {
      const told: Array<string> = []
      const say = (what: string) => Effect.sync(() => void told.push(what))
      const world = yield* withRoom(say("made"), say("released"))
      const session = yield* world.sessions.open()
      yield* session.run("one")
      yield* session.run("two")
      assert.deepStrictEqual(told.slice(0, 3), ["made", "released", "made"])
    })
  )

  it.effect("ends the Turn when it is not ready in time, and the session goes on", () =>
    Effect.gen(function* () {
      let isStuck = true
      const stuck = Effect.suspend(() => (isStuck ? Effect.uninterruptible(Effect.never) : Effect.void))
      const world = yield* withRoom(stuck, Effect.void)
      const session = yield* world.sessions.open()
      const error = yield* pass(yield* Effect.forkChild(Effect.flip(session.run("one"))))
      assert.strictEqual(error._tag === "TurnFailed" && error.error.code, "preparation-timed-out")
      isStuck = false
      assert.strictEqual((yield* session.run("two"))._tag, "Answered")
    })
  )

  it.effect("is not waited for when its Turn is told to stop", () =>
    Effect.gen(function* () {
      const gate = yield* Tools.gate
      let times = 0
      const making = Effect.suspend(() => (++times === 1 ? Effect.void : Effect.uninterruptible(gate.pass)))
      const asked = yield* Tools.gate
      const world = yield* World.make({
        respond: () => text([asked.pass, "never"]),
        agents: [Agent.make("a", { instructions: Effect.as(making, "i") })],
        services: Layer.empty
      })
      const session = yield* world.sessions.open()
      yield* session.send("go")
      yield* asked.reached
      yield* world.stop
      const next = yield* (yield* world.start).sessions.get(session.id)
      yield* gate.reached
      yield* next.cancel("trn_1")
      assert.strictEqual((yield* World.ended(next, 1)).type, "turn.cancelled")
    })
  )
})
