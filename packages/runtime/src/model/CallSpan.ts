/** What the span of a model call tells about its answer. */
import type * as LanguageModel from "effect/ai/LanguageModel"
import type * as Response from "effect/ai/Response"
import * as Telemetry from "effect/ai/Telemetry"

/** Writes the GenAI attributes of a finished call onto its span. */
export const annotate = (
  request: LanguageModel.ProviderOptions,
  provider: string,
  model: string,
  finish: Response.FinishPartEncoded
): void =>
  Telemetry.addGenAIAnnotations(request.span, {
    provider: { name: provider },
    operation: { name: "chat" },
    request: { model },
    response: { finishReasons: [finish.reason] },
    usage: { inputTokens: finish.usage.inputTokens.total, outputTokens: finish.usage.outputTokens.total }
  })
