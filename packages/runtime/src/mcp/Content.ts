/**
 * The result of a server's tool as the answer of a call: texts for the model, everything for the record.
 *
 * Owns: how each kind of content is read. Does not own: the limits of what is shown (`ToolOutput`, `LargeOutput`).
 *
 * - C1. Nothing is dropped silently: what the model cannot read (an image, a file) is named, with its size and where it is kept.
 * - C2. Bytes are not written into the log beyond a small size: they become a spill of the session.
 * - C3. Structured content is read by the model: texts beside it may be no more than its summary.
 */
import type { CallToolResult, ContentBlock } from "@modelcontextprotocol/client"
import * as Canonical from "@turnstep/core/Canonical"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as ToolCall from "../ToolCall.ts"
import type { Answer } from "../ToolHandler.ts"

/** Reads a result. A result that says `isError` is a failure of the tool. */
export const toAnswer = (result: CallToolResult): Effect.Effect<Answer> =>
  Effect.gen(function* () {
    const blocks = yield* Effect.forEach(result.content ?? [], read)
    const text = blocks.map(({ text }) => text).join("\n")
    const isFailure = result.isError === true
    const structured = result.structuredContent
    if (structured !== undefined) {
      const output = Canonical.toJson(structured)
      if (isWrapped(text, output)) return { isFailure, output: text }
      // Servers send the same once more as a text, for clients that do not know structured content.
      const isSame = text === "" || blocks.some((block) => isSameJson(block.text, output))
      if (isSame && blocks.length <= 1) return { isFailure, output }
      const content = blocks.map(({ record }) => record)
      const modelText = text === "" ? undefined : isSame ? text : `${text}\n${JSON.stringify(output)}` // C3
      return { isFailure, output: { content, structuredContent: output }, modelText }
    }
    if (blocks.every(({ record }) => typeof record === "string")) {
      return { isFailure, output: text === "" ? (isFailure ? "The tool failed and said nothing." : "") : text }
    }
    return { isFailure, output: { content: blocks.map(({ record }) => record) }, modelText: text }
  })

/** A piece of content: what the model reads of it, and what is recorded. */
interface Block {
  readonly text: string
  readonly record: Canonical.Json
}

const read = (block: ContentBlock): Effect.Effect<Block> => {
  switch (block.type) {
    case "text":
      return Effect.succeed({ text: block.text, record: block.text })
    case "image":
    case "audio":
      return binary(block.type, block.data, { mimeType: block.mimeType })
    case "resource_link": {
      const { description, mimeType, name, title, uri } = block
      const text = `[resource ${title ?? name}: ${uri}]${description === undefined ? "" : ` ${description}`}`
      const record = Canonical.toJson({ type: "resource_link", name, title, uri, description, mimeType })
      return Effect.succeed({ text, record })
    }
    case "resource": {
      const { mimeType, uri } = block.resource
      if ("blob" in block.resource) return binary("resource", block.resource.blob, { mimeType, uri })
      const { text } = block.resource
      const record = Canonical.toJson({ type: "resource", uri, mimeType, text })
      return Effect.succeed({ text: `[resource ${uri}]\n${text}`, record })
    }
    default:
      return Effect.succeed({ text: "[content of a kind that is not known here]", record: Canonical.toJson(block) })
  }
}

/** Bytes that are recorded as they are. */
const inlineBytes = 32 * 1024

/** Content that only the record can hold (C1, C2). */
const binary = Effect.fnUntraced(function* (
  type: string,
  base64: string,
  about: { readonly mimeType?: string | undefined; readonly uri?: string | undefined }
) {
  const bytes = Buffer.from(base64, "base64")
  const what = [type, about.mimeType, about.uri, `${bytes.length} bytes`]
    .filter((word) => word !== undefined)
    .join(", ")
  const base = { type, ...about, bytes: bytes.length }
  if (bytes.length <= inlineBytes) {
    return { text: `[${what}: kept with the call, not shown]`, record: Canonical.toJson({ ...base, data: base64 }) }
  }
  const keep = (yield* ToolCall.ToolCall)?.keep ?? ToolCall.keepsNothing
  const kept = yield* Effect.result(keep(Stream.make(bytes)))
  return kept._tag === "Success"
    ? {
        text: `[${what}: kept as spill ${kept.success.id}, not shown]`,
        record: Canonical.toJson({ ...base, spill: kept.success.id })
      }
    : { text: `[${what}: not shown, and not kept: ${kept.failure.message}]`, record: Canonical.toJson(base) }
})

/** Some servers wrap the text in an object of one member, whatever its name: twice the text would be recorded. */
const isWrapped = (text: string, value: Canonical.Json): boolean => {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false
  const members = Object.values(value)
  return members.length === 1 && members[0] === text
}

const isSameJson = (text: string, value: Canonical.Json): boolean => {
  try {
    return Canonical.stringify(JSON.parse(text)) === Canonical.stringify(value)
  } catch {
    return false
  }
}
