import { assert, describe } from "@effect/vitest"
import * as Ids from "@turnstep/core/Ids"
import * as ToolPolicy from "@turnstep/core/ToolPolicy"
import * as Agent from "@turnstep/runtime/Agent"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import type { ToolSource } from "@turnstep/runtime/ToolSource"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Sound from "../../fixtures/Sound.ts"
import type { It } from "../../fixtures/Stores.ts"
import * as Tools from "../../fixtures/Tools.ts"
import * as World from "../../fixtures/World.ts"

const { calls, script, text } = StrictProvider

const parameters = Schema.Struct({ amount: Schema.FiniteFromString })
const tool = <const Name extends string>(name: Name, needsApproval?: Tool.NeedsApproval<typeof parameters>) =>
  Tool.make(name, { parameters, success: Schema.String, ...(needsApproval === undefined ? {} : { needsApproval }) })

const kit = Toolkit.make(
  tool("plain"),
  tool("always", true),
  tool("never", false),
  tool("later").setNeedsApproval(true),
  tool("above", ({ amount }) => amount > 100),
  tool("asks", ({ amount }, { messages }) => Effect.succeed(amount > 100 || messages.length === 0)),
  tool("throws", () => {
    throw new Error("no rule")
  }),
  tool("dies", () => Effect.die("no rule")),
  tool("client").annotate(ToolPolicy.Domain, "client"),
  tool("local").annotate(ToolPolicy.Domain, "local"),
  tool("desktop").annotate(ToolPolicy.Domain, "desktop"),
  tool("plugin").annotate(ToolPolicy.Domain, "plugin")
)
type Name = keyof typeof kit.tools

const handlers = (ran: Array<string>) => {
  const handler =
    (name: Name) =>
    ({ amount }: { readonly amount: number }) =>
      Effect.sync(() => {
        ran.push(`${name} ${amount}`)
        return "done"
      })
  return kit.toLayer(Object.fromEntries(Object.keys(kit.tools).map((name) => [name, handler(name as Name)])) as never)
}

const call = (name: string, amount: string | number) => ({ name, arguments: { amount: `${amount}` } })

/** What the model was told of each call of the first response. */
const toldOf = ({ provider }: World.World) =>
  (provider.requests[1]?.messages ?? []).flatMap(({ content, role }) => (role === "tool" ? [String(content)] : []))

export const suite = (it: It): void => {
  describe("A call that nobody may run unasked", () => {
    it.effect("is not started, in any form that an approval is asked for, and says so to the model", () =>
      Effect.gen(function* () {
        const ran: Array<string> = []
        const asked = [
          ...(["plain", "never", "always", "later", "throws", "dies"] as const).map((name) => call(name, 1)),
          ...(["above", "asks"] as const).flatMap((name) => [call(name, 100), call(name, 101), call(name, "much")]),
          ...(["client", "local", "desktop", "plugin"] as const).map((name) => call(name, 1))
        ]
        const world = yield* World.make({
          respond: script([calls(asked), text("done")]),
          agents: [Agent.make("a", { instructions: "i", toolkit: kit })],
          services: handlers(ran)
        })
        const session = yield* Effect.orDie(world.sessions.open())
        assert.deepStrictEqual(World.brief(yield* session.run("go")), ["Answered", "done", 2])
        assert.sameMembers(ran, ["plain 1", "never 1", "above 100", "asks 100"])
        const told = toldOf(world)
        assert.lengthOf(told, asked.length)
        for (const [index, { arguments: given, name }] of asked.entries()) {
          if (ran.includes(`${name} ${given.amount}`)) assert.strictEqual(told[index], "done")
          else
            assert.match(
              told[index] ?? "",
              new RegExp(`not executed: ${name} (needs approval|is executed at the user)`)
            )
        }
        const started = World.dataOf(yield* World.events(session), "call.started")
        assert.lengthOf(started, 4)
        assert.isEmpty(yield* Sound.complaints(session, world.provider))
      })
    )

    it.effect("is not started when its tool comes from a source", () =>
      Effect.gen(function* () {
        const ran: Array<string> = []
        const provided = (tool: Tool.Any) => ({
          tool,
          handler: { run: () => Effect.sync(() => ({ isFailure: false, output: ran.push(tool.name) })) }
        })
        const source: ToolSource = {
          name: "elsewhere",
          tools: Effect.succeed([
            provided(Tool.dynamic("wired", { needsApproval: true })),
            provided(Tool.dynamic("placed").annotate(ToolPolicy.Domain, "client")),
            provided(Tool.dynamic("open"))
          ])
        }
        const world = yield* World.withTools({
          respond: script([calls(["wired", "placed", "open"].map((name) => ({ name, arguments: {} }))), text("done")]),
          sources: [source]
        })
        yield* world.session.run("go")
        assert.deepStrictEqual(ran, ["open"])
        assert.match(toldOf(world)[0] ?? "", /wired needs approval/)
        assert.match(toldOf(world)[1] ?? "", /placed is executed at the user's side/)
      })
    )

    it.effect(
      "is neither started nor run again by the next owner, whose tools ask where those of the first did not",
      () =>
        Effect.gen(function* () {
          const gate = yield* Tools.gate
          const ran: Array<string> = []
          const Move = Tool.make("move", { parameters, success: Schema.String })
            .annotate(ToolPolicy.Effects, "idempotent")
            .annotate(ToolPolicy.Exclusive, "one")
          // Deployed while the first owner ran: its tools are resolved anew by the second.
          const versions = [Move, Move.setNeedsApproval(true)]
          const source: ToolSource = {
            name: "versions",
            tools: Effect.sync(() => [
              {
                tool: versions.shift() ?? Move,
                handler: {
                  run: () => Effect.map(gate.pass, () => ({ isFailure: false, output: ran.push("moved") }))
                }
              }
            ])
          }
          const world = yield* World.withTools({
            respond: script([calls([call("move", 1), call("move", 2)]), text("done")]),
            sources: [source]
          })
          yield* world.session.send("go")
          yield* gate.reached
          yield* world.stop
          const next = yield* (yield* world.start).sessions.get(world.session.id)
          yield* next.outcome(Ids.turnId(1))
          const events = yield* World.events(next)
          assert.isEmpty(ran)
          assert.deepStrictEqual(
            World.dataOf(events, "call.receipt").map(({ callId, outcome }) => [callId, outcome]),
            [[Ids.callId(1, 1, 0), "outcome-unknown"]]
          )
          assert.match(String(World.dataOf(events, "call.completed")[0]?.output), /not executed: move needs approval/)
          assert.lengthOf(World.dataOf(events, "call.started"), 1)
        })
    )
  })
}
