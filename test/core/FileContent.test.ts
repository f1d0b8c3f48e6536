import { assert, describe, it } from "@effect/vitest"
import * as FileContent from "@turnstep/core/FileContent"
import * as Media from "@turnstep/core/history/Media"

const base64 = (...bytes: ReadonlyArray<number | string>): string =>
  Buffer.concat(
    bytes.map((byte) => (typeof byte === "number" ? Buffer.of(byte) : Buffer.from(byte, "latin1")))
  ).toString("base64")

const be = (value: number): string =>
  String.fromCharCode(value >>> 24, (value >>> 16) & 255, (value >>> 8) & 255, value & 255)
const le16 = (value: number): string => String.fromCharCode(value & 255, value >>> 8)
const be16 = (value: number): string => String.fromCharCode(value >>> 8, value & 255)

const png = (width = 1, height = 1): string =>
  base64(`\x89PNG\r\n\x1a\n${be(13)}IHDR${be(width)}${be(height)}\x08\x06\0\0\0\0\0\0\0`)
const gif = (width = 1, height = 1): string => base64(`GIF89a${le16(width)}${le16(height)}\0\0\0;`)
const jpeg = (width = 1, height = 1): string =>
  base64(`\xff\xd8\xff\xe0${be16(4)}JF\xff\xff\xc0${be16(11)}\x08${be16(height)}${be16(width)}\x01\x01\x11\0\xff\xd9`)
const webp = (width = 1, height = 1): string =>
  base64(`RIFF\x20\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0${le16(width - 1)}\0${le16(height - 1)}\0\0\0`)

const file = (mediaType: string, data: string) => ({ type: "file", mediaType, data }) as const
const embedded = (mediaType: string, data: string, own = mediaType) => file(mediaType, `data:${own};base64,${data}`)

const reasonOf = (part: ReturnType<typeof file>) => FileContent.faultsOf([part])[0]?.reason

