/**
 * Members of an OpenAI Chat answer that a server issues beside text, ids, names and arguments, and wants back unchanged.
 *
 * A part of an answer keeps them in its options under `openai-chat`, with the model that issued them. A request returns them to
 * that model alone: a signature or an encrypted text means nothing to another one, and many servers refuse unknown members.
 *
 * Owns: the names, the form in the options, and which members go back to whom. Does not own: where they are read from a stream
 * (`ChatDecoder`), or the other members of a message (`OpenAiChat`).
 *
 * - O1. A member goes back as it came, in the message or the call that it came with.
 * - O2. Reasoning is never made up: where a server demands the field and none was issued, the field is empty.
 */
import type * as Prompt from "effect/ai/Prompt"
import { isObject, type JsonObject } from "../Json.ts"
import * as WellFormedJson from "../WellFormedJson.ts"

/** Field that holds the text of the reasoning. */
export type ReasoningField = "reasoning_content" | "reasoning"

/** The fields a server may issue, in the order in which they are looked for. */
export const reasoningFields: ReadonlyArray<ReasoningField> = ["reasoning_content", "reasoning"]

/** Members of a message that are kept: OpenRouter, LiteLLM, GitHub Copilot, xAI, Gemini. */
export const messageMembers: ReadonlyArray<string> = [
  "reasoning_details",
  "thinking_blocks",
  "reasoning_opaque",
  "encrypted_content",
  "extra_content",
  "provider_specific_fields"
]

/** Members of a call that are kept: Gemini, LiteLLM. */
export const callMembers: ReadonlyArray<string> = ["extra_content", "provider_specific_fields", "thought_signature"]

/**
 * What goes back.
 *
 * - `as-issued`: each field under the name it was issued by, to its issuer.
 * - `reasoning_content`, `reasoning`: the server demands this field on every answer; other members as issued.
 * - `none`: nothing.
 */
export type Policy = "as-issued" | ReasoningField | "none"

/** Where a message goes. */
export interface Recipient {
  readonly policy: Policy
  /** The model as `provider/model`; members of another issuer are left out. `undefined` for an export, which keeps all. */
  readonly issuer: string | undefined
  /** Members that the server has refused. */
  readonly refused?: ReadonlySet<string> | undefined
}

/** What a part keeps. */
export interface Opaque {
  /** Who issued it; unknown in an imported history. */
  readonly issuer?: string | undefined
  /** The field the reasoning was in. */
  readonly field?: ReasoningField | undefined
  readonly members?: JsonObject | undefined
}

const key = "openai-chat"

/** The options of a part that keeps this; `undefined` when there is nothing to keep. */
export const options = ({ field, issuer, members }: Opaque): Prompt.ProviderOptions | undefined => {
  const hasMembers = members !== undefined && Object.keys(members).length > 0
  if (field === undefined && !hasMembers) return undefined
  const kept = {
    ...(issuer === undefined ? undefined : { issuer }),
    ...(field === undefined ? undefined : { field }),
    ...(hasMembers ? { members: JSON.parse(WellFormedJson.stringify(members)) } : undefined)
  }
  return { [key]: kept } as Prompt.ProviderOptions
}

/** The members of an object that are kept. */
export const membersOf = (object: JsonObject, names: ReadonlyArray<string>): JsonObject =>
  Object.fromEntries(
    names.flatMap((name) => {
      const value = object[name]
      return value === undefined || value === null ? [] : [[name, value]]
    })
  )

/** Reasoning and members that an answer returns to the recipient (O1, O2). */
export const returned = (
  parts: ReadonlyArray<Prompt.AssistantMessagePart>,
  { issuer, policy, refused }: Recipient
): JsonObject => {
  if (policy === "none") return {}
  const back: { [name: string]: unknown } = {}
  if (policy !== "as-issued") back[policy] = ""
  for (const part of parts) {
    if (part.type !== "reasoning") continue
    const kept = read(part)
    const isOwn = isIssuedBy(kept, issuer)
    const field = policy === "as-issued" ? (isOwn ? kept.field : undefined) : policy
    if (field !== undefined) back[field] = String(back[field] ?? "") + part.text.toWellFormed()
    if (isOwn) for (const [name, value] of Object.entries(kept.members ?? {})) back[name] = joined(back[name], value)
  }
  return without(back, refused)
}

/** Members that a call returns to the recipient (O1). */
export const returnedWithCall = (part: Prompt.ToolCallPart, { issuer, policy, refused }: Recipient): JsonObject => {
  const kept = read(part)
  return policy === "none" || !isIssuedBy(kept, issuer) ? {} : without({ ...kept.members }, refused)
}

const isIssuedBy = (kept: Opaque, issuer: string | undefined): boolean =>
  issuer === undefined || kept.issuer === undefined || kept.issuer === issuer

const without = (members: { [name: string]: unknown }, refused: ReadonlySet<string> | undefined): JsonObject => {
  for (const name of refused ?? []) delete members[name]
  return members
}

/** Lists of several parts are one list in the message. */
const joined = (before: unknown, value: unknown): unknown =>
  Array.isArray(before) && Array.isArray(value)
    ? [...(before as ReadonlyArray<unknown>), ...(value as ReadonlyArray<unknown>)]
    : value

const read = (part: Prompt.ReasoningPart | Prompt.ToolCallPart): Opaque => {
  const kept = part.options[key]
  if (!isObject(kept)) return {}
  const { field, issuer, members } = kept
  return {
    ...(typeof issuer === "string" ? { issuer } : undefined),
    ...(field === "reasoning_content" || field === "reasoning" ? { field } : undefined),
    ...(isObject(members) ? { members } : undefined)
  }
}
