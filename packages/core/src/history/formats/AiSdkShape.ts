/**
 * The shape of the parts of ModelMessages and UIMessages (rules V6, U6, A16).
 *
 * Owns: which members a part has, and of which type. The schemas of the `ai` package refuse a whole prompt for one of them.
 */
import { error, removal, rewriting } from "../Blemish.ts"
import type { Blemish } from "../Format.ts"
import { isObject, show, textOf, type JsonObject } from "../Json.ts"
import * as Shape from "../Shape.ts"
import * as Synthetic from "../Synthetic.ts"
import { textPart } from "./Content.ts"

type Optional = Parameters<typeof Shape.optionalMembers>[1]

const options: Optional = { providerOptions: "object" }

/** Optional members of the parts of ModelMessages. */
const optional: { readonly [type: string]: Optional } = {
  text: options,
  reasoning: options,
  image: { ...options, mediaType: "string" },
  file: { ...options, filename: "string" },
  "tool-call": { ...options, providerExecuted: "boolean" },
  "tool-result": options,
  "tool-approval-request": { reason: "string", isAutomatic: "boolean", signature: "string" },
  "tool-approval-response": { reason: "string", providerExecuted: "boolean" }
}

/** V6: the faults of a part of a ModelMessage by itself. `nameOf` finds the tool of a call. */
export const inspectModelPart = (
  part: JsonObject,
  nameOf: (id: unknown) => string | undefined
): ReadonlyArray<Blemish> | undefined => {
  const type = textOf(part, "type") ?? ""
  const wrong = Object.hasOwn(optional, type) ? Shape.optionalMembers(part, optional[type] ?? {}) : undefined
  switch (type) {
    case "text":
    case "reasoning":
      return Shape.all(wrong, Shape.textMember(part, "text"))
    case "image":
    case "file":
      return Shape.all(
        wrong,
        type === "file" ? Shape.textMember(part, "mediaType", unknownType) : undefined,
        image(part)
      )
    case "tool-call":
      return Shape.all(wrong, Shape.textMember(part, "toolName", unnamed))
    case "tool-result":
      return Shape.all(wrong, named(part, nameOf), output(part))
    case "tool-approval-request":
    case "tool-approval-response":
      return Shape.all(wrong, approval(part, type))
    default:
      return undefined
  }
}

const unnamed = "unnamed_tool"

/** A result names the tool of its call. The call is looked for only when the name is missing. */
const named = (part: JsonObject, nameOf: (id: unknown) => string | undefined): Blemish | undefined =>
  typeof part["toolName"] === "string"
    ? undefined
    : Shape.textMember(part, "toolName", nameOf(part["toolCallId"]) ?? unnamed)

const unknownType = "application/octet-stream"

/** An approval that names no question answers none, and an answer is yes or no. */
const approval = (part: JsonObject, type: string): Blemish | undefined => {
  if (typeof part["approvalId"] !== "string") {
    const fix = removal("an approval without its approvalId", part)
    return error("APPROVAL_MISMATCH", "/approvalId", "approvalId is not a text", fix)
  }
  if (type !== "tool-approval-response" || typeof part["approved"] === "boolean") return undefined
  // Without a decision on record nothing may count as approved.
  const fix = rewriting("no decision is a denial", { ...part, approved: false }, [part["approved"] ?? null])
  return error("APPROVAL_MISMATCH", "/approved", "approved is not a boolean", fix)
}

