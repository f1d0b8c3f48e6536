import { assert, describe } from "@effect/vitest"
import * as SpillStore from "@turnstep/core/SpillStore"
import * as ToolPolicy from "@turnstep/core/ToolPolicy"
import * as Agent from "@turnstep/runtime/Agent"
import * as LargeOutput from "@turnstep/runtime/LargeOutput"
import * as ToolCall from "@turnstep/runtime/ToolCall"
import * as ToolStream from "@turnstep/runtime/ToolStream"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { createHash } from "node:crypto"
import * as Sound from "../../fixtures/Sound.ts"
import type { It } from "../../fixtures/Stores.ts"
import * as World from "../../fixtures/World.ts"

const { calls, script, text } = StrictProvider

const lines = Array.from({ length: 60_000 }, (_, n) => `line ${n + 1} of a long output 👩‍👩‍👧\n`)
const large = lines.join("")
const digest = createHash("sha256").update(large).digest("hex")

const plain = <const Name extends string>(name: Name) =>
  Tool.make(name, { success: Schema.String }).annotate(Tool.Readonly, true)
const streamed = <const Name extends string>(name: Name) =>
  Tool.make(name, { success: ToolStream.schema }).annotate(Tool.Readonly, true)

const kit = Toolkit.make(
  plain("whole"),
  plain("whole_exempt").annotate(ToolPolicy.Output, "exempt"),
  Tool.make("middling", { success: Schema.String }),
  streamed("stream"),
  streamed("small"),
  streamed("breaks"),
  streamed("halves"),
  streamed("crumbs"),
  streamed("mixed"),
  Tool.make("fails_at_length", { failure: Schema.String }).annotate(Tool.Readonly, true),
  Tool.make("part", {
    success: Schema.Struct({ exitCode: Schema.Int, log: LargeOutput.Output }),
    failure: LargeOutput.OutputLost
  })
)

const handlers = kit.toLayer({
  whole: () => Effect.succeed(large),
  middling: () => Effect.succeed(lines.slice(0, 3_000).join("")),
  whole_exempt: () => Effect.succeed(large),
  stream: () => Effect.succeed(ToolStream.make(Stream.fromIterable(lines))),
  small: () => Effect.succeed(ToolStream.make(Stream.make("a few ", Buffer.from("wörds")))),
  breaks: () =>
    Effect.succeed(
      ToolStream.make(Stream.concat(Stream.fromIterable(lines), Stream.fail(new Error("the pipe broke"))))
    ),
  halves: () => Effect.succeed(ToolStream.make(Stream.fromIterable([..."👩‍👩‍👧"].flatMap((point) => point.split(""))))),
  // One chunk of more pieces than a function takes arguments, and pieces with nothing in them.
  crumbs: () =>
    Effect.succeed(
      ToolStream.make(
        Stream.concat(
          Stream.fromArray(Array.from({ length: 300_000 }, (_, n) => (n % 2 === 0 ? "" : "x"))),
          Stream.fromIterable(lines)
        )
      )
    ),
  mixed: () =>
    Effect.succeed(ToolStream.make(Stream.make("a\ud83d", Buffer.from("b"), "\udc68", "c\ud83d", "", "\udc68"))),
  fails_at_length: () => Effect.fail(large),
  part: () => Effect.map(ToolCall.keep(Stream.fromIterable(lines)), (log) => ({ exitCode: 3, log }))
})

/** A session whose model makes these calls, one batch after the other, and what it is told of each. */
const turnOf = Effect.fnUntraced(function* (
  batches: ReadonlyArray<ReadonlyArray<StrictProvider.Call>>,
  spills: Layer.Layer<never> = SpillStore.layerMemory()
) {
  const world = yield* World.make({
    respond: script([...batches.map((batch) => calls(batch)), text("done")]),
    agents: [Agent.make("a", { instructions: "i", toolkit: kit })],
    services: Layer.merge(handlers, spills)
  })
  const session = yield* world.sessions.open()
  assert.deepStrictEqual(World.brief(yield* session.run("go")), ["Answered", "done", batches.length + 1])
  assert.isEmpty(yield* Sound.complaints(session, world.provider))
  const told = (world.provider.requests.at(-1)?.messages ?? []).flatMap(({ content, role }) =>
    role === "tool" ? [String(content)] : []
  )
  return { told, events: yield* World.events(session) }
})

