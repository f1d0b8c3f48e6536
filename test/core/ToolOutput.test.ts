import { assert, describe, it } from "@effect/vitest"
import * as ToolOutput from "@turnstep/core/ToolOutput"
import * as fc from "fast-check"

const segmenter = new Intl.Segmenter(undefined, { granularity: "grapheme" })

/** Every place in a text where one may cut. */
const boundaries = (text: string): Set<number> =>
  new Set([...Array.from(segmenter.segment(text), ({ index }) => index), text.length])

const note = /\n\[… (\d+) of (\d+) characters left out; the full output is stored with the call: [^…]{1,200} …\]\n/

/** Head and tail of a view. */
const ends = (view: string) => {
  const [head = "", omitted = "", total = "", tail = ""] = view.split(note)
  return { head, tail, omitted: Number(omitted), total: Number(total) }
}

/** Texts that are nasty to cut: clusters of many code points, unbroken flags, stacked marks, CR LF, halves of pairs. */
const nasty = fc.constantFrom(
  "a",
  "\r\n",
  "é",
  "e\u0301",
  "👍🏽",
  "🇩🇪",
  "👨‍👩‍👧‍👦",
  "क्षि",
  "각",
  "각",
  "\u200d",
  `x${"\u0301".repeat(90)}`,
  "\ud83d",
  "\ude00",
  "漢"
)
const text = fc.oneof(
  fc.array(nasty, { minLength: 200, maxLength: 900 }).map((pieces) => pieces.join("")),
  fc
    .tuple(nasty, fc.integer({ min: 200, max: 900 }), fc.nat(3))
    .map(([piece, times, pad]) => "a".repeat(pad) + piece.repeat(times))
)
const limits = fc.record({
  cap: fc.integer({ min: 140, max: 700 }),
  head: fc.double({ min: 0, max: 0.9, noNaN: true }),
  tail: fc.double({ min: 0, max: 0.9, noNaN: true })
})

describe("ToolOutput", () => {
  it("leaves a text within the cap alone", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 100 }), (short) => {
        const view = ToolOutput.slim(short, { cap: 200, head: 0.2, tail: 0.2 })
        assert.deepStrictEqual(view, { text: short, omitted: 0 })
      })
    )
    const full = "x".repeat(ToolOutput.defaultLimits.cap)
    assert.deepStrictEqual(ToolOutput.slim(full), { text: full, omitted: 0 })
  })

  it("keeps a fifth of the original at each end by default", () => {
    const original = Array.from({ length: 40_000 }, (_, i) => String.fromCharCode(97 + (i % 26))).join("")
    const view = ToolOutput.slim(original)
    const { head, omitted, tail, total } = ends(view.text)
    assert.strictEqual(head, original.slice(0, 8000))
    assert.strictEqual(tail, original.slice(-8000))
    assert.strictEqual(view.omitted, 24_000)
    assert.deepStrictEqual([omitted, total], [24_000, 40_000])
  })

  it("never exceeds its cap, keeps the original's ends and counts what it left out", () => {
    fc.assert(
      fc.property(text, limits, (original, bounds) => {
        const view = ToolOutput.slim(original, bounds)
        assert.isAtMost(view.text.length, bounds.cap)
        if (original.length <= bounds.cap) return
        const { head, omitted, tail, total } = ends(view.text)
        assert.isTrue(original.startsWith(head))
        assert.isTrue(original.endsWith(tail))
        assert.strictEqual(head.length + tail.length + view.omitted, original.length)
        assert.deepStrictEqual([omitted, total], [view.omitted, original.length])
      }),
      { numRuns: 300 }
    )
  })

  it("never cuts a grapheme cluster", () => {
    fc.assert(
      fc.property(text, limits, (original, bounds) => {
        const view = ToolOutput.slim(original, bounds)
        if (view.omitted === 0) return
        const { head, tail } = ends(view.text)
        const legal = boundaries(original)
        assert.isTrue(legal.has(head.length), `head of ${head.length}`)
        assert.isTrue(legal.has(original.length - tail.length), `tail of ${tail.length}`)
      }),
      { numRuns: 300 }
    )
  })

  it("is idempotent", () => {
    fc.assert(
      fc.property(text, limits, (original, bounds) => {
        const once = ToolOutput.slim(original, bounds)
        assert.deepStrictEqual(ToolOutput.slim(once.text, bounds), { text: once.text, omitted: 0 })
      })
    )
  })

  it("stays within the smallest caps, whole characters only", () => {
    const original = "👨‍👩‍👧‍👦".repeat(100)
    for (const cap of [0, 1, 10, 60, 127, 128, 129, 150]) {
      const view = ToolOutput.slim(original, { cap, head: 0.5, tail: 0.5 })
      assert.isAtMost(view.text.length, cap)
      assert.isTrue(view.text.isWellFormed(), `cap ${cap}`)
    }
  })

  it("cuts a million characters without a place to start from in moments", () => {
    const view = ToolOutput.slim("🇩🇪".repeat(250_000))
    assert.isAtMost(view.text.length, ToolOutput.defaultLimits.cap)
    assert.strictEqual(ends(view.text).head.length % 4, 0)
  })

  it("reads strings as they are and everything else as JSON", () => {
    assert.strictEqual(ToolOutput.toText("a\n"), "a\n")
    assert.strictEqual(ToolOutput.toText({ a: [1, null] }), '{"a":[1,null]}')
    assert.strictEqual(ToolOutput.toText(undefined), "null")
    assert.strictEqual(ToolOutput.toText(null), "null")
  })
})
