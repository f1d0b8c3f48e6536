/**
 * A file of a user message as a content part of the OpenAI Chat wire.
 *
 * Owns: images (link or data URL), PDF files, text files. Everything else is
 * named by a placeholder, so that the model knows that something was there.
 */
import * as Base64 from "effect/encoding/Base64"
import type * as Prompt from "effect/ai/Prompt"

/** Content part for a file. */
export const encode = (part: Prompt.FilePart): unknown => {
  if (part.mediaType.startsWith("image/")) {
    return { type: "image_url", image_url: { url: urlOf(part), ...imageDetail(part) } }
  }
  if (part.mediaType === "application/pdf" && !isLink(part.data)) {
    return { type: "file", file: { filename: part.fileName ?? "document.pdf", file_data: urlOf(part) } }
  }
  if (part.mediaType.startsWith("text/") && part.data instanceof Uint8Array) {
    return { type: "text", text: new TextDecoder().decode(part.data) }
  }
  return { type: "text", text: placeholder(part) }
}

/** What stands for a file that cannot be sent. */
export const placeholder = (part: Prompt.FilePart): string =>
  `[${part.mediaType}${part.fileName === undefined ? "" : ` ${part.fileName}`} omitted]`

const isLink = (data: Prompt.FilePart["data"]): boolean =>
  data instanceof URL ? data.protocol !== "data:" : typeof data === "string" && /^https?:\/\//i.test(data)

const urlOf = (part: Prompt.FilePart): string => {
  const { data } = part
  if (data instanceof URL) return data.href
  if (typeof data === "string" && /^(?:https?|data):/i.test(data)) return data
  const mediaType = part.mediaType === "image/*" ? "image/jpeg" : part.mediaType
  return `data:${mediaType};base64,${typeof data === "string" ? data : Base64.encode(data)}`
}

const imageDetail = (part: Prompt.FilePart): { readonly detail?: string } => {
  const options = part.options["openai"]
  if (typeof options !== "object" || options === null || !("imageDetail" in options)) return {}
  return typeof options["imageDetail"] === "string" ? { detail: options["imageDetail"] } : {}
}