export const suite = (it: It): void => {
  describe("A large output", () => {
    it.effect("is kept once its batch has recorded enough, exempt or not; a small one is recorded all the same", () =>
      Effect.gen(function* () {
        const batch = [...Array.from({ length: 10 }, () => ({ name: "whole_exempt" })), { name: "small" }]
        const { events } = yield* turnOf([batch])
        const outputs = events.flatMap(({ data, type }) => (type === "call.completed" ? [data.output] : []))
        assert.lengthOf(outputs, 11)
        const whole = outputs.filter((output) => output === large)
        const bytes = Buffer.byteLength(large)
        assert.strictEqual(whole.length, Math.floor((4 * 1024 * 1024) / bytes))
        assert.lengthOf(
          outputs.filter((output) => output !== large && JSON.stringify(output).includes(digest)),
          10 - whole.length
        )
        assert.include(outputs, "a few wörds")
      })
    )

    it.effect("is kept, and the model is shown its ends and how to look inside", () =>
      Effect.gen(function* () {
        const { events, told } = yield* turnOf([
          [{ name: "whole" }, { name: "stream" }, { name: "part" }],
          [
            { name: "spill_grep", arguments: { spill: digest, pattern: "line 3[0]000 " } },
            { name: "spill_read", arguments: { spill: digest, startLine: 59_999 } },
            { name: "spill_read", arguments: { spill: digest, offset: 2, length: 6 } }
          ]
        ])
        const { bytes } = { bytes: Buffer.byteLength(large) }
        for (const shown of told.slice(0, 2)) {
          assert.isBelow(shown.length, 32_768)
          assert.include(shown, `${bytes} bytes in 60000 lines`)
          assert.include(shown, `spill ${digest}`)
          assert.include(shown, "spill_grep")
          assert.include(shown, "line 1 of a long output 👩‍👩‍👧\nline 2")
          assert.isTrue(shown.endsWith("line 60000 of a long output 👩‍👩‍👧\n"))
          assert.isTrue(shown.isWellFormed())
          assert.notInclude(shown, "\ufffd")
        }
        const part = JSON.parse(told[2] ?? "")
        assert.deepStrictEqual([part.exitCode, part.log.bytes, part.log.spill], [3, bytes, digest])
        assert.deepStrictEqual(JSON.parse(told[3] ?? ""), {
          matches: 1,
          lines: [{ line: 30_000, text: "line 30000 of a long output 👩‍👩‍👧" }],
          truncated: false
        })
        assert.deepStrictEqual(JSON.parse(told[4] ?? ""), {
          text: lines.slice(59_998).join("").trimEnd(),
          lines: 60_000,
          bytes,
          endLine: 60_000
        })
        assert.deepStrictEqual(JSON.parse(told[5] ?? ""), { text: "ne 1 o", lines: 60_000, bytes, nextOffset: 8 })
        const created = World.dataOf(events, "spill.created")
        assert.lengthOf(created, 3)
        for (const { callId, ...spill } of created) {
          assert.deepStrictEqual(spill, { spillId: digest as never, bytes, lines: 60_000 })
          const at = events.findIndex((event) => event.type === "spill.created" && event.data.callId === callId)
          const next = events[at + 1]
          assert.isTrue(next?.type === "call.completed" && next.data.callId === callId, "its result follows at once")
        }
        assert.isBelow(JSON.stringify(events).length, 100_000)
      })
    )

    it.effect("that is in the record, and shown shorter, is looked into by the id of its call", () =>
      Effect.gen(function* () {
        const spill = "cal_1_1_0"
        const { events, told } = yield* turnOf([
          [{ name: "middling" }],
          [
            { name: "spill_grep", arguments: { spill, pattern: "line 1500 ", literal: true } },
            { name: "spill_read", arguments: { spill, startLine: 1_500, endLine: 1_501 } },
            { name: "spill_read", arguments: { spill: "cal_1_1_1" } }
          ]
        ])
        assert.include(told[0] ?? "", `spill_read and spill_grep, if you have them, look inside as spill ${spill}`)
        assert.notInclude(told[0] ?? "", "line 1500 ")
        assert.deepInclude(JSON.parse(told[1] ?? ""), {
          matches: 1,
          lines: [{ line: 1_500, text: "line 1500 of a long output 👩‍👩‍👧" }]
        })
        assert.deepInclude(JSON.parse(told[2] ?? ""), {
          text: lines.slice(1_499, 1_501).join("").trimEnd(),
          lines: 3_000
        })
        assert.include(told[3] ?? "", "This session has no spill cal_1_1_1")
        // Nothing is kept a second time for it.
        assert.isEmpty(World.dataOf(events, "spill.created"))
      })
    )

    it.effect("is nobody else's: another session does not find it", () =>
      Effect.gen(function* () {
        const spill = { spill: digest }
        const world = yield* World.make({
          respond: script([
            calls([{ name: "whole" }]),
            text("done"),
            calls([
              { name: "spill_grep", arguments: { ...spill, pattern: "x" } },
              { name: "spill_read", arguments: spill }
            ]),
            text("done")
          ]),
          agents: [Agent.make("a", { instructions: "i", toolkit: kit })],
          services: Layer.merge(handlers, SpillStore.layerMemory())
        })
        yield* (yield* world.sessions.open()).run("go")
        const other = yield* world.sessions.open()
        yield* other.run("go")
        const results = World.dataOf(yield* World.events(other), "call.completed")
        assert.deepStrictEqual(
          results.map(({ isFailure }) => isFailure),
          [true, true]
        )
        for (const { output } of results) assert.include(JSON.stringify(output), "This session has no spill")
      })
    )

    it.effect("of a tool that is exempt stays as it is", () =>
      Effect.gen(function* () {
        const { events, told } = yield* turnOf([[{ name: "whole_exempt" }]])
        assert.strictEqual(told[0], large)
        assert.isEmpty(World.dataOf(events, "spill.created"))
      })
    )

    it.effect("that is a stream is its text while it is small, with no character cut between pieces", () =>
      Effect.gen(function* () {
        const { events, told } = yield* turnOf([[{ name: "small" }, { name: "halves" }]])
        assert.deepStrictEqual(told, ["a few wörds", "👩‍👩‍👧"])
        assert.isEmpty(World.dataOf(events, "spill.created"))
      })
    )

    it.effect("that breaks in the middle is a failure of its tool", () =>
      Effect.gen(function* () {
        const { events, told } = yield* turnOf([[{ name: "breaks" }]])
        assert.strictEqual(told[0], "the pipe broke")
        assert.isTrue(World.dataOf(events, "call.completed")[0]?.isFailure)
        assert.isEmpty(World.dataOf(events, "spill.created"))
      })
    )

    it.effect("in crumbs is kept like any other, and what is not in whole characters keeps its place", () =>
      Effect.gen(function* () {
        const { events, told } = yield* turnOf([[{ name: "crumbs" }, { name: "mixed" }]])
        const crumbs = `${"x".repeat(150_000)}${large}`
        const [created] = World.dataOf(events, "spill.created")
        assert.strictEqual(created?.spillId, createHash("sha256").update(crumbs).digest("hex"))
        assert.strictEqual(created?.bytes, Buffer.byteLength(crumbs))
        assert.strictEqual(told[1], "a\ufffdb\ufffdc👨")
      })
    )

    it.effect("of a tool that fails is kept as well", () =>
      Effect.gen(function* () {
        const { events, told } = yield* turnOf([[{ name: "fails_at_length" }]])
        const [completed] = World.dataOf(events, "call.completed")
        assert.isTrue(completed?.isFailure)
        assert.isBelow(JSON.stringify(completed).length, 50_000)
        assert.strictEqual(World.dataOf(events, "spill.created")[0]?.spillId, digest)
        assert.include(told[0], digest)
      })
    )

    it.effect("is read by bytes without a character being lost between two parts", () =>
      Effect.gen(function* () {
        const read = (offset: number, length: number) => ({
          name: "spill_read",
          arguments: { spill: digest, offset, length }
        })
        // Line 1 ends with a family of three: 18 bytes. The second part begins where the first says.
        const start = lines[0]?.indexOf("👩") ?? 0
        const { events } = yield* turnOf([[{ name: "whole" }], [read(start, 6)], [read(start + 4, 8)]])
        const [, first, second] = World.dataOf(events, "call.completed").map(({ output }) => output)
        assert.deepInclude(first, { text: "👩", nextOffset: start + 4 })
        assert.deepInclude(second, { text: "\u200d👩", nextOffset: start + 4 + 7 })
      })
    )

    it.effect("that finds no room is an error for the model, and the Turn goes on", () =>
      Effect.gen(function* () {
        const { events, told } = yield* turnOf(
          [[{ name: "whole" }, { name: "stream" }, { name: "part" }]],
          SpillStore.layerMemory({ quota: 1_500_000 })
        )
        for (const shown of told) {
          assert.match(shown, /could not be kept\. There is no room/)
          assert.include(shown, "line 1 of a long output")
          assert.isBelow(shown.length, 10_000)
        }
        assert.deepStrictEqual(
          World.dataOf(events, "call.completed").map(({ isFailure }) => isFailure),
          [true, true, true]
        )
        assert.isEmpty(World.dataOf(events, "spill.created"))
      })
    )

    it.effect(
      "needs a store: without one a stream is refused, a whole result is recorded, and there are no tools for spills",
      () =>
        Effect.gen(function* () {
          const { events, told } = yield* turnOf(
            [[{ name: "whole" }, { name: "stream" }, { name: "spill_read", arguments: { spill: digest } }]],
            Layer.empty
          )
          assert.match(told[0] ?? "", /characters left out/)
          assert.match(told[1] ?? "", /This runtime keeps no large outputs/)
          assert.match(told[2] ?? "", /no tool named "spill_read"/)
          assert.isTrue(World.dataOf(events, "call.completed").some(({ output }) => output === large))
        })
    )
  })
}
