import { assert, describe, it } from "@effect/vitest"
import * as Breaker from "@turnstep/core/Breaker"
import type { Json } from "@turnstep/core/Canonical"
import * as Canonical from "@turnstep/core/Canonical"
import * as fc from "fast-check"

type Answered = Breaker.Answered

const call = (name: string, args: Json = {}, rest: Partial<Answered> = {}): Answered => ({
  name,
  argsDigest: Canonical.digest(args),
  effects: "once",
  domain: "server",
  refusal: undefined,
  isFailure: false,
  result: "same",
  digest: undefined,
  ...rest
})

const A = [call("read", { path: "a" })]
const B = [call("list", { path: "b" })]
const C = [call("grep", { pattern: "c" })]
const D = [call("stat", { path: "d" })]

type Round = ReadonlyArray<Answered>

/** The number of the round that is not executed, counted from 1; 0 when all are. */
const trippedAt = (rounds: ReadonlyArray<Round>, limit?: number): number => {
  let breaker = Breaker.empty
  for (const [index, round] of rounds.entries()) {
    if (Breaker.trips(breaker, round, limit) !== undefined) return index + 1
    breaker = Breaker.observe(breaker, round)
  }
  return 0
}

/** The numbers of the rounds after which the model is told. */
const notedAt = (rounds: ReadonlyArray<Round>): ReadonlyArray<number> => {
  let breaker = Breaker.empty
  return rounds.flatMap((round, index) => {
    breaker = Breaker.observe(breaker, round)
    return Breaker.repeated(breaker) === undefined ? [] : [index + 1]
  })
}

