/**
 * The shape of single parts: members of the documented types, results of text or parts, images that can be read.
 *
 * Owns: the checks that formats share, and their mending. Does not own: which part has which members (`formats/`).
 *
 * - S1. Content is kept: what is no text becomes its JSON text. Only members without content go.
 */
import { error, removal, rewriting } from "./Blemish.ts"
import type { Code } from "./Contract.ts"
import type { Blemish } from "./Format.ts"
import { isObject, omit, show, step, type JsonObject } from "./Json.ts"
import * as Media from "./Media.ts"
import * as Synthetic from "./Synthetic.ts"

/** Several checks, the ones that found nothing left out. */
export const all = (...blemishes: ReadonlyArray<Blemish | undefined>): ReadonlyArray<Blemish> | undefined => {
  const found = blemishes.filter((blemish) => blemish !== undefined)
  return found.length === 0 ? undefined : found
}

/** A value in a list of parts that is no part: what is in a list comes out of it, a text becomes a part, the rest goes. */
export const inspectStray = (value: unknown, textPart: (text: string) => JsonObject): ReadonlyArray<Blemish> => {
  if (Array.isArray(value)) {
    const fix = {
      to: value as ReadonlyArray<unknown>,
      action: "rewrite",
      note: "the parts of a list inside the list"
    } as const
    return [error("PART_INVALID", "", "is a list of parts", fix)]
  }
  const text = value === undefined || value === null ? "" : show(value)
  const fix =
    text.trim() === ""
      ? removal("a part that is none", value ?? null)
      : rewriting("the part is text now", textPart(text))
  return [error("PART_INVALID", "", "is not a part", fix)]
}

/** A part that does not say what it is. `guess` is what its members show; otherwise its JSON text takes its place. */
export const inspectUntyped = (
  part: JsonObject,
  guess: JsonObject | undefined,
  textPart: (text: string) => JsonObject
): ReadonlyArray<Blemish> => {
  const fix =
    guess !== undefined
      ? rewriting(`its type is ${show(guess["type"])}`, guess)
      : Object.keys(part).length === 0
        ? removal("a part without members", part)
        : rewriting("the part is text now", textPart(show(part)))
  return [error("PART_INVALID", "/type", "part has no type", fix)]
}

/** A member that must be a text. */
export const textMember = (part: JsonObject, key: string, missing = ""): Blemish | undefined => {
  const value = part[key]
  if (typeof value === "string") return undefined
  const text = value === undefined || value === null ? missing : show(value)
  const fix = rewriting(`${key} is text now`, { ...part, [key]: text })
  return error("PART_INVALID", step(key), `${key} is not a text`, fix)
}

/** Members that may be absent, but are of this type when they are there; a database gives back `null` for them. */
export const optionalMembers = (
  part: JsonObject,
  members: { readonly [key: string]: "string" | "boolean" | "object" }
): Blemish | undefined => {
  for (const [key, type] of Object.entries(members)) {
    const value = part[key]
    if (value === undefined || (type === "object" ? isObject(value) : typeof value === type)) continue
    const fix = rewriting(`${key} taken away`, omit(part, key), value === null ? undefined : [value])
    return error("PART_INVALID", step(key), `${key} is not of type ${type}`, fix)
  }
  return undefined
}

/**
 * The content of a result that is a text or a list of parts, with everything else as its JSON text; `undefined` when the
 * content is that already. `isPart` knows the parts of the format.
 */
export const resultContent = (
  content: unknown,
  isPart: (part: JsonObject) => boolean,
  textPart: (text: string) => JsonObject
): unknown => {
  if (typeof content === "string" || content === undefined || content === null) return undefined
  if (!Array.isArray(content)) return show(content)
  const isWhole = (part: unknown) => isObject(part) && isPart(part)
  if (content.every(isWhole)) return undefined
  return content.some(isWhole)
    ? content.map((part: unknown) => (isWhole(part) ? part : textPart(show(part))))
    : show(content)
}

/** A result whose content under a key is neither text nor parts. */
export const inspectResult = (
  result: JsonObject,
  key: string,
  isPart: (part: JsonObject) => boolean,
  textPart: (text: string) => JsonObject,
  code: Code = "UNSUPPORTED_RESULT_CONTENT"
): Blemish | undefined => {
  const content = resultContent(result[key], isPart, textPart)
  if (content === undefined) return undefined
  const fix = rewriting("the content is JSON text now", { ...result, [key]: content })
  return error(code, step(key), "the content is neither text nor a list of parts", fix)
}

/** Base64 data of an image under its declared type, as the format holds it (rule A16). */
export interface ImageData {
  readonly base64: unknown
  readonly declared: unknown
  /** Pointer below the part to the data. */
  readonly path: string
  /** The part with the media type that its bytes have. */
  readonly retyped: (mediaType: string) => unknown
}

/** An image that cannot be read, or not as what it says it is; a note takes its place, or its type is mended. */
export const inspectImage = (part: JsonObject, image: ImageData | undefined, note: unknown): Blemish | undefined => {
  const fault = image === undefined ? undefined : Media.imageFault(image.base64, image.declared)
  if (image === undefined || fault === undefined) return undefined
  const fix =
    fault === "unreadable"
      ? rewriting("a note in place of the image", note, [part])
      : rewriting(`media type is ${fault.mediaType}`, image.retyped(fault.mediaType))
  return error("UNREADABLE_IMAGE", image.path, "image cannot be read as what it says it is", fix)
}

/** The image data of a data URL; `undefined` for a link. `put` builds the part with another URL. */
export const imageInUrl = (url: unknown, path: string, put: (url: string) => unknown): ImageData | undefined => {
  if (typeof url !== "string" || !/^data:/i.test(url)) return undefined
  const found = /^data:([^,;]*)(?:;[^,;]*)*;base64,/i.exec(url)
  const base64 = found === null ? "" : url.slice(found[0].length)
  const retyped = (mediaType: string) => put(`data:${mediaType};base64,${base64}`)
  return { base64, declared: found?.[1]?.toLowerCase(), path, retyped }
}

/** The text part that stands for an image no server can read. */
export const imageNote = (textPart: (text: string) => JsonObject): JsonObject => textPart(Synthetic.unreadableImage)
