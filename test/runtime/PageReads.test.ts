/** Pages of a log for many watchers at once. */
import { assert, describe, it } from "@effect/vitest"
import * as Admission from "@turnstep/core/Admission"
import * as Ids from "@turnstep/core/Ids"
import { Journal, type Page } from "@turnstep/core/Journal"
import * as MemoryStore from "@turnstep/core/MemoryStore"
import * as PageReads from "@turnstep/runtime/PageReads"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Log from "../fixtures/Log.ts"

const id = Ids.SessionId.make("s")

/** Forty reads that begin together, on a log of a large and a small message, and how storage was asked for them. */
const readTogether = Effect.fnUntraced(function* (after: number) {
  const journal = yield* Journal
  yield* journal.create(id, { agent: "a" })
  for (const text of ["x".repeat(300 * 1024), "small"]) yield* journal.admit(id, {}, Admission.send(Log.request(text)))
  const gate = yield* Deferred.make<void>()
  const asked = { count: 0, underWay: 0, most: 0 }
  const read = (session: Ids.SessionId, page: Page) =>
    Effect.gen(function* () {
      asked.count++
      asked.most = Math.max(asked.most, ++asked.underWay)
      yield* Deferred.await(gate)
      asked.underWay--
      return yield* journal.read(session, page)
    })
  const reads = PageReads.make({ ...journal, read })
  const reading = yield* Effect.forkChild(
    Effect.forEach(Array.from({ length: 40 }), () => reads.read(id, after, 16), { concurrency: "unbounded" }),
    { startImmediately: true }
  )
  yield* Deferred.succeed(gate, undefined)
  return { asked, pages: yield* Fiber.join(reading) }
}, Effect.provide(MemoryStore.layer))

describe("PageReads", () => {
  it.effect("gives a page that has ended to all who wait for it, and reads a few at a time", () =>
    Effect.gen(function* () {
      const { asked, pages } = yield* readTogether(0)
      assert.strictEqual(asked.most, 4)
      assert.strictEqual(asked.count, 4)
      for (const page of pages)
        assert.deepStrictEqual(
          page.map(({ seq }) => seq),
          [1, 2]
        )
    })
  )

  it.effect("reads a page anew for everybody while something may still come into it", () =>
    Effect.gen(function* () {
      const { asked, pages } = yield* readTogether(2)
      assert.strictEqual(asked.most, 4)
      assert.strictEqual(asked.count, 40)
      for (const page of pages)
        assert.deepStrictEqual(
          page.map(({ seq }) => seq),
          [3]
        )
    })
  )
})