describe("Breaker", () => {
  it("tells the model at the second identical round and does not let the third run", () => {
    assert.deepStrictEqual(notedAt([A, A]), [2])
    assert.strictEqual(trippedAt([A, A, A, A]), 3)
    assert.strictEqual(trippedAt([A, A, B, A, A]), 0)
  })

  it("obeys the limit it is given", () => {
    const many = Array.from({ length: 12 }, () => A)
    for (const limit of [2, 3, 5, 12]) assert.strictEqual(trippedAt(many, limit), limit)
    assert.strictEqual(trippedAt(many, 1_000_000), 0)
  })

  it("lets no write of a cycle of two, three or four writes run a third time", () => {
    assert.strictEqual(trippedAt([A, B, A, B, A]), 5)
    assert.strictEqual(trippedAt([A, B, C, A, B, C, A]), 7)
    assert.strictEqual(trippedAt([A, B, C, D, A, B, C, D, A]), 9)
    assert.strictEqual(trippedAt([A, B, A, B, C, A, B, A, B]), 0)
    assert.strictEqual(trippedAt([A, B, A, B], 2), 4)
    assert.strictEqual(trippedAt([A, B, A, C], 2), 0)
    assert.deepStrictEqual(notedAt([A, B, A, B]), [4])
    assert.deepStrictEqual(notedAt([A, B, C, D, A, B, C, D]), [8])
  })

  it("sees a loop that begins after other work", () => {
    assert.strictEqual(trippedAt([C, D, B, A, A, A]), 6)
    assert.strictEqual(trippedAt([C, A, B, A, B, A, B]), 6)
  })

  it("lets who sees something new go on", () => {
    const poll = (n: number) => [call("status", {}, { effects: "pure", result: { done: n } })]
    assert.strictEqual(trippedAt(Array.from({ length: 20 }, (_, n) => poll(n))), 0)
    assert.strictEqual(trippedAt([poll(1), poll(1), poll(2), poll(2), poll(3), poll(3)]), 0)
    assert.deepStrictEqual(notedAt([poll(1), poll(1), poll(2)]), [2])
    const edit = (n: number) => [call("edit", { n })]
    assert.strictEqual(trippedAt([A, edit(1), A, edit(2), A, edit(3), A]), 0)
  })

  it("looks once more where looking is all it is, and refuses the fourth look", () => {
    const look = (result: Json) => [call("status", {}, { effects: "pure", result })]
    assert.strictEqual(trippedAt([look("busy"), look("busy"), look("done"), look("done")]), 0)
    assert.strictEqual(trippedAt(Array.from({ length: 9 }, () => look("busy"))), 4)
    assert.strictEqual(trippedAt([A, look(1), A, look(1), A, look(1)]), 0)
    assert.strictEqual(trippedAt([A, look(1), A, look(1), A, look(1), A]), 7)
    assert.strictEqual(trippedAt([look(1), A, look(1), A, look(1), A]), 6)
    const both = [...look("busy"), ...A]
    assert.strictEqual(trippedAt([both, both, both]), 3)
  })

  it("compares by the digest of the normalised result where there is one", () => {
    const at = (n: number) => [call("read", {}, { result: `at ${n}`, digest: "the same" })]
    assert.strictEqual(trippedAt([at(1), at(2), at(3)]), 3)
    assert.strictEqual(trippedAt([at(1), [call("read", {}, { result: "at 1", digest: "another" })], at(3)]), 0)
  })

  it("tells a failure from a success of the same words", () => {
    const failed = [call("read", { path: "a" }, { isFailure: true })]
    assert.strictEqual(trippedAt([A, failed, A]), 0)
    assert.strictEqual(trippedAt([failed, failed, failed]), 3)
  })

  it("does not mind the order of the calls of a round, or one made twice in it", () => {
    const [a = assert.fail()] = A
    const [b = assert.fail()] = B
    assert.strictEqual(
      trippedAt([
        [a, b],
        [b, a],
        [a, b, a]
      ]),
      3
    )
    assert.strictEqual(trippedAt([[a, b], [a], [a, b]]), 0)
  })

  it("knows a refused call by its refusal, whatever its arguments", () => {
    const refused = (args: Json, refusal = "no JSON") => [
      call("write", args, { refusal, result: refusal, isFailure: true })
    ]
    assert.strictEqual(trippedAt([refused("{"), refused('{"a'), refused('{"b')]), 3)
    assert.strictEqual(trippedAt([refused("{"), refused("{", "cut off"), refused("{")]), 0)
    assert.strictEqual(trippedAt([refused("{"), refused("{"), [call("write", { a: 1 })]]), 0)
  })

  it("leaves to the failure budget what that counts, and sees it between other rounds", () => {
    const local = (n: number) => [call("edit_local", { n }, { domain: "local" })]
    const same = local(1)
    assert.strictEqual(trippedAt([same, same, same, same, same]), 0)
    assert.strictEqual(trippedAt([A, local(1), A, local(2), A, local(3), A]), 0)
    assert.strictEqual(trippedAt([A, same, A, same, A]), 5)
    const outOfUse = [call("edit_local", { n: 1 }, { domain: "local", refusal: "out of use", isFailure: true })]
    assert.strictEqual(trippedAt([outOfUse, outOfUse, outOfUse]), 3)
  })

  it("says which calls came how often", () => {
    let breaker = Breaker.empty
    for (const round of [A, B, A, B]) breaker = Breaker.observe(breaker, round)
    const loop = Breaker.trips(breaker, A) ?? assert.fail("it does not trip")
    assert.deepStrictEqual(loop, { period: 2, count: 3, tools: ["read", "list"] })
    assert.match(
      Breaker.refusal("read", loop),
      /REPEATED_IDENTICAL_TOOL_CALL.*2 rounds of calls \(read, list\) came 2 times/
    )
    assert.match(Breaker.reason(loop), /3 times through the same 2 rounds/)
  })

  it("trips on any block that comes to the limit, wherever it begins, and remembers four rounds", () => {
    const alphabet = [A, B, C, D]
    fc.assert(
      fc.property(
        fc.array(fc.nat(3), { maxLength: 12 }),
        fc.integer({ min: 1, max: 4 }),
        fc.integer({ min: 2, max: 5 }),
        fc.nat(3),
        (before, period, limit, start) => {
          const block = Array.from({ length: period }, (_, n) => alphabet[(start + n) % 4] ?? A)
          const rounds = [...before.map((n) => alphabet[n] ?? A), ...Array.from({ length: limit }, () => block).flat()]
          const at = trippedAt(rounds, limit)
          assert.isAbove(at, 0)
          assert.isAtMost(at, rounds.length)
          const breaker = rounds.reduce(Breaker.observe, Breaker.empty)
          assert.isAtMost(breaker.rounds.length, Breaker.longestPeriod)
        }
      )
    )
  })

  it("never trips where no block of rounds came to the limit", () => {
    const alphabet = [A, B, C]
    const key = (round: Round) => alphabet.indexOf(round as never)
    /** The plain definition: some block of one to four writes came `limit - 1` times, and twice at least begun, and comes again. */
    const isLoop = (rounds: ReadonlyArray<Round>, limit: number) =>
      [1, 2, 3, 4].some((period) => {
        const same = Math.max(period * (limit - 2) + 1, period)
        return (
          rounds.length >= same + period &&
          rounds.slice(-same).every((round, n) => {
            const before = rounds[rounds.length - same + n - period]
            return before !== undefined && key(before) === key(round)
          })
        )
      })
    fc.assert(
      fc.property(fc.array(fc.nat(2), { maxLength: 24 }), fc.integer({ min: 2, max: 4 }), (tape, limit) => {
        const rounds = tape.map((n) => alphabet[n] ?? A)
        const first = rounds.findIndex((_, n) => isLoop(rounds.slice(0, n + 1), limit)) + 1
        assert.strictEqual(trippedAt(rounds, limit), first)
      }),
      { numRuns: 1000 }
    )
  })
})
