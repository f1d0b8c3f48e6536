import { assert, describe, it } from "@effect/vitest"
import * as Handoff from "@turnstep/runtime/model/Handoff"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"

type Put = Handoff.Sink<number, string>["put"]

/** A stream whose sink the test holds, and how often it was stopped. */
const held = Effect.gen(function* () {
  const started = yield* Deferred.make<Put>()
  const counts = { stopped: 0 }
  const stream = Handoff.stream<number, string>((sink) =>
    Effect.as(Deferred.succeed(started, sink.put), () => {
      counts.stopped++
    })
  )
  return { stream, counts, put: Deferred.await(started) }
})

describe("Handoff", () => {
  it.effect("gives items in order, several at once, and ends after the last", () =>
    Effect.gen(function* () {
      const { counts, put, stream } = yield* held
      const batches: Array<ReadonlyArray<number>> = []
      const fiber = yield* stream.pipe(
        Stream.runForEachArray((items) => Effect.sync(() => batches.push([...items]))),
        Effect.forkChild
      )
      const add = yield* put
      yield* Effect.yieldNow
      add([1, 2])
      add([3])
      add([4, 5], { error: undefined })
      add([6])
      yield* Fiber.join(fiber)
      assert.deepStrictEqual(batches.flat(), [1, 2, 3, 4, 5])
      assert.deepStrictEqual(batches[0], [1, 2])
      assert.strictEqual(counts.stopped, 1)
    })
  )

  it.effect("keeps what was put before the reader waits, fails after it, and hears nothing more", () =>
    Effect.gen(function* () {
      const stream = Handoff.stream<number, string>((sink) =>
        Effect.sync(() => {
          sink.put([1])
          sink.put([2], { error: "broken" })
          sink.put([3], { error: undefined })
          return () => undefined
        })
      )
      const seen: Array<number> = []
      const error = yield* stream.pipe(
        Stream.runForEach((item) => Effect.sync(() => seen.push(item))),
        Effect.flip
      )
      assert.deepStrictEqual(seen, [1, 2])
      assert.strictEqual(error, "broken")
    })
  )

  it.effect("stops the producer when the reader is interrupted or has enough", () =>
    Effect.gen(function* () {
      const first = yield* held
      const fiber = yield* Effect.forkChild(Stream.runDrain(first.stream))
      yield* first.put
      yield* Fiber.interrupt(fiber)
      assert.strictEqual(first.counts.stopped, 1)

      const second = yield* held
      const taking = yield* Effect.forkChild(Stream.runCollect(Stream.take(second.stream, 1)))
      const add = yield* second.put
      add([7, 8])
      assert.deepStrictEqual(yield* Fiber.join(taking), [7])
      assert.strictEqual(second.counts.stopped, 1)
    })
  )

  it.effect("takes nothing from a producer that ends without items", () =>
    Effect.gen(function* () {
      const { put, stream } = yield* held
      const fiber = yield* Effect.forkChild(Stream.runCollect(stream))
      const add = yield* put
      add([], { error: undefined })
      assert.deepStrictEqual(yield* Fiber.join(fiber), [])
      assert.isTrue(Exit.isSuccess(yield* Fiber.await(fiber)))
    })
  )
})
