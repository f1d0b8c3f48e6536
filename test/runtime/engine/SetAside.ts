import { createAnthropic } from "@ai-sdk/anthropic"
import { assert, describe } from "@effect/vitest"
import type { Session } from "@turnstep/runtime/Session"
import * as AiSdk from "@turnstep/runtime/model/AiSdk"
import * as ChatServer from "@turnstep/runtime/testing/ChatServer"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import * as Sound from "../../fixtures/Sound.ts"
import type { It } from "../../fixtures/Stores.ts"
import * as Tools from "../../fixtures/Tools.ts"
import * as World from "../../fixtures/World.ts"

const { calls, failure, text } = StrictProvider

const embedded = (mediaType: string, data: string, fileName: string) =>
  ({ type: "file", mediaType, data: `data:${mediaType};base64,${data}`, fileName }) as const

/** An image of one pixel. */
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
const image = (fileName: string) => embedded("image/png", pixel, fileName)
const pdf = embedded("application/pdf", Buffer.from("%PDF-1.7\n").toString("base64"), "a.pdf")
const recording = embedded("audio/wav", Buffer.from("RIFF\0\0\0\0WAVEfmt ").toString("base64"), "a.wav")
const video = embedded("video/mp4", Buffer.from("\0\0\0\x18ftypisom").toString("base64"), "a.mp4")

const said = (what: string) => ({ type: "text", text: what }) as const

/** A model that refuses requests with such content, and answers how many files it was sent. */
const refusing =
  (isRefused: (request: string) => boolean, message: string): StrictProvider.Respond =>
  ({ messages }) => {
    const sent = JSON.stringify(messages)
    if (isRefused(sent)) return failure(400, { message })
    return text(`${sent.split(/"type":"(?:image_url|file|input_audio)"/).length - 1} files`)
  }

const asides = (session: Session) =>
  Effect.map(World.events(session), (events) =>
    World.dataOf(events, "content.set-aside").map(({ by, parts }) => [
      by,
      parts.map(({ message, part }) => `${message}/${part}`).join(" ")
    ])
  )

const told = (provider: StrictProvider.StrictProvider) => JSON.stringify(provider.requests.at(-1)?.messages)

