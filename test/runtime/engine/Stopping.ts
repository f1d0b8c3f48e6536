/** What a tool that is stopped, or waits, leaves behind. */
import { assert, describe } from "@effect/vitest"
import * as Ids from "@turnstep/core/Ids"
import * as ToolPolicy from "@turnstep/core/ToolPolicy"
import * as Agent from "@turnstep/runtime/Agent"
import * as ToolCall from "@turnstep/runtime/ToolCall"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as Sound from "../../fixtures/Sound.ts"
import type { It } from "../../fixtures/Stores.ts"
import * as Tools from "../../fixtures/Tools.ts"
import * as World from "../../fixtures/World.ts"

const { calls, script, text } = StrictProvider

const parameters = Schema.Struct({ act: Schema.String })
const tool = <const Name extends string>(name: Name) =>
  Tool.make(name, { parameters, success: Schema.FiniteFromString })
const soon = Duration.millis(20)

const kit = Toolkit.make(
  tool("charge"),
  tool("brief").annotate(ToolPolicy.Timeout, soon),
  tool("queued").annotate(ToolPolicy.Exclusive, "one"),
  tool("held").annotate(ToolPolicy.Exclusive, "two").annotate(ToolPolicy.Timeout, soon),
  Tool.make("reads", { parameters, success: Schema.FiniteFromString })
    .annotate(Tool.Readonly, true)
    .annotate(ToolPolicy.Timeout, soon)
)
type Name = keyof typeof kit.tools

/** A session whose model answers with these replies; every tool does what `does` says. */
const worldOf = Effect.fnUntraced(function* (
  does: (name: Name, act: string) => Effect.Effect<number>,
  ...replies: ReadonlyArray<StrictProvider.Reply>
) {
  const handler =
    (name: Name) =>
    ({ act }: typeof parameters.Type) =>
      does(name, act)
  const world = yield* World.make({
    respond: script([...replies, text("done"), text("more")]),
    agents: [Agent.make("a", { instructions: "i", toolkit: kit })],
    services: kit.toLayer({
      charge: handler("charge"),
      brief: handler("brief"),
      queued: handler("queued"),
      held: handler("held"),
      reads: handler("reads")
    })
  })
  return { ...world, session: yield* Effect.orDie(world.sessions.open()) }
})

const call = (name: Name, act: string) => ({ name, arguments: { act } })

/** A bare promise that has begun, and is done when it is told. */
const promised = (gate: Tools.Gate) =>
  Effect.flatMap(Effect.context<never>(), (context) =>
    Effect.promise(() => Effect.runPromiseWith(context)(Effect.as(gate.pass, 7)))
  )

/** Ways in which a handler does not stop at once, each of which commits. */
const ways: Readonly<Record<string, (gate: Tools.Gate) => Effect.Effect<number>>> = {
  "an uninterruptible region": (gate) => Effect.uninterruptible(ToolCall.commit(Effect.as(gate.pass, 7))),
  "a bare promise": (gate) => ToolCall.commit(promised(gate)),
  "a callback": (gate) =>
    ToolCall.commit(
      Effect.flatMap(Effect.context<never>(), (context) =>
        Effect.callback<number>((resume) => {
          Effect.runForkWith(context)(
            Effect.andThen(
              gate.pass,
              Effect.sync(() => resume(Effect.succeed(7)))
            )
          )
        })
      )
    ),
  "a region that goes on with something else": (gate) =>
    Effect.andThen(ToolCall.commit(Effect.as(gate.pass, 7)), Effect.never)
}

