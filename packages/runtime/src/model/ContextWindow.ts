/**
 * Was a request refused because it does not fit the model's context window?
 *
 * `effect/ai` has no reason of its own for this refusal, so it travels as an
 * `InvalidRequestError` whose `constraint` is `context_window`.
 *
 * Owns: the codes and sentences by which providers say so. Does not own: what
 * is done about it (the rebuild).
 *
 * - W1. A refusal that waiting can cure (too many requests) is never an overflow.
 * - W2. A refusal of the *output* limit (`max_tokens` above the model's maximum)
 *   is not an overflow: a shorter history would be refused just the same.
 */
import * as AiError from "effect/ai/AiError"

/** Value of `InvalidRequestError.constraint` when the input did not fit. */
export const constraint = "context_window"

/** What a provider's refusal says about itself. */
export interface Refusal {
  /** HTTP status, where there was one. */
  readonly status?: number | undefined
  /** Machine-readable code or type. */
  readonly code?: string | undefined
  /** Message, or the whole body when nothing better is known. */
  readonly text: string
}

/** Does this refusal mean that the input is too large for the model? */
export const isExceeded = (refusal: Refusal): boolean => {
  const { code, status, text } = refusal
  if (status === 401 || status === 403) return false
  if (code !== undefined && codes.has(code.toLowerCase())) return true
  if (needsLess.test(text)) return true
  if (status === 429 || waiting.test(text)) return false // W1
  if (outputLimit.test(text)) return false // W2
  return status === 413 || sentences.some((sentence) => sentence.test(text))
}

/** Is this error the refusal of an input that does not fit? */
export const isContextWindow = (error: AiError.AiError): boolean =>
  error.reason._tag === "InvalidRequestError" && error.reason.constraint === constraint

const codes: ReadonlySet<string> = new Set([
  "context_length_exceeded", // OpenAI, Azure, Groq, Together
  "context_window_exceeded",
  "exceed_context_size_error", // llama.cpp
  "model_max_prompt_tokens_exceeded", // GitHub Copilot
  "model_context_window_exceeded",
  "request_too_large", // Anthropic
  "string_above_max_length", // OpenAI: one message alone is above the limit
  "1261" // Zhipu
])

/** Limits per minute that the request breaks all alone: only a smaller one will ever pass. */
const needsLess = /tokens must be reduced in order to run|request too large for (?:model|gpt|o\d)/i

const waiting = /rate limit|too many requests|please wait before trying|throttl/i

const outputLimit = /max(?:_completion|_output)?_tokens\W+(?:is |was )?too large|at most \d+ completion tokens/i

const sentences: ReadonlyArray<RegExp> = [
  /context[_ ]length[_ ]exceeded/i,
  /maximum context length/i, // OpenAI, DeepSeek, OpenRouter, vLLM, Mistral
  /maximum model length/i, // vLLM
  /exceeds? (?:the |your |this model'?s? )?(?:model'?s? )?(?:available |max(?:imum)? )?context (?:window|length|size|limit)/i, // OpenAI Responses, llama.cpp, Anthropic, Ollama
  /context window (?:is )?exceed/i, // MiniMax
  /context (?:the )?overflow|greater than the context length|context length of only/i, // LM Studio
  /prompt (?:is )?too long/i, // Anthropic, Ollama
  /input (?:is |was )?too long/i, // Bedrock
  /prompt exceeds max(?:imum)? length/i, // Zhipu
  /input token count .{0,40}exceeds/i, // Gemini
  /prompt token count .{0,40}exceeds/i, // GitHub Copilot
  /maximum prompt length is \d+/i, // xAI
  /reduce the length of (?:the|your) (?:messages|prompt|input)/i, // OpenAI, Groq, Cerebras
  /exceeded model token limit/i, // Moonshot
  /range of input length should be/i, // DashScope
  /too many (?:input )?tokens/i, // Cohere
  /token limit exceeded/i,
  /must have less than \d+ tokens|max_new_tokens`? must be <=/i, // text-generation-inference
  /request exceeds the maximum (?:allowed )?(?:size|number of bytes)/i // Anthropic
]
