import { assert, describe, it } from "@effect/vitest"
import * as OpenAiChat from "@turnstep/runtime/model/OpenAiChat"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Effect from "effect/Effect"
import { callsOf, finishOf, parts, partsAndError, textOf } from "../../fixtures/modelCalls.ts"

const sse = (...payloads: ReadonlyArray<object | string>): ReadonlyArray<string> =>
  payloads.map((payload) => `data: ${typeof payload === "string" ? payload : JSON.stringify(payload)}\n\n`)

const delta = (delta: object, finish_reason: string | null = null) => ({
  id: "chatcmpl-9f-A1",
  model: "m",
  choices: [{ index: 0, delta, finish_reason }]
})

const piece = (index: number | undefined, fn: { name?: string; arguments?: unknown }, id?: string | null) =>
  delta({
    tool_calls: [
      { ...(index === undefined ? undefined : { index }), ...(id === undefined ? {} : { id }), function: fn }
    ]
  })

const end = (reason = "tool_calls") => [delta({}, reason), "[DONE]"] as const

/** The parts told when the provider writes exactly these bytes. */
const read = (raw: StrictProvider.Raw["raw"], headers?: StrictProvider.Raw["headers"]) =>
  Effect.gen(function* () {
    const provider = yield* StrictProvider.make({ respond: () => ({ raw, headers }) })
    return yield* Effect.provide(parts("x"), provider.layer)
  })

const readFailure = (raw: StrictProvider.Raw["raw"], cut?: number) =>
  Effect.gen(function* () {
    const provider = yield* StrictProvider.make({ respond: () => ({ raw, cut }) })
    return yield* Effect.provide(partsAndError("x"), provider.layer)
  })

const call = (name: string, params: unknown, id: string) => ({ id, name, params })

const callQuirks: ReadonlyArray<readonly [string, ReadonlyArray<object | string>, ReadonlyArray<unknown>]> = [
  [
    "takes a function name once, repeated or empty in later pieces",
    [
      piece(0, { name: "read", arguments: "" }, "a"),
      piece(0, { name: "read", arguments: '{"path":' }, "a"),
      piece(0, { name: "", arguments: '"x"}' }, ""),
      ...end()
    ],
    [call("read", { path: "x" }, "a")]
  ],
  [
    "keeps interleaved parallel calls apart by index",
    [
      piece(0, { name: "read", arguments: '{"pa' }, "a"),
      piece(1, { name: "add", arguments: '{"a":' }, "b"),
      piece(0, { arguments: 'th":"x"}' }),
      piece(1, { arguments: '1,"b":2}' }),
      ...end()
    ],
    [call("read", { path: "x" }, "a"), call("add", { a: 1, b: 2 }, "b")]
  ],
  [
    "takes whole calls without an index",
    [
      delta({
        tool_calls: [
          { id: "a", type: "function", function: { name: "read", arguments: '{"path":"x"}' } },
          { id: "b", type: "function", function: { name: "read", arguments: '{"path":"y"}' } }
        ]
      }),
      ...end()
    ],
    [call("read", { path: "x" }, "a"), call("read", { path: "y" }, "b")]
  ],
  [
    "takes pieces without an index by their id, and pieces without both as the last call's",
    [
      piece(undefined, { name: "read", arguments: "" }, "a"),
      piece(undefined, { arguments: '{"path":' }, "a"),
      piece(undefined, { arguments: '"x"}' }),
      ...end()
    ],
    [call("read", { path: "x" }, "a")]
  ],
  [
    "takes two whole calls that both claim index 0 as two",
    [
      piece(0, { name: "read", arguments: '{"path":"x"}' }, "a"),
      piece(0, { name: "read", arguments: '{"path":"y"}' }, "b"),
      ...end("stop")
    ],
    [call("read", { path: "x" }, "a"), call("read", { path: "y" }, "b")]
  ],
  [
    "mints unique ids where they are absent, null, blank or repeated",
    [
      piece(0, { name: "read", arguments: "{}" }),
      piece(1, { name: "read", arguments: "{}" }, null),
      piece(2, { name: "read", arguments: "{}" }, " "),
      piece(3, { name: "read", arguments: "{}" }, "same"),
      piece(4, { name: "read", arguments: "{}" }, "same"),
      ...end()
    ],
    [
      call("read", {}, "call_0_chatcmpl9fA1"),
      call("read", {}, "call_1_chatcmpl9fA1"),
      call("read", {}, "call_2_chatcmpl9fA1"),
      call("read", {}, "same"),
      call("read", {}, "call_4_chatcmpl9fA1")
    ]
  ],
  [
    "takes two whole calls with the same id and no index as two",
    [
      piece(undefined, { name: "read", arguments: '{"path":"x"}' }, "a"),
      piece(undefined, { name: "read", arguments: '{"path":"y"}' }, "a"),
      ...end()
    ],
    [call("read", { path: "x" }, "a"), call("read", { path: "y" }, "call_1_chatcmpl9fA1")]
  ],
  [
    "takes no arguments as an empty object",
    [piece(0, { name: "read", arguments: "" }, "a"), piece(1, { name: "add" }, "b"), ...end()],
    [call("read", {}, "a"), call("add", {}, "b")]
  ],
  [
    "takes arguments that came as an object",
    [piece(0, { name: "read", arguments: { path: "x" } }, "a"), ...end()],
    [call("read", { path: "x" }, "a")]
  ],
  [
    "leaves arguments that are not JSON, or that carry a prototype, as the text they are",
    [
      piece(0, { name: "read", arguments: '{"path": x' }, "a"),
      piece(1, { name: "read", arguments: '{"__proto__":{"a":1}}' }, "b"),
      ...end()
    ],
    [call("read", '{"path": x', "a"), call("read", '{"__proto__":{"a":1}}', "b")]
  ],
  [
    "tells the call of a tool that nobody declared",
    [piece(0, { name: "rm", arguments: '{"all":true}' }, "a"), ...end()],
    [call("rm", { all: true }, "a")]
  ]
]

