/**
 * A file of a user message as a content part of the OpenAI Chat wire.
 *
 * Owns: images (link or data URL), PDF files, text files. Everything else is
 * named by a placeholder, so that the model knows that something was there.
 */
import type * as Prompt from "effect/ai/Prompt"
import type { JsonObject } from "../Json.ts"
import * as FileData from "./FileData.ts"

/** Content part for a file; `undefined` when the wire cannot carry it. */
export const encode = (part: Prompt.FilePart): JsonObject | undefined => {
  if (part.mediaType.startsWith("image/")) {
    return { type: "image_url", image_url: { url: FileData.urlOf(part), ...imageDetail(part) } }
  }
  if (part.mediaType === "application/pdf" && !FileData.isLink(part.data)) {
    return { type: "file", file: { filename: part.fileName ?? "document.pdf", file_data: FileData.urlOf(part) } }
  }
  if (part.mediaType.startsWith("text/") && part.data instanceof Uint8Array) {
    return { type: "text", text: new TextDecoder().decode(part.data) }
  }
  return undefined
}

const imageDetail = (part: Prompt.FilePart): { readonly detail?: string } => {
  const options = part.options["openai"]
  if (typeof options !== "object" || options === null || !("imageDetail" in options)) return {}
  return typeof options["imageDetail"] === "string" ? { detail: options["imageDetail"] } : {}
}
