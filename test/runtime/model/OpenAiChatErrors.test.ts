import { assert, describe, it } from "@effect/vitest"
import * as OpenAiChat from "@turnstep/runtime/model/OpenAiChat"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import type * as AiError from "effect/ai/AiError"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as net from "node:net"
import * as util from "node:util"
import { partsAndError } from "../../fixtures/modelCalls.ts"

const key = "sk-live-0123456789abcdef"

const errorOf = (reply: StrictProvider.Failure, apiKey: string | undefined = key) =>
  Effect.gen(function* () {
    const provider = yield* StrictProvider.make({ respond: () => reply })
    const layer = OpenAiChat.layer({
      baseUrl: provider.baseUrl,
      model: "m",
      ...(apiKey === "" ? undefined : { apiKey: Redacted.make(apiKey) })
    })
    return (yield* Effect.provide(partsAndError("x"), layer)).error
  })

const failure = StrictProvider.failure

type Reason = AiError.AiErrorReason["_tag"]

const table: ReadonlyArray<readonly [string, StrictProvider.Failure, Reason, boolean]> = [
  ["a wrong key", failure(401, { message: "Incorrect API key provided" }), "AuthenticationError", false],
  ["a missing permission", failure(403, { message: "no access" }), "AuthenticationError", false],
  ["a rate limit", failure(429, { message: "slow down", code: "rate_limit_exceeded" }), "RateLimitError", true],
  [
    "a spent quota",
    failure(429, { message: "You exceeded your current quota", code: "insufficient_quota" }),
    "QuotaExhaustedError",
    false
  ],
  ["an empty account", failure(402, { message: "Insufficient Balance" }), "QuotaExhaustedError", false],
  ["a bad request", failure(400, { message: "bad temperature", param: "temperature" }), "InvalidRequestError", false],
  [
    "an unknown model",
    failure(404, { message: "no such model", code: "model_not_found" }),
    "InvalidRequestError",
    false
  ],
  ["refused content", failure(400, { message: "filtered", code: "content_filter" }), "ContentPolicyError", false],
  ["a provider's time-out", failure(408, { message: "timeout" }), "InternalProviderError", true],
  ["trouble inside the provider", failure(500, { message: "oops" }), "InternalProviderError", true],
  ["an overloaded provider", { status: 529, body: "<html>overloaded</html>" }, "InternalProviderError", true],
  ["a redirect", { status: 302, headers: { location: "https://example.test" } }, "UnknownError", false]
]

