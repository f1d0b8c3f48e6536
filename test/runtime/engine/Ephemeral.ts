import { assert, describe } from "@effect/vitest"
import * as Agent from "@turnstep/runtime/Agent"
import type { Seen, Session } from "@turnstep/runtime/Session"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Journals from "../../fixtures/Journals.ts"
import type { It } from "../../fixtures/Stores.ts"
import * as Tools from "../../fixtures/Tools.ts"
import * as World from "../../fixtures/World.ts"

const { calls, script, text } = StrictProvider

/** Watches until a Turn is over; returns when the watcher has seen the first thing that is meant. */
const watchFrom = Effect.fnUntraced(function* (
  session: Session,
  after: number,
  turn: number,
  isMeant: (seen: Seen) => boolean
) {
  const joined = yield* Deferred.make<void>()
  const fiber = yield* session.watch(after).pipe(
    Stream.tap((seen) => (isMeant(seen) ? Deferred.succeed(joined, undefined) : Effect.void)),
    Stream.takeUntil(World.isEndOf(turn)),
    Stream.runCollect,
    Effect.forkChild({ startImmediately: true })
  )
  yield* Deferred.await(joined)
  return fiber
})

/** A watcher that has what there was before it came. */
const comeLate = (session: Session, after: number, turn: number) =>
  watchFrom(session, after, turn, ({ _tag }) => _tag === "Snapshot")

/** A watcher of a session in which nothing has happened yet, that has read that far. */
const comeFirst = (session: Session) => watchFrom(session, 0, 1, ({ _tag }) => _tag === "Event")

/** The text of a step's answer as a reader puts it together. */
const textIn = (seen: ReadonlyArray<Seen>): string =>
  seen.reduce((shown, each) => {
    if (each._tag === "Snapshot") return each.snapshot.text
    if (each._tag !== "Ephemeral") return shown
    if (each.ephemeral.type === "step.reset") return ""
    return each.ephemeral.type === "delta" ? shown + each.ephemeral.delta : shown
  }, "")

/** What was shown, in brief. */
const brief = (seen: ReadonlyArray<Seen>): ReadonlyArray<string> =>
  seen.map((each) =>
    each._tag === "Event"
      ? each.event.type
      : each._tag === "Snapshot"
        ? `=${each.snapshot.text}`
        : each.ephemeral.type === "delta"
          ? `+${each.ephemeral.delta}`
          : each.ephemeral.type
  )

