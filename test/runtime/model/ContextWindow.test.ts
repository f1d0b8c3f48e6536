import { assert, describe, it } from "@effect/vitest"
import * as ContextWindow from "@turnstep/runtime/model/ContextWindow"
import * as AiError from "effect/ai/AiError"

const overflows: ReadonlyArray<readonly [string, ContextWindow.Refusal]> = [
  ["OpenAI, by code", { status: 400, code: "context_length_exceeded", text: "whatever" }],
  [
    "OpenAI",
    {
      status: 400,
      text: "This model's maximum context length is 128000 tokens. However, your messages resulted in 140000 tokens."
    }
  ],
  [
    "OpenAI Responses",
    {
      status: 400,
      text: "Your input exceeds the context window of this model. Please adjust your input and try again."
    }
  ],
  [
    "OpenAI, one message alone",
    { status: 400, code: "string_above_max_length", text: "Invalid 'messages[1].content': string too long." }
  ],
  [
    "OpenAI, above the limit per minute all alone",
    {
      status: 429,
      code: "rate_limit_exceeded",
      text: "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 42000. The input or output tokens must be reduced in order to run successfully."
    }
  ],
  [
    "Groq",
    {
      status: 413,
      code: "rate_limit_exceeded",
      text: "Request too large for model `llama` on tokens per minute (TPM): Limit 6000, Requested 8000"
    }
  ],
  ["Groq, messages", { status: 400, text: "Please reduce the length of the messages or completion." }],
  [
    "Anthropic",
    { status: 400, code: "invalid_request_error", text: "prompt is too long: 210000 tokens > 200000 maximum" }
  ],
  [
    "Anthropic, with the output",
    { status: 400, text: "input length and `max_tokens` exceed context limit: 199000 + 8000 > 200000" }
  ],
  ["Anthropic, bytes", { status: 413, code: "request_too_large", text: "Request exceeds the maximum size" }],
  ["Bedrock", { status: 400, text: "Input is too long for requested model." }],
  [
    "Gemini",
    {
      status: 400,
      code: "INVALID_ARGUMENT",
      text: "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."
    }
  ],
  [
    "OpenRouter",
    {
      status: 400,
      code: "400",
      text: "This endpoint's maximum context length is 131072 tokens. However, you requested about 140000 tokens"
    }
  ],
  [
    "Mistral",
    {
      status: 400,
      code: "3051",
      text: "Prompt contains 40000 tokens, too large for model with 32768 maximum context length"
    }
  ],
  ["Cohere", { status: 400, text: "too many tokens: total number of tokens in the prompt cannot exceed 4081" }],
  [
    "xAI",
    { status: 400, text: "This model's maximum prompt length is 131072 but the request contains 537812 tokens." }
  ],
  [
    "DashScope",
    { status: 400, text: "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]" }
  ],
  ["Moonshot", { status: 400, text: "Invalid request: Your request exceeded model token limit: 8192" }],
  ["MiniMax", { status: 400, text: "invalid params, context window exceeds limit (2013)" }],
  ["Zhipu", { status: 400, code: "1261", text: "Prompt exceeds max length" }],
  [
    "Copilot",
    {
      status: 400,
      code: "model_max_prompt_tokens_exceeded",
      text: "prompt token count of 130000 exceeds the limit of 128000"
    }
  ],
  ["vLLM", { status: 400, text: "The decoder prompt (length 5000) is longer than the maximum model length of 4096." }],
  [
    "llama.cpp",
    {
      status: 400,
      code: "exceed_context_size_error",
      text: "the request exceeds the available context size (4096 tokens), try increasing it"
    }
  ],
  ["Ollama, inside a stream", { status: 500, text: "prompt too long; exceeded max context length by 12 tokens" }],
  [
    "LM Studio",
    {
      text: "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens"
    }
  ],
  [
    "text-generation-inference",
    { status: 422, text: "Input validation error: `inputs` must have less than 4096 tokens. Given: 5000" }
  ],
  ["a proxy without words", { status: 413, text: "" }]
]

const others: ReadonlyArray<readonly [string, ContextWindow.Refusal]> = [
  [
    "a rate limit in tokens",
    {
      status: 429,
      code: "rate_limit_exceeded",
      text: "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000."
    }
  ],
  ["Bedrock's throttling", { status: 429, text: "Too many tokens, please wait before trying again." }],
  ["a rate limit under another status", { status: 400, text: "Rate limit: too many tokens per minute" }],
  [
    "an output limit",
    {
      status: 400,
      text: "max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you provided 100000."
    }
  ],
  [
    "a broken history",
    {
      status: 400,
      text: "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'."
    }
  ],
  ["a bad parameter", { status: 400, code: "invalid_request_error", text: "temperature must be at most 2" }],
  ["a wrong key that mentions the window", { status: 401, text: "maximum context length needs a paid key" }],
  ["trouble inside", { status: 500, text: "The server had an error while processing your request" }],
  ["a missing model", { status: 404, text: "The model `x` does not exist" }]
]

describe("ContextWindow", () => {
  for (const [what, refusal] of overflows) {
    it(`recognises ${what}`, () => assert.isTrue(ContextWindow.isExceeded(refusal)))
  }

  for (const [what, refusal] of others) {
    it(`does not take ${what} for an overflow`, () => assert.isFalse(ContextWindow.isExceeded(refusal)))
  }

  it("reads the mark on an error", () => {
    const error = (constraint: string) =>
      AiError.make({ module: "m", method: "x", reason: new AiError.InvalidRequestError({ constraint }) })
    assert.isTrue(ContextWindow.isContextWindow(error(ContextWindow.constraint)))
    assert.isFalse(ContextWindow.isContextWindow(error("other")))
  })
})
