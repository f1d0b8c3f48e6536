/**
 * Remote models by the name `provider/model`.
 *
 * Owns: from a name and the configuration to a layer. Does not own: the table of
 * providers (`ModelPreset`), or the scripted model `demo`, which the caller
 * handles before it asks here.
 *
 * - M1. Keys are read through `Config` and stay `Redacted`; no error holds one.
 * - M2. Provider packages are loaded when their layer is built, not before: a
 *   program that uses one of them does not wait for the others to load.
 * - M3. Keys and prompts go to the configured address only: no redirect is followed.
 */
import * as ChatOpaque from "@turnstep/core/history/codecs/ChatOpaque"
import type * as LanguageModel from "effect/ai/LanguageModel"
import type * as Model from "effect/ai/Model"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as DirectFetch from "./DirectFetch.ts"
import * as ModelPreset from "./ModelPreset.ts"
import * as OpenAiChat from "./OpenAiChat.ts"

/** The name is not `provider/model` with a provider known here. */
export class ModelNotKnown extends Schema.TaggedError<ModelNotKnown>()("ModelNotKnown", {
  spec: Schema.String,
  presets: Schema.Array(Schema.String)
}) {
  override get message(): string {
    return `'${this.spec}' is not a model. Write provider/model, with one of the providers ${this.presets.join(", ")}.`
  }
}

/** A variable that the provider needs is not set. */
export class ModelKeyMissing extends Schema.TaggedError<ModelKeyMissing>()("ModelKeyMissing", {
  provider: Schema.String,
  variable: Schema.String
}) {
  override get message(): string {
    return `The provider '${this.provider}' needs ${this.variable}, which is not set.`
  }
}

/** A variable of the provider has a value it cannot have. */
export class ModelSettingInvalid extends Schema.TaggedError<ModelSettingInvalid>()("ModelSettingInvalid", {
  variable: Schema.String,
  value: Schema.String,
  allowed: Schema.Array(Schema.String)
}) {
  override get message(): string {
    return `${this.variable} cannot be '${this.value}'. Set it to one of ${this.allowed.join(", ")}, or leave it out.`
  }
}

/** A model by name. */
export interface ModelName {
  readonly preset: ModelPreset.ModelPreset
  /** Everything after the first `/`, as the provider names it. */
  readonly model: string
}

/** A key that is set; never the key itself. */
export interface AnnouncedKey {
  readonly provider: string
  readonly variable: string
}

/** Names of the providers, for help texts. */
export const presets: ReadonlyArray<string> = ModelPreset.all.map((preset) => preset.name)

/** Reads `provider/model`, split at the first `/`. */
export const parse = (spec: string): Effect.Effect<ModelName, ModelNotKnown> => {
  const at = spec.indexOf("/")
  const preset = ModelPreset.find(spec.slice(0, Math.max(0, at)).trim().toLowerCase())
  const model = spec.slice(at + 1).trim()
  return preset === undefined || model === ""
    ? Effect.fail(new ModelNotKnown({ spec, presets }))
    : Effect.succeed({ preset, model })
}

/** The model with this name, from the current configuration. */
export const layer = (
  spec: string
): Layer.Layer<
  LanguageModel.LanguageModel | Model.ProviderName | Model.ModelName,
  ModelNotKnown | ModelKeyMissing | ModelSettingInvalid
> => Layer.unwrap(Effect.flatMap(parse(spec), layerFor))

/** Which keys of known providers are set, so that a caller can say so before it uses one. */
export const announced: Effect.Effect<ReadonlyArray<AnnouncedKey>> = Effect.map(
  Effect.forEach(ModelPreset.all, (preset) => findKey(preset)),
  (keys) => keys.flatMap((key) => (key === undefined ? [] : [{ provider: key.provider, variable: key.variable }]))
)

const layerFor = Effect.fnUntraced(function* ({ model, preset }: ModelName) {
  const baseUrl = ModelPreset.baseUrl(preset, yield* variable(preset.baseUrlVariable))
  if (baseUrl === undefined) {
    return yield* new ModelKeyMissing({ provider: preset.name, variable: preset.baseUrlVariable })
  }
  const key = yield* findKey(preset)
  if (key === undefined && preset.needsKey) {
    return yield* new ModelKeyMissing({ provider: preset.name, variable: preset.keyVariables[0] ?? "" })
  }
  const apiKey = key?.value
  if (preset.wire === "openai-chat") {
    const { profile, tellsFinish } = preset
    const reasoning = (yield* reasoningOf(preset)) ?? preset.reasoning
    return OpenAiChat.layer({ baseUrl, model, provider: preset.name, apiKey, reasoning, tellsFinish, profile })
  }
  // M2: both packages with all they need take longer to load than everything else here together
  const AiSdk = yield* Effect.promise(() => import("./AiSdk.ts"))
  const settings = {
    baseURL: baseUrl,
    apiKey: apiKey === undefined ? "" : Redacted.value(apiKey).trim(),
    fetch: DirectFetch.fetch // M3
  }
  const provided =
    preset.wire === "anthropic"
      ? (yield* Effect.promise(() => import("@ai-sdk/anthropic"))).createAnthropic(settings)(model)
      : (yield* Effect.promise(() => import("@ai-sdk/google"))).createGoogle(settings)(model)
  return AiSdk.layer(provided, { provider: preset.name, apiKey, profile: preset.profile })
})

/** What the preset's variable says goes back of the reasoning. */
const reasoningOf = Effect.fnUntraced(function* ({ reasoningVariable }: ModelPreset.ModelPreset) {
  if (reasoningVariable === undefined) return undefined
  const value = (yield* variable(reasoningVariable))?.trim() ?? ""
  if (value === "") return undefined
  const policy = policies.find((policy) => policy === value)
  return policy ?? (yield* new ModelSettingInvalid({ variable: reasoningVariable, value, allowed: policies }))
})

const policies: ReadonlyArray<ChatOpaque.Policy> = ["as-issued", ...ChatOpaque.reasoningFields, "none"]

interface FoundKey extends AnnouncedKey {
  readonly value: Redacted.Redacted
}

const findKey = Effect.fnUntraced(function* (preset: ModelPreset.ModelPreset) {
  for (const variable of preset.keyVariables) {
    const value = yield* optional(Config.Redacted(variable))
    if (value !== undefined && Redacted.value(value).trim() !== "") {
      return { provider: preset.name, variable, value } satisfies FoundKey
    }
  }
  return undefined
})

const variable = (name: string): Effect.Effect<string | undefined> => optional(Config.String(name))

// absence is a value here; what is set is a text, so nothing else can go wrong with it
const optional = <A>(config: Config.Config<A>): Effect.Effect<A | undefined> =>
  Effect.orDie(Effect.map(Config.option(config), Option.getOrUndefined))