export const suite = (it: It): void => {
  describe("What is shown", () => {
    it.effect("shows deltas between the start of their step and its answer", () =>
      Effect.gen(function* () {
        const { session } = yield* World.withTools({
          respond: script([
            calls([Tools.call("look", "a")], { text: ["I ", "look"] }),
            { reasoning: ["hm"], text: ["do", "ne"] }
          ])
        })
        const seen = yield* comeFirst(session)
        yield* session.run("go")
        const shown = yield* Fiber.join(seen)
        const types = brief(shown)
        assert.deepStrictEqual(types.slice(types.indexOf("step.started")), [
          "step.started",
          "+I ",
          "+look",
          "message.added",
          "call.requested",
          "call.started",
          "call.completed",
          "step.completed",
          "step.started",
          "+hm",
          "+do",
          "+ne",
          "message.added",
          "step.completed",
          "turn.settled",
          "turn.completed"
        ])
        const places = shown.flatMap((each) =>
          each._tag === "Ephemeral" && each.ephemeral.type === "delta"
            ? [[each.ephemeral.step, each.ephemeral.channel, each.ephemeral.offset]]
            : []
        )
        assert.deepStrictEqual(places, [
          [1, "text", 0],
          [1, "text", 2],
          [2, "reasoning", 0],
          [2, "text", 0],
          [2, "text", 2]
        ])
      })
    )

    it.effect("gives who comes in the middle of an answer what was said so far, once", () =>
      Effect.gen(function* () {
        const gate = yield* Tools.gate
        const { session } = yield* World.withTools({ respond: script([text(["Hel", "lo ", gate.pass, "world"])]) })
        const first = yield* World.watch(session, 0, 1)
        const heard = yield* Deferred.make<void>()
        const listening = yield* session.watch(0).pipe(
          Stream.scan(
            () => "",
            (shown, seen) => textIn([{ _tag: "Snapshot", snapshot: { text: shown } } as Seen, seen])
          ),
          Stream.runForEach((shown) => (shown === "Hello " ? Deferred.succeed(heard, undefined) : Effect.void)),
          Effect.forkChild({ startImmediately: true })
        )
        yield* session.send("go")
        yield* gate.reached
        yield* Deferred.await(heard)
        const late = yield* comeLate(session, 0, 1)
        const later = yield* comeLate(session, 7, 1)
        yield* gate.open
        for (const fiber of [first, late, later]) assert.strictEqual(textIn(yield* Fiber.join(fiber)), "Hello world")
        const types = brief(yield* Fiber.join(late))
        assert.deepStrictEqual(types.slice(types.indexOf("step.started")), [
          "step.started",
          "=Hello ",
          "+world",
          "message.added",
          "step.completed",
          "turn.settled",
          "turn.completed"
        ])
        yield* Fiber.interrupt(listening)
      })
    )

    it.effect("shows the whole second answer to who came in the middle of a first one that broke", () =>
      Effect.gen(function* () {
        const gate = yield* Tools.gate
        const { session } = yield* World.withTools({
          respond: script([text(["a long first ", "try ", gate.pass, "…"], { cut: 4 }), text(["short", " and good"])])
        })
        const heard = yield* Deferred.make<void>()
        const first = yield* session.watch(0).pipe(
          Stream.tap((seen) =>
            seen._tag === "Ephemeral" && seen.ephemeral.type === "delta" && seen.ephemeral.delta === "try "
              ? Deferred.succeed(heard, undefined)
              : Effect.void
          ),
          Stream.takeUntil(World.isEndOf(1)),
          Stream.runCollect,
          Effect.forkChild({ startImmediately: true })
        )
        yield* session.send("go")
        yield* Deferred.await(heard)
        const late = yield* comeLate(session, 0, 1)
        yield* gate.open
        assert.strictEqual(textIn(yield* Fiber.join(first)), "short and good")
        assert.strictEqual(textIn(yield* Fiber.join(late)), "short and good")
        assert.include(brief(yield* Fiber.join(late)), "=a long first try ")
      })
    )

    it.effect("shows nothing of an answer that is over already", () =>
      Effect.gen(function* () {
        const reading = yield* Tools.gate
        const gate = yield* Tools.gate
        const isRead = yield* Deferred.make<void>()
        let isSlow = false
        const { session } = yield* World.withTools({
          respond: script([
            calls([Tools.call("look", "a")], { text: ["first", " step"] }),
            text(["second", gate.pass])
          ]),
          around: (journal) => ({
            ...journal,
            read: (id, page) => {
              if (!isSlow || page.limit === undefined) return journal.read(id, page)
              isSlow = false
              return Effect.andThen(reading.pass, journal.read(id, page)).pipe(
                Effect.tap(Deferred.succeed(isRead, undefined))
              )
            }
          })
        })
        // This reader hears everything of the first step while it still waits for the record.
        isSlow = true
        const seen = yield* World.watch(session, 0, 1)
        yield* reading.reached
        yield* session.send("go")
        yield* gate.reached
        yield* reading.open
        yield* Deferred.await(isRead)
        yield* gate.open
        const types = brief(yield* Fiber.join(seen))
        const second = types.lastIndexOf("step.started")
        assert.notInclude(types.slice(types.indexOf("message.added", types.indexOf("step.started"))), "+first")
        assert.include(types.slice(second), "+second")
      })
    )

    it.effect("shows nothing of a call before the call is recorded", () =>
      Effect.gen(function* () {
        const [record, told] = yield* Effect.all([Tools.gate, Tools.gate])
        const Tell = Tool.make("tell", { success: Schema.String }).annotate(Tool.Readonly, true)
        const kit = Toolkit.make(Tell)
        const { sessions } = yield* World.make({
          respond: script([calls([{ name: "tell" }]), text("done")]),
          agents: [Agent.make("a", { instructions: "i", toolkit: kit })],
          services: kit.toLayer({
            tell: (_, { preliminary }) =>
              Effect.gen(function* () {
                yield* Effect.forkChild(told.pass, { startImmediately: true })
                yield* preliminary("soon")
                return "now"
              })
          }),
          around: Journals.before(Journals.atFirst("call.requested", record.pass))
        })
        const session = yield* sessions.open()
        const seen = yield* World.watch(session, 0, 1)
        yield* session.send("go")
        yield* Effect.all([record.reached, told.reached])
        yield* Effect.yieldNow
        yield* record.open
        const types = brief(yield* Fiber.join(seen))
        assert.isBelow(types.indexOf("call.started"), types.indexOf("call.progress"))
      })
    )
  })
}
