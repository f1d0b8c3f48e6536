/** What the span of a model call tells about its answer. */
import type * as LanguageModel from "effect/ai/LanguageModel"
import type * as Response from "effect/ai/Response"

/**
 * Writes the GenAI attributes of a finished call onto its span.
 *
 * By their full names: effect's helper spells them anew in every call, which costs more than decoding a response.
 */
export const annotate = (
  { span }: LanguageModel.ProviderOptions,
  provider: string,
  model: string,
  finish: Response.FinishPartEncoded
): void => {
  const { inputTokens, outputTokens } = finish.usage
  span.attribute("gen_ai.provider.name", provider)
  span.attribute("gen_ai.operation.name", "chat")
  span.attribute("gen_ai.request.model", model)
  span.attribute("gen_ai.response.finish_reasons", [finish.reason])
  if (inputTokens.total !== undefined) span.attribute("gen_ai.usage.input_tokens", inputTokens.total)
  if (outputTokens.total !== undefined) span.attribute("gen_ai.usage.output_tokens", outputTokens.total)
}
