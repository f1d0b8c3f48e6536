/**
 * The history contract of the OpenAI Chat wire, as a judge in tests sees it.
 *
 * Written for being obviously right: one pass over the messages, no repair, and
 * nothing shared with the code it judges.
 *
 * - O1. Every call of an assistant message is answered by tool messages that follow it directly.
 * - O2. A tool message answers a call of the assistant message before it.
 * - O3. A call is answered once.
 * - O4. The order of the answers is free.
 * - O5. An assistant message without calls has content.
 * - O6. A tool message has `tool_call_id` and content of text.
 * - O7. Function names are `[A-Za-z0-9_-]`, 1 to 64, in `tools` and in the history.
 * - O8. Call ids are 1 to 64 characters, and differ within their message.
 * - O11. Strings are well-formed Unicode.
 * - M1. Members beside those of the format: providers demand theirs, and refuse those of others.
 */

/** One message as it came over the wire. */
export interface Message {
  readonly role: string
  readonly content?: string | null | ReadonlyArray<{ readonly type: string; readonly text?: string }>
  readonly reasoning_content?: string
  readonly [member: string]: unknown
  readonly tool_calls?: ReadonlyArray<ToolCall>
  readonly tool_call_id?: string
}

/** One call of an assistant message. */
export interface ToolCall {
  readonly [member: string]: unknown
  readonly id: string
  readonly type: "function"
  readonly function: { readonly name: string; readonly arguments: string }
}

/** One declared tool. */
export interface ToolDeclaration {
  readonly type: "function"
  readonly function: { readonly name: string; readonly description?: string; readonly parameters?: unknown }
}

/** The body of a request that keeps the contract. */
export interface Body {
  readonly model: string
  readonly messages: ReadonlyArray<Message>
  readonly tools?: ReadonlyArray<ToolDeclaration>
  readonly stream?: boolean
  readonly [field: string]: unknown
}

/** A broken rule. */
export interface Violation {
  readonly rule: "O1" | "O2" | "O3" | "O5" | "O6" | "O7" | "O8" | "O11" | "M1" | "body"
  readonly message: string
  /** Path of the offending value, as OpenAI writes it. */
  readonly param: string
}

/** What a provider demands and takes of assistant messages beside the members of the format (M1). */
export interface MemberRule {
  /** A member that must be there, on answers with calls or on all answers of a round with calls. */
  readonly demanded?: { readonly name: string; readonly on: "calls" | "rounds" } | undefined
  /** A member that every first call of an answer must have. */
  readonly demandedOfCalls?: string | undefined
  /** Members that are taken; any other is refused. */
  readonly taken: ReadonlyArray<string>
}

/** The first broken rule about members, in the words of DeepSeek, Kimi, Gemini and Mistral. */
export const checkMembers = (messages: ReadonlyArray<Message>, rule: MemberRule): Violation | undefined => {
  for (const [i, message] of messages.entries()) {
    if (message.role !== "assistant") continue
    const param = `messages.[${i}]`
    const calls = message.tool_calls ?? []
    const foreign =
      Object.keys(message).find((name) => !ofMessages.has(name) && !rule.taken.includes(name)) ??
      calls.flatMap((call) => Object.keys(call)).find((name) => !ofCalls.has(name) && !rule.taken.includes(name))
    if (foreign !== undefined) {
      const text = `property '${param}.assistant.${foreign}' is unsupported. Extra inputs are not permitted.`
      return { rule: "M1", message: text, param: `${param}.${foreign}` }
    }
    const { demanded } = rule
    const isConcerned = demanded?.on === "rounds" ? isInRoundWithCalls(messages, i) : calls.length > 0
    if (demanded !== undefined && isConcerned && message[demanded.name] === undefined) {
      const text = `The ${demanded.name} in the thinking mode must be passed back to the API: it is missing at index ${i}.`
      return { rule: "M1", message: text, param: `${param}.${demanded.name}` }
    }
    if (rule.demandedOfCalls !== undefined && calls[0] !== undefined && calls[0][rule.demandedOfCalls] === undefined) {
      const text = `Function call \`${calls[0].function.name}\` is missing a thought_signature.`
      return { rule: "M1", message: text, param: `${param}.tool_calls[0].${rule.demandedOfCalls}` }
    }
  }
  return undefined
}

const ofMessages: ReadonlySet<string> = new Set(["role", "content", "tool_calls", "name", "refusal"])
const ofCalls: ReadonlySet<string> = new Set(["id", "type", "function", "index"])

/** A round goes from a user message to the next one. */
const isInRoundWithCalls = (messages: ReadonlyArray<Message>, index: number): boolean => {
  const start = messages.findLastIndex(({ role }, i) => role === "user" && i < index)
  const next = messages.findIndex(({ role }, i) => role === "user" && i > index)
  return messages.slice(start + 1, next < 0 ? undefined : next).some((message) => message.tool_calls !== undefined)
}

/** The first broken rule of a request body, or `undefined`. */
export const check = (body: unknown): Violation | undefined => {
  if (!isFields(body)) return { rule: "body", message: "The body must be a JSON object.", param: "" }
  if (!isWellFormed(body)) return { rule: "O11", message: "The body holds malformed Unicode.", param: "messages" }
  if (typeof body["model"] !== "string") return { rule: "body", message: "'model' is required.", param: "model" }
  return checkTools(body["tools"]) ?? checkMessages(body["messages"])
}