describe("FileContent", () => {
  const good: ReadonlyArray<readonly [string, ReturnType<typeof file>]> = [
    ["PNG", embedded("image/png", png())],
    ["JPEG", embedded("image/jpeg", jpeg())],
    ["GIF", embedded("image/gif", gif())],
    ["WebP", embedded("image/webp", webp())],
    ["HEIC", embedded("image/heic", base64("\0\0\0\x18ftypheic"))],
    ["an image of any type", embedded("image/*", png(), "image/png")],
    ["an image in capitals", embedded("IMAGE/PNG", png())],
    ["a link", file("image/png", "https://example.org/a.png")],
    ["an unencrypted link", file("image/png", "http://example.org/a.png")],
    ["PDF", embedded("application/pdf", base64("%PDF-1.7\n"))],
    ["PDF behind a preface", embedded("application/pdf", base64("preface\n%PDF-1.7\n"))],
    ["text", embedded("text/plain", base64("hello"))],
    ["JSON", embedded("application/json", base64("{}"))],
    ["WAV", embedded("audio/wav", base64("RIFF\0\0\0\0WAVEfmt "))],
    ["WAV under another name", embedded("audio/x-wav", base64("RIFF\0\0\0\0WAVEfmt "))],
    ["MP3 with tags", embedded("audio/mpeg", base64("ID3\x04\0\0"))],
    ["MP3 without", embedded("audio/mp3", base64(0xff, 0xfb, 0x90, 0))],
    ["OGG", embedded("audio/ogg", base64("OggS\0\x02"))],
    ["FLAC", embedded("audio/flac", base64("fLaC\0\0"))],
    ["AAC", embedded("audio/aac", base64(0xff, 0xf1, 0x50, 0))],
    ["MP4", embedded("video/mp4", base64("\0\0\0\x18ftypisom"))],
    ["a recording in MP4", embedded("audio/mp4", base64("\0\0\0\x18ftypM4A "))],
    ["WebM", embedded("video/webm", base64("\x1a\x45\xdf\xa3"))],
    ["the largest side", embedded("image/png", png(Media.maxImageSide, 1))]
  ]
  for (const [what, part] of good) it(`takes ${what}`, () => assert.isEmpty(FileContent.faultsOf([part])))

  const bad: ReadonlyArray<readonly [string, ReturnType<typeof file>, string]> = [
    ["a media type no wire carries", embedded("application/zip", base64("PK\x03\x04")), "unsupported-type"],
    ["an image type no provider reads", embedded("image/svg+xml", base64("<svg/>")), "unsupported-type"],
    ["no media type", embedded("", png()), "unsupported-type"],
    ["a link of a kind no wire carries", file("application/zip", "https://example.org/a.zip"), "unsupported-type"],
    ["another scheme", file("image/png", "file:///etc/passwd"), "not-a-link"],
    ["no URL", file("image/png", "a.png"), "not-a-link"],
    ["a data URL without base64", file("text/plain", "data:text/plain,hello"), "not-base64"],
    ["characters that are none of base64", embedded("image/png", "@@@"), "not-base64"],
    ["base64 with line breaks", embedded("image/png", `${png().slice(0, 8)}\n${png().slice(8)}`), "not-base64"],
    ["base64 that is cut", embedded("image/png", png().slice(0, -1)), "not-base64"],
    ["no bytes", embedded("image/png", ""), "empty"],
    ["two declarations", embedded("image/png", png(), "image/jpeg"), "type-mismatch"],
    ["bytes of another image", embedded("image/png", jpeg()), "type-mismatch"],
    ["bytes of another kind under any type", embedded("image/*", base64("%PDF-1.7"), "image/*"), "type-mismatch"],
    ["bytes of no image", embedded("image/png", base64("not an image")), "unreadable"],
    ["a header that breaks off", embedded("image/png", base64("\x89PNG\r\n\x1a\n")), "unreadable"],
    ["a JPEG without a frame", embedded("image/jpeg", base64("\xff\xd8\xff\xd9")), "unreadable"],
    ["bytes of no PDF", embedded("application/pdf", base64("hello")), "unreadable"],
    ["bytes of no recording", embedded("audio/wav", base64("hello")), "unreadable"],
    ["text that is not UTF-8", embedded("text/plain", base64(0xff, 0xfe, 0x41)), "unreadable"],
    ["an image without width", embedded("image/png", png(0, 5)), "image-size"],
    ["an image without height", embedded("image/jpeg", jpeg(5, 0)), "image-size"],
    ["a GIF without pixels", embedded("image/gif", gif(0, 0)), "image-size"],
    ["an image that is too wide", embedded("image/webp", webp(Media.maxImageSide + 1, 1)), "image-size"],
    ["an image that is too large", embedded("image/png", "A".repeat(Media.maxImageLength + 4)), "too-large"],
    ["a file that is too large", embedded("application/pdf", "A".repeat(20_971_524)), "too-large"]
  ]
  for (const [what, part, reason] of bad) {
    it(`refuses ${what}: ${reason}`, () => assert.strictEqual(reasonOf(part), reason))
  }

  it("points to the member of the part, and judges every part", () => {
    const parts = [
      { type: "text", text: "see" } as const,
      file("image/png", "x"),
      embedded("a/b", ""),
      embedded("image/gif", gif())
    ]
    assert.deepStrictEqual(
      FileContent.faultsOf(parts).map(({ pointer }) => pointer),
      ["/1/data", "/2/mediaType"]
    )
  })

  it("counts the bytes that a message has on record", () => {
    const text = (character: string) => [{ type: "text" as const, text: character.repeat(9 * 1024 * 1024) }]
    assert.isEmpty(FileContent.faultsOf(text("x")))
    for (const character of ["語", "\u0001"]) {
      assert.deepInclude(FileContent.faultsOf(text(character))[0], { pointer: "", reason: "too-large" })
    }
  })

  it("reads the pixels of every image header", () => {
    for (const [type, data] of [
      ["image/png", png(640, 480)],
      ["image/jpeg", jpeg(640, 480)],
      ["image/gif", gif(640, 480)],
      ["image/webp", webp(640, 480)]
    ] as const) {
      const bytes = Media.bytesOf(data)!
      assert.deepStrictEqual(Media.sizeOf(type, bytes), { width: 640, height: 480 }, type)
    }
  })
})
