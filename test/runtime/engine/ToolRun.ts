import { assert, describe } from "@effect/vitest"
import * as Ids from "@turnstep/core/Ids"
import * as ToolPolicy from "@turnstep/core/ToolPolicy"
import * as Agent from "@turnstep/runtime/Agent"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Sound from "../../fixtures/Sound.ts"
import type { It } from "../../fixtures/Stores.ts"
import * as Tools from "../../fixtures/Tools.ts"
import * as World from "../../fixtures/World.ts"

const { calls, script, text } = StrictProvider

const parameters = Schema.Struct({ n: Schema.Finite })
const plain = <const Name extends string>(name: Name) =>
  Tool.make(name, { parameters, success: Schema.String }).annotate(Tool.Readonly, true)
const hanging = Duration.millis(20)

const owed = Schema.Struct({ owed: Schema.BigIntFromString })

const kit = Toolkit.make(
  plain("ok"),
  plain("defect"),
  plain("within"),
  plain("slow").annotate(ToolPolicy.Timeout, hanging),
  Tool.make("slow_once", { parameters, success: Schema.String }).annotate(ToolPolicy.Timeout, hanging),
  plain("stubborn").annotate(ToolPolicy.Timeout, hanging),
  Tool.make("says_no", {
    parameters,
    success: Schema.String,
    failure: Schema.Struct({ why: Schema.String }),
    failureMode: "return"
  }),
  Tool.make("fails", { parameters, success: Schema.String, failure: Schema.Struct({ why: Schema.String }) }),
  Tool.make("owes", { parameters, success: Schema.String, failure: owed }),
  Tool.make("owes_back", { parameters, success: Schema.String, failure: owed, failureMode: "return" }),
  Tool.make("unfit", { parameters, success: Schema.String, failure: owed }),
  Tool.make("wordless", { parameters, success: Schema.String, failure: owed }),
  Tool.make("void", { parameters }),
  Tool.make("object", { parameters, success: Schema.Struct({ at: Schema.DateTimeUtcFromString, n: Schema.Finite }) }),
  plain("long"),
  plain("exempt").annotate(ToolPolicy.Output, "exempt"),
  plain("tells")
)

const long = "x".repeat(40_000)

const handlers = kit.toLayer({
  ok: ({ n }) => Effect.succeed(`${n}`),
  defect: () => Effect.die(new Error("secret detail")),
  within: () => Effect.interrupt,
  slow: () => Effect.never,
  slow_once: () => Effect.never,
  stubborn: () => Effect.uninterruptible(Effect.never),
  says_no: () => Effect.fail({ why: "not today" }),
  fails: () => Effect.fail({ why: "not ever" }),
  owes: () => Effect.fail({ owed: 12n, card: "hidden" }),
  owes_back: () => Effect.fail({ owed: 12n, card: "hidden" }),
  // What types did not stop.
  unfit: () => Effect.fail({ message: "it is not to be", card: "hidden" } as never),
  wordless: () => Effect.fail({ card: "hidden" } as never),
  void: () => Effect.void,
  object: ({ n }) => Effect.succeed({ at: DateTime.makeUnsafe(0), n }),
  long: () => Effect.succeed(long),
  exempt: () => Effect.succeed(long),
  tells: ({ n }, { preliminary }) => Effect.as(preliminary(`${n} soon`), "now")
})

/** One Turn in which the model makes these calls beside a good one, and what it is told of each. */
const turnOf = Effect.fnUntraced(function* (...made: ReadonlyArray<StrictProvider.Call>) {
  const world = yield* World.make({
    respond: script([calls([...made, { name: "ok", arguments: { n: 7 } }]), text("done")]),
    agents: [Agent.make("a", { instructions: "i", toolkit: kit })],
    services: handlers
  })
  const session = yield* world.sessions.open()
  assert.deepStrictEqual(World.brief(yield* session.run("go")), ["Answered", "done", 2])
  assert.isEmpty(yield* Sound.complaints(session, world.provider))
  const told = (world.provider.requests[1]?.messages ?? []).flatMap(({ content, role }) =>
    role === "tool" ? [content] : []
  )
  assert.strictEqual(told.at(-1), "7")
  return { told, events: yield* World.events(session) }
})

/** Whether each call failed, in the order of the calls. */
const failures = (events: Effect.Success<ReturnType<typeof turnOf>>["events"]) =>
  World.dataOf(events, "call.completed")
    .toSorted((a, b) => Ids.placeOf(a.callId).index - Ids.placeOf(b.callId).index)
    .map(({ isFailure }) => isFailure)

