/** Storage that refuses what a Turn has to record: the model is asked a bounded number of times, and nothing is lost. */
import { assert, layer } from "@effect/vitest"
import * as MemoryStore from "@turnstep/core/MemoryStore"
import { FactTooLarge } from "@turnstep/core/TurnError"
import type { Type } from "@turnstep/core/TurnEvent"
import * as TurnPlan from "@turnstep/core/TurnPlan"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Effect from "effect/Effect"
import { TestClock } from "effect/testing"
import * as Journals from "../fixtures/Journals.ts"
import * as Sound from "../fixtures/Sound.ts"
import * as Tools from "../fixtures/Tools.ts"
import * as World from "../fixtures/World.ts"

const { calls, text } = StrictProvider

/** Says what storage refuses. */
const refusing = (refused: ReadonlySet<string>) =>
  Journals.before(({ facts }) =>
    facts.some(({ type }) => refused.has(type)) ? Effect.die(new Error("no room left on the disk")) : Effect.void
  )

/** Lets so many seconds pass, with time for what happens in each. */
const pass = Effect.fnUntraced(function* (seconds: number) {
  for (let second = 0; second < seconds; second++) {
    yield* TestClock.adjust("1 second")
    // A request to the provider is a real one.
    yield* Effect.promise(() => new Promise((resolve) => setImmediate(() => setImmediate(resolve))))
    yield* Effect.repeat(Effect.yieldNow, { times: 100 })
  }
})

layer(MemoryStore.layer)("A write that is refused for good", (it) => {
  const cases: ReadonlyArray<readonly [what: string, type: Type, requests: number]> = [
    ["the response and its calls", "call.requested", TurnPlan.maxRefusals],
    ["the last answer", "turn.completed", TurnPlan.maxRefusals],
    // Refused before the request has left.
    ["the next step", "step.completed", 1]
  ]
  for (const [what, type, requests] of cases) {
    it.effect(`ends the Turn after a few requests when it is ${what}`, () =>
      Effect.gen(function* () {
        const refused = new Set<string>([type])
        const world = yield* World.withTools({
          respond: ({ messages }) =>
            type !== "turn.completed" && messages.at(-1)?.role === "user"
              ? calls([Tools.call("pay", "a")])
              : text("done"),
          around: refusing(refused)
        })
        yield* world.session.send("go")
        yield* pass(60)
        const end = (yield* World.events(world.session)).find(({ type }) => type === "turn.failed")
        assert.isTrue(end?.type === "turn.failed")
        if (end?.type !== "turn.failed") return
        assert.strictEqual(end.data.error.code, "write-refused")
        assert.include(end.data.error.message, "no room left on the disk")
        assert.lengthOf(world.provider.requests, requests)
        assert.include(world.logged.join(), "no room left on the disk")
        assert.isAtMost(world.tools.started.length, 1)
        refused.clear()
        yield* world.session.send("again")
        yield* pass(10)
        const last = (yield* World.events(world.session)).at(-2)
        assert.strictEqual(last?.type, "turn.completed")
        assert.isEmpty(yield* Sound.complaints(world.session, world.provider, world.tools))
      })
    )
  }

  it.effect("ends the Turn after one request when the same write would be refused again", () =>
    Effect.gen(function* () {
      let isLarge = true
      const large = new FactTooLarge({ type: "call.requested", bytes: 40_000_000, most: 33_554_432 })
      const world = yield* World.withTools({
        respond: ({ messages }) => (messages.at(-1)?.role === "user" ? calls([Tools.call("pay", "a")]) : text("done")),
        around: Journals.before(({ facts }) =>
          isLarge && facts.some(({ type }) => type === "call.requested") ? Effect.die(large) : Effect.void
        )
      })
      yield* world.session.send("go")
      yield* pass(60)
      const [end] = World.dataOf(yield* World.events(world.session), "turn.failed")
      assert.strictEqual(end?.error.code, "write-refused")
      assert.include(end?.error.message, "refused what the turn had to record once: call.requested has 40000000 bytes")
      assert.lengthOf(world.provider.requests, 1)
      assert.isEmpty(world.tools.started)
      isLarge = false
      yield* world.session.send("again")
      yield* pass(10)
      assert.strictEqual((yield* World.events(world.session)).at(-2)?.type, "turn.completed")
      assert.isEmpty(yield* Sound.complaints(world.session, world.provider, world.tools))
    })
  )

  it.effect("asks nobody when it is the beginning of a Turn, and begins when storage takes it", () =>
    Effect.gen(function* () {
      const refused = new Set(["turn.started"])
      const world = yield* World.withTools({ respond: () => text("done"), around: refusing(refused) })
      yield* world.session.send("go")
      yield* pass(120)
      assert.isEmpty(world.provider.requests)
      assert.strictEqual((yield* World.events(world.session)).length, 2)
      refused.clear()
      yield* pass(300)
      assert.strictEqual((yield* World.events(world.session)).at(-2)?.type, "turn.completed")
    })
  )

  it.effect("asks nobody any more when the end of the Turn is refused as well, and ends it when storage takes it", () =>
    Effect.gen(function* () {
      const refused = new Set(["turn.completed", "turn.failed"])
      const world = yield* World.withTools({ respond: () => text("done"), around: refusing(refused) })
      yield* world.session.send("go")
      yield* pass(600)
      assert.lengthOf(world.provider.requests, TurnPlan.maxRefusals)
      refused.clear()
      yield* pass(301)
      assert.strictEqual((yield* World.events(world.session)).at(-2)?.type, "turn.failed")
      assert.lengthOf(world.provider.requests, TurnPlan.maxRefusals)
    })
  )

  it.effect("is remembered over the life of a process", () =>
    Effect.gen(function* () {
      const refused = new Set(["turn.completed"])
      const world = yield* World.withTools({ respond: () => text("done"), around: refusing(refused) })
      yield* world.session.send("go")
      yield* pass(5)
      assert.lengthOf(World.dataOf(yield* World.events(world.session), "write.refused"), 1)
      yield* world.stop
      // What the process knew alone is forgotten: that is one request.
      yield* world.start
      yield* pass(60)
      assert.lengthOf(world.provider.requests, 1 + TurnPlan.maxRefusals)
      assert.include(
        (yield* world.journal.read(world.session.id, { after: 0 })).map(({ type }) => type),
        "turn.failed"
      )
    })
  )
})