describe("OpenAiChat errors", () => {
  for (const [what, reply, tag, isRetryable] of table) {
    it.live(`calls ${what} ${tag}, ${isRetryable ? "retryable" : "final"}`, () =>
      Effect.gen(function* () {
        const error = yield* errorOf(reply)
        assert.strictEqual(error.reason._tag, tag)
        assert.strictEqual(error.isRetryable, isRetryable)
      })
    )
  }

  it.live("tells an absent key, a wrong one, an expired one and a missing permission apart", () =>
    Effect.gen(function* () {
      const kinds = [
        yield* errorOf(failure(401, { message: "no" }), ""),
        yield* errorOf(failure(401, { message: "no" })),
        yield* errorOf(failure(401, { message: "no", code: "key_expired" })),
        yield* errorOf(failure(403, { message: "no" }))
      ].map(({ reason }) => reason._tag === "AuthenticationError" && reason.kind)
      assert.deepStrictEqual(kinds, ["MissingKey", "InvalidKey", "ExpiredKey", "InsufficientPermissions"])
    })
  )

  it.live("reads the waiting time in milliseconds, seconds and as a date", () =>
    Effect.gen(function* () {
      const waits = (headers: Record<string, string>) =>
        Effect.map(errorOf(failure(429, { message: "slow down" }, headers)), ({ retryAfter }) =>
          retryAfter === undefined ? undefined : Duration.toMillis(retryAfter)
        )
      assert.strictEqual(yield* waits({ "retry-after": "20" }), 20_000)
      assert.strictEqual(yield* waits({ "retry-after": "1.5" }), 1_500)
      assert.strictEqual(yield* waits({ "retry-after": "20", "retry-after-ms": "250" }), 250)
      assert.strictEqual(yield* waits({ "retry-after": "Mon, 01 Jan 2001 00:00:00 GMT" }), 0)
      assert.isUndefined(yield* waits({}))
      const later = new Date(Date.now() + 60_000).toUTCString()
      const wait = (yield* waits({ "retry-after": later })) ?? 0
      assert.isTrue(wait > 50_000 && wait <= 60_000, `${wait}`)
    })
  )

  it.live("marks an input that does not fit, by code and by text", () =>
    Effect.gen(function* () {
      const refusals = [
        failure(400, { message: "too long", code: "context_length_exceeded" }),
        failure(400, { message: "This model's maximum context length is 8192 tokens. However, you requested 9000." }),
        failure(413, { message: "Payload Too Large" }),
        {
          status: 400,
          body: [
            {
              error: {
                code: 400,
                status: "INVALID_ARGUMENT",
                message: "The input token count (9) exceeds the maximum number of tokens allowed (8)."
              }
            }
          ]
        },
        {
          status: 400,
          body: { object: "error", message: "This model's maximum context length is 8 tokens", code: 40303 }
        }
      ]
      for (const refusal of refusals) {
        const { isRetryable, reason } = yield* errorOf(refusal)
        assert.strictEqual(reason._tag === "InvalidRequestError" && reason.constraint, "context_window")
        assert.isFalse(isRetryable)
      }
    })
  )

  it.live("keeps status, body and telling headers of a refusal", () =>
    Effect.gen(function* () {
      const { reason } = yield* errorOf(
        failure(400, { message: "bad value", param: "top_p" }, { "x-request-id": "req_1", "set-cookie": "session=1" })
      )
      if (reason._tag !== "InvalidRequestError") return assert.fail(reason._tag)
      assert.strictEqual(reason.parameter, "top_p")
      assert.strictEqual(reason.description, "bad value")
      assert.strictEqual(reason.http?.response?.status, 400)
      assert.strictEqual(reason.http?.response?.headers["x-request-id"], "req_1")
      assert.isUndefined(reason.http?.response?.headers["set-cookie"])
      assert.include(reason.http?.body ?? "", "bad value")
    })
  )

  it.live("has the API key in no error, even when the provider repeats it", () =>
    Effect.gen(function* () {
      const echoed = { "x-request-id": key }
      const errors = [
        yield* errorOf(failure(401, { message: `Incorrect API key provided: ${key}` }, echoed)),
        yield* errorOf({ status: 500, body: `Authorization: Bearer ${key}` }),
        yield* errorOf(failure(400, { message: `${key} has no access` }))
      ]
      const nowhere = OpenAiChat.layer({ baseUrl: "http://127.0.0.1:1/v1", model: "m", apiKey: Redacted.make(key) })
      errors.push((yield* Effect.provide(partsAndError("x"), nowhere)).error)
      const broken = OpenAiChat.layer({ baseUrl: "http://127.0.0.1:1", model: "m", apiKey: Redacted.make(`${key}\nx`) })
      errors.push((yield* Effect.provide(partsAndError("x"), broken)).error)
      for (const error of errors) {
        assert.notInclude(util.inspect(error, { depth: 20 }), key)
        assert.notInclude(JSON.stringify(error), key)
      }
    })
  )

  it.live("calls a refused connection and a server that hangs up NetworkError, retryable", () =>
    Effect.gen(function* () {
      const server = yield* Effect.acquireRelease(
        Effect.callback<net.Server>((resume) => {
          const server = net.createServer((socket) => socket.once("data", () => socket.destroy()))
          server.listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
        }),
        (server) => Effect.callback<void>((resume) => void server.close(() => resume(Effect.void)))
      )
      const address = server.address()
      const port = typeof address === "object" ? address?.port : 0
      for (const at of [port, 1]) {
        const layer = OpenAiChat.layer({ baseUrl: `http://127.0.0.1:${at}/v1?key=secret`, model: "m" })
        const { error } = yield* Effect.provide(partsAndError("x"), layer)
        if (error.reason._tag !== "NetworkError") return assert.fail(error.reason._tag)
        assert.strictEqual(error.reason.reason, "TransportError")
        assert.strictEqual(error.reason.url, `http://127.0.0.1:${at}/v1/chat/completions`)
        assert.isTrue(error.isRetryable)
      }
    })
  )

  it.live("gives up a provider that says nothing for too long", () =>
    Effect.gen(function* () {
      const provider = yield* StrictProvider.make({ respond: () => StrictProvider.text(["half", Effect.never]) })
      const layer = OpenAiChat.layer({ baseUrl: provider.baseUrl, model: "m", idleTimeout: "50 millis" })
      const { error } = yield* Effect.provide(partsAndError("x"), layer)
      assert.strictEqual(error?.reason._tag, "NetworkError")
      assert.include(error?.message, "nothing came for 50 ms")
    })
  )
})