export const suite = (it: It): void => {
  describe("A tool that is stopped", () => {
    for (const [what, pays] of Object.entries(ways)) {
      it.effect(`answers with what it committed when its Turn is cancelled: ${what}`, () =>
        Effect.gen(function* () {
          const gate = yield* Tools.gate
          const { provider, session } = yield* worldOf(() => pays(gate), calls([call("charge", "a")]))
          yield* session.send("go")
          yield* gate.reached
          yield* session.cancel("trn_1")
          yield* World.until(session, ({ type }) => type === "turn.cancelling")
          yield* gate.open
          yield* World.ended(session, 1)
          const events = yield* World.events(session)
          assert.deepStrictEqual(
            World.dataOf(events, "call.completed").map(({ isFailure, output }) => [isFailure, output]),
            [[false, "7"]]
          )
          assert.isEmpty(World.dataOf(events, "call.receipt"))
          assert.isEmpty(yield* Sound.complaints(session, provider))
        })
      )
    }

    it.effect("answers with what it committed when its process stops, and the next owner does not ask again", () =>
      Effect.gen(function* () {
        const gate = yield* Tools.gate
        const world = yield* worldOf(() => ToolCall.commit(Effect.as(gate.pass, 7)), calls([call("charge", "a")]))
        yield* world.session.send("go")
        yield* gate.reached
        const stopping = yield* Effect.forkChild(world.stop, { startImmediately: true })
        yield* gate.open
        yield* Fiber.join(stopping)
        const next = yield* (yield* world.start).sessions.get(world.session.id)
        assert.strictEqual((yield* next.outcome(Ids.turnId(1)))._tag, "Answered")
        const events = yield* World.events(next)
        assert.deepStrictEqual(
          World.dataOf(events, "call.completed").map(({ output }) => output),
          ["7"]
        )
        assert.isEmpty(World.dataOf(events, "call.receipt"))
      })
    )

    it.effect("answers with what it committed in the grace after its time", () =>
      Effect.gen(function* () {
        const { session } = yield* worldOf(
          () => ToolCall.commit(Effect.as(Effect.sleep("150 millis"), 7)),
          calls([call("brief", "a")])
        )
        yield* session.run("go")
        assert.deepStrictEqual(
          World.dataOf(yield* World.events(session), "call.completed").map(({ output }) => output),
          ["7"]
        )
      })
    )

    it.effect("tells later what it committed when it was left behind, and gives its call no second answer", () =>
      Effect.gen(function* () {
        const gate = yield* Tools.gate
        const { session } = yield* worldOf(() => ToolCall.commit(Effect.as(gate.pass, 7)), calls([call("brief", "a")]))
        yield* session.run("go")
        yield* gate.open
        const late = yield* World.until(session, ({ type }) => type === "call.late")
        assert.deepInclude<object>(late.data, { answer: { isFailure: false, output: "7" } })
        assert.isEmpty(World.dataOf(yield* World.events(session), "call.completed"))
      })
    )

    it.effect("is not run a second time while it may still run: the model is told so until it has ended", () =>
      Effect.gen(function* () {
        const gate = yield* Tools.gate
        const ran: Array<string> = []
        const { provider, session } = yield* worldOf(
          (name, act) =>
            Effect.suspend(() => {
              ran.push(`${name} ${act}`)
              return ran.length <= 2 ? Effect.uninterruptible(Effect.as(gate.pass, 7)) : Effect.succeed(8)
            }),
          calls([call("brief", "a"), call("held", "a")]),
          // The same call, another one of the tool, and another one of the key.
          calls([call("brief", "a"), call("brief", "b"), call("held", "b")]),
          text("wait"),
          calls([call("brief", "a"), call("held", "b")])
        )
        yield* session.run("go")
        assert.deepStrictEqual(ran, ["brief a", "held a", "brief b"])
        const told = (provider.requests[2]?.messages ?? []).slice(-3).map(({ content }) => String(content))
        assert.match(told[0] ?? "", /not executed: the call cal_1_1_0 of brief was stopped, did not end/)
        assert.strictEqual(told[1], "8")
        assert.match(told[2] ?? "", /not executed: the call cal_1_1_1 of held was stopped, did not end/)
        yield* gate.open
        for (const index of [0, 1]) {
          const callId = Ids.callId(1, 1, index)
          yield* World.until(
            session,
            ({ data, type }) => type === "call.late" && "callId" in data && data.callId === callId
          )
        }
        yield* session.run("again")
        assert.deepStrictEqual(ran.slice(3).toSorted(), ["brief a", "held b"])
      })
    )

    it.effect("that only reads may be asked again at once", () =>
      Effect.gen(function* () {
        let ran = 0
        const { session } = yield* worldOf(
          () => Effect.suspend(() => (++ran === 1 ? Effect.uninterruptible(Effect.never) : Effect.succeed(8))),
          calls([call("reads", "a")]),
          calls([call("reads", "a")])
        )
        yield* session.run("go")
        assert.strictEqual(ran, 2)
      })
    )
  })

  describe("A call that waits for its key", () => {
    it.effect("was not started when the Turn is cancelled before its turn came", () =>
      Effect.gen(function* () {
        const gate = yield* Tools.gate
        const ran: Array<string> = []
        const { provider, session } = yield* worldOf(
          (_, act) =>
            Effect.andThen(
              Effect.sync(() => ran.push(act)),
              Effect.as(gate.pass, 7)
            ),
          calls([call("queued", "a"), call("queued", "b"), call("queued", "c")])
        )
        yield* session.send("go")
        yield* gate.reached
        yield* session.cancel("trn_1")
        yield* World.ended(session, 1)
        assert.deepStrictEqual(ran, ["a"])
        assert.deepStrictEqual(
          World.dataOf(yield* World.events(session), "call.receipt").map(({ outcome }) => outcome),
          ["outcome-unknown", "not-started", "not-started"]
        )
        assert.isEmpty(yield* Sound.complaints(session, provider))
      })
    )

    it.effect("is started in the write of the result before it, and by the next owner when the first was stopped", () =>
      Effect.gen(function* () {
        const gate = yield* Tools.gate
        const ran: Array<string> = []
        const world = yield* worldOf(
          (_, act) =>
            Effect.suspend(() => {
              ran.push(act)
              return act === "b" ? Effect.as(gate.pass, 7) : Effect.succeed(7)
            }),
          calls([call("queued", "a"), call("queued", "b"), call("queued", "c")])
        )
        yield* world.session.send("go")
        yield* gate.reached
        const before = yield* World.events(world.session)
        assert.deepStrictEqual(
          before.slice(-2).map(({ type }) => type),
          ["call.completed", "call.started"]
        )
        yield* world.stop
        const next = yield* (yield* world.start).sessions.get(world.session.id)
        assert.strictEqual((yield* next.outcome(Ids.turnId(1)))._tag, "Answered")
        assert.deepStrictEqual(ran, ["a", "b", "c"])
        const events = yield* World.events(next)
        assert.deepStrictEqual(
          World.dataOf(events, "call.receipt").map(({ callId, outcome }) => [callId, outcome]),
          [[Ids.callId(1, 1, 1), "outcome-unknown"]]
        )
        assert.lengthOf(World.dataOf(events, "call.started"), 3)
      })
    )

    it.effect("is not started behind a call that was left behind", () =>
      Effect.gen(function* () {
        const isOver = yield* Deferred.make<number>()
        const ran: Array<string> = []
        const { provider, session } = yield* worldOf(
          (_, act) =>
            Effect.andThen(
              Effect.sync(() => ran.push(act)),
              Effect.uninterruptible(Deferred.await(isOver))
            ),
          calls([call("held", "a"), call("held", "b")])
        )
        yield* session.run("go")
        assert.deepStrictEqual(ran, ["a"])
        assert.match(
          String(provider.requests[1]?.messages.at(-1)?.content),
          /not executed: the call cal_1_1_0 of held was stopped/
        )
        yield* Deferred.succeed(isOver, 7)
      })
    )
  })
}
