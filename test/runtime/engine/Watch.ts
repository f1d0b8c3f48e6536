import { assert, describe } from "@effect/vitest"
import type { TurnEvent } from "@turnstep/core/TurnEvent"
import * as Agent from "@turnstep/runtime/Agent"
import type { Seen } from "@turnstep/runtime/Session"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as Sound from "../../fixtures/Sound.ts"
import type { It } from "../../fixtures/Stores.ts"
import * as Tools from "../../fixtures/Tools.ts"
import * as World from "../../fixtures/World.ts"

const { calls, script, text } = StrictProvider

const eventsIn = (seen: ReadonlyArray<Seen>): ReadonlyArray<TurnEvent> =>
  seen.flatMap((each) => (each._tag === "Event" ? [each.event] : []))

export const suite = (it: It): void => {
  describe("Watch", () => {
    it.effect("sees every event once and in order, whoever writes and whenever the watching began", () =>
      Effect.gen(function* () {
        const gates = yield* Effect.all([Tools.gate, Tools.gate])
        const { provider, session, tools } = yield* World.withTools({
          respond: ({ index }) =>
            index === 0 ? calls([Tools.call("look", "0"), Tools.call("pay", "1")]) : text(["some", " words"])
        })
        gates.forEach((gate, act) => tools.on(`${act}`, Effect.as(gate.pass, "late")))
        const first = yield* World.watch(session, 0, 21)
        yield* session.send("go")
        yield* Effect.all(gates.map(({ reached }) => reached))
        const middle = yield* Effect.forEach([0, 3, 5, 9], (after) => World.watch(session, after, 21))
        const writers = Array.from({ length: 20 }, (_, n) => session.followUp(`${n}`))
        yield* Effect.all([...writers, ...gates.map(({ open }) => open)], { concurrency: "unbounded", discard: true })
        const late = yield* World.watch(session, 20, 21)
        const logs = yield* Effect.forEach([first, ...middle, late], Fiber.join)
        const all = yield* World.events(session)
        for (const [index, after] of [0, 0, 3, 5, 9, 20].entries()) {
          const seen = eventsIn(logs[index] ?? [])
          assert.deepStrictEqual(seen, all.slice(after, after + seen.length))
          assert.strictEqual(seen.at(-1)?.type, "turn.completed")
        }
        assert.isEmpty(yield* Sound.complaints(session, provider, tools))
      })
    )

    it.effect("reads what it missed when it hears of a later event first", () =>
      Effect.gen(function* () {
        const holding = yield* Tools.gate
        let isHeld = true
        const { session } = yield* World.withTools({
          respond: () => text("ok"),
          around: (journal) => ({
            ...journal,
            // The second message is in the log before the sender's process tells anybody.
            admit: (id, lookup, decide) =>
              Effect.tap(journal.admit(id, lookup, decide), ({ events }) => {
                const isSecond = events.some(
                  (event) => event.type === "inbox.admitted" && event.data.itemId === "inb_2"
                )
                if (!isSecond || !isHeld) return Effect.void
                isHeld = false
                return holding.pass
              })
          })
        })
        const seen = yield* World.watch(session, 0, 3)
        yield* session.run("one")
        const held = yield* Effect.forkChild(session.send("two"), { startImmediately: true })
        yield* holding.reached
        yield* session.followUp("three")
        yield* World.until(session, (event) => event.type === "inbox.admitted" && event.data.itemId === "inb_3")
        yield* holding.open
        yield* Fiber.join(held)
        const events = eventsIn(yield* Fiber.join(seen))
        assert.deepStrictEqual(
          events.map(({ seq }) => seq),
          events.map((_, index) => index + 1)
        )
      })
    )

    it.effect("drops a reader that falls too far behind, who can go on where it was; a run does not mind", () =>
      Effect.gen(function* () {
        const flood = Array.from({ length: 9000 }, () => "more ")
        const { provider, sessions } = yield* World.make({
          respond: script([text("hello"), text(flood)]),
          agents: [Agent.make("a", { instructions: "i" })],
          services: Layer.empty
        })
        const session = yield* sessions.open()
        // Driven from now on: nobody tells the reader to look into the journal.
        yield* session.run("hello")
        const isReading = yield* Latch.make(false)
        const seen: Array<Seen> = []
        const slow = yield* session.watch(0).pipe(
          Stream.runForEach((each) =>
            Effect.andThen(
              isReading.await,
              Effect.sync(() => seen.push(each))
            )
          ),
          Effect.forkChild({ startImmediately: true })
        )
        assert.deepStrictEqual(World.brief(yield* session.run("go")), ["Answered", flood.join(""), 1])
        yield* isReading.open
        yield* Fiber.join(slow)
        const last = eventsIn(seen).at(-1)?.seq ?? 0
        const rest = yield* Effect.flatMap(World.watch(session, last, 2), Fiber.join)
        assert.deepStrictEqual(
          [...eventsIn(seen), ...eventsIn(rest)].map(({ seq }) => seq),
          (yield* World.events(session)).slice(0, -1).map(({ seq }) => seq)
        )
        assert.isEmpty(yield* Sound.complaints(session, provider))
      })
    )

    it.effect("reads a log longer than a page", () =>
      Effect.gen(function* () {
        const { session } = yield* World.withTools({ respond: () => text("ok") })
        for (let n = 1; n <= 60; n++) yield* session.send(`${n}`, { delivery: "follow-up" })
        yield* World.ended(session, 60)
        const seen = eventsIn(yield* Effect.flatMap(World.watch(session, 0, 60), Fiber.join))
        assert.isAbove(seen.length, 500)
        assert.deepStrictEqual(seen, (yield* World.events(session)).slice(0, seen.length))
      })
    )

    it.effect("ends when the runtime closes", () =>
      Effect.gen(function* () {
        const { session, stop } = yield* World.withTools({ respond: script([]) })
        const watching = yield* Effect.forkChild(Stream.runDrain(session.watch(0)), { startImmediately: true })
        yield* stop
        yield* Fiber.join(watching)
        assert.strictEqual((yield* Effect.flip(Stream.runDrain(session.watch(0))))._tag, "RuntimeClosed")
      })
    )
  })
}
