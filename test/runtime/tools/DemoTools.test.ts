import { assert, layer } from "@effect/vitest"
import * as DemoTools from "@turnstep/runtime/tools/DemoTools"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Tool from "effect/ai/Tool"
import * as TestClock from "effect/testing/TestClock"
import * as Folder from "../../fixtures/Folder.ts"

layer(DemoTools.layer)("DemoTools", (it) => {
  it.effect("declares every tool readonly", () =>
    Effect.sync(() => {
      for (const tool of Object.values(DemoTools.toolkit.tools)) {
        assert.isTrue(Context.get(tool.annotations, Tool.Readonly), tool.name)
      }
    })
  )

  it.effect("tells the clock's time with its zone", () =>
    Effect.gen(function* () {
      const toolkit = yield* DemoTools.toolkit
      yield* TestClock.setTime(Date.UTC(2024, 6, 1, 12))
      const utc = yield* Folder.call(toolkit, "current_time", {})
      assert.deepStrictEqual(utc.encodedResult, { iso: "2024-07-01T12:00:00.000+00:00[UTC]", timeZone: "UTC" })
      const tokyo = yield* Folder.call(toolkit, "current_time", { timeZone: "Asia/Tokyo" })
      assert.deepInclude(tokyo.encodedResult, { iso: "2024-07-01T21:00:00.000+09:00[Asia/Tokyo]" })
      const nowhere = yield* Folder.call(toolkit, "current_time", { timeZone: "Mars/Olympus" })
      assert.isTrue(nowhere.isFailure)
      assert.deepInclude(nowhere.encodedResult, { _tag: "TimeZoneUnknown", timeZone: "Mars/Olympus" })
    })
  )

  it.effect("works slowly, tells its progress and then its result", () =>
    Effect.gen(function* () {
      const toolkit = yield* DemoTools.toolkit
      const fiber = yield* Effect.forkChild(Folder.emitted(toolkit, "slow_task", { seconds: 1.1, label: "bake" }))
      yield* TestClock.adjust("1099 millis")
      assert.isUndefined(fiber.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      const results = yield* Fiber.join(fiber)
      assert.deepStrictEqual(
        results.map(({ preliminary, result }) => (preliminary && "elapsed" in result ? result.elapsed : "result")),
        [0, 0.25, 0.5, 0.75, 1, "result"]
      )
      assert.deepStrictEqual(results.at(-1)?.encodedResult, { label: "bake", seconds: 1.1, elapsed: 1.1, done: true })
    })
  )

  it.effect("takes twenty seconds unless told otherwise", () =>
    Effect.gen(function* () {
      const fiber = yield* Effect.forkChild(Folder.call(yield* DemoTools.toolkit, "slow_task", {}))
      yield* TestClock.adjust("19999 millis")
      assert.isUndefined(fiber.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      assert.deepInclude((yield* Fiber.join(fiber)).encodedResult, { seconds: 20, done: true })
    })
  )

  it.effect("ends a slow task at once when it is interrupted", () =>
    Effect.gen(function* () {
      const fiber = yield* Effect.forkChild(Folder.call(yield* DemoTools.toolkit, "slow_task", { seconds: 600 }))
      yield* TestClock.adjust("3 seconds")
      yield* Fiber.interrupt(fiber) // no further time passes
      assert.isTrue(Exit.hasInterrupts(yield* Fiber.await(fiber)))
    })
  )

  it.effect("counts", () =>
    Effect.gen(function* () {
      const counted = yield* Folder.call(yield* DemoTools.toolkit, "count_step", { n: 7 })
      assert.deepStrictEqual(counted.encodedResult, { n: 7, next: 8 })
    })
  )

  it.effect("tells how far a job has come, in whatever process, and waits half a second for news", () =>
    Effect.gen(function* () {
      const toolkit = yield* DemoTools.toolkit
      yield* TestClock.setTime(1_700_000_000_000)
      const started = yield* Folder.call(toolkit, "start_job", { seconds: 1 })
      const job = { job: "job-1700000000000-1000" }
      assert.deepStrictEqual(started.encodedResult, job)
      const first = yield* Effect.forkChild(Folder.call(toolkit, "job_status", job))
      yield* TestClock.adjust("499 millis")
      assert.isUndefined(first.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      assert.deepStrictEqual((yield* Fiber.join(first)).encodedResult, { ...job, percent: 50, state: "running" })
      yield* TestClock.adjust("1 hour")
      const last = yield* Folder.call(toolkit, "job_status", job)
      assert.deepStrictEqual(last.encodedResult, { ...job, percent: 100, state: "done" })
      const unknown = yield* Folder.call(toolkit, "job_status", { job: "job-x" })
      assert.deepInclude(unknown.encodedResult, { _tag: "JobUnknown", job: "job-x" })
    })
  )

  it.effect("fails at the first attempt and works at the second, every time", () =>
    Effect.gen(function* () {
      const toolkit = yield* DemoTools.toolkit
      for (let round = 0; round < 2; round++) {
        const first = yield* Folder.call(toolkit, "unreliable", { attempt: 1 })
        assert.deepInclude(first, { isFailure: true, failureOrigin: "handler" })
        assert.deepInclude(first.encodedResult, { _tag: "Unreliable", attempt: 1 })
        const second = yield* Folder.call(toolkit, "unreliable", { attempt: 2 })
        assert.isFalse(second.isFailure)
      }
    })
  )
})
