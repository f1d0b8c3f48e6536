/**
 * The formats by name.
 */
import type { FormatName } from "./Contract.ts"
import type { Format } from "./Format.ts"
import { AiSdkModel } from "./formats/AiSdkModel.ts"
import { AiSdkUi } from "./formats/AiSdkUi.ts"
import { Anthropic } from "./formats/Anthropic.ts"
import { Gemini } from "./formats/Gemini.ts"
import { OpenAiChat } from "./formats/OpenAiChat.ts"
import { OpenAiResponses } from "./formats/OpenAiResponses.ts"

export const formats: { readonly [K in FormatName]: Format } = {
  "openai-chat": OpenAiChat,
  "openai-responses": OpenAiResponses,
  anthropic: Anthropic,
  gemini: Gemini,
  "ai-sdk-model": AiSdkModel,
  "ai-sdk-ui": AiSdkUi
}