export const suite = (it: It): void => {
  describe("ToolRun", () => {
    it.effect("answers a call to a tool that does not exist", () =>
      Effect.gen(function* () {
        const { events, told } = yield* turnOf({ name: "invented", arguments: { n: 1 } }, { name: "functions.ok" })
        assert.match(String(told[0]), /no tool named "invented"/)
        assert.match(String(told[1]), /no tool named "functions.ok"/)
        assert.lengthOf(World.dataOf(events, "call.started"), 1)
      })
    )

    it.effect("answers arguments that are not JSON, not an object, or do not fit the schema", () =>
      Effect.gen(function* () {
        const { events, told } = yield* turnOf(
          { name: "ok", arguments: '{"n": 1' },
          { name: "ok", arguments: "[1]" },
          { name: "ok", arguments: { n: "one" } },
          { name: "ok", arguments: "" }
        )
        assert.lengthOf(told, 5)
        assert.match(String(told[0]), /not a JSON object/)
        assert.match(String(told[1]), /not a JSON object/)
        assert.match(String(told[2]), /n/)
        assert.deepStrictEqual(failures(events), [true, true, true, true, false])
      })
    )

    it.effect("survives arguments nested deeper than any schema", () =>
      Effect.gen(function* () {
        const deep = `{"n":${"[".repeat(20_000)}${"]".repeat(20_000)}}`
        const { events } = yield* turnOf({ name: "ok", arguments: deep })
        assert.deepStrictEqual(failures(events), [true, false])
      })
    )

    it.effect("tells the model how a tool failed, whether it throws or returns its failure", () =>
      Effect.gen(function* () {
        const { events, told } = yield* turnOf(
          { name: "says_no", arguments: { n: 1 } },
          { name: "fails", arguments: { n: 1 } }
        )
        assert.include(String(told[0]), "not today")
        assert.include(String(told[1]), "not ever")
        assert.deepStrictEqual(failures(events), [true, true, false])
      })
    )

    it.effect("records what the failure's schema makes of it, in either failure mode, and nothing beside it", () =>
      Effect.gen(function* () {
        const { events, told } = yield* turnOf(
          { name: "owes", arguments: { n: 1 } },
          { name: "owes_back", arguments: { n: 1 } },
          { name: "unfit", arguments: { n: 1 } },
          { name: "wordless", arguments: { n: 1 } }
        )
        assert.deepStrictEqual(told.slice(0, 2), ['{"owed":"12"}', '{"owed":"12"}'])
        assert.deepStrictEqual(told.slice(2, 4), ["it is not to be", "wordless failed."])
        const outputs = World.dataOf(events, "call.completed").map(({ output }) => output)
        // Results are recorded as they come.
        assert.lengthOf(
          outputs.filter((output) => JSON.stringify(output) === '{"owed":"12"}'),
          2
        )
        assert.notInclude(JSON.stringify(events), "hidden")
        assert.notInclude(JSON.stringify(told), "hidden")
      })
    )

    it.effect("tells the model that a tool threw, and keeps the details to the log", () =>
      Effect.gen(function* () {
        const { events, told } = yield* turnOf(
          { name: "defect", arguments: { n: 1 } },
          { name: "within", arguments: { n: 1 } }
        )
        assert.match(String(told[0]), /defect failed unexpectedly/)
        assert.match(String(told[1]), /interrupted from within/)
        assert.notInclude(JSON.stringify(events), "secret detail")
      })
    )

    it.effect("stops a tool that takes too long, and claims nothing of one that may have had effects", () =>
      Effect.gen(function* () {
        const { events, told } = yield* turnOf(
          { name: "slow", arguments: { n: 1 } },
          { name: "slow_once", arguments: { n: 1 } }
        )
        assert.include(String(told[0]), "[receipt: timed out] slow")
        assert.include(String(told[1]), "[receipt: outcome unknown] slow_once")
        assert.sameMembers(
          World.dataOf(events, "call.receipt").map(({ outcome }) => outcome),
          ["timed-out", "outcome-unknown"]
        )
      })
    )

    it.effect("leaves behind a tool that does not stop when told", () =>
      Effect.gen(function* () {
        const { told } = yield* turnOf({ name: "stubborn", arguments: { n: 1 } })
        assert.include(String(told[0]), "[receipt: timed out] stubborn")
      })
    )

    it.effect("gives the model an encoded result, and a word for nothing", () =>
      Effect.gen(function* () {
        const { told } = yield* turnOf({ name: "object", arguments: { n: 1 } }, { name: "void", arguments: { n: 1 } })
        assert.deepStrictEqual(told.slice(0, 2), ['{"at":"1970-01-01T00:00:00.000Z","n":1}', "null"])
      })
    )

    it.effect("slims an oversized result for the model alone, unless the tool is exempt", () =>
      Effect.gen(function* () {
        const { events, told } = yield* turnOf(
          { name: "long", arguments: { n: 1 } },
          { name: "exempt", arguments: { n: 1 } }
        )
        assert.isBelow(String(told[0]).length, 20_000)
        assert.match(String(told[0]), /24000 of 40000 characters left out/)
        assert.strictEqual(told[1], long)
        const [first, second] = World.dataOf(events, "call.completed").filter(({ output }) => output === long)
        assert.strictEqual(first?.modelView?.omitted, 24_000)
        assert.isUndefined(second?.modelView)
      })
    )

    it.effect("gives a tool its call's key, the same for no other call", () =>
      Effect.gen(function* () {
        const { session, tools } = yield* World.withTools({
          respond: script([calls([Tools.call("put", "a"), Tools.call("put", "a")]), text("done")])
        })
        yield* session.run("go")
        const keys = tools.started.map(({ key }) => key)
        assert.sameMembers(keys, [`${session.id}/cal_1_1_0`, `${session.id}/cal_1_1_1`])
      })
    )

    it.effect("shows what a tool tells while it runs", () =>
      Effect.gen(function* () {
        const world = yield* World.make({
          respond: script([calls([{ name: "tells", arguments: { n: 3 } }]), text("done")]),
          agents: [Agent.make("a", { instructions: "i", toolkit: kit })],
          services: Layer.fresh(handlers)
        })
        const session = yield* world.sessions.open()
        const seen = yield* session.watch(0).pipe(
          Stream.takeUntil((seen) => seen._tag === "Event" && seen.event.type === "turn.completed"),
          Stream.runCollect,
          Effect.forkChild({ startImmediately: true })
        )
        yield* session.run("go")
        const shown = (yield* Fiber.join(seen)).flatMap((each) =>
          each._tag === "Ephemeral" && each.ephemeral.type === "call.progress" ? [each.ephemeral] : []
        )
        assert.deepStrictEqual(shown, [{ type: "call.progress", callId: "cal_1_1_0" as never, progress: "3 soon" }])
      })
    )
  })
}
