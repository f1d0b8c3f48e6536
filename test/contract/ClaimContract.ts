/** What every claim does: one owner at a time, each under a higher fence than the one before. */
import { assert, layer } from "@effect/vitest"
import { Claim } from "@turnstep/core/Claim"
import { Journal } from "@turnstep/core/Journal"
import { FenceLost, SessionNotFound } from "@turnstep/core/TurnError"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Owned from "./Owned.ts"

export const suite = (name: string, store: Layer.Layer<Journal | Claim>): void =>
  layer(store, { excludeTestServices: true, timeout: "60 seconds" })(`Claim: ${name}`, (it) => {
    it.effect("gives every claim of a session a higher fence", () =>
      Effect.gen(function* () {
        const claims = yield* Claim
        const sessionId = yield* Owned.created
        const { fence: first } = yield* claims.acquire(sessionId)
        const { fence: second } = yield* claims.acquire(sessionId)
        yield* claims.release(sessionId, second)
        const { fence: third } = yield* claims.acquire(sessionId)
        assert.isTrue(0 < first && first < second && second < third)
      })
    )

    it.effect("gives one of many that come at once the last word", () =>
      Effect.gen(function* () {
        const claims = yield* Claim
        const journal = yield* Journal
        const sessionId = yield* Owned.created
        const fences = yield* Effect.forEach(
          [1, 2, 3, 4, 5, 6, 7, 8],
          () => Effect.map(claims.acquire(sessionId), (held) => held.fence),
          {
            concurrency: "unbounded"
          }
        )
        assert.strictEqual(new Set(fences).size, 8)
        const facts = [{ type: "session.status", data: { status: "idle" } } as const]
        const writes = yield* Effect.forEach(fences, (fence) =>
          Effect.result(journal.append({ sessionId, fence, expectedSeq: undefined, facts }))
        )
        assert.deepStrictEqual(
          fences.filter((_, index) => writes[index]?._tag === "Success"),
          [Math.max(...fences)]
        )
      })
    )

    it.effect("knows no session of another id", () =>
      Effect.gen(function* () {
        const claims = yield* Claim
        const sessionId = Owned.freshId()
        assert.deepStrictEqual(yield* Effect.flip(claims.acquire(sessionId)), new SessionNotFound({ sessionId }))
        yield* claims.release(sessionId, 1)
      })
    )

    it.effect("lets the owner of an old fence take nothing from the new one", () =>
      Effect.gen(function* () {
        const claims = yield* Claim
        const journal = yield* Journal
        const owned = yield* Owned.started()
        const { fence: newer } = yield* claims.acquire(owned.sessionId)
        yield* claims.release(owned.sessionId, owned.fence)
        assert.notInclude(yield* journal.unattended(["a"], 10_000), owned.sessionId)
        assert.instanceOf(yield* Effect.flip(owned.write([])), FenceLost)
        yield* claims.release(owned.sessionId, newer)
        assert.include(yield* journal.unattended(["a"], 10_000), owned.sessionId)
      })
    )

    it.effect("needs no owner for admissions", () =>
      Effect.gen(function* () {
        const owned = yield* Owned.started()
        const sent = yield* Owned.send(owned.sessionId, "from outside")
        assert.strictEqual(sent.value.effect, "steering")
      })
    )
  })
