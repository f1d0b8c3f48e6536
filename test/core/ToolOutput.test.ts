import { assert, describe, it } from "@effect/vitest"
import * as Ids from "@turnstep/core/Ids"
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
        const view = ToolOutput.slim(short, "pure", { cap: 200, head: 0.2, tail: 0.2 })
        assert.deepStrictEqual(view, { text: short, omitted: 0 })
      })
    )
    const full = "x".repeat(ToolOutput.defaultLimits.cap)
    assert.deepStrictEqual(ToolOutput.slim(full, "pure"), { text: full, omitted: 0 })
  })

  it("keeps a fifth of the original at each end by default", () => {
    const original = Array.from({ length: 40_000 }, (_, i) => String.fromCharCode(97 + (i % 26))).join("")
    const view = ToolOutput.slim(original, "pure")
    const { head, omitted, tail, total } = ends(view.text)
    assert.strictEqual(head, original.slice(0, 8000))
    assert.strictEqual(tail, original.slice(-8000))
    assert.strictEqual(view.omitted, 24_000)
    assert.deepStrictEqual([omitted, total], [24_000, 40_000])
  })

  it("never exceeds its cap, keeps the original's ends and counts what it left out", () => {
    fc.assert(
      fc.property(text, limits, (original, bounds) => {
        const view = ToolOutput.slim(original, "pure", bounds)
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
        const view = ToolOutput.slim(original, "pure", bounds)
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
        const once = ToolOutput.slim(original, "pure", bounds)
        assert.deepStrictEqual(ToolOutput.slim(once.text, "once", bounds), { text: once.text, omitted: 0 })
      })
    )
  })

  it("stays within the smallest caps, whole characters only", () => {
    const original = "👨‍👩‍👧‍👦".repeat(100)
    for (const cap of [0, 1, 10, 60, 127, 128, 129, 150]) {
      const view = ToolOutput.slim(original, "pure", { cap, head: 0.5, tail: 0.5 })
      assert.isAtMost(view.text.length, cap)
      assert.isTrue(view.text.isWellFormed(), `cap ${cap}`)
    }
  })

  it("shows nothing but the note where there is room for no more", () => {
    for (const share of [0, 0.5]) {
      const view = ToolOutput.slim("x".repeat(300), "pure", { cap: 140, head: share, tail: share })
      assert.strictEqual(view.omitted, 300)
      assert.isAtMost(view.text.length, 140)
      assert.notInclude(view.text, "xxx")
    }
  })

  it("cuts a million characters without a place to start from in moments", () => {
    const view = ToolOutput.slim("🇩🇪".repeat(250_000), "pure")
    assert.isAtMost(view.text.length, ToolOutput.defaultLimits.cap)
    assert.strictEqual(ends(view.text).head.length % 4, 0)
  })

  it("says what can be done about the rest: what had effects is not to be run again for it", () => {
    const text = "x".repeat(40_000)
    assert.match(ToolOutput.slim(text, "pure").text, /to see more, call the tool again for a part of it/)
    const named = ToolOutput.slim(text, "once", undefined, Ids.callId(1, 2, 0)).text
    assert.match(
      named,
      /spill_read and spill_grep, if you have them, look inside as spill cal_1_2_0; what the tool did/
    )
    assert.isAtMost(named.length, ToolOutput.defaultLimits.cap)
    for (const effects of ["once", "queryable", "idempotent"] as const) {
      assert.match(ToolOutput.slim(text, effects).text, /do not call it again only to see more/)
    }
  })

  it("is valid Unicode wherever the original is", () => {
    fc.assert(
      fc.property(text, limits, (original, bounds) => {
        assert.isTrue(ToolOutput.slim(original.toWellFormed(), "once", bounds).text.isWellFormed())
      })
    )
  })

  describe("a batch", () => {
    const results = (texts: ReadonlyArray<string>) =>
      texts.map((each, n) => ({
        callId: Ids.callId(1, 1, n),
        effects: "pure" as const,
        result: each,
        output: each,
        omitted: 0
      }))

    /** The texts as the model reads them. */
    const shown = (texts: ReadonlyArray<string>, allowance: number) => {
      const views = new Map(ToolOutput.slimBatch(results(texts), allowance).map((view) => [view.callId, view]))
      return texts.map((each, n) => views.get(Ids.callId(1, 1, n))?.text ?? each)
    }

    it("is left alone within its allowance, and so is a result without siblings", () => {
      assert.isEmpty(ToolOutput.slimBatch(results(["x".repeat(500), "y".repeat(500)]), 1000))
      assert.isEmpty(ToolOutput.slimBatch(results(["x".repeat(5000)]), 1000))
      assert.isEmpty(ToolOutput.slimBatch([], 1000))
    })

    it("takes from the largest and leaves the small ones whole", () => {
      const [a = "", b = "", small = ""] = shown(["a".repeat(9000), "b".repeat(2000), "c".repeat(300)], 4000)
      assert.strictEqual(small, "c".repeat(300))
      assert.deepStrictEqual(
        [a.length, b.length].map((size) => size <= 1850),
        [true, true]
      )
      assert.isAtLeast(a.length, 1700)
    })

    it("keeps within its allowance, cuts no cluster, and shows the ends of the originals", () => {
      fc.assert(
        fc.property(
          fc.array(text, { minLength: 2, maxLength: 6 }),
          fc.integer({ min: 2000, max: 6000 }),
          (texts, allowance) => {
            const views = shown(texts, allowance)
            assert.isAtMost(views.join("").length, allowance)
            views.forEach((view, n) => {
              const original = texts[n] ?? ""
              if (view === original) return
              const { head, tail } = ends(view)
              const legal = boundaries(original)
              assert.isTrue(original.startsWith(head) && original.endsWith(tail))
              assert.isTrue(legal.has(head.length) && legal.has(original.length - tail.length))
            })
          }
        ),
        { numRuns: 100 }
      )
    })

    it("shows of a result that was slimmed already the ends of the whole, not of its view", () => {
      const output = "h".repeat(30_000) + "t".repeat(30_000)
      const { omitted, text: view } = ToolOutput.slim(output, "pure")
      const callId = Ids.callId(1, 1, 0)
      const other = {
        callId: Ids.callId(1, 1, 1),
        effects: "pure" as const,
        result: "o".repeat(8000),
        output: "",
        omitted: 0
      }
      const [slimmed = assert.fail()] = ToolOutput.slimBatch(
        [{ callId, effects: "pure", result: view, output, omitted }, other],
        10_000
      )
      assert.strictEqual(slimmed.callId, callId)
      const { head, omitted: left, tail, total } = ends(slimmed.text)
      assert.deepStrictEqual([total, left], [60_000, 60_000 - head.length - tail.length])
      assert.match(head + tail, /^h+t+$/)
    })
  })

  it("reads strings as they are and everything else as JSON", () => {
    assert.strictEqual(ToolOutput.toText("a\n"), "a\n")
    assert.strictEqual(ToolOutput.toText({ a: [1, null] }), '{"a":[1,null]}')
    assert.strictEqual(ToolOutput.toText(undefined), "null")
    assert.strictEqual(ToolOutput.toText(null), "null")
  })
})
