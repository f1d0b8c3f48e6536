/**
 * The data of files in messages: links, data URLs, base64.
 *
 * Owns: telling them apart, and one from the other. Does not own: how a format holds a file.
 */
import * as Base64 from "effect/encoding/Base64"
import type * as Prompt from "effect/ai/Prompt"
import * as Result from "effect/Result"
import type { UserPart } from "../../Transcript.ts"

type Data = Prompt.FilePart["data"]

export const isLink = (data: Data): boolean =>
  data instanceof URL ? data.protocol !== "data:" : typeof data === "string" && /^https?:\/\//i.test(data)

/** Where the file is: its link, or a data URL with all of it. */
export const urlOf = ({ data, mediaType }: Prompt.FilePart): string => {
  if (data instanceof URL) return data.href
  if (typeof data === "string" && /^(?:https?|data):/i.test(data)) return data
  const type = mediaType === "image/*" ? "image/jpeg" : mediaType
  return `data:${type};base64,${typeof data === "string" ? data : Base64.encode(data)}`
}

/** The parts of a data URL in base64; `undefined` for anything else. */
export const embedded = (url: string): { readonly mediaType: string; readonly base64: string } | undefined => {
  const found = /^data:([^,;]*)(?:;[^,;]*)*;base64,/i.exec(url)
  if (found === null) return undefined
  return { mediaType: found[1] === "" ? "text/plain" : (found[1] ?? ""), base64: url.slice(found[0].length) }
}

/** Whether files of a media type are text, so that a wire without such files can carry their words. */
export const isText = (mediaType: string): boolean =>
  /^text\/[\w.+-]+$|^application\/(?:json|xml|yaml|x-yaml|javascript|toml)$/i.test(mediaType)

/** Bytes as text; `undefined` when they are not UTF-8. */
export const utf8 = (bytes: Uint8Array): string | undefined => {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes)
  } catch {
    return undefined
  }
}

/** The text of a file that is embedded; `undefined` for a link and for what is not UTF-8. */
export const textIn = (part: Prompt.FilePart): string | undefined => {
  if (part.data instanceof Uint8Array) return utf8(part.data)
  const base64 = isLink(part.data) ? undefined : embedded(urlOf(part))?.base64
  const bytes = base64 === undefined ? undefined : Result.getOrUndefined(Base64.decode(base64))
  return bytes === undefined ? undefined : utf8(bytes)
}

/** What stands for a file that cannot be sent. */
export const placeholder = (part: Pick<Prompt.FilePart, "mediaType" | "fileName">): string =>
  `[${part.mediaType}${part.fileName === undefined ? "" : ` ${part.fileName}`} omitted]`

/** The file part of a URL, or of base64 of a media type. */
export const filePart = (data: string, mediaType: string | undefined, fileName?: unknown): UserPart => {
  const isUrl = /^(?:https?|data):/i.test(data)
  const type = mediaType ?? embedded(data)?.mediaType ?? "image/*"
  return {
    type: "file",
    mediaType: type,
    data: isUrl ? data : `data:${type};base64,${data}`,
    ...(typeof fileName === "string" && fileName !== "" ? { fileName } : {})
  }
}
