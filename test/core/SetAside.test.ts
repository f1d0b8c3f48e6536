import { assert, describe, it } from "@effect/vitest"
import * as SetAside from "@turnstep/core/SetAside"
import * as Transcript from "@turnstep/core/Transcript"
import type { DataOf } from "@turnstep/core/TurnEvent"
import { TurnId } from "@turnstep/core/Ids"

const file = (mediaType: string) => ({ type: "file", mediaType, data: "https://example.org/a" }) as const

const fact = (model: string, parts: ReadonlyArray<readonly [number, number]>): DataOf<"content.set-aside"> => ({
  turnId: TurnId.make("trn_1"),
  step: 1,
  model,
  parts: parts.map(([message, part]) => ({ message, part })),
  by: "provider",
  reason: "no"
})

const places = (media: ReadonlyArray<SetAside.Medium>) => media.map(({ message, part }) => [message, part])

describe("SetAside", () => {
  it("offers the newest message, then all that is new, then what was answered", () => {
    const state = SetAside.make()
    SetAside.added(state, [file("image/png")])
    SetAside.answered(state, "m")
    SetAside.added(state, [file("image/png")])
    SetAside.added(state, [file("image/png")])
    SetAside.added(state, [file("image/png"), file("audio/wav")])
    const rounds: Array<unknown> = []
    for (;;) {
      const media = SetAside.next(state, "m", "image")
      if (media.length === 0) break
      rounds.push(places(media))
      assert.isTrue(
        SetAside.apply(
          state,
          fact(
            "m",
            media.map(({ message, part }) => [message, part])
          )
        )
      )
    }
    assert.deepStrictEqual(rounds, [
      [[3, 0]],
      [
        [1, 0],
        [2, 0]
      ],
      [[0, 0]],
      [[3, 1]]
    ])
  })

  it("sets a file aside for one model, and once", () => {
    const state = SetAside.make()
    SetAside.added(state, [file("image/png")])
    assert.isTrue(SetAside.apply(state, fact("m", [[0, 0]])))
    assert.isFalse(SetAside.apply(state, fact("m", [[0, 0]])))
    assert.isFalse(SetAside.apply(state, fact("m", [[0, 1]])))
    assert.isEmpty(SetAside.sent(state, "m"))
    assert.strictEqual(SetAside.sent(state, "other").length, 1)
    const window = [Transcript.userMessage([file("image/png")])]
    assert.strictEqual(SetAside.windowFor(state, "other", window), window)
    assert.notStrictEqual(SetAside.windowFor(state, "m", window), window)
  })

  it("keeps a window and its messages while it grows, and shows its last message anew", () => {
    const state = SetAside.make()
    SetAside.added(state, [file("image/png")])
    SetAside.apply(state, fact("m", [[0, 0]]))
    const window = [Transcript.userMessage([file("image/png")]), Transcript.userMessage(Transcript.userText("b"))]
    const first = SetAside.windowFor(state, "m", window)
    const [replaced, second] = first
    assert.strictEqual(second, window[1])
    window[1] = Transcript.userMessage(Transcript.userText("c"))
    window.push(Transcript.userMessage(Transcript.userText("d")))
    assert.strictEqual(SetAside.windowFor(state, "m", window), first)
    assert.deepStrictEqual([first[0] === replaced, first[1] === window[1], first[2] === window[2]], [true, true, true])
  })
})
