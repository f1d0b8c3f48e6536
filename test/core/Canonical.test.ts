import { assert, describe, it } from "@effect/vitest"
import * as Canonical from "@turnstep/core/Canonical"
import * as fc from "fast-check"

/** The same value with the keys of every object in another order. */
const shuffled = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(shuffled)
  if (typeof value !== "object" || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .toReversed()
      .map(([key, member]) => [key, shuffled(member)])
  )
}

describe("Canonical", () => {
  it("writes the form of RFC 8785", () => {
    const cases: ReadonlyArray<readonly [unknown, string]> = [
      [{ b: 1, a: 2 }, '{"a":2,"b":1}'],
      [{ "\u20ac": 1, "\r": 2, "\ud83d\ude00": 3, "\ufb33": 4 }, '{"\\r":2,"\u20ac":1,"\ud83d\ude00":3,"\ufb33":4}'],
      [[1e21, 1e-7, -0, 4.5, 1e9 / 3], "[1e+21,1e-7,0,4.5,333333333.3333333]"],
      ['\u000f\n"\\/\u2028', '"\\u000f\\n\\"\\\\/\u2028"'],
      [{ a: undefined, b: [null, true] }, '{"b":[null,true]}'],
      [undefined, "null"],
      [{}, "{}"]
    ]
    for (const [value, text] of cases) assert.strictEqual(Canonical.stringify(value), text)
  })

  it("gives the same digest to the same value, whatever the order of its keys", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        assert.strictEqual(Canonical.digest(value), Canonical.digest(shuffled(value)))
        assert.deepStrictEqual(JSON.parse(Canonical.stringify(value)), JSON.parse(JSON.stringify(value)))
      })
    )
  })

  it("gives different values different digests", () => {
    fc.assert(
      fc.property(fc.jsonValue({ noUnicodeString: false }), fc.jsonValue(), (a, b) => {
        const isSame = JSON.stringify(shuffled(a)) === JSON.stringify(shuffled(b))
        fc.pre(!isSame && Canonical.stringify(a) !== Canonical.stringify(b))
        assert.notStrictEqual(Canonical.digest(a), Canonical.digest(b))
      })
    )
    const pairs: ReadonlyArray<readonly [unknown, unknown]> = [
      [1, "1"],
      [[], {}],
      [null, "null"],
      [{ a: 1 }, { a: "1" }],
      [
        [1, 2],
        [2, 1]
      ]
    ]
    for (const [a, b] of pairs) assert.notStrictEqual(Canonical.digest(a), Canonical.digest(b))
  })

  it("gives strings with lone surrogates a digest, in values and in keys", () => {
    for (const value of ["\ud800", { "\udc00": 1 }, [{ a: "x\ud83d" }], { a: { b: ["\udfff"] } }]) {
      assert.match(Canonical.digest(value), /^[0-9a-f]{64}$/)
      assert.isTrue(Canonical.stringify(value).isWellFormed())
    }
    fc.assert(
      fc.property(fc.array(fc.nat(0xffff)), (units) => {
        const text = String.fromCharCode(...units)
        assert.strictEqual(Canonical.digest({ text }), Canonical.digest({ text: text.toWellFormed() }))
      })
    )
  })

  it("knows the digest of the empty text", () => {
    assert.strictEqual(Canonical.digestText(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
  })

  it("makes JSON of whatever a tool returns", () => {
    const cycle: { self?: unknown } = {}
    cycle.self = cycle
    assert.strictEqual(Canonical.toJson(undefined), null)
    assert.strictEqual(Canonical.toJson(Number.NaN), null)
    assert.deepStrictEqual(Canonical.toJson({ a: undefined, b: Number.POSITIVE_INFINITY }), { b: null })
    assert.deepStrictEqual(Canonical.toJson([() => 1, Symbol("x")]), [null, null])
    assert.strictEqual(Canonical.toJson(new Date(0)), "1970-01-01T00:00:00.000Z")
    assert.match(String(Canonical.toJson(cycle)), /^\[not JSON: /)
    assert.match(String(Canonical.toJson({ n: 1n })), /^\[not JSON: /)
    const hostile = {
      toJSON() {
        throw "no"
      }
    }
    assert.strictEqual(Canonical.toJson(hostile), "[not JSON: no]")
  })

  it("takes nothing so deep that only some places could write it again", () => {
    const nested = (levels: number): unknown => {
      let value: unknown = '}]" [[['
      for (let level = 0; level < levels; level++) value = level % 2 === 0 ? [value, "[{"] : { a: value }
      return value
    }
    /** Writes from deep inside of other calls, where less of the stack is left. */
    const written = (value: unknown, calls: number): string =>
      calls === 0 ? JSON.stringify({ data: { value } }) : written(value, calls - 1)
    for (const levels of [1, 999, 1_000, 1_001, 3_000, 4_000, 100_000]) {
      const value = Canonical.toJson(nested(levels))
      if (levels <= 1_000) assert.deepStrictEqual(value, nested(levels))
      else assert.match(String(value), /^\[not JSON: /)
      assert.isString(written(value, 5_000))
      assert.isString(Canonical.digest(value))
    }
  })

  it("keeps a key named __proto__ as data", () => {
    const value = JSON.parse('{"__proto__":{"x":1},"a":"\\ud800"}') as unknown
    assert.include(Canonical.stringify(value), '"__proto__":{"x":1}')
    assert.include(JSON.stringify(Canonical.toJson(value)), '"__proto__"')
  })
})
