/** Results that are too much for the model, one by one or together. */
import { assert, describe } from "@effect/vitest"
import * as ToolOutput from "@turnstep/core/ToolOutput"
import * as ToolPolicy from "@turnstep/core/ToolPolicy"
import * as Agent from "@turnstep/runtime/Agent"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Sound from "../../fixtures/Sound.ts"
import type { It } from "../../fixtures/Stores.ts"
import * as World from "../../fixtures/World.ts"

const { calls, script, text } = StrictProvider

const Read = Tool.make("read_files", { parameters: Schema.Struct({ n: Schema.Finite }), success: Schema.String })
  .annotate(Tool.Readonly, true)
  .annotate(ToolPolicy.Output, "exempt")
const kit = Toolkit.make(Read)

/** A family of four and its number, over and over: wherever it is cut, a cut is inside of something. */
const content = (n: number, size: number): string =>
  `👨‍👩‍👧‍👦${n}`
    .repeat(Math.ceil(size / 12))
    .slice(0, size)
    .toWellFormed()

/** The size of a file that never ends. */
const never = -1

const world = (sizes: ReadonlyArray<number>) =>
  World.make({
    respond: script([calls(sizes.map((_, n) => ({ name: "read_files", arguments: { n } }))), text("read")]),
    agents: [Agent.make("reader", { instructions: "", toolkit: kit })],
    services: kit.toLayer({
      read_files: ({ n }) => (sizes[n] === never ? Effect.never : Effect.succeed(content(n, sizes[n] ?? 0)))
    })
  })

export const suite = (it: It): void => {
  describe("Output", () => {
    it.effect("shows a batch that is too much together shorter, whole characters, in its order; nothing is lost", () =>
      Effect.gen(function* () {
        const sizes = [50_000, 50_000, 1_000, 50_000, 50_000, 50_000, 9_000, 50_000, 50_000, 50_000]
        const made = yield* world(sizes)
        const session = yield* Effect.orDie(made.sessions.open())
        assert.strictEqual((yield* session.run("read all"))._tag, "Answered")
        const shown = (made.provider.requests[1]?.messages ?? []).filter(({ role }) => role === "tool")
        const texts = shown.map((message) => String(message.content))
        assert.lengthOf(texts, sizes.length)
        assert.isAtMost(texts.join("").length, ToolOutput.stepAllowance)
        const asked = made.provider.requests[1]?.messages.find(({ role }) => role === "assistant") as {
          readonly tool_calls: ReadonlyArray<{ readonly id: string }>
        }
        assert.deepStrictEqual(
          shown.map((message) => (message as { readonly tool_call_id?: string }).tool_call_id),
          asked.tool_calls.map(({ id }) => id)
        )
        const events = yield* World.events(session)
        const outputs = World.dataOf(events, "call.completed")
        texts.forEach((shown, n) => {
          const whole = content(n, sizes[n] ?? 0)
          assert.isTrue(shown.isWellFormed())
          if ((sizes[n] ?? 0) < 10_000) return assert.strictEqual(shown, whole)
          const [head = "", tail = ""] = shown.split(/\n\[… [^\n]* …\]\n/)
          assert.isTrue(whole.startsWith(head) && whole.endsWith(tail) && head.length > 10_000)
          assert.isTrue(head.endsWith(`👦${n}`) || head.endsWith("👦"), "the head ends with a whole cluster")
        })
        for (const { callId, output } of outputs) {
          const n = Number(callId.split("_").at(-1))
          assert.strictEqual(output, content(n, sizes[n] ?? 0))
        }
        const [slimmed, ...others] = World.dataOf(events, "step.slimmed")
        assert.isEmpty(others)
        assert.lengthOf(slimmed?.views ?? [], 8)
        assert.isEmpty(yield* Sound.complaints(session, made.provider))
      })
    )

    it.effect("shows the next Turn no more of a batch whose Turn was cancelled in the middle of it", () =>
      Effect.gen(function* () {
        const sizes = [...Array.from({ length: 8 }, () => 50_000), never]
        const made = yield* world(sizes)
        const session = yield* Effect.orDie(made.sessions.open())
        const { turnId } = yield* session.send("read all")
        yield* World.until(session, (event) => event.type === "call.completed" && event.data.callId.endsWith("_7"))
        yield* session.cancel(turnId ?? assert.fail("no turn"))
        yield* World.ended(session, 1)
        assert.strictEqual((yield* session.run("what have you read?"))._tag, "Answered")
        const shown = (made.provider.requests[1]?.messages ?? []).filter(({ role }) => role === "tool")
        const texts = shown.map(({ content }) => String(content))
        assert.lengthOf(texts, sizes.length)
        assert.isAtMost(texts.join("").length, ToolOutput.stepAllowance)
        assert.lengthOf(World.dataOf(yield* World.events(session), "step.slimmed")[0]?.views ?? [], 8)
        assert.isEmpty(yield* Sound.complaints(session, made.provider))
      })
    )

    it.effect("leaves a batch within its allowance alone, and a single exempt result at any size", () =>
      Effect.gen(function* () {
        for (const sizes of [[60_000, 60_000, 60_000], [ToolOutput.stepAllowance + 1_000]]) {
          const made = yield* world(sizes)
          const session = yield* Effect.orDie(made.sessions.open())
          yield* session.run("read")
          assert.isEmpty(World.dataOf(yield* World.events(session), "step.slimmed"))
          const shown = (made.provider.requests[1]?.messages ?? []).filter(({ role }) => role === "tool")
          assert.deepStrictEqual(
            shown.map(({ content }) => String(content).length),
            sizes.map((size, n) => content(n, size).length)
          )
        }
      })
    )
  })
}
