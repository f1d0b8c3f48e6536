/** Watching what another process writes, on a journal that says how it is read. */
import { assert, describe, it } from "@effect/vitest"
import * as Ids from "@turnstep/core/Ids"
import { Journal, type Page } from "@turnstep/core/Journal"
import * as MemoryStore from "@turnstep/core/MemoryStore"
import type { TurnEvent } from "@turnstep/core/TurnEvent"
import { EventHub, layer } from "@turnstep/runtime/EventHub"
import * as Watch from "@turnstep/runtime/Watch"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"

const id = Ids.SessionId.make("s")

const status = (seq: number): TurnEvent => ({ type: "session.status", data: { status: "running" }, seq, at: 0 })

describe("Watch", () => {
  it.live("reads page by page what has gathered while nobody looked", () =>
    Effect.gen(function* () {
      const hub = yield* EventHub
      const pages: Array<Page> = []
      let size = 1
      const read = (_: Ids.SessionId, page: Page) =>
        Effect.sync(() => {
          pages.push(page)
          const count = Math.max(0, Math.min(size - page.after, page.limit ?? Infinity))
          return Array.from({ length: count }, (_, index) => status(page.after + 1 + index))
        })
      const journal = { ...(yield* Journal), read }
      const gathered = 200_000
      let next = 1
      const watching = yield* Watch.stream(journal, hub, id, 0).pipe(
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
    }).pipe(Effect.provide(Layer.merge(MemoryStore.layer, layer)))
  )
})