describe("OpenAiChat on servers with quirks", () => {
  for (const [what, payloads, expected] of callQuirks) {
    it.live(what, () =>
      Effect.gen(function* () {
        const seen = yield* read(sse(...payloads))
        assert.deepStrictEqual<unknown>(callsOf(seen), expected)
        assert.strictEqual(finishOf(seen)?.reason, "tool-calls")
        const started = seen.flatMap((part) => (part.type === "tool-params-start" ? [part.id] : []))
        assert.deepStrictEqual(
          started,
          callsOf(seen).map(({ id }) => id)
        )
        assert.lengthOf(
          seen.filter((part) => part.type === "tool-params-end"),
          started.length
        )
      })
    )
  }

  it.live("reads a JSON document answered to a streaming request", () =>
    Effect.gen(function* () {
      const message = {
        role: "assistant",
        content: "Look",
        tool_calls: [{ id: "a", type: "function", function: { name: "read", arguments: '{"path":"x"}' } }]
      }
      const document = {
        id: "r",
        model: "m",
        choices: [{ index: 0, message, finish_reason: "tool_calls" }],
        usage: { prompt_tokens: 3 }
      }
      const text = JSON.stringify(document, null, 2)
      const seen = yield* read([text.slice(0, 20), text.slice(20)], { "content-type": "application/json" })
      assert.strictEqual(textOf(seen), "Look")
      assert.deepStrictEqual<unknown>(callsOf(seen), [call("read", { path: "x" }, "a")])
      assert.strictEqual(finishOf(seen)?.usage.inputTokens.total, 3)
    })
  )

  it.live("leaves usage unknown when it is missing, null or not counted in whole numbers", () =>
    Effect.gen(function* () {
      const missing = yield* read(sse(delta({ content: "a" }), ...end("stop")))
      assert.deepStrictEqual({ ...finishOf(missing)?.usage.inputTokens }, {})
      const odd = yield* read(
        sse(
          { ...delta({ content: "a" }), usage: null },
          { ...delta({}, "stop"), usage: { prompt_tokens: "7", completion_tokens: 1.5 } },
          "[DONE]"
        )
      )
      assert.isUndefined(finishOf(odd)?.usage.inputTokens.total)
      assert.isUndefined(finishOf(odd)?.usage.outputTokens.total)
    })
  )

  it.live("reads CRLF, comments, event names, ids and data without a space", () =>
    Effect.gen(function* () {
      const seen = yield* read([
        ": keep-alive\r\n\r\n",
        `event: message\r\nid: 1\r\ndata:${JSON.stringify(delta({ content: "a" }))}\r\n\r\n`,
        ": OPENROUTER PROCESSING\r\n\r\nretry: 10\r\n",
        `data: ${JSON.stringify(delta({ content: "b" }))}\r\n`,
        `\r\ndata: ${JSON.stringify(delta({}, "stop"))}\r\n\r\ndata: [DONE]\r\n\r\n`
      ])
      assert.strictEqual(textOf(seen), "ab")
      assert.strictEqual(finishOf(seen)?.reason, "stop")
    })
  )

  it.live(
    "reads events without the blank line between them, an event over two lines, and a last line without its end",
    () =>
      Effect.gen(function* () {
        const [a, b] = [JSON.stringify(delta({ content: "a" })), JSON.stringify(delta({ content: "b" }))]
        const pretty = JSON.stringify(delta({ content: "c" }), null, 1).replaceAll("\n", "\ndata: ")
        const seen = yield* read([
          `data: ${a}\ndata: ${b}\n\ndata: ${pretty}\n\ndata: ${JSON.stringify(delta({}, "stop"))}`
        ])
        assert.strictEqual(textOf(seen), "abc")
      })
  )

  it.live("reads a response cut at every byte, inside a character too", () =>
    Effect.gen(function* () {
      const text = "grün 😀 — 漢字"
      const bytes = Buffer.from(
        sse(delta({ content: text }), piece(0, { name: "read", arguments: `{"path":"${text}"}` }, "a"), ...end())
          .join("")
          .replaceAll("\n", "\r\n")
      )
      for (const size of [1, 2, 3, 7]) {
        const pieces: Array<Uint8Array> = []
        for (let from = 0; from < bytes.length; from += size) pieces.push(bytes.subarray(from, from + size))
        const seen = yield* read(pieces.flatMap((piece) => [piece, Effect.yieldNow]))
        assert.strictEqual(textOf(seen), text)
        assert.deepStrictEqual<unknown>(callsOf(seen), [call("read", { path: text }, "a")])
      }
    })
  )

  it.live("takes null content, an empty response and reasoning under either name", () =>
    Effect.gen(function* () {
      const empty = yield* read(sse(delta({ role: "assistant", content: null }), ...end("stop")))
      assert.deepStrictEqual(
        empty.map((part) => part.type),
        ["response-metadata", "finish"]
      )
      const bare = yield* read(sse("[DONE]"))
      assert.deepStrictEqual(
        bare.map((part) => part.type),
        ["finish"]
      )
      const seen = yield* read(
        sse(
          delta({ reasoning: "a" }),
          delta({ reasoning_content: "b", reasoning: "b" }),
          delta({ content: "c" }),
          ...end("stop")
        )
      )
      const thoughts = seen.map((part) => (part.type === "reasoning-delta" ? part.delta : "")).join("")
      assert.strictEqual(thoughts, "ab")
      assert.strictEqual(textOf(seen), "c")
    })
  )

  it.live("tells a call cut by the length limit as text, and the finish as length", () =>
    Effect.gen(function* () {
      const seen = yield* read(
        sse(
          piece(0, { name: "read", arguments: '{"path":"x' }, "a"),
          piece(1, { name: "read", arguments: "" }, "b"),
          ...end("length")
        )
      )
      assert.deepStrictEqual<unknown>(callsOf(seen), [call("read", '{"path":"x', "a"), call("read", "", "b")])
      assert.strictEqual(finishOf(seen)?.reason, "length")
    })
  )

  it.live("never tells a call of half a response, however it ends", () =>
    Effect.gen(function* () {
      const whole = [piece(0, { name: "read", arguments: '{"path":"x"}' }, "a")]
      const endings = [
        { what: "clean end without finish reason", ...(yield* readFailure(sse(...whole))) },
        { what: "socket reset", ...(yield* readFailure(sse(...whole, ...end()), 1)) },
        {
          what: "socket reset inside the finish chunk",
          ...(yield* readFailure([...sse(...whole), 'data: {"choices":[{"fin'], 2))
        },
        { what: "clean end inside a chunk", ...(yield* readFailure([...sse(...whole), 'data: {"choices":[{"fin'])) },
        { what: "half a document", ...(yield* readFailure(['{"choices":[{"message":{"tool_calls":[{"id":"a"'])) },
        { what: "nothing at all", ...(yield* readFailure([])) }
      ]
      for (const { error, seen, what } of endings) {
        assert.lengthOf(callsOf(seen), 0, what)
        assert.isUndefined(finishOf(seen), what)
        assert.strictEqual(error.reason._tag, "NetworkError", what)
        assert.isTrue(error.isRetryable, what)
      }
    })
  )

  it.live("fails with the provider's own words when an error is told inside the stream", () =>
    Effect.gen(function* () {
      const started = delta({ content: "a" })
      const tell = (error: unknown) => readFailure(sse(started, { error }))
      const overloaded = yield* tell({ message: "Overloaded", code: 503 })
      assert.strictEqual(textOf(overloaded.seen), "a")
      assert.strictEqual(overloaded.error.reason._tag, "InternalProviderError")
      assert.include(overloaded.error.message, "Overloaded")
      assert.strictEqual(
        (yield* tell({ message: "slow down", type: "rate_limit_error" })).error.reason._tag,
        "RateLimitError"
      )
      assert.strictEqual((yield* tell("boom")).error.reason._tag, "InternalProviderError")
      const overflow = (yield* tell({ message: "prompt too long; exceeded max context length by 3 tokens", code: 500 }))
        .error.reason
      assert.strictEqual(overflow._tag === "InvalidRequestError" && overflow.constraint, "context_window")
      const stopped = yield* readFailure(sse(started, delta({}, "insufficient_system_resource"), "[DONE]"))
      assert.strictEqual(stopped.error.reason._tag, "InternalProviderError")
      const garbled = yield* readFailure(sse(started, "upstream timed out"))
      assert.include(garbled.error.message, "upstream timed out")
      assert.isTrue(garbled.error.isRetryable)
    })
  )

  it.live("passes over lines that are no chunks, and names one when the response is cut short", () =>
    Effect.gen(function* () {
      const odd = ["", "null", "0", '"ok"', "[]", "{}", "ping", "[HEARTBEAT]", ": OPENROUTER PROCESSING", "processing"]
      const seen = yield* read(sse(...odd, delta({ content: "a" }), ...odd, ...end("stop")))
      assert.strictEqual(textOf(seen), "a")
      assert.strictEqual(finishOf(seen)?.reason, "stop")
      const cut = yield* readFailure(sse(delta({ content: "a" }), "upstream has gone away"))
      assert.include(cut.error.message, "upstream has gone away")
      const broken = yield* readFailure(sse(delta({ content: "a" }), '{"choices":[{"delta"', ...end("stop")))
      assert.strictEqual(broken.error.reason._tag, "InternalProviderError")
    })
  )

  it.live("fails with an error that is told without the member 'error'", () =>
    Effect.gen(function* () {
      const started = delta({ content: "a" })
      for (const told of [
        { object: "error", message: "out of memory", code: 500 },
        { message: "out of memory", code: 500 },
        { detail: "out of memory" }
      ]) {
        const { error } = yield* readFailure(sse(started, told, ...end("stop")))
        assert.include(error.message, "out of memory")
      }
    })
  )

  it.live("takes [DONE] without a finish reason for whole only where servers leave it out, and runs no cut call", () =>
    Effect.gen(function* () {
      const raw = sse(
        delta({ content: "a" }),
        piece(0, { name: "read", arguments: '{"path":"x"}' }, "a"),
        piece(1, { name: "read", arguments: "" }, "b"),
        "[DONE]"
      )
      const seen = yield* read(raw)
      assert.strictEqual(finishOf(seen)?.reason, "unknown")
      assert.deepStrictEqual<unknown>(callsOf(seen), [call("read", { path: "x" }, "a"), call("read", "", "b")])
      const provider = yield* StrictProvider.make({ respond: () => ({ raw }) })
      const strict = OpenAiChat.layer({ baseUrl: provider.baseUrl, model: "m", tellsFinish: true })
      const { error, seen: told } = yield* Effect.provide(partsAndError("x"), strict)
      assert.isTrue(error.isRetryable)
      assert.isEmpty(callsOf(told))
    })
  )

  it.live("fails on a response that is nested without end", () =>
    Effect.gen(function* () {
      const deep = `${"[".repeat(100_000)}${"]".repeat(100_000)}`
      for (const member of [
        `"extra_content":{"a":${deep}}`,
        `"tool_calls":[{"index":0,"function":{"arguments":${deep}}}]`
      ]) {
        const { error } = yield* readFailure([`data: {"choices":[{"delta":{${member}}}]}\n\n`, ...sse(...end())])
        assert.strictEqual(error.reason._tag, "InvalidResponseError")
      }
    })
  )

  it.live("ends at [DONE] although the server keeps the connection open", () =>
    Effect.gen(function* () {
      const provider = yield* StrictProvider.make({
        respond: () => ({ raw: [...sse(delta({ content: "a" }), ...end("stop")), Effect.never] })
      })
      assert.strictEqual(textOf(yield* Effect.provide(parts("x"), provider.layer)), "a")
    })
  )
})
