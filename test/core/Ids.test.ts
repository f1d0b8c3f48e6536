import { assert, describe, it } from "@effect/vitest"
import * as Ids from "@turnstep/core/Ids"
import * as Schema from "effect/Schema"
import * as fc from "fast-check"

const isSession = Schema.is(Ids.SessionId)
const isItem = Schema.is(Ids.ItemId)
const isTurn = Schema.is(Ids.TurnId)
const isCall = Schema.is(Ids.CallId)

const count = fc.integer({ min: 1, max: 1_000_000 })

describe("Ids", () => {
  it("takes session ids of 1 to 64 harmless characters and nothing else", () => {
    for (const id of ["a", "ses_0192f", "A-Z_09", "x".repeat(64)]) assert.isTrue(isSession(id), id)
    for (const id of ["", "x".repeat(65), "a b", "a/b", "..", "ä", "a\n", "a\0", "💥"])
      assert.isFalse(isSession(id), id)
  })

  it("mints ids that fit their schemas and give their numbers back", () => {
    fc.assert(
      fc.property(count, count, fc.nat(500), (turn, step, index) => {
        assert.isTrue(isItem(Ids.itemId(turn)))
        assert.isTrue(isTurn(Ids.turnId(turn)))
        assert.isTrue(isCall(Ids.callId(turn, step, index)))
        assert.strictEqual(Ids.numberOf(Ids.itemId(turn)), turn)
        assert.strictEqual(Ids.numberOf(Ids.turnId(turn)), turn)
        assert.deepStrictEqual(Ids.placeOf(Ids.callId(turn, step, index)), { turn, step, index })
      })
    )
  })

  it("refuses ids with a zero, a sign, a leading zero or a tail", () => {
    for (const id of ["trn_0", "trn_-1", "trn_01", "trn_1 ", "trn_1a", "trn_", "1", "inb_1"])
      assert.isFalse(isTurn(id), id)
    for (const id of ["inb_0", "inb_01", "inb_1\n", "trn_1"]) assert.isFalse(isItem(id), id)
    for (const id of ["cal_1_1", "cal_0_1_0", "cal_1_0_0", "cal_1_1_-1", "cal_1_1_0_0"]) assert.isFalse(isCall(id), id)
  })

  it("gives different messages and different calls different names", () => {
    fc.assert(
      fc.property(count, count, count, count, (a, b, c, d) => {
        fc.pre(a !== c || b !== d)
        assert.notStrictEqual(Ids.assistantMessageId(a, b), Ids.assistantMessageId(c, d))
        assert.notStrictEqual(Ids.callId(a, b, 0), Ids.callId(c, d, 0))
      })
    )
    const session = Schema.decodeSync(Ids.SessionId)("s")
    assert.notStrictEqual<string>(Ids.userMessageId(Ids.itemId(1)), Ids.assistantMessageId(1, 1))
    assert.strictEqual(Ids.callKey(session, Ids.callId(1, 2, 3)), "s/cal_1_2_3")
  })
})
