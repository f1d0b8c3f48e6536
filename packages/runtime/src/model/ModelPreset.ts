/**
 * The providers known by name.
 *
 * Owns: for each, its address, the variables it is configured by, and its wire.
 * Does not own: reading the variables (`Models`), or the scripted model `demo`.
 */
import type * as ChatOpaque from "@turnstep/core/history/codecs/ChatOpaque"
import type { Profile } from "@turnstep/core/history/Contract"

/** A provider known by name. */
export interface ModelPreset {
  readonly name: string
  /** Which client speaks to it. */
  readonly wire: "openai-chat" | "anthropic" | "google"
  /** Address; `undefined` when only the variable can tell it. */
  readonly baseUrl: string | undefined
  /** Variable that overrides the address. */
  readonly baseUrlVariable: string
  /** Variables that may hold the key; the first that is set counts. */
  readonly keyVariables: ReadonlyArray<string>
  /** Refuse to start without a key? Servers on one's own machine need none. */
  readonly needsKey: boolean
  /** What goes back of the reasoning that it issued; default `as-issued`. */
  readonly reasoning?: ChatOpaque.Policy
  /** Does it tell a finish reason with every whole answer? */
  readonly tellsFinish?: boolean
  /** Variable that says what goes back of the reasoning. */
  readonly reasoningVariable?: string
  /** Whose rules its requests must keep on top of those of their format. */
  readonly profile?: Profile
}

const hosted = (
  name: string,
  baseUrl: string,
  rest?: Partial<Pick<ModelPreset, "wire" | "keyVariables" | "reasoning" | "profile">>
): ModelPreset => ({
  name,
  wire: "openai-chat",
  baseUrl,
  baseUrlVariable: `${name.toUpperCase()}_BASE_URL`,
  keyVariables: [`${name.toUpperCase()}_API_KEY`],
  needsKey: true,
  tellsFinish: true,
  ...rest
})

const local = (name: string, baseUrl: string): ModelPreset => ({
  ...hosted(name, baseUrl),
  needsKey: false,
  tellsFinish: false
})

/** All presets, in the order in which they are listed to users. */
export const all: ReadonlyArray<ModelPreset> = [
  hosted("openai", "https://api.openai.com/v1"),
  hosted("anthropic", "https://api.anthropic.com/v1", { wire: "anthropic", profile: "no-prefill" }),
  hosted("openrouter", "https://openrouter.ai/api/v1"),
  hosted("deepseek", "https://api.deepseek.com/v1", {
    reasoning: "reasoning_content",
    profile: "deepseek"
  }),
  hosted("gemini", "https://generativelanguage.googleapis.com/v1beta", {
    wire: "google",
    profile: "no-prefill",
    keyVariables: ["GEMINI_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY", "GOOGLE_API_KEY"]
  }),
  { ...local("ollama", "http://127.0.0.1:11434/v1"), baseUrlVariable: "OLLAMA_HOST" },
  local("lmstudio", "http://127.0.0.1:1234/v1"),
  { ...local("vllm", "http://127.0.0.1:8000/v1"), profile: "vllm" },
  {
    name: "custom",
    wire: "openai-chat",
    baseUrl: undefined,
    baseUrlVariable: "TURNSTEP_BASE_URL",
    keyVariables: ["TURNSTEP_API_KEY"],
    needsKey: false,
    reasoningVariable: "TURNSTEP_REASONING"
  }
]

/** The preset with this name. */
export const find = (name: string): ModelPreset | undefined => all.find((preset) => preset.name === name)

/** The address a value of the preset's variable means. */
export const baseUrl = (preset: ModelPreset, value: string | undefined): string | undefined => {
  const given = value?.trim()
  if (given === undefined || given === "") return preset.baseUrl
  if (preset.name === "ollama") return ollamaUrl(given)
  // Anthropic's own clients take the address without the version
  if (preset.name === "anthropic" && URL.canParse(given) && new URL(given).pathname === "/") {
    return `${given.replace(/\/$/, "")}/v1`
  }
  return given.replace(/\/+$/, "")
}

/** `OLLAMA_HOST` is written for the server too: a host, a port, or an address to listen on. */
const ollamaUrl = (value: string): string => {
  const isUrl = /^https?:\/\//i.test(value)
  const text = isUrl ? value : `http://${value.startsWith(":") ? "127.0.0.1" : ""}${value}`
  if (!URL.canParse(text)) return text // refused with its own words when it is used
  const url = new URL(text)
  if (!isUrl && url.port === "") url.port = "11434"
  if (url.hostname === "0.0.0.0" || url.hostname === "[::]") url.hostname = "127.0.0.1"
  const path = url.pathname.replace(/\/+$/, "")
  return url.origin + (path.endsWith("/v1") ? path : `${path}/v1`)
}
