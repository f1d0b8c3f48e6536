/**
 * The body of one request on the OpenAI Chat wire.
 *
 * Owns: model, settings, tools, tool choice, response format, and how the kept
 * texts of the messages are put together. Does not own: a message's own text
 * (`ChatMessage`) or how bytes leave (`Exchange`).
 *
 * - Q1. Work per request is one concatenation: messages and tools are encoded once.
 */
import * as AiError from "effect/ai/AiError"
import type * as LanguageModel from "effect/ai/LanguageModel"
import * as OpenAiStructuredOutput from "effect/ai/OpenAiStructuredOutput"
import * as Tool from "effect/ai/Tool"
import type * as Schema from "effect/Schema"
import * as WellFormedJson from "@turnstep/core/history/WellFormedJson"
import * as ChatMessage from "./ChatMessage.ts"

/** What stays the same in every request. */
export interface Options {
  readonly model: string
  /** Further fields of the body, named as the provider names them. */
  readonly settings?: Settings | undefined
  /** Send reasoning that led to calls back in this field; by default it is not sent. */
  readonly reasoningField?: ChatMessage.ReasoningField | undefined
}

/** Fields of the body beside model, messages, tools and stream. */
export type Settings = { readonly [field: string]: Schema.Json }

/** Makes request bodies. Throws a reason of `AiError`, and a `TypeError` when a value is not JSON. */
export const encoder = (
  options: Options,
  messages: ChatMessage.Encoder = ChatMessage.encoder(options.reasoningField)
): ((request: LanguageModel.ProviderOptions) => string) => {
  const tools = toolsEncoder()
  const fixed = WellFormedJson.stringify({
    stream_options: { include_usage: true },
    ...options.settings,
    model: options.model,
    stream: true
  }).slice(0, -1)
  return (request) => {
    let body = fixed
    if (request.tools.length > 0) body += `,"tools":${tools(request.tools)}${toolChoice(request.toolChoice)}`
    if (request.responseFormat.type === "json") body += `,"response_format":${jsonFormat(request.responseFormat)}`
    body += ',"messages":['
    let separator = ""
    for (const content of request.prompt.content) {
      const text = messages.text(content)
      if (text === "") continue
      body += separator + text
      separator = ","
    }
    return body + "]}"
  }
}

const toolsEncoder = (): ((tools: ReadonlyArray<Tool.Any>) => string) => {
  const kept = new WeakMap<Tool.Any, string>()
  let last: { readonly tools: ReadonlyArray<Tool.Any>; readonly text: string } | undefined
  const encode = (tool: Tool.Any): string => {
    const known = kept.get(tool)
    if (known !== undefined) return known
    const text = WellFormedJson.stringify(functionOf(tool))
    kept.set(tool, text)
    return text
  }
  return (tools) => {
    // the array is new in every request, the tools in it are not
    if (last !== undefined && isSame(last.tools, tools)) return last.text
    last = { tools, text: `[${tools.map(encode).join(",")}]` }
    return last.text
  }
}

const isSame = (left: ReadonlyArray<Tool.Any>, right: ReadonlyArray<Tool.Any>): boolean =>
  left.length === right.length && left.every((tool, index) => tool === right[index])

const functionOf = (tool: Tool.Any): unknown => {
  if (Tool.isProviderDefined(tool)) {
    const description = "the OpenAI Chat wire has no provider-defined tools"
    throw new AiError.ToolConfigurationError({ toolName: tool.name, description })
  }
  const description = Tool.getDescription(tool)
  const strict = Tool.getStrictMode(tool)
  return {
    type: "function",
    function: {
      name: tool.name,
      ...(description === undefined ? undefined : { description }),
      parameters: Tool.getJsonSchema(tool),
      ...(strict === undefined ? undefined : { strict })
    }
  }
}

const toolChoice = (choice: LanguageModel.ToolChoice<string>): string => {
  if (choice === "auto") return ""
  if (typeof choice === "string") return `,"tool_choice":"${choice}"`
  if ("tool" in choice) {
    return `,"tool_choice":${WellFormedJson.stringify({ type: "function", function: { name: choice.tool } })}`
  }
  return choice.mode === "required" ? ',"tool_choice":"required"' : "" // `oneOf` has narrowed the tools already
}

const jsonFormat = (format: { readonly objectName: string; readonly schema: Schema.Constraint }): string =>
  WellFormedJson.stringify({
    type: "json_schema",
    json_schema: {
      name: format.objectName.replace(/[^\w-]/g, "_").slice(0, 64) || "answer",
      schema: Tool.getJsonSchemaFromSchema(format.schema, { transformer: OpenAiStructuredOutput.toCodecOpenAI }),
      strict: true
    }
  })
