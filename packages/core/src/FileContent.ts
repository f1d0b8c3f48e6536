/**
 * The files of a message that no provider can read, found before the message is admitted.
 *
 * A message that is admitted is sent with every later request, so a file that can never be read must not get in. Media that
 * one provider reads and another refuses are admitted: a refusal sets them aside for the model that refused (`SetAside`).
 *
 * Owns: the media types some wire carries, and the check of their bytes. Does not own: the signatures (`history/Media`).
 */
import * as FileData from "./history/codecs/FileData.ts"
import * as Media from "./history/Media.ts"
import type { UserPart } from "./Transcript.ts"
import type { ContentFault } from "./TurnError.ts"

/** Bytes of JSON of all parts of a message together: what is admitted can be read again (`sql/FactText`). */
const maxMessage = 25 * 1024 * 1024

/** The faults of the parts of a message, in order. */
export const faultsOf = (parts: ReadonlyArray<UserPart>): ReadonlyArray<ContentFault> => {
  const length = parts.reduce((sum, part) => sum + (part.type === "file" ? part.data : part.text).length, 0)
  // A character has six bytes of JSON at most.
  const bytes = length * 6 > maxMessage ? new TextEncoder().encode(JSON.stringify(parts)).length : 0
  if (bytes > maxMessage) {
    const detail = `The message has ${bytes} bytes of JSON, more than ${maxMessage}.`
    return [{ pointer: "", reason: "too-large", detail }]
  }
  return parts.flatMap((part, index) => {
    const fault = part.type === "file" ? faultOf(part) : undefined
    return fault === undefined
      ? []
      : [{ pointer: `/${index}/${fault.member}`, reason: fault.reason, detail: fault.detail }]
  })
}

type FilePart = Extract<UserPart, { readonly type: "file" }>
type Member = "data" | "mediaType"
type Faulty = Omit<ContentFault, "pointer"> & { readonly member: Member }

/** Base64 characters of the largest file other than an image (20 MiB, Gemini's limit of a request). */
const maxLength = 20_971_520

const kinds = "PNG, JPEG, GIF, WebP or HEIC images, PDF, text, and WAV, MP3, OGG, FLAC, AAC, MP4 or WebM recordings"

const fault = (member: Member, reason: ContentFault["reason"], detail: string): Faulty => ({ member, reason, detail })

const faultOf = ({ data, mediaType }: FilePart): Faulty | undefined => {
  const declared = mediaType.toLowerCase()
  if (!isCarried(declared)) {
    return fault("mediaType", "unsupported-type", `No model reads the media type "${shown(mediaType)}". Send ${kinds}.`)
  }
  if (!/^data:/i.test(data)) return linkFault(data)
  const embedded = FileData.embedded(data)
  if (embedded === undefined) {
    return fault("data", "not-base64", "A data URL must have the form data:<media type>;base64,<data>.")
  }
  const own = embedded.mediaType.toLowerCase()
  if (!isWildcard(declared) && data.slice(5, 6) !== ";" && canonical(own) !== canonical(declared)) {
    return fault(
      "data",
      "type-mismatch",
      `The data URL says "${shown(own)}", but mediaType says "${shown(mediaType)}".`
    )
  }
  const most = declared.startsWith("image/") ? Media.maxImageLength : maxLength
  if (embedded.base64.length > most) {
    return fault("data", "too-large", `The base64 data has ${embedded.base64.length} characters, more than ${most}.`)
  }
  const bytes = Media.bytesOf(embedded.base64)
  if (bytes === undefined) return fault("data", "not-base64", "The data after the comma is not base64.")
  if (bytes.length === 0) return fault("data", "empty", "The file has no bytes.")
  return FileData.isText(declared) ? textFault(bytes) : bytesFault(declared, bytes)
}

const linkFault = (data: string): Faulty | undefined => {
  const url = URL.parse(data)
  if (url !== null && (url.protocol === "https:" || url.protocol === "http:")) return undefined
  return fault("data", "not-a-link", "A file is given by an http:, https: or data: URL.")
}

const textFault = (bytes: Uint8Array): Faulty | undefined =>
  FileData.utf8(bytes) === undefined ? fault("data", "unreadable", "The text is not UTF-8.") : undefined

const bytesFault = (declared: string, bytes: Uint8Array): Faulty | undefined => {
  const found = Media.typeOf(bytes)
  const isOne = isWildcard(declared) ? found?.startsWith(declared.slice(0, -1)) === true : isSame(declared, found)
  if (!isOne) {
    const says = found === undefined ? "of no kind that a model reads" : `of "${found}"`
    return fault(
      "data",
      found === undefined ? "unreadable" : "type-mismatch",
      `The bytes are ${says}, not of "${declared}".`
    )
  }
  if (found === undefined || !sized.has(found)) return undefined
  const size = Media.sizeOf(found, bytes)
  if (size === undefined) return fault("data", "unreadable", "The image breaks off inside its header.")
  if (Media.isPlausible(size)) return undefined
  const says = `The image has ${size.width} x ${size.height} pixels; each side must have 1 to ${Media.maxImageSide}.`
  return fault("data", "image-size", says)
}

const sized: ReadonlySet<string> = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"])

/** Media types under which the same bytes are sent. */
const aliases: { readonly [type: string]: string } = {
  "audio/mp3": "audio/mpeg",
  "audio/x-wav": "audio/wav",
  "audio/wave": "audio/wav",
  "audio/x-flac": "audio/flac",
  "audio/m4a": "audio/mp4",
  "audio/x-m4a": "audio/mp4",
  "audio/x-aac": "audio/aac",
  "audio/webm": "video/webm",
  "video/ogg": "audio/ogg",
  "image/heif": "image/heic"
}

const canonical = (type: string): string => aliases[type] ?? type

const carried: ReadonlySet<string> = new Set([
  ...sized,
  "image/heic",
  "application/pdf",
  "audio/wav",
  "audio/mpeg",
  "audio/ogg",
  "audio/flac",
  "audio/aac",
  "audio/mp4",
  "video/mp4",
  "video/webm",
  "video/quicktime"
])

const isWildcard = (type: string): boolean => /^(?:image|audio|video)\/\*$/.test(type)

const isCarried = (type: string): boolean => isWildcard(type) || FileData.isText(type) || carried.has(canonical(type))

/** Types of the same container are told apart by no signature: a recording may be declared as audio or as video. */
const isSame = (declared: string, found: string | undefined): boolean => {
  const type = canonical(declared)
  return found === type || (found === "video/mp4" && (type === "audio/mp4" || type === "video/quicktime"))
}

const shown = (type: string): string => type.slice(0, 100)
