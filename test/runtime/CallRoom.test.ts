import { assert, describe, it } from "@effect/vitest"
import * as Ids from "@turnstep/core/Ids"
import * as CallRoom from "@turnstep/runtime/CallRoom"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"

/** Work that notes its start and waits until it is told. */
const work = (name: string, started: Array<string>) =>
  Effect.map(Deferred.make<void>(), (over) => ({
    run: Effect.andThen(
      Effect.sync(() => started.push(name)),
      Deferred.await(over)
    ),
    end: Deferred.succeed(over, undefined)
  }))

const begin = <A, E>(effect: Effect.Effect<A, E>) => Effect.forkChild(effect, { startImmediately: true })

describe("The room for calls", () => {
  it.effect("has so many places, and gives a free one to whoever waits longest", () =>
    Effect.gen(function* () {
      const room = CallRoom.make(2)
      const started: Array<string> = []
      const works = yield* Effect.forEach(["a", "b", "c", "d"], (name) => work(name, started))
      const fibers = yield* Effect.forEach(works, ({ run }) => begin(room.hold(run)))
      assert.deepStrictEqual(started, ["a", "b"])
      yield* works[1]?.end ?? Effect.void
      yield* Fiber.join(fibers[1] ?? assert.fail())
      assert.deepStrictEqual(started, ["a", "b", "c"])
      for (const { end } of works) yield* end
      yield* Effect.forEach(fibers, Fiber.join)
      assert.deepStrictEqual(started, ["a", "b", "c", "d"])
    })
  )

  it.effect("is left by who is interrupted, running or waiting", () =>
    Effect.gen(function* () {
      const room = CallRoom.make(1)
      const started: Array<string> = []
      const running = yield* begin(room.hold(Effect.never))
      const waiting = yield* begin(room.hold(Effect.never))
      yield* Fiber.interrupt(waiting)
      yield* Fiber.interrupt(running)
      yield* room.hold(Effect.sync(() => started.push("next")))
      assert.deepStrictEqual(started, ["next"])
    })
  )

  it.effect("lets one more in when nothing moves: calls that wait for each other come to their end", () =>
    Effect.gen(function* () {
      const room = CallRoom.make(2)
      // Each tool runs a Turn of another session, whose calls need places as well.
      const depth = (levels: number): Effect.Effect<number> =>
        levels === 0
          ? Effect.succeed(0)
          : room.hold(
              Effect.map(
                Effect.suspend(() => depth(levels - 1)),
                (n) => n + 1
              )
            )
      const all = yield* begin(Effect.all([depth(4), depth(4)], { concurrency: "unbounded" }))
      assert.isUndefined(all.pollUnsafe())
      yield* TestClock.adjust(Duration.times(CallRoom.patience, 8))
      assert.deepStrictEqual(yield* Fiber.join(all), [4, 4])
    })
  )

  it.effect("does not outgrow its places while something moves", () =>
    Effect.gen(function* () {
      const room = CallRoom.make(1)
      let most = 0
      let now = 0
      const slow = Effect.acquireUseRelease(
        Effect.sync(() => void (most = Math.max(most, ++now))),
        () => Effect.sleep("4 seconds"),
        () => Effect.sync(() => void now--)
      )
      const all = yield* begin(Effect.forEach([1, 2, 3, 4, 5], () => room.hold(slow), { concurrency: "unbounded" }))
      yield* TestClock.adjust("1 minute")
      yield* Fiber.join(all)
      assert.strictEqual(most, 1)
    })
  )

  it.effect("remembers what was left behind until it ends, and for ten minutes at the most", () =>
    Effect.gen(function* () {
      const room = CallRoom.make(1)
      const sessionId = Ids.SessionId.make("s")
      const call = {
        callId: Ids.callId(1, 1, 0),
        name: "pay",
        params: {},
        argsDigest: "d",
        effects: "once",
        domain: "server",
        state: "registered"
      } as const
      const over = yield* Deferred.make<void>()
      const fiber = yield* begin(Deferred.await(over))
      yield* room.leave(sessionId, call, "key", fiber)
      const asks = (change: object, key?: string, now = 0) =>
        room.refusalOf(sessionId, { ...call, ...change }, key, now)
      assert.match(asks({}) ?? "", /cal_1_1_0 of pay was stopped/)
      assert.isDefined(asks({ name: "other" }, "key"))
      assert.isUndefined(asks({ argsDigest: "e" }))
      assert.isUndefined(asks({ effects: "pure" }))
      assert.isUndefined(asks({ argsDigest: "e" }, "other key"))
      assert.isUndefined(room.refusalOf(Ids.SessionId.make("t"), call, "key", 0))
      assert.isDefined(asks({}, undefined, Duration.toMillis(CallRoom.longestLeft) - 1))
      assert.isUndefined(asks({}, undefined, Duration.toMillis(CallRoom.longestLeft)))
      yield* Deferred.succeed(over, undefined)
      yield* Fiber.join(fiber)
      assert.isUndefined(asks({}, "key"))
    })
  )
})
