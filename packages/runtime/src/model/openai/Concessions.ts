/**
 * Optional fields that a server has refused, or demands, learnt from its refusals.
 *
 * A refusal that names an optional field is answered with the same request without it, and the model leaves it out from then on.
 *
 * Owns: which refusals these are, and what is left out. Does not own: sending (`ChatCall`), or the body (`ChatRequest`).
 *
 * - C1. A field is conceded once, so a request is repeated no more often than it has optional fields.
 * - C2. Messages, tools and the form of the answer are never conceded: the model would be asked for something else.
 * - C3. A limit on the answer is renamed before it is left out.
 */
import * as ChatOpaque from "@turnstep/core/history/codecs/ChatOpaque"

/** What is known of the server. A new object with every concession. */
export interface Concession {
  /** Fields that are left out, of the body, of a message or of a tool. */
  readonly refused: ReadonlySet<string>
  readonly recipient: ChatOpaque.Recipient
  /** The name of the limit on the answer's tokens; as the settings have it when absent. */
  readonly limitName?: string | undefined
}

export interface Concessions {
  readonly current: () => Concession
  /** Learns from a refusal of this body. True: the request is worth repeating. */
  readonly learn: (refusal: { readonly status: number; readonly body: string }, sent: string) => boolean
}

/** Nothing conceded yet. */
export const make = (recipient: ChatOpaque.Recipient): Concessions => {
  let concession: Concession = { refused: new Set(), recipient }
  const leaveOut = (name: string): void => {
    const refused = new Set([...concession.refused, name])
    concession = { ...concession, refused, recipient: { ...concession.recipient, refused } }
  }
  return {
    current: () => concession,
    learn: ({ body, status }, sent) => {
      if (!refusing.has(status)) return false
      const field = demanded(body)
      if (field !== undefined && !isAnswered(concession, field)) {
        concession = { ...concession, recipient: { ...concession.recipient, policy: field } }
        return true
      }
      if (!refusal.test(body)) return false
      const name = fieldsIn(sent).find((field) => !concession.refused.has(field) && names(body, field))
      if (name === undefined) return false
      const other = limits[name]
      if (other !== undefined && concession.limitName === undefined) concession = { ...concession, limitName: other } // C3
      else leaveOut(name)
      return true
    }
  }
}

/** OpenRouter answers 404 when no provider of the model takes a field, Mistral 422. */
const refusing: ReadonlySet<number> = new Set([400, 404, 422])

const refusal =
  /unsupported|not supported|not support|unknown|unrecogni[sz]ed|not permitted|extra_forbidden|unexpected|not allowed|no endpoints found|additional properties|cannot be used|is not a valid (?:field|parameter)|deprecated/i

const limits: { readonly [name: string]: string } = {
  max_tokens: "max_completion_tokens",
  max_completion_tokens: "max_tokens"
}

const isAnswered = ({ recipient, refused }: Concession, field: ChatOpaque.ReasoningField): boolean =>
  recipient.policy === field || recipient.policy === "none" || refused.has(field)

/** The field of reasoning that the server misses. */
const demanded = (body: string): ChatOpaque.ReasoningField | undefined =>
  /reasoning_content/.test(body) && /missing|must be (?:passed|provided|included|sent)|is required/i.test(body)
    ? "reasoning_content"
    : undefined

/** C2. */
const kept: ReadonlySet<string> = new Set(["model", "messages", "tools", "stream", "response_format"])

/** Names of the optional fields in a body. The more special ones come first: a refusal may name the path to them. */
const fieldsIn = (sent: string): ReadonlyArray<string> => {
  const body = JSON.parse(sent) as { readonly [field: string]: unknown }
  const opaque = new Set([...ChatOpaque.messageMembers, ...ChatOpaque.callMembers, ...ChatOpaque.reasoningFields])
  const inMessages = [...opaque].filter((name) => JSON.stringify(body["messages"]).includes(`"${name}":`))
  const inTools = JSON.stringify(body["tools"] ?? []).includes('"strict":') ? ["strict"] : []
  return [...inMessages, ...inTools, ...Object.keys(body).filter((name) => !kept.has(name))]
}

/** Whether a text names the field as one: a name of several words anywhere, any other only in quotes or as a step of a path. */
const names = (text: string, field: string): boolean => {
  const name = field.replace(/\W/g, "\\$&")
  return new RegExp(field.includes("_") ? `\\b${name}\\b` : `["'\`.\\\\]${name}["'\`.:\\s\\\\]`).test(text)
}
