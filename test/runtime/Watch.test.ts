/** Watching what another process writes, on a journal that says how it is read. */
import { assert, describe, it } from "@effect/vitest"
import * as Admission from "@turnstep/core/Admission"
import * as Ids from "@turnstep/core/Ids"
import { Journal, type Page } from "@turnstep/core/Journal"
import * as MemoryStore from "@turnstep/core/MemoryStore"
import type { TurnEvent } from "@turnstep/core/TurnEvent"
import { EventHub, layer } from "@turnstep/runtime/EventHub"
import * as PageReads from "@turnstep/runtime/PageReads"
import * as Watch from "@turnstep/runtime/Watch"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/testing/TestClock"
import * as Log from "../fixtures/Log.ts"

const id = Ids.SessionId.make("s")

const status = (seq: number): TurnEvent => ({ type: "session.status", data: { status: "running" }, seq, at: 0 })

describe("Watch", () => {
  it.live("reads page by page what has gathered while nobody looked", () =>
    Effect.gen(function* () {
      const pages: Array<Page> = []
      let size = 1
      const read = (_: Ids.SessionId, page: Page) =>
        Effect.sync(() => {
          pages.push(page)
          const count = Math.max(0, Math.min(size - page.after, page.limit ?? Infinity))
          return Array.from({ length: count }, (_, index) => status(page.after + 1 + index))
        })
      const heads = () => Effect.sync(() => new Map([[id, size]]))
      const journal = { ...(yield* Journal), read, heads }
      const hub = Context.get(yield* Layer.build(Layer.provide(layer, Layer.succeed(Journal, journal))), EventHub)
      const gathered = 200_000
      let next = 1
      const watching = yield* Watch.stream(PageReads.make(journal), hub, id, 0).pipe(
        Stream.tap((seen) =>
          Effect.sync(() => {
            assert.strictEqual(seen._tag === "Event" ? seen.event.seq : undefined, next++)
            size = gathered
          })
        ),
        Stream.take(gathered),
        Stream.runDrain,
        Effect.forkChild({ startImmediately: true })
      )
      yield* Fiber.join(watching)
      assert.strictEqual(next, gathered + 1)
      for (const { limit } of pages) assert.isAtMost(limit ?? Infinity, 500)
    }).pipe(Effect.provide(MemoryStore.layer))
  )

  it.live("reads no more of large events at once than it must, and loses none", () =>
    Effect.gen(function* () {
      const journal = yield* Journal
      const hub = yield* EventHub
      const texts = Array.from({ length: 40 }, (_, index) => `${index} ${"x".repeat(200 * 1024)}`)
      yield* journal.create(id, { agent: "a" })
      for (const text of texts) yield* journal.admit(id, {}, Admission.send(Log.request(text)))
      const read: Array<number> = []
      const watched = {
        ...journal,
        read: (session: Ids.SessionId, page: Page) =>
          Effect.tap(journal.read(session, page), (events) =>
            Effect.sync(() => read.push(JSON.stringify(events).length))
          )
      }
      const seen = yield* Watch.stream(PageReads.make(watched), hub, id, 0).pipe(Stream.take(41), Stream.runCollect)
      assert.deepStrictEqual(
        seen.map((each) => (each._tag === "Event" ? each.event.seq : 0)),
        texts.map((_, index) => index + 1).concat(41)
      )
      assert.isBelow(Math.max(...read), (256 + 201) * 1024 + 1000)
    }).pipe(Effect.provide(Layer.provideMerge(layer, MemoryStore.layer)))
  )

  it.live("drops who is behind by more than a mebibyte, and tells of large events without keeping them", () =>
    Effect.gen(function* () {
      const hub = yield* EventHub
      const { heard } = yield* hub.listen(id)
      const text = (length: number): TurnEvent => ({
        type: "session.status",
        data: { status: "x".repeat(length) as "idle" },
        seq: 2,
        at: 0
      })
      for (let count = 0; count < 100; count++) hub.publish(id, [text(100 * 1024)])
      const all = yield* heard
      assert.deepStrictEqual([all.length, all[0]], [100, { look: true }])
      for (let count = 0; count < 15; count++) hub.publish(id, [text(60 * 1024)])
      assert.strictEqual((yield* heard).length, 15)
      for (let count = 0; count < 20; count++) hub.publish(id, [text(60 * 1024)])
      assert.strictEqual((yield* heard).length, 17)
      assert.strictEqual((yield* Effect.flip(heard))._tag, "Done")
    }).pipe(Effect.scoped, Effect.provide(Layer.provideMerge(layer, MemoryStore.layer)))
  )

  it.effect("asks once a second for all who watch, and reads only what has news", () =>
    Effect.gen(function* () {
      const store = yield* Journal
      let asked = 0
      let reads = 0
      const journal: Journal["Service"] = {
        ...store,
        heads: (ids) =>
          Effect.andThen(
            Effect.sync(() => asked++),
            store.heads(ids)
          ),
        read: (session, page) =>
          Effect.andThen(
            Effect.sync(() => reads++),
            store.read(session, page)
          )
      }
      const hub = Context.get(yield* Layer.build(Layer.provide(layer, Layer.succeed(Journal, journal))), EventHub)
      yield* journal.create(id, { agent: "a" })
      let seen = 0
      for (let reader = 0; reader < 50; reader++) {
        yield* Watch.stream(PageReads.make(journal), hub, id, 0).pipe(
          Stream.runForEach(() => Effect.sync(() => seen++)),
          Effect.forkScoped({ startImmediately: true })
        )
      }
      yield* TestClock.adjust("2 seconds")
      const settled = { asked, reads }
      yield* TestClock.adjust("60 seconds")
      assert.deepStrictEqual({ asked, reads }, { asked: settled.asked + 60, reads: settled.reads })
      yield* journal.admit(id, {}, Admission.send(Log.request("from elsewhere")))
      yield* TestClock.adjust("1 second")
      assert.strictEqual(seen, 100)
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  )
})