/** The output of a result: one of the SDK's kinds, with a value of that kind. */
const output = (part: JsonObject): Blemish | undefined => {
  const { output } = part
  if (output === undefined || output === null) {
    const fix = rewriting("an output of the SDK's form", {
      ...part,
      output: { type: "error-text", value: Synthetic.noOutput }
    })
    return error("RESULT_MISSING_OUTPUT", "", "result has no output", fix)
  }
  const put = (to: JsonObject, note = "an output of the SDK's form") => rewriting(note, { ...part, output: to })
  if (!isObject(output))
    return error("RESULT_MISSING_OUTPUT", "", "result has no output", put({ type: "json", value: output }))
  const { type, value } = output
  const wrong = Shape.optionalMembers(output, type === "execution-denied" ? { ...options, reason: "string" } : options)
  if (wrong?.fix !== undefined) {
    const [mended] = wrong.fix.to
    return { ...wrong, path: `/output${wrong.path}`, fix: { ...wrong.fix, to: [{ ...part, output: mended }] } }
  }
  switch (type) {
    case "text":
    case "error-text":
      if (typeof value === "string") return undefined
      if (value === undefined || value === null) return invalid("value", put({ ...output, value: Synthetic.noOutput }))
      return invalid("value", put({ ...output, value: show(value) }, "the value is JSON text now"))
    case "json":
    case "error-json":
      return value === undefined ? invalid("value", put({ ...output, value: null })) : undefined
    case "execution-denied":
      return undefined
    case "content": {
      const content = Shape.resultContent(value, ({ type }) => typeof type === "string", textPart)
      if (content === undefined && Array.isArray(value)) return undefined
      const texts = Array.isArray(content)
        ? content
        : [textPart(typeof content === "string" ? content : show(value ?? ""))]
      return invalid("value", put({ ...output, value: texts }, "what is no part is text now"))
    }
    default: {
      // A tool's own object may have a `type` of its own: it is the value.
      return invalid("type", put({ type: "json", value: output }))
    }
  }
}

const invalid = (member: string, fix: NonNullable<Blemish["fix"]>): Blemish =>
  error("PART_INVALID", `/output/${member}`, "the output is not of the SDK's form", fix)

/** Image data of a part: base64, a data URL, or data with its form. Links and bytes are not looked into. */
const image = (part: JsonObject): Blemish | undefined => {
  const key = part["type"] === "image" ? "image" : "data"
  const given = part[key]
  const declared = typeof part["mediaType"] === "string" ? part["mediaType"].toLowerCase() : undefined
  if (key === "data" && declared?.startsWith("image/") !== true) return undefined
  const holder = isObject(given) && given["type"] === "data" ? given : undefined
  const data = holder === undefined ? given : holder["data"]
  if (typeof data !== "string" || /^https?:/i.test(data)) return undefined
  const inUrl = Shape.imageInUrl(data, `/${key}`, (url) => ({
    ...part,
    [key]: holder === undefined ? url : { ...holder, data: url }
  }))
  if (inUrl !== undefined) return Shape.inspectImage(part, inUrl, Shape.imageNote(textPart))
  // Without a type, or with any, the SDK reads it off the data itself.
  const isOpen = declared === undefined || declared === "image/*"
  const retyped = (mediaType: string) => (isOpen ? part : { ...part, mediaType })
  const blemish = Shape.inspectImage(
    part,
    { base64: data, declared, path: `/${key}`, retyped },
    Shape.imageNote(textPart)
  )
  return isOpen && blemish?.fix?.to[0] === part ? undefined : blemish
}

const metadata: Optional = { providerMetadata: "object" }
const ofTool: Optional = {
  providerExecuted: "boolean",
  callProviderMetadata: "object",
  resultProviderMetadata: "object",
  preliminary: "boolean",
  title: "string"
}

/** U6: the faults of a part of a UIMessage by itself. */
export const inspectUiPart = (part: JsonObject, isTool: boolean): ReadonlyArray<Blemish> | undefined => {
  if (isTool) return Shape.all(Shape.optionalMembers(part, ofTool))
  switch (part["type"]) {
    case "text":
    case "reasoning":
      return Shape.all(Shape.optionalMembers(part, { ...metadata, state: "string" }), Shape.textMember(part, "text"))
    case "file": {
      const wrong = Shape.optionalMembers(part, { ...metadata, filename: "string" })
      const url = Shape.imageInUrl(part["url"], "/url", (url) => ({
        ...part,
        url,
        mediaType: /^data:([^;,]*)/.exec(url)?.[1]
      }))
      const isImage = textOf(part, "mediaType")?.startsWith("image/") === true
      return Shape.all(
        wrong,
        Shape.textMember(part, "mediaType", unknownType),
        isImage ? Shape.inspectImage(part, url, Shape.imageNote(textPart)) : undefined
      )
    }
    default:
      return undefined
  }
}
