/** Refusals as the provider families tell them: what they mean, and that the person at the end reads the provider's own reason. */
import { assert, describe, it } from "@effect/vitest"
import * as ProviderRefusal from "@turnstep/runtime/model/ProviderRefusal"
import * as Duration from "effect/Duration"

const reasonOf = (status: number | undefined, body: unknown, headers: Readonly<Record<string, string>> = {}) =>
  ProviderRefusal.toReason(
    { status, body: typeof body === "string" || status === undefined ? body : JSON.stringify(body), headers },
    { now: 0, scrub: ProviderRefusal.scrubber("own-secret-key"), hasKey: true }
  )

const textOf = (reason: ReturnType<typeof reasonOf>): string =>
  `${reason.message} ${ProviderRefusal.wordsOf(reason) ?? ""}`

type Row = readonly [what: string, status: number | undefined, body: unknown, tag: string, words: string]

const error = (message: string, rest: object = {}) => ({ error: { message, ...rest } })

const raw = (inner: unknown, provider_name = "X") => ({
  error: { message: "Provider returned error", code: 429, metadata: { raw: inner, provider_name } }
})

const quota: ReadonlyArray<Row> = [
  [
    "OpenAI",
    429,
    error("You exceeded your current quota, please check your plan", { code: "insufficient_quota" }),
    "QuotaExhaustedError",
    "check your plan"
  ],
  [
    "OpenAI, hard limit",
    400,
    error("Billing hard limit has been reached", { code: "billing_hard_limit_reached" }),
    "QuotaExhaustedError",
    "hard limit"
  ],
  [
    "Moonshot",
    429,
    error("Your account is suspended due to insufficient balance, please recharge your account", {
      type: "exceeded_current_quota_error"
    }),
    "QuotaExhaustedError",
    "suspended due to insufficient balance"
  ],
  [
    "Zhipu",
    429,
    error("Insufficient balance or no resource package. Please recharge.", { code: "1113" }),
    "QuotaExhaustedError",
    "no resource package"
  ],
  [
    "Zhipu, in Chinese",
    429,
    error("余额不足或无可用资源包,请充值。", { code: "1113" }),
    "QuotaExhaustedError",
    "余额不足"
  ],
  [
    "DeepSeek",
    402,
    error("Insufficient Balance", { code: "invalid_request_error" }),
    "QuotaExhaustedError",
    "Insufficient Balance"
  ],
  [
    "Anthropic",
    400,
    {
      type: "error",
      error: { type: "invalid_request_error", message: "Your credit balance is too low to access the Anthropic API." }
    },
    "QuotaExhaustedError",
    "credit balance is too low"
  ],
  [
    "OpenRouter",
    402,
    error("This request requires more credits, or fewer max_tokens.", { code: 402 }),
    "QuotaExhaustedError",
    "requires more credits"
  ],
  [
    "OpenRouter, key",
    403,
    error("Key limit exceeded (total limit).", { code: 403 }),
    "QuotaExhaustedError",
    "Key limit exceeded"
  ],
  [
    "xAI",
    403,
    {
      code: "permission-denied",
      error: "Your team has used all available credits or reached its monthly spending limit."
    },
    "QuotaExhaustedError",
    "used all available credits"
  ],
  [
    "DashScope",
    400,
    error("Access denied, please make sure your account is in good standing.", { code: "Arrearage" }),
    "QuotaExhaustedError",
    "good standing"
  ],
  [
    "new-api",
    403,
    error("user quota is not enough", { code: "insufficient_user_quota" }),
    "QuotaExhaustedError",
    "quota is not enough"
  ],
  [
    "a gateway",
    429,
    raw('{"error":{"message":"insufficient balance (1008)"}}'),
    "QuotaExhaustedError",
    "insufficient balance (1008)"
  ],
  [
    "inside a stream",
    undefined,
    { message: "Insufficient balance", code: "1113" },
    "QuotaExhaustedError",
    "Insufficient balance"
  ]
]

const rates: ReadonlyArray<Row> = [
  [
    "OpenAI",
    429,
    error("Rate limit reached for gpt-x. Please try again in 20s.", { code: "rate_limit_exceeded" }),
    "RateLimitError",
    "try again in 20s"
  ],
  [
    "Gemini",
    429,
    [
      {
        error: {
          code: 429,
          status: "RESOURCE_EXHAUSTED",
          message: "You exceeded your current quota. Please retry in 12.5s.",
          details: [{ "@type": "RetryInfo", retryDelay: "12.5s" }]
        }
      }
    ],
    "RateLimitError",
    "retry in 12.5s"
  ],
  [
    "Groq",
    429,
    error("Rate limit reached on tokens per minute (TPM): Limit 6000", { type: "tokens", code: "rate_limit_exceeded" }),
    "RateLimitError",
    "tokens per minute"
  ],
  [
    "Mistral",
    429,
    {
      object: "error",
      message: "Service tier capacity exceeded",
      type: "service_tier_capacity_exceeded",
      code: "3505"
    },
    "RateLimitError",
    "tier capacity exceeded"
  ],
  [
    "Anthropic in a stream",
    undefined,
    { type: "rate_limit_error", message: "slow down" },
    "RateLimitError",
    "slow down"
  ],
  ["a proxy's text", 429, "Too Many Requests", "RateLimitError", "Too Many Requests"]
]

