import { assert, describe, it } from "@effect/vitest"
import * as Admission from "@turnstep/core/Admission"
import * as Ids from "@turnstep/core/Ids"
import { Journal } from "@turnstep/core/Journal"
import * as MemoryStore from "@turnstep/core/MemoryStore"
import { EventHub } from "@turnstep/runtime/EventHub"
import * as Hub from "@turnstep/runtime/EventHub"
import * as PageReads from "@turnstep/runtime/PageReads"
import * as Watch from "@turnstep/runtime/Watch"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import * as Log from "../fixtures/Log.ts"

const sessionId = Schema.decodeSync(Ids.SessionId)("s")

describe("EventHub", () => {
  // Time stands still: only the change of owners can tell.
  it.effect("tells who watches to look once more when the session is driven here", () =>
    Effect.gen(function* () {
      const journal = yield* Journal
      const hub = yield* EventHub
      yield* journal.create(sessionId, { agent: "a" })
      const watched = yield* Watch.stream(PageReads.make(journal), hub, sessionId, 0).pipe(
        Stream.take(2),
        Stream.runCollect,
        Effect.forkChild
      )
      yield* TestClock.adjust("1 second")
      yield* journal.admit(sessionId, {}, Admission.send(Log.request("written by its former owner")))
      yield* hub.drive(sessionId)
      const seen = yield* Fiber.join(watched)
      assert.deepStrictEqual(
        seen.map((each) => (each._tag === "Event" ? each.event.type : each._tag)),
        ["session.created", "inbox.admitted"]
      )
    }).pipe(Effect.provide(Layer.provideMerge(Hub.layer, MemoryStore.layer)))
  )
})
