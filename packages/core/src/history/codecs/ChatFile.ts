/**
 * A file of a user message as a content part of the OpenAI Chat wire.
 *
 * Owns: images (link or data URL), and PDF, WAV, MP3 and text files with their data. Everything else is named by a
 * placeholder, so that the model knows that something was there.
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
  const format = recordings[part.mediaType]
  if (format !== undefined && !FileData.isLink(part.data)) {
    const data = FileData.embedded(FileData.urlOf(part))?.base64 ?? ""
    return { type: "input_audio", input_audio: { data, format } }
  }
  if (!FileData.isText(part.mediaType)) return undefined
  const text = FileData.textIn(part)
  if (text === undefined) return undefined
  return { type: "text", text: part.fileName === undefined ? text : `[file ${part.fileName}]\n${text}` }
}

/** Why the wire cannot carry a file; `undefined` when it can. Cheap: the data is not encoded. */
export const uncarried = (part: Prompt.FilePart): string | undefined => {
  if (part.mediaType.startsWith("image/")) return undefined
  const isKnown =
    part.mediaType === "application/pdf" || part.mediaType in recordings || FileData.isText(part.mediaType)
  if (!isKnown) return `its wire carries no files of type ${part.mediaType}`
  return FileData.isLink(part.data) ? `its wire carries links to images only, not to ${part.mediaType}` : undefined
}

/** Formats of recordings on the wire, by media type. */
const recordings: { readonly [mediaType: string]: string } = {
  "audio/wav": "wav",
  "audio/x-wav": "wav",
  "audio/wave": "wav",
  "audio/mpeg": "mp3",
  "audio/mp3": "mp3"
}

const imageDetail = (part: Prompt.FilePart): { readonly detail?: string } => {
  const options = part.options["openai"]
  if (typeof options !== "object" || options === null || !("imageDetail" in options)) return {}
  return typeof options["imageDetail"] === "string" ? { detail: options["imageDetail"] } : {}
}