export const suite = (it: It): void => {
  describe("SetAside", () => {
    const refusals: ReadonlyArray<readonly [string, Parameters<typeof refusing>, ReturnType<typeof embedded>, RegExp]> =
      [
        [
          "an image",
          [(sent) => sent.includes("image_url"), "Could not process image"],
          image("a.png"),
          /\[image \\"a.png\\" left out: the model's provider refused it: Could not process image\]/
        ],
        [
          "a PDF",
          [(sent) => sent.includes("file_data"), "Invalid file data: the PDF is encrypted"],
          pdf,
          /\[file \\"a.pdf\\" left out: /
        ],
        [
          "a recording",
          [(sent) => sent.includes("input_audio"), "This model does not support audio input"],
          recording,
          /\[recording \\"a.wav\\" left out: /
        ]
      ]
    for (const [what, [isRefused, message], part, words] of refusals) {
      it.effect(`goes on without ${what} that the provider refuses, and so does every later Turn`, () =>
        Effect.gen(function* () {
          const { logged, provider, session } = yield* World.withTools({ respond: refusing(isRefused, message) })
          assert.deepStrictEqual(World.brief(yield* session.run([said("see"), part])), ["Answered", "0 files", 1])
          assert.match(told(provider), words)
          assert.deepStrictEqual(World.brief(yield* session.run("next")), ["Answered", "0 files", 1])
          assert.match(told(provider), words)
          assert.deepStrictEqual(yield* asides(session), [["provider", "0/1"]])
          assert.strictEqual(provider.requests.length, 3)
          assert.isEmpty(logged)
          assert.isEmpty(yield* Sound.complaints(session, provider))
        })
      )
    }

    it.effect("remembers after a restart what was set aside, and keeps the file in the record", () =>
      Effect.gen(function* () {
        const { provider, session, start, stop } = yield* World.withTools({
          respond: refusing((sent) => sent.includes("image_url"), "image input is not supported")
        })
        yield* session.run([said("see"), image("a.png")])
        yield* stop
        const next = yield* (yield* start).sessions.get(session.id)
        assert.deepStrictEqual(World.brief(yield* next.run("next")), ["Answered", "0 files", 1])
        assert.strictEqual(provider.requests.length, 3)
        const { messages } = yield* next.exportHistory("openai-chat")
        assert.include(JSON.stringify(messages), pixel)
        assert.isEmpty(yield* Sound.complaints(next, provider))
      })
    )

    it.effect("sets the newest files aside first, and none that the model has answered", () =>
      Effect.gen(function* () {
        const { provider, session } = yield* World.withTools({
          respond: refusing((sent) => sent.split(pixel).length > 3, "Too many images")
        })
        yield* session.run([image("a.png"), said("one")])
        yield* session.run([image("b.png"), said("two")])
        yield* session.run([said("three"), image("c.png"), image("d.png")])
        assert.deepStrictEqual(yield* asides(session), [["provider", "4/1 4/2"]])
        assert.include(told(provider), '\\"d.png\\" left out')
        assert.notInclude(told(provider), '\\"b.png\\" left out')
      })
    )

    it.effect("sets aside what was answered when nothing else is left", () =>
      Effect.gen(function* () {
        let isOld = false
        const { provider, session } = yield* World.withTools({
          respond: (request) =>
            isOld ? refusing((sent) => sent.includes("image_url"), "invalid image data")(request) : text("ok")
        })
        yield* session.run([image("a.png"), said("one")])
        isOld = true
        assert.deepStrictEqual(World.brief(yield* session.run("two")), ["Answered", "0 files", 1])
        assert.deepStrictEqual(yield* asides(session), [["provider", "0/0"]])
        assert.isEmpty(yield* Sound.complaints(session, provider))
      })
    )

    it.effect("sets a recording aside and keeps the image beside it", () =>
      Effect.gen(function* () {
        const { session } = yield* World.withTools({
          respond: refusing((sent) => sent.includes("input_audio"), "audio input is not supported")
        })
        const outcome = yield* session.run([image("a.png"), recording, said("one")])
        assert.deepStrictEqual(World.brief(outcome), ["Answered", "1 files", 1])
        assert.deepStrictEqual(yield* asides(session), [["provider", "0/1"]])
      })
    )

    it.effect("sets a steered image aside between calls, and in the hand-back", () =>
      Effect.gen(function* () {
        const gate = yield* Tools.gate
        const { provider, session, tools } = yield* World.withTools({
          respond: ({ index, messages }) =>
            index === 0
              ? calls([Tools.call("look", "a")])
              : JSON.stringify(messages).includes("image_url")
                ? failure(400, { message: "Could not process image" })
                : text("handed back"),
          policy: { maxSteps: 1 }
        })
        tools.on("a", Effect.as(gate.pass, "done"))
        yield* session.send("go")
        yield* gate.reached
        yield* session.steer([image("a.png")])
        yield* gate.open
        const end = yield* World.ended(session, 1)
        assert.strictEqual(end.type, "turn.exhausted")
        assert.deepStrictEqual(yield* asides(session), [["provider", "3/0"]])
        assert.isEmpty(yield* Sound.complaints(session, provider, tools))
      })
    )

    it.effect("names what its wire cannot carry before the first request", () =>
      Effect.gen(function* () {
        const { provider, session } = yield* World.withTools({ respond: refusing(() => false, "") })
        const outcome = yield* session.run([said("see"), video, image("a.png")])
        assert.deepStrictEqual(World.brief(outcome), ["Answered", "1 files", 1])
        assert.match(
          told(provider),
          /\[video \\"a.mp4\\" left out: it cannot be sent to the model: its wire carries no files/
        )
        yield* session.run("next")
        assert.deepStrictEqual(yield* asides(session), [["wire", "0/1"]])
        assert.strictEqual(provider.requests.length, 2)
        assert.isEmpty(yield* Sound.complaints(session, provider))
      })
    )

    it.effect("ends the Turn when the refusal is about something else, or when no file is left", () =>
      Effect.gen(function* () {
        let message = "Unsupported parameter: 'temperature' is not supported with this model."
        const { provider, session } = yield* World.withTools({ respond: () => failure(400, { message }) })
        yield* session.send([said("see"), image("a.png")])
        assert.strictEqual((yield* World.ended(session, 1)).type, "turn.failed")
        assert.strictEqual(provider.requests.length, 1)
        message = "Could not process image"
        yield* session.send("next")
        assert.strictEqual((yield* World.ended(session, 2)).type, "turn.failed")
        assert.strictEqual(provider.requests.length, 3)
        assert.isEmpty(yield* Sound.complaints(session, provider))
      })
    )

    it.effect("goes on without an image that a provider package's server refuses", () =>
      Effect.gen(function* () {
        const { arrivals, port } = yield* ChatServer.make
        const bodies: Array<string> = []
        yield* Queue.take(arrivals).pipe(
          Effect.flatMap((arrival) => {
            bodies.push(arrival.text)
            const reply = arrival.text.includes('"type":"image"')
              ? failure(400, { message: "messages.0.content.1.image.source.base64: Could not process image" })
              : { raw: anthropicText("fine") }
            return ChatServer.reply(
              arrival.response,
              reply,
              { id: "x", model: "m", promptTokens: 0, includeUsage: false },
              true
            )
          }),
          Effect.forever,
          Effect.forkScoped
        )
        const model = createAnthropic({ baseURL: `http://127.0.0.1:${port}`, apiKey: "key" })("claude")
        const { session } = yield* World.withTools({ respond: () => text("unused"), model: () => AiSdk.layer(model) })
        assert.deepStrictEqual(World.brief(yield* session.run([said("see"), image("a.png")])), ["Answered", "fine", 1])
        assert.deepStrictEqual(World.brief(yield* session.run("next")), ["Answered", "fine", 1])
        assert.strictEqual(bodies.length, 3)
        assert.match(bodies[2] ?? "", /left out: the model's provider refused it/)
        assert.deepStrictEqual(yield* asides(session), [["provider", "0/1"]])
      })
    )

    it.effect("goes on without a file that a provider package cannot send", () =>
      Effect.gen(function* () {
        const { arrivals, port } = yield* ChatServer.make
        yield* Queue.take(arrivals).pipe(
          Effect.flatMap((arrival) =>
            ChatServer.reply(
              arrival.response,
              { raw: anthropicText("fine") },
              { id: "x", model: "m", promptTokens: 0, includeUsage: false },
              true
            )
          ),
          Effect.forever,
          Effect.forkScoped
        )
        const model = createAnthropic({ baseURL: `http://127.0.0.1:${port}`, apiKey: "key" })("claude")
        const { session } = yield* World.withTools({ respond: () => text("unused"), model: () => AiSdk.layer(model) })
        assert.deepStrictEqual(World.brief(yield* session.run([said("see"), video])), ["Answered", "fine", 1])
        assert.deepStrictEqual(yield* asides(session), [["provider", "0/1"]])
      })
    )
  })
}

const anthropicText = (words: string): ReadonlyArray<string> =>
  [
    {
      type: "message_start",
      message: {
        id: "msg_1",
        model: "claude",
        role: "assistant",
        content: [],
        usage: { input_tokens: 5, output_tokens: 1 }
      }
    },
    { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
    { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: words } },
    { type: "content_block_stop", index: 0 },
    { type: "message_delta", delta: { stop_reason: "end_turn", stop_sequence: null }, usage: { output_tokens: 9 } },
    { type: "message_stop" }
  ].map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
