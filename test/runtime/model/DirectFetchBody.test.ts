import { assert, describe, it } from "@effect/vitest"
import * as DirectFetch from "@turnstep/runtime/model/DirectFetch"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Effect from "effect/Effect"

const body = JSON.stringify({ model: "m", messages: [{ role: "user", content: "x" }] })

/** The length of a body read to its end, or the code of the error that ended it. */
const read = (raw: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const { baseUrl } = yield* StrictProvider.make({ respond: () => ({ raw }) })
    return yield* Effect.promise(async () => {
      const response = await DirectFetch.fetch(`${baseUrl}/chat/completions`, { method: "POST", body })
      return response.text().then(
        (text) => text.length,
        (error: unknown) => JSON.stringify(error)
      )
    })
  })

describe("DirectFetch", () => {
  const piece = "x".repeat(256 * 1024)

  it.live("passes a body on whose lines end, however long it is", () =>
    Effect.gen(function* () {
      const lines = Array.from({ length: 40 }, () => `${piece}\n`)
      assert.strictEqual(yield* read(lines), lines.join("").length)
    })
  )

  it.live("ends a body in which a line does not end", () =>
    Effect.gen(function* () {
      const told = yield* read(Array.from({ length: 40 }, () => piece))
      assert.include(String(told), "answer-too-large")
    })
  )
})
