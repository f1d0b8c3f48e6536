/**
 * The body of one request on the OpenAI Chat wire.
 *
 * Owns: model, settings, tools, tool choice, response format, and how the kept
 * texts of the messages are put together. Does not own: a message's own text
 * (`ChatMessage`) or how bytes leave (`Exchange`).
 *
 * - Q1. Work per request is one concatenation: messages and tools are encoded once.
 * - Q2. What the server has refused is left out (`Concessions`).
 */
import * as AiError from "effect/ai/AiError"
import type * as LanguageModel from "effect/ai/LanguageModel"
import * as OpenAiStructuredOutput from "effect/ai/OpenAiStructuredOutput"
import * as Tool from "effect/ai/Tool"
import type * as Schema from "effect/Schema"
import * as WellFormedJson from "@turnstep/core/history/WellFormedJson"
import * as ToolSchema from "../ToolSchema.ts"
import type * as ChatMessage from "./ChatMessage.ts"
import type * as Concessions from "./Concessions.ts"

/** What stays the same in every request. */
export interface Options {
  readonly model: string
  /** Further fields of the body, named as the provider names them. */
  readonly settings?: Settings | undefined
}

/** Fields of the body beside model, messages, tools and stream. */
export type Settings = { readonly [field: string]: Schema.Json }

/** Makes request bodies. Throws a reason of `AiError`, and a `TypeError` when a value is not JSON. */
export const encoder = (
  options: Options,
  messages: ChatMessage.Encoder,
  concessions: Concessions.Concessions
): ((request: LanguageModel.ProviderOptions) => string) => {
  let known: Concessions.Concession | undefined
  let fixed = ""
  let tools = toolsEncoder(true)
  return (request) => {
    const conceded = concessions.current()
    const { refused } = conceded
    if (conceded !== known) {
      known = conceded
      fixed = fixedPart(options, conceded)
      tools = toolsEncoder(!refused.has("strict"))
    }
    let body = fixed
    if (request.tools.length > 0) {
      body += `,"tools":${tools(request.tools)}${refused.has("tool_choice") ? "" : toolChoice(request.toolChoice)}`
    }
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

/** What is the same in every request, without its last bracket (Q2). */
const fixedPart = ({ model, settings }: Options, { limitName, refused }: Concessions.Concession): string => {
  const optional = Object.entries({ stream_options: { include_usage: true }, ...settings }).map(
    ([name, value]) => [isLimit(name) ? (limitName ?? name) : name, value] as const
  )
  const kept = Object.fromEntries(optional.filter(([name]) => !refused.has(name)))
  return WellFormedJson.stringify({ ...kept, model, stream: true }).slice(0, -1)
}

const isLimit = (name: string): boolean => name === "max_tokens" || name === "max_completion_tokens"

const toolsEncoder = (isStrictTold: boolean): ((tools: ReadonlyArray<Tool.Any>) => string) => {
  const kept = new WeakMap<Tool.Any, string>()
  let last: { readonly tools: ReadonlyArray<Tool.Any>; readonly text: string } | undefined
  const encode = (tool: Tool.Any): string => {
    const known = kept.get(tool)
    if (known !== undefined) return known
    const text = WellFormedJson.stringify(functionOf(tool, isStrictTold))
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

const functionOf = (tool: Tool.Any, isStrictTold: boolean): unknown => {
  if (Tool.isProviderDefined(tool)) {
    const description = "the OpenAI Chat wire has no provider-defined tools"
    throw new AiError.ToolConfigurationError({ toolName: tool.name, description })
  }
  const description = Tool.getDescription(tool)
  const strict = isStrictTold ? Tool.getStrictMode(tool) : undefined
  return {
    type: "function",
    function: {
      name: tool.name,
      ...(description === undefined ? undefined : { description }),
      parameters: ToolSchema.bounded(Tool.getJsonSchema(tool)),
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
