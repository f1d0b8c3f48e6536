import { assert, describe } from "@effect/vitest"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import type { Input } from "@turnstep/runtime/Session"
import * as Effect from "effect/Effect"
import * as Sound from "../../fixtures/Sound.ts"
import type { It } from "../../fixtures/Stores.ts"
import * as Tools from "../../fixtures/Tools.ts"
import * as World from "../../fixtures/World.ts"

const { calls, script, text } = StrictProvider

/** An image of one pixel. */
const png =
  "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

const file = (data: string, mediaType = "image/png") => ({ type: "file", mediaType, data, fileName: "f" }) as const

/** What people and programs send. */
const inputs: ReadonlyArray<readonly [string, Input]> = [
  ["no parts at all", []],
  ["an empty text", ""],
  ["an empty part", [{ type: "text", text: "" }]],
  ["half of a surrogate pair", "\ud83d half"],
  ["a zero character", "a\u0000b"],
  ["a large text", "é".repeat(300_000)],
  ["an image", [{ type: "text", text: "see" }, file(png)]],
  ["a link to an image", [file("https://example.org/a.png")]]
]

/** Files that no model reads. */
const unreadable: ReadonlyArray<readonly [string, ReturnType<typeof file>]> = [
  ["an image that is none", file("data:image/png;base64,AAAA")],
  ["data that is no base64", file("data:image/png;base64,@@@")],
  ["a file whose address is none", file("not a url")],
  ["a file with an empty address", file("")],
  ["a file of a kind no model reads", file("data:application/x-thing;base64,AAAA", "application/x-thing")],
  ["a file that claims an impossible kind", file("data:,x", "")]
]

export const suite = (it: It): void => {
  describe("Input", () => {
    for (const [what, input] of inputs) {
      it.effect(`is answered and leaves the session usable: ${what}`, () =>
        Effect.gen(function* () {
          const { logged, provider, session } = yield* World.withTools({ respond: () => text("ok") })
          yield* session.send(input)
          yield* World.ended(session, 1)
          assert.deepStrictEqual(World.brief(yield* session.run("next")), ["Answered", "ok", 1])
          assert.isEmpty(logged)
          assert.isEmpty(yield* Sound.complaints(session, provider))
        })
      )
    }

    for (const [what, part] of unreadable) {
      it.effect(`is refused and leaves the session usable: ${what}`, () =>
        Effect.gen(function* () {
          const { logged, provider, session } = yield* World.withTools({ respond: () => text("ok") })
          const refusal = yield* Effect.flip(session.send([{ type: "text", text: "see" }, part]))
          assert.strictEqual(refusal._tag, "ContentUnreadable")
          assert.deepStrictEqual(World.brief(yield* session.run("next")), ["Answered", "ok", 1])
          assert.strictEqual(provider.requests.length, 1)
          assert.isEmpty(logged)
          assert.isEmpty(yield* Sound.complaints(session, provider))
        })
      )
    }

    it.effect("gives the model the images and texts of a message in their order", () =>
      Effect.gen(function* () {
        const { provider, session } = yield* World.withTools({ respond: () => text("ok") })
        yield* session.run([
          { type: "text", text: "compare" },
          file(png),
          file("data:text/plain;base64,aGVsbG8=", "text/plain"),
          { type: "text", text: "please" }
        ])
        const content = provider.requests[0]?.messages.at(-1)?.content
        assert.deepStrictEqual(Array.isArray(content) && content.map(({ type }) => type), [
          "text",
          "image_url",
          "text",
          "text"
        ])
        assert.match(JSON.stringify(content), /hello/)
      })
    )

    it.effect("survives whatever a tool returns", () =>
      Effect.gen(function* () {
        const results = ["", "\ud83d", "a\u0000b", "\u2028", "x".repeat(200_000)]
        const { provider, session, tools } = yield* World.withTools({
          respond: script([calls(results.map((_, act) => Tools.call("look", `${act}`))), text("ok"), text("ok")])
        })
        results.forEach((result, act) => tools.on(`${act}`, Effect.succeed(result)))
        yield* session.run("go")
        yield* session.run("next")
        assert.isEmpty(yield* Sound.complaints(session, provider, tools))
      })
    )

    it.effect("survives whatever a model calls", () =>
      Effect.gen(function* () {
        const { provider, session, tools } = yield* World.withTools({
          respond: script([
            calls([
              { name: "look", arguments: '{"act": "\\ud83d"}', id: "x" },
              { name: "look", arguments: '{"act": "a\\u0000b"}', id: "x" },
              { name: "💥", arguments: "{}", id: "y".repeat(60) },
              { name: "look", arguments: { act: "b" }, id: "ok-1" }
            ]),
            text("ok"),
            text("ok")
          ])
        })
        yield* session.run("go")
        yield* session.run("next")
        assert.include(Tools.startedActs(tools), "b")
        assert.isEmpty(yield* Sound.complaints(session, provider, tools))
      })
    )
  })
}
