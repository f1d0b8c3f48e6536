/** Loops that public bug reports tell of, and what a Turn does instead of going round in them. */
import { assert, describe } from "@effect/vitest"
import * as Ids from "@turnstep/core/Ids"
import * as ToolPolicy from "@turnstep/core/ToolPolicy"
import * as Agent from "@turnstep/runtime/Agent"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as Sound from "../../fixtures/Sound.ts"
import type { It } from "../../fixtures/Stores.ts"
import * as Tools from "../../fixtures/Tools.ts"
import * as World from "../../fixtures/World.ts"

const { calls, failure, text } = StrictProvider

const isHandBack = (request: StrictProvider.Request) => request.body["tool_choice"] === "none"

/** A model that goes through its replies over and over, until it may call no more tools. */
const circling =
  (replies: ReadonlyArray<StrictProvider.Reply>, handBack: StrictProvider.Reply = text("I went in circles.")) =>
  (request: StrictProvider.Request): StrictProvider.Reply =>
    isHandBack(request) ? handBack : (replies[request.index % replies.length] ?? text("none"))

/** What the model was told in place of, or with, the results of the last batch. */
const lastResults = ({ messages }: StrictProvider.Request): ReadonlyArray<string> =>
  messages.slice(messages.findLastIndex(({ role }) => role === "assistant") + 1).map(({ content }) => String(content))

const receipts = (session: Parameters<typeof World.events>[0]) =>
  Effect.map(World.events(session), (events) => World.dataOf(events, "call.receipt"))

