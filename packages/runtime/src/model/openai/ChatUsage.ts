/**
 * Token counts of a response on the OpenAI Chat wire.
 *
 * Owns: the fields by which providers count. What is missing or not a whole
 * number stays unknown; nothing is estimated here.
 */
import type * as Response from "effect/ai/Response"

type Encoded = Response.FinishPartEncoded["usage"]

/** The provider told nothing. */
export const unknown: Encoded = { inputTokens: {}, outputTokens: {} }

/** Reads a `usage` object. */
export const read = (usage: { readonly [field: string]: unknown }): Encoded => {
  const input = count(usage["prompt_tokens"])
  const cached =
    count(detail(usage["prompt_tokens_details"], "cached_tokens")) ?? count(usage["prompt_cache_hit_tokens"])
  const output = count(usage["completion_tokens"])
  const reasoning = count(detail(usage["completion_tokens_details"], "reasoning_tokens"))
  return {
    inputTokens: {
      ...optional("total", input),
      ...optional("cacheRead", cached),
      ...optional("uncached", difference(input, cached))
    },
    outputTokens: {
      ...optional("total", output),
      ...optional("reasoning", reasoning),
      ...optional("text", difference(output, reasoning))
    }
  }
}

const count = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined

const detail = (details: unknown, field: string): unknown =>
  typeof details === "object" && details !== null ? Reflect.get(details, field) : undefined

const difference = (total: number | undefined, part: number | undefined): number | undefined =>
  total === undefined ? undefined : Math.max(0, total - (part ?? 0))

const optional = <K extends string>(key: K, value: number | undefined): { readonly [P in K]?: number } | undefined =>
  value === undefined ? undefined : ({ [key]: value } as { readonly [P in K]?: number })
