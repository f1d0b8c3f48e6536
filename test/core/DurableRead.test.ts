import { assert, describe, it } from "@effect/vitest"
import * as DurableRead from "@turnstep/core/DurableRead"
import * as Ids from "@turnstep/core/Ids"
import * as Transcript from "@turnstep/core/Transcript"
import * as Schema from "effect/Schema"

const spillId = Schema.decodeSync(Ids.SpillId)("0".repeat(64))
const read = (wireId: string, bytes: number): DurableRead.Read => ({ wireId, spillId, bytes })
const ids = (reads: ReadonlyArray<DurableRead.Read>) => reads.map(({ wireId }) => wireId)

const answer = (wireId: string, result: Schema.Json): Transcript.Answer => ({
  wireId,
  name: "read",
  isFailure: false,
  result
})
const proof = DurableRead.proof("a", { id: spillId, bytes: 3, lines: 1 })

describe("DurableRead", () => {
  it("shows the reads made last as far as there is room, and the last one in any case", () => {
    const reads = [read("a", 40), read("b", 50), read("c", 30)]
    assert.deepStrictEqual(ids(DurableRead.shown(reads, 120)), ["a", "b", "c"])
    assert.deepStrictEqual(ids(DurableRead.shown(reads, 100)), ["b", "c"])
    assert.deepStrictEqual(ids(DurableRead.shown(reads, 60)), ["c"])
    assert.deepStrictEqual(ids(DurableRead.shown(reads, 10)), ["c"])
    assert.isEmpty(DurableRead.shown([], 10))
    // Of a large one the ends are shown: it takes no room from the others.
    assert.deepStrictEqual(ids(DurableRead.shown([read("a", 40), read("large", 1024 ** 3)])), ["a", "large"])
  })

  it("puts texts in the place of their proofs and leaves everything else the same object", () => {
    const user = Transcript.userMessage(Transcript.userText("hi"))
    const other = Transcript.toolMessage([answer("x", "1")])
    const both = Transcript.toolMessage([answer("a", proof), answer("b", proof)])
    const [first, second, third] = [user, other, both].map(DurableRead.withTexts(new Map([["a", "text of a"]])))
    assert.strictEqual(first, user)
    assert.strictEqual(second, other)
    assert.deepStrictEqual(
      third?.role === "tool" ? third.content.map((part) => (part.type === "tool-result" ? part.result : part)) : [],
      ["text of a", proof]
    )
    assert.include(JSON.stringify(both), "received")
  })

  it("cuts a text that is larger than a step's allowance, and keeps a note that stood under the proof", () => {
    const noted = Transcript.toolMessage([answer("a", `${JSON.stringify(proof)}\n\n[note of the runtime: again]`)])
    const [message] = [noted].map(DurableRead.withTexts(new Map([["a", "x".repeat(5000)]]), 1000))
    const [part] = message?.role === "tool" ? message.content : []
    const shown = part?.type === "tool-result" ? String(part.result) : ""
    assert.match(shown, /characters left out/)
    assert.match(shown, /\n\n\[note of the runtime: again\]$/)
    assert.isAtMost(shown.length, 1100)
  })
})
