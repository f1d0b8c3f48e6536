/**
 * The kind and size of media, read from their first bytes (rule A16).
 *
 * Owns: signatures of the media types that some model reads, and the pixels in image headers. Does not own: decoding of the
 * media, or the decision about a message (`core/FileContent`, `formats/`).
 */
import * as Base64 from "effect/encoding/Base64"
import * as Result from "effect/Result"

/** Base64 characters of the largest image that every provider takes (5 MiB, Anthropic's limit). */
export const maxImageLength = 5_242_880

/** Pixels of the longest side of an image that every provider takes (Anthropic's limit). */
export const maxImageSide = 8_000

/** The problem of an image: `unreadable`, or the media type that its bytes have. */
export type ImageFault = "unreadable" | { readonly mediaType: string }

/** The problem of base64 image data under a declared media type; `undefined` when its header is sound. */
export const imageFault = (data: unknown, declared: unknown): ImageFault | undefined => {
  if (typeof data !== "string" || data.length > maxImageLength) return "unreadable"
  const head = bytesOf(data.slice(0, headLength))
  const found = head === undefined ? undefined : typeOf(head)
  if (found === "image/heic" && (declared === "image/heic" || declared === "image/heif")) return undefined
  if (head === undefined || found === undefined || !providerImages.has(found)) return "unreadable"
  const size = sizeOf(found, head)
  if (size !== undefined && !isPlausible(size)) return "unreadable"
  return found === declared ? undefined : { mediaType: found }
}

/** Image types that all providers with images read. */
const providerImages: ReadonlySet<string> = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"])

// Enough for the header of every kind; a multiple of four, as base64 goes.
const headLength = 2_048

/** The bytes of base64 text; `undefined` when it is none. Line breaks and other blanks are none. */
export const bytesOf = (base64: string): Uint8Array | undefined =>
  /^[A-Za-z0-9+/]*={0,2}$/.test(base64) ? Result.getOrUndefined(Base64.decode(base64)) : undefined

/** The media type that the first bytes show, of those that a model may read. */
export const typeOf = (bytes: Uint8Array): string | undefined => {
  const at = (offset: number, text: string) => isAt(bytes, offset, text)
  if (at(0, "\x89PNG\r\n\x1a\n")) return "image/png"
  if (bytes[0] === 0xff && bytes[1] === 0xd8 && bytes[2] === 0xff) return "image/jpeg"
  if (at(0, "GIF87a") || at(0, "GIF89a")) return "image/gif"
  if (at(0, "RIFF")) return at(8, "WEBP") ? "image/webp" : at(8, "WAVE") ? "audio/wav" : undefined
  if (at(0, "ID3") || (bytes[0] === 0xff && ((bytes[1] ?? 0) & 0xe6) === 0xe2)) return "audio/mpeg"
  if (bytes[0] === 0xff && ((bytes[1] ?? 0) & 0xf6) === 0xf0) return "audio/aac"
  if (at(0, "OggS")) return "audio/ogg"
  if (at(0, "fLaC")) return "audio/flac"
  if (at(0, "\x1a\x45\xdf\xa3")) return "video/webm"
  if (at(4, "ftyp")) {
    if (["heic", "heix", "mif1", "msf1"].some((brand) => at(8, brand))) return "image/heic"
    return at(8, "M4A ") ? "audio/mp4" : at(8, "qt  ") ? "video/quicktime" : "video/mp4"
  }
  // Readers of PDF look for the mark in the first kilobyte.
  return latin(bytes.subarray(0, 1_024)).includes("%PDF-") ? "application/pdf" : undefined
}

/** Width and height in pixels. */
export interface Size {
  readonly width: number
  readonly height: number
}

/** Whether a provider takes an image of this size. */
export const isPlausible = ({ height, width }: Size): boolean =>
  width > 0 && height > 0 && width <= maxImageSide && height <= maxImageSide

/** The pixels of an image of this type; `undefined` when its header breaks off before them. */
export const sizeOf = (mediaType: string, bytes: Uint8Array): Size | undefined => {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  switch (mediaType) {
    case "image/png":
      return bytes.length < 24 || !isAt(bytes, 12, "IHDR")
        ? undefined
        : { width: view.getUint32(16), height: view.getUint32(20) }
    case "image/gif":
      return bytes.length < 10 ? undefined : { width: view.getUint16(6, true), height: view.getUint16(8, true) }
    case "image/webp":
      return webpSize(bytes, view)
    case "image/jpeg":
      return jpegSize(bytes, view)
    default:
      return undefined
  }
}

const webpSize = (bytes: Uint8Array, view: DataView): Size | undefined => {
  if (bytes.length < 30) return undefined
  if (isAt(bytes, 12, "VP8X")) {
    return { width: (view.getUint32(24, true) & 0xffffff) + 1, height: (view.getUint32(26, true) >>> 8) + 1 }
  }
  if (isAt(bytes, 12, "VP8L")) {
    const bits = view.getUint32(21, true)
    return { width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 }
  }
  if (isAt(bytes, 12, "VP8 ")) {
    return { width: view.getUint16(26, true) & 0x3fff, height: view.getUint16(28, true) & 0x3fff }
  }
  return undefined
}

/** Walks the segments of a JPEG to its frame header. */
const jpegSize = (bytes: Uint8Array, view: DataView): Size | undefined => {
  for (let at = 2; at + 9 <= bytes.length;) {
    if (bytes[at] !== 0xff) return undefined
    const marker = bytes[at + 1] ?? 0
    if (marker === 0xff) {
      at++ // padding between segments
      continue
    }
    const isFrame = marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc
    if (isFrame) return { width: view.getUint16(at + 7), height: view.getUint16(at + 5) }
    at += 2 + view.getUint16(at + 2)
  }
  return undefined
}

const isAt = (bytes: Uint8Array, offset: number, text: string): boolean => {
  for (let index = 0; index < text.length; index++) {
    if (bytes[offset + index] !== text.charCodeAt(index)) return false
  }
  return true
}

const latin = (bytes: Uint8Array): string => String.fromCharCode(...bytes)
