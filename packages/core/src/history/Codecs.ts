/**
 * The codecs by the name of their format.
 */
import type { Codec } from "./Codec.ts"
import { AiSdkModel } from "./codecs/AiSdkModel.ts"
import { AiSdkUi } from "./codecs/AiSdkUi.ts"
import { Anthropic } from "./codecs/Anthropic.ts"
import { Gemini } from "./codecs/Gemini.ts"
import { OpenAiChat } from "./codecs/OpenAiChat.ts"
import { OpenAiResponses } from "./codecs/OpenAiResponses.ts"
import type { FormatName } from "./Contract.ts"

export const codecs: { readonly [K in FormatName]: Codec } = {
  "openai-chat": OpenAiChat,
  "openai-responses": OpenAiResponses,
  anthropic: Anthropic,
  gemini: Gemini,
  "ai-sdk-model": AiSdkModel,
  "ai-sdk-ui": AiSdkUi
}