export const suite = (it: It): void => {
  describe("Breaker", () => {
    it.effect("does not execute the third identical write; the history stays sound and the next Turn works", () =>
      Effect.gen(function* () {
        const world = yield* World.withTools({
          respond: (request) =>
            request.messages.at(-1)?.content === "and now?"
              ? text("fine")
              : circling([calls([Tools.call("pay", "file")])])(request)
        })
        const { provider, session, tools } = world
        const outcome = yield* session.run("write it")
        assert.deepInclude(outcome, {
          _tag: "Tripped",
          code: "REPEATED_IDENTICAL_TOOL_CALL",
          text: "I went in circles.",
          steps: 3
        })
        assert.deepStrictEqual(Tools.startedActs(tools), ["file", "file"])
        const events = yield* World.events(session)
        const [receipt = assert.fail("there is no receipt"), ...others] = yield* receipts(session)
        assert.isEmpty(others)
        assert.deepInclude(receipt, { callId: Ids.callId(1, 3, 0), outcome: "not-started" })
        assert.match(receipt.text, /pay was not executed.*\(pay\) came 2 times in a row/)
        const [tripped = assert.fail("it is not tripped")] = World.dataOf(events, "turn.tripped")
        assert.deepInclude<object>(tripped, { turnId: "trn_1", messageId: "msg_1_4" })
        assert.lengthOf(World.dataOf(events, "call.requested"), 3)
        assert.strictEqual((yield* session.run("and now?"))._tag, "Answered")
        assert.isEmpty(yield* Sound.complaints(session, provider, tools))
      })
    )

    it.effect("tells the model at the second time, under the result, and never again when it does something else", () =>
      Effect.gen(function* () {
        const look = (act: string) => calls([Tools.call("look", act)])
        const { provider, session, tools } = yield* World.withTools({
          respond: StrictProvider.script([look("a"), look("a"), look("b"), look("a"), text("done")])
        })
        assert.deepStrictEqual(World.brief(yield* session.run("go")), ["Answered", "done", 5])
        assert.deepStrictEqual(
          World.dataOf(yield* World.events(session), "guard.repeated").map(({ count, step, verdict }) => [
            step,
            count,
            verdict
          ]),
          [[2, 2, "noted"]]
        )
        assert.deepStrictEqual(lastResults(provider.requests[1] ?? assert.fail()), ["did a"])
        assert.match(
          lastResults(provider.requests[2] ?? assert.fail())[0] ?? "",
          /^did a\n\n\[note of the runtime: .*2 times/
        )
        assert.deepStrictEqual(lastResults(provider.requests[3] ?? assert.fail()), ["did b"])
        assert.isEmpty(yield* Sound.complaints(session, provider, tools))
      })
    )

    it.effect("asks for the hand-back without tools, and writes it itself when the model has no words", () =>
      Effect.gen(function* () {
        for (const reply of [failure(401, { message: "no" }), text(""), calls([Tools.call("pay", "more")])]) {
          const { provider, session, tools } = yield* World.withTools({
            respond: circling([calls([Tools.call("pay", "a")])], reply)
          })
          const outcome = yield* session.run("go")
          const words = outcome._tag === "Tripped" ? outcome.text : outcome._tag
          assert.match(words, /asked 3 times in a row for the same calls \(pay\)/)
          assert.match(words, /pay: 2 answered, 1 without success/)
          assert.match(String(provider.requests[3]?.messages.at(-1)?.content), /no tool can be called any more/)
          assert.deepStrictEqual(Tools.startedActs(tools), ["a", "a"])
          assert.isEmpty(yield* Sound.complaints(session, provider, tools))
        }
      })
    )

    it.effect("breaks a cycle of two calls with unchanged results within its bound", () =>
      Effect.gen(function* () {
        const { provider, session, tools } = yield* World.withTools({
          respond: circling([calls([Tools.call("put", "a")]), calls([Tools.call("put", "b")])])
        })
        assert.deepInclude(yield* session.run("go"), { _tag: "Tripped", steps: 5 })
        assert.deepStrictEqual(Tools.startedActs(tools), ["a", "b", "a", "b"])
        assert.match((yield* receipts(session))[0]?.text ?? "", /2 rounds of calls \(put\) came 2 times/)
        assert.isEmpty(yield* Sound.complaints(session, provider, tools))
      })
    )

    it.effect("does not mind the order and spacing of arguments", () =>
      Effect.gen(function* () {
        const spellings = ['{"n":1,"act":"a"}', '{ "act": "a", "n": 1.0 }', '{"act" : "a",\n "n" : 1}']
        const Write = Tool.make("write", {
          parameters: Schema.Struct({ act: Schema.String, n: Schema.Finite }),
          success: Schema.String
        })
        const agent = Agent.make("writer", { instructions: "", toolkit: Toolkit.make(Write) })
        const world = yield* World.make({
          respond: circling(spellings.map((spelling) => calls([{ name: "write", arguments: spelling }]))),
          agents: [agent],
          services: Toolkit.make(Write).toLayer({ write: () => Effect.succeed("written") })
        })
        const session = yield* Effect.orDie(world.sessions.open())
        assert.deepInclude(yield* session.run("go"), { _tag: "Tripped", steps: 3 })
        assert.isEmpty(yield* Sound.complaints(session, world.provider))
      })
    )

    const refused: Readonly<Record<string, ReadonlyArray<StrictProvider.Call>>> = {
      "empty arguments": [{ name: "pay", arguments: {} }],
      "arguments that do not fit": [{ name: "pay", arguments: { act: 7 } }],
      "arguments that are no JSON, each time others": [
        { name: "pay", arguments: '{"act": "a' },
        { name: "pay", arguments: '{"act": "abc' },
        { name: "pay", arguments: "act=a" }
      ],
      "a tool that does not exist": [
        { name: "wrtie", arguments: { act: "a" } },
        { name: "wrtie", arguments: { act: "b" } },
        { name: "wrtie", arguments: { act: "c" } }
      ]
    }
    for (const [what, wrong] of Object.entries(refused)) {
      it.effect(`counts calls that are refused before they run: ${what}`, () =>
        Effect.gen(function* () {
          const { provider, session, tools } = yield* World.withTools({
            respond: circling(wrong.map((call) => calls([call])))
          })
          assert.deepInclude(yield* session.run("go"), { _tag: "Tripped", steps: 3 })
          assert.isEmpty(tools.started)
          assert.isEmpty(yield* Sound.complaints(session, provider, tools))
        })
      )
    }

    it.effect("never executes a truncated call, says that it was cut off, and ends the Turn at the third", () =>
      Effect.gen(function* () {
        const long = (length: number) =>
          calls([{ name: "pay", arguments: `{"act": "${"x".repeat(length)}` }], { finish: "length" })
        const empty = calls([{ name: "pay", arguments: {} }], { finish: "length" })
        const { provider, session, tools } = yield* World.withTools({
          respond: circling([long(900), empty, long(1200)])
        })
        assert.deepInclude(yield* session.run("go"), { _tag: "Tripped", steps: 3 })
        assert.isEmpty(tools.started)
        const told = lastResults(provider.requests[1] ?? assert.fail())
        assert.lengthOf(told, 1)
        assert.match(told[0] ?? "", /not executed.*ended early \(length\).*cut off.*less text/s)
        for (const { messages } of provider.requests) {
          for (const { tool_calls = [] } of messages as ReadonlyArray<{
            readonly tool_calls?: ReadonlyArray<{ readonly function: { readonly arguments: string } }>
          }>) {
            for (const call of tool_calls) assert.isObject(JSON.parse(call.function.arguments))
          }
        }
        assert.isEmpty(yield* Sound.complaints(session, provider, tools))
      })
    )

    it.effect("lets a tool that only reads be asked as long as it shows progress, and once more to see", () =>
      Effect.gen(function* () {
        let at = 0
        const shown = ["queued", "queued", "10 %", "60 %", "60 %", "61 %", "61 %", "99 %", "done"]
        const { provider, session, tools } = yield* World.withTools({
          respond: ({ index }) => (index < shown.length ? calls([Tools.call("look", "job")]) : text("done"))
        })
        tools.on(
          "job",
          Effect.sync(() => shown[at++] ?? "done")
        )
        assert.deepStrictEqual(World.brief(yield* session.run("wait for it")), ["Answered", "done", 10])
        assert.lengthOf(tools.started, 9)
        assert.isEmpty(yield* Sound.complaints(session, provider, tools))
      })
    )

    it.effect("stops one that shows nothing new", () =>
      Effect.gen(function* () {
        const { session, tools } = yield* World.withTools({ respond: circling([calls([Tools.call("look", "job")])]) })
        tools.on("job", Effect.succeed("queued"))
        assert.deepInclude(yield* session.run("wait for it"), { _tag: "Tripped", steps: 4 })
        assert.lengthOf(tools.started, 3)
      })
    )

    it.effect(
      "is not blinded by times and ids in the results of tools with effects, or where a tool names its noise",
      () =>
        Effect.gen(function* () {
          let n = 0
          const parameters = Schema.Struct({ path: Schema.String })
          const Write = Tool.make("write", {
            parameters,
            success: Schema.Struct({ ok: Schema.Boolean, request_id: Schema.String })
          })
          const Feel = Tool.make("feel", { parameters, success: Schema.String })
            .annotate(Tool.Readonly, true)
            .annotate(ToolPolicy.Normalise, (result) => String(result).replace(/^.* at /, ""))
          const Breaks = Tool.make("breaks", { parameters, success: Schema.String }).annotate(
            ToolPolicy.Normalise,
            () => {
              throw new Error("no")
            }
          )
          const Odd = Tool.make("odd", { parameters, success: Schema.String }).annotate(
            ToolPolicy.Normalise,
            // What no digest can be made of, from a normaliser that types did not stop.
            () => 1n as never
          )
          const kit = Toolkit.make(Write, Feel, Breaks, Odd)
          const steps: Record<string, number> = { write: 3, feel: 4, breaks: 3, odd: 3 }
          for (const [tool, count] of Object.entries(steps)) {
            const world = yield* World.make({
              respond: circling([calls([{ name: tool, arguments: { path: "a" } }])]),
              agents: [Agent.make("one", { instructions: "", toolkit: kit })],
              services: kit.toLayer({
                write: () => Effect.succeed({ ok: true, request_id: `8f3kd92ka${++n}` }),
                feel: () => Effect.succeed(`${++n} at 20 degrees`),
                breaks: () => Effect.succeed("the same"),
                odd: () => Effect.succeed("the same")
              })
            })
            const session = yield* Effect.orDie(world.sessions.open())
            assert.deepInclude(yield* session.run("go"), { _tag: "Tripped", steps: count }, tool)
            assert.isEmpty(yield* Sound.complaints(session, world.provider))
          }
        })
    )

    it.effect("begins anew with each Turn", () =>
      Effect.gen(function* () {
        const { session, tools } = yield* World.withTools({
          respond: ({ index }) => (index % 3 === 2 ? text("done") : calls([Tools.call("pay", "same")]))
        })
        for (const _ of [1, 2, 3]) assert.strictEqual((yield* session.run("go"))._tag, "Answered")
        assert.lengthOf(tools.started, 6)
      })
    )

    it.effect("remembers over its owners what the Turn has done", () =>
      Effect.gen(function* () {
        const gate = yield* Tools.gate
        let asked = 0
        const world = yield* World.withTools({
          respond: (request) =>
            isHandBack(request)
              ? text("circles")
              : ++asked === 3
                ? text([gate.pass, "never"])
                : calls([Tools.call("pay", "same")])
        })
        yield* world.session.send("go")
        yield* gate.reached
        yield* world.stop
        const next = yield* (yield* world.start).sessions.get(world.session.id)
        assert.deepInclude(yield* next.outcome(Ids.turnId(1)), { _tag: "Tripped", steps: 3 })
        assert.lengthOf(world.tools.started, 2)
        assert.isEmpty(yield* Sound.complaints(next, world.provider, world.tools))
      })
    )

    it.effect("ends the Turn under the next owner when the first was let go after it tripped", () =>
      Effect.gen(function* () {
        const gate = yield* Tools.gate
        let handBacks = 0
        const world = yield* World.withTools({
          respond: (request) =>
            !isHandBack(request)
              ? calls([Tools.call("pay", "same")])
              : ++handBacks === 1
                ? text([gate.pass, "never"])
                : text("circles")
        })
        yield* world.session.send("go")
        yield* gate.reached
        yield* world.stop
        const next = yield* (yield* world.start).sessions.get(world.session.id)
        assert.deepInclude(yield* next.outcome(Ids.turnId(1)), { _tag: "Tripped", text: "circles" })
        assert.lengthOf(world.tools.started, 2)
        assert.lengthOf(yield* receipts(next), 1)
      })
    )

    it.effect("can be cancelled during its hand-back, and reads a steer in it", () =>
      Effect.gen(function* () {
        const gate = yield* Tools.gate
        const world = yield* World.withTools({
          respond: circling([calls([Tools.call("pay", "same")])], text([gate.pass, "never"]))
        })
        const run = yield* Effect.forkChild(world.session.run("go"))
        yield* gate.reached
        yield* world.session.cancel("trn_1")
        assert.strictEqual((yield* Fiber.join(run))._tag, "Cancelled")
        assert.isEmpty(yield* Sound.complaints(world.session, world.provider, world.tools))
      })
    )

    it.effect("obeys the agent's limit, and is off without one", () =>
      Effect.gen(function* () {
        const many = { respond: circling([calls([Tools.call("pay", "same")])]) }
        const five = yield* World.withTools({ ...many, policy: { repeatedToolCallLimit: 5 } })
        assert.deepInclude(yield* five.session.run("go"), { _tag: "Tripped", steps: 5 })
        const off = yield* World.withTools({ ...many, policy: { repeatedToolCallLimit: Infinity } })
        assert.deepInclude(yield* off.session.run("go"), { _tag: "BudgetSpent", steps: 15 })
      })
    )
  })

  describe("FailureBudget", () => {
    const parameters = Schema.Struct({ n: Schema.Finite })
    const fails = <const Name extends string>(name: Name) =>
      Tool.make(name, { parameters, success: Schema.String, failure: Schema.String })
    const kit = Toolkit.make(
      fails("edit_local").annotate(ToolPolicy.Domain, "local"),
      fails("open_local").annotate(ToolPolicy.Domain, "local"),
      fails("click").annotate(ToolPolicy.Domain, "desktop")
    )
    const world = (respond: StrictProvider.Respond, ran: Array<string>, answers: (n: number) => boolean) => {
      const handler =
        (name: string) =>
        ({ n }: { readonly n: number }) =>
          Effect.suspend(() => {
            ran.push(name)
            return answers(n) ? Effect.succeed("ok") : Effect.fail("the device is away")
          })
      return World.make({
        respond,
        agents: [Agent.make("local", { instructions: "", toolkit: kit })],
        services: kit.toLayer({ edit_local: handler("edit"), open_local: handler("open"), click: handler("click") })
      })
    }
    const call = (name: string, n: number) => calls([{ name, arguments: { n } }])

    it.effect(
      "has nothing to count while nobody at the user's takes calls: they are refused, and a loop of them ends",
      () =>
        Effect.gen(function* () {
          const ran: Array<string> = []
          const tools = ["edit_local", "open_local", "click"]
          const made = yield* world(
            ({ index }) => (index < 3 ? call(tools[index] ?? "", index) : text("done")),
            ran,
            () => true
          )
          const session = yield* Effect.orDie(made.sessions.open())
          assert.deepStrictEqual(World.brief(yield* session.run("go")), ["Answered", "done", 4])
          assert.match(
            lastResults(made.provider.requests[1] ?? assert.fail())[0] ?? "",
            /not executed: edit_local is executed at the user's side \(local\)/
          )
          const looping = yield* world(circling([call("click", 1)]), ran, () => true)
          const other = yield* Effect.orDie(looping.sessions.open())
          assert.deepInclude(yield* other.run("go"), { _tag: "Tripped", steps: 3 })
          assert.isEmpty(ran)
          assert.isEmpty(World.dataOf(yield* World.events(session), "call.started"))
          assert.isEmpty(yield* Sound.complaints(session, made.provider))
        })
    )
  })
}
