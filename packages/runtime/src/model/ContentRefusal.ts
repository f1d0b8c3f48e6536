/**
 * Was a request refused because of an image, a recording or another file in it?
 *
 * `effect/ai` has no reason of its own for this refusal, so it travels as an `InvalidRequestError` whose `constraint` begins
 * with `content:`.
 *
 * Owns: the codes and sentences by which providers say so. Does not own: what is done about it (`core/SetAside`).
 *
 * - C1. A refusal that is about the key, the rate or the model's name is never about content.
 */
import type { Kind } from "@turnstep/core/SetAside"
import type * as AiError from "effect/ai/AiError"

/** What a provider's refusal says about itself. */
export interface Refusal {
  /** HTTP status; none for what a provider package refuses itself, or tells in a stream. */
  readonly status?: number | undefined
  readonly codes: ReadonlyArray<string>
  /** Message, or the whole body when nothing better is known. */
  readonly text: string
}

/** The kind of content that was refused; `undefined` when the refusal is about something else. */
export const kindOf = ({ codes, status, text }: Refusal): Kind | undefined => {
  if (status === 401 || status === 402 || status === 403 || status === 429) return undefined // C1
  if (codes.some((code) => /^(?:invalid|unsupported|empty|failed_to_download)_?\w*image|^image_/.test(code)))
    return "image"
  return sentences.find(([, sentence]) => sentence.test(text))?.[0]
}

/** The value of `InvalidRequestError.constraint` for a refused kind of content. */
export const constraintOf = (kind: Kind): string => prefix + kind

/** The kind of content this error refuses. */
export const refused = ({ reason }: AiError.AiError): Kind | undefined => {
  const constraint = reason._tag === "InvalidRequestError" ? reason.constraint : undefined
  return kinds.find((kind) => constraint === constraintOf(kind))
}

/** The provider's own words of a refusal. */
export const reasonOf = ({ reason }: AiError.AiError): string | undefined =>
  reason._tag === "InvalidRequestError" ? reason.description : undefined

const prefix = "content:"

const kinds: ReadonlyArray<Kind> = ["image", "audio", "video", "any"]

const sentences: ReadonlyArray<readonly [Kind, RegExp]> = [
  // The parts as a whole, before the kinds they are told by
  ["any", /only image types are supported/i], // OpenAI
  ["any", /un(?:supported|recognized|known) (?:mime|media|file|content|modality)[ _-]?(?:type)?/i], // Gemini, Mistral
  ["any", /'?(?:file part )?media type:? [^']{0,100}'? functionality not supported/i], // AI SDK
  ["any", /(?:mime|media) ?type .{0,80}(?:is not|not) supported/i],
  ["any", /not support multi-?modal|multi-?modal (?:data|input) .{0,60}not support/i], // vLLM, SGLang
  // Images
  ["image", /could not process (?:the )?(?:input )?image|unable to process (?:the )?(?:input )?image/i], // Anthropic, Gemini
  [
    "image",
    /(?:failed|unable|could not|cannot|error) .{0,30}(?:decod|download|fetch|load|open|pars|read)\w* .{0,30}image/i
  ], // vLLM, Ollama
  ["image", /images? (?:\w+ ){0,4}(?:exceeds?|is too|are too|too (?:large|big|small|many)|dimensions? exceed)/i], // Anthropic
  ["image", /image(?:'s)? dimensions|image\.source\.|image was specified using/i], // Anthropic
  ["image", /(?:invalid|unsupported|malformed|corrupt(?:ed)?|illegal|bad|unreadable) (?:\w+[ -]){0,3}images?\b/i], // OpenAI
  ["image", /not (?:represent )?an? valid image|make sure your image is valid/i], // OpenAI
  ["image", /too many images|(?:at most|maximum of|up to) \d+ images?|number of images/i], // vLLM, Anthropic
  ["image", /image_url.{0,60}(?:not|only) supported|unknown variant `image_url`|invalid type.{0,40}image_url/i], // OpenAI, DeepSeek
  [
    "image",
    /(?:not|n't|no endpoints found that) (?:currently )?(?:support|accept|allow|have|process|handle)\w* .{0,40}(?:image|vision|picture)/i
  ], // OpenRouter, Groq
  [
    "image",
    /(?:image|vision)\w*(?: \w+){0,3} (?:is|are) (?:currently )?(?:not|un)[ -]?(?:supported|available|enabled|allowed)/i
  ], // llama.cpp
  ["image", /text[- ]only model|model (?:only supports|supports only) text/i],
  // Recordings
  ["audio", /(?:not|n't|no endpoints found that) (?:currently )?(?:support|accept|process)\w* .{0,40}audio/i],
  ["audio", /audio\w*(?: \w+){0,3} (?:is|are) (?:currently )?(?:not|un)[ -]?supported|unknown variant `input_audio`/i], // llama.cpp
  ["audio", /(?:invalid|unsupported|corrupt(?:ed)?|failed to (?:decode|load|parse)) (?:\w+[ -]){0,3}audio/i],
  ["audio", /input_audio.{0,80}(?:not supported|invalid)/i], // OpenAI
  [
    "video",
    /(?:not|n't) (?:currently )?(?:support|accept|process)\w* .{0,40}video|video\w*(?: \w+){0,3} (?:is|are) not supported/i
  ],
  ["video", /(?:invalid|unsupported|corrupt(?:ed)?|failed to (?:decode|load|parse)) (?:\w+[ -]){0,3}video/i],
  // Other files
  [
    "any",
    /\bpdf\b.{0,80}(?:not valid|invalid|password|encrypted|corrupt|could not|unsupported|not supported|exceed|too many|maximum)/i
  ], // Anthropic
  [
    "any",
    /(?:invalid|unsupported|could not process|cannot process|unable to process) .{0,40}\b(?:pdf|document|file)\b/i
  ],
  [
    "any",
    /the document (?:has no pages|is empty)|file_data.{0,80}(?:invalid|expected|not supported)|unknown variant `file`/i
  ], // Gemini, OpenAI
  ["any", /(?:not|n't) (?:currently )?support\w* .{0,30}(?:file|pdf|document|attachment)s?\b/i],
  ["any", /cannot fetch content from the provided url|error while downloading|timeout while downloading/i], // Gemini, OpenAI
  ["any", /content (?:must|should) be a (?:valid )?string|invalid type: sequence, expected a string/i] // text-only servers
]