const checkTools = (tools: unknown): Violation | undefined => {
  if (tools === undefined) return undefined
  if (!Array.isArray(tools) || tools.length === 0) {
    return { rule: "body", message: "Invalid 'tools': expected an array with at least one element.", param: "tools" }
  }
  for (const [i, tool] of tools.entries()) {
    const violation = checkName(isFields(tool) ? tool["function"] : undefined, `tools[${i}].function.name`)
    if (violation !== undefined) return violation
  }
  return undefined
}

const checkMessages = (messages: unknown): Violation | undefined => {
  if (!Array.isArray(messages) || messages.length === 0) {
    return { rule: "body", message: "Invalid 'messages': expected a non-empty array.", param: "messages" }
  }
  let open = new Set<string>() // calls of the last assistant message that wait for their answer
  let answered = new Set<string>()
  for (const [i, message] of messages.entries()) {
    const param = `messages.[${i}]`
    if (!isFields(message)) return { rule: "body", message: "A message must be an object.", param }
    if (message["role"] === "tool") {
      const violation = checkAnswer(message, open, answered, param)
      if (violation !== undefined) return violation
      continue
    }
    if (open.size > 0) return unanswered(open, `${param}.role`)
    open = new Set()
    answered = new Set()
    const violation =
      message["role"] === "assistant"
        ? checkAssistant(message, open, param)
        : message["role"] === "user" || message["role"] === "system" || message["role"] === "developer"
          ? checkContent(message["content"], "body", param)
          : { rule: "body" as const, message: `Invalid role '${String(message["role"])}'.`, param: `${param}.role` }
    if (violation !== undefined) return violation
  }
  return open.size > 0 ? unanswered(open, `messages.[${messages.length}].role`) : undefined
}

const checkAssistant = (message: Fields, open: Set<string>, param: string): Violation | undefined => {
  const calls = message["tool_calls"]
  if (calls === undefined) return checkContent(message["content"], "O5", param)
  if (!Array.isArray(calls) || calls.length === 0) {
    return { rule: "O5", message: "Invalid 'tool_calls': empty array.", param: `${param}.tool_calls` }
  }
  for (const [i, call] of calls.entries()) {
    const at = `${param}.tool_calls[${i}]`
    if (!isFields(call)) return { rule: "body", message: "A call must be an object.", param: at }
    const id = call["id"]
    if (typeof id !== "string" || id.trim() === "" || id.length > 64) {
      return { rule: "O8", message: `Invalid '${at}.id': expected 1 to 64 characters.`, param: `${at}.id` }
    }
    if (open.has(id)) return { rule: "O8", message: `Duplicate call id '${id}'.`, param: `${at}.id` }
    const violation = checkName(call["function"], `${at}.function.name`)
    if (violation !== undefined) return violation
    if (!isFields(call["function"]) || typeof call["function"]["arguments"] !== "string") {
      return { rule: "body", message: "Call arguments must be a string.", param: `${at}.function.arguments` }
    }
    open.add(id)
  }
  return undefined
}

const checkAnswer = (
  message: Fields,
  open: Set<string>,
  answered: Set<string>,
  param: string
): Violation | undefined => {
  const id = message["tool_call_id"]
  if (typeof id !== "string") {
    return { rule: "O6", message: `Missing parameter '${param}.tool_call_id'.`, param: `${param}.tool_call_id` }
  }
  if (!open.delete(id)) {
    return {
      rule: answered.has(id) ? "O3" : "O2",
      message:
        "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'." +
        (answered.has(id) ? ` '${id}' is answered already.` : ` No open call has the id '${id}'.`),
      param: `${param}.role`
    }
  }
  answered.add(id)
  const { content } = message
  const isText =
    typeof content === "string" ||
    (Array.isArray(content) && content.length > 0 && content.every((part) => isFields(part) && part["type"] === "text"))
  return isText
    ? undefined
    : { rule: "O6", message: "The content of a 'tool' message must be text.", param: `${param}.content` }
}

const checkContent = (content: unknown, rule: "O5" | "body", param: string): Violation | undefined => {
  const isThere =
    typeof content === "string" ? rule === "body" || content !== "" : Array.isArray(content) && content.length > 0
  if (isThere) return undefined
  return {
    rule,
    message: `Invalid value for 'content': expected a string, got ${JSON.stringify(content) ?? "nothing"}.`,
    param: `${param}.content`
  }
}

const checkName = (fn: unknown, param: string): Violation | undefined => {
  const name = isFields(fn) ? fn["name"] : undefined
  if (typeof name === "string" && /^[A-Za-z0-9_-]{1,64}$/.test(name)) return undefined
  return {
    rule: "O7",
    message: `Invalid '${param}': expected a string that matches the pattern '^[a-zA-Z0-9_-]{1,64}$'.`,
    param
  }
}

const unanswered = (open: ReadonlySet<string>, param: string): Violation => ({
  rule: "O1",
  message:
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. " +
    `The following tool_call_ids did not have response messages: ${[...open].join(", ")}`,
  param
})

type Fields = { readonly [field: string]: unknown }

const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const isWellFormed = (value: unknown): boolean =>
  typeof value === "string"
    ? value.isWellFormed()
    : typeof value !== "object" || value === null || Object.entries(value).flat().every(isWellFormed)
