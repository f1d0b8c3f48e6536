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
 */

/** One message as it came over the wire. */
export interface Message {
  readonly role: string
  readonly content?: string | null | ReadonlyArray<{ readonly type: string; readonly text?: string }>
  readonly reasoning_content?: string
  readonly tool_calls?: ReadonlyArray<ToolCall>
  readonly tool_call_id?: string
}

/** One call of an assistant message. */
export interface ToolCall {
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
  readonly rule: "O1" | "O2" | "O3" | "O5" | "O6" | "O7" | "O8" | "O11" | "body"
  readonly message: string
  /** Path of the offending value, as OpenAI writes it. */
  readonly param: string
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