const places: ReadonlyArray<Row> = [
  ["a text", 400, "model is not loaded", "InvalidRequestError", "model is not loaded"],
  ["error as a text", 400, { error: "model 'x' not found" }, "InvalidRequestError", "model 'x' not found"],
  ["error as JSON in a text", 400, { error: '{"error":{"message":"deep down"}}' }, "InvalidRequestError", "deep down"],
  ["detail", 400, { detail: "Not this way" }, "InvalidRequestError", "Not this way"],
  [
    "a list of faults",
    422,
    { detail: [{ type: "extra_forbidden", loc: ["body", "messages", 1, "x"], msg: "Extra inputs are not permitted" }] },
    "InvalidRequestError",
    "Extra inputs are not permitted"
  ],
  ["errors", 400, { errors: [{ message: "first" }, { message: "second" }] }, "InvalidRequestError", "first: second"],
  ["message alone", 400, { message: "flat", code: 3230 }, "InvalidRequestError", "flat"],
  ["msg", 400, { code: 20015, msg: "thinking is enabled", data: null }, "InvalidRequestError", "thinking is enabled"],
  [
    "an array",
    400,
    [{ error: { message: "in a list", status: "INVALID_ARGUMENT" } }],
    "InvalidRequestError",
    "in a list"
  ],
  [
    "OpenRouter, raw as text",
    400,
    { error: { message: "Provider returned error", code: 400, metadata: { raw: "no such tool", provider_name: "X" } } },
    "InvalidRequestError",
    "no such tool"
  ],
  [
    "OpenRouter, raw as an event",
    400,
    {
      error: {
        message: "Provider returned error",
        code: 400,
        metadata: { raw: 'data: {"error":{"message":"must contain json"}}' }
      }
    },
    "InvalidRequestError",
    "must contain json"
  ],
  [
    "OpenRouter, raw as an object",
    400,
    {
      error: {
        message: "Provider returned error",
        code: 400,
        metadata: { raw: { error: { message: "no image input" } } }
      }
    },
    "InvalidRequestError",
    "no image input"
  ],
  [
    "a page",
    502,
    "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>",
    "InternalProviderError",
    "502 Bad Gateway"
  ],
  [
    "a page without a title",
    503,
    "<!DOCTYPE html><body><p>The backend is <b>away</b></p></body>",
    "InternalProviderError",
    "The backend is away"
  ],
  [
    "Ollama",
    404,
    { error: { message: 'model "x" not found, try pulling it first', type: "api_error" } },
    "InvalidRequestError",
    "try pulling it first"
  ],
  [
    "LM Studio",
    400,
    { error: "No models loaded. Please load a model in the developer page." },
    "InvalidRequestError",
    "No models loaded"
  ],
  [
    "vLLM",
    400,
    {
      object: "error",
      message: "auto tool choice requires --enable-auto-tool-choice",
      type: "BadRequestError",
      code: 400
    },
    "InvalidRequestError",
    "--enable-auto-tool-choice"
  ],
  [
    "llama.cpp",
    400,
    error("Failed to initialize samplers: failed to parse grammar", { type: "invalid_request_error" }),
    "InvalidRequestError",
    "failed to parse grammar"
  ],
  [
    "Azure, filtered",
    400,
    { error: { message: "filtered", code: "content_filter", innererror: { code: "ResponsibleAIPolicyViolation" } } },
    "ContentPolicyError",
    "filtered"
  ],
  [
    "an overflow behind OpenRouter",
    400,
    {
      error: {
        message: "Provider returned error",
        code: 400,
        metadata: { raw: '{"error":{"message":"This model\'s maximum context length is 8 tokens"}}' }
      }
    },
    "InvalidRequestError",
    "maximum context length"
  ],
  ["a wrong key", 401, error("Incorrect API key provided"), "AuthenticationError", "Incorrect API key"],
  ["nothing", 500, "", "InternalProviderError", "HTTP 500"],
  ["a body without end", 400, nested(5_000), "InvalidRequestError", ""]
]

function nested(depth: number): string {
  return `${'{"error":'.repeat(depth)}"end"${"}".repeat(depth)}`
}

describe("refusals", () => {
  for (const [group, rows] of [
    ["an empty account", quota],
    ["a rate limit", rates],
    ["the place of a reason", places]
  ] as const) {
    for (const [what, status, body, tag, words] of rows) {
      it(`reads ${group}: ${what}`, () => {
        const reason = reasonOf(status, body)
        assert.strictEqual(reason._tag, tag)
        assert.include(textOf(reason), words)
      })
    }
  }

  it("reads the waiting time of a body, and the place of a fault", () => {
    const gemini = rates[1]!
    const limited = reasonOf(gemini[1], gemini[2])
    assert.strictEqual(limited._tag === "RateLimitError" && Duration.toMillis(limited.retryAfter!), 12_500)
    const refused = reasonOf(422, { detail: [{ loc: ["body", "seed"], msg: "no" }] })
    assert.strictEqual(refused._tag === "InvalidRequestError" && refused.parameter, "body.seed")
  })

  it("bounds a reason, and has no key in it, whosever it is", () => {
    const keys = ["own-secret-key", "sk-proj-0123456789abcdefXYZ", "AIzaSyA0123456789abcdefghijklmnopqrstuv"]
    for (const status of [400, 401, 402, 429, 500]) {
      const reason = reasonOf(
        status,
        error(`refused ${keys.join(" ")} Bearer abcdefghijklmnop0123 ${"x".repeat(10_000)}`)
      )
      const text = `${textOf(reason)} ${JSON.stringify(reason)}`
      for (const key of [...keys, "abcdefghijklmnop0123"]) assert.notInclude(text, key)
      assert.isAtMost(textOf(reason).length, 2_200)
      assert.include(text, "refused")
    }
  })
})
