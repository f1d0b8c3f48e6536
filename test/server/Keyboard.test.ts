import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import * as Terminal from "../fixtures/Terminal.ts"

const seen = (lines: ReadonlyArray<string>) => lines.filter((line) => line !== "")

describe("A line that is being typed", { timeout: 20_000 }, () => {
  it.live("stands below all output, and output waits for the end of its line", () =>
    Effect.gen(function* () {
      const { keyboard, screen, type } = yield* Terminal.make
      keyboard.prompt()
      yield* type("half a ")
      keyboard.write("The answer ")
      assert.deepStrictEqual(seen(screen()), ["> half a"])
      keyboard.write("is here.\nAnd more")
      assert.deepStrictEqual(seen(screen()), ["The answer is here.", "> half a"])
      keyboard.notice("(a notice)")
      yield* type("line")
      assert.deepStrictEqual(seen(screen()), ["The answer is here.", "(a notice)", "> half a line"])
      yield* type("\r")
      assert.deepStrictEqual(yield* Queue.take(keyboard.strokes), { _tag: "Line", text: "half a line" })
      keyboard.write(".\n")
      keyboard.prompt()
      const rest = ["> half a line", "And more.", ">"]
      assert.deepStrictEqual(seen(screen()), ["The answer is here.", "(a notice)", ...rest])
    })
  )

  it.live("begins on a line of its own when the output has not ended its own", () =>
    Effect.gen(function* () {
      const { keyboard, screen, type } = yield* Terminal.make
      keyboard.write("The answer so f")
      yield* type("x")
      assert.deepStrictEqual(seen(screen()), ["The answer so f", "> x"])
      keyboard.write("ar.\n")
      assert.deepStrictEqual(seen(screen()), ["The answer so f", "ar.", "> x"])
    })
  )

  it.live("may be a paste of several lines, which is one message", () =>
    Effect.gen(function* () {
      const { keyboard, paste, type } = yield* Terminal.make
      keyboard.prompt()
      yield* paste("one\rtwo\rthree")
      assert.strictEqual(yield* Queue.size(keyboard.strokes), 0)
      yield* type("!\r")
      assert.deepStrictEqual(yield* Queue.take(keyboard.strokes), { _tag: "Line", text: "one\ntwo\nthree!" })
      yield* paste("four\nfive\n")
      yield* type("\r")
      assert.deepStrictEqual(yield* Queue.take(keyboard.strokes), { _tag: "Line", text: "four\nfive" })
    })
  )

  it.live("is there again when it was given back, and can be changed", () =>
    Effect.gen(function* () {
      const { keyboard, screen, type } = yield* Terminal.make
      keyboard.restore("one\ntwo")
      assert.deepStrictEqual(seen(screen()), ["one", "> two"])
      yield* type("!\r")
      assert.deepStrictEqual(yield* Queue.take(keyboard.strokes), { _tag: "Line", text: "one\ntwo!" })
    })
  )
})
