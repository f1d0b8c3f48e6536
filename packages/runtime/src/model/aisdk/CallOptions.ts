/**
 * A request of `effect/ai` as the call options of the AI SDK.
 *
 * Owns: tools, tool choice, response format. Does not own: the form of a message
 * (`PromptMessage`).
 */
import type * as Provider from "@ai-sdk/provider"
import type * as LanguageModel from "effect/ai/LanguageModel"
import * as Tool from "effect/ai/Tool"
import * as ToolSchema from "../ToolSchema.ts"
import * as PromptMessage from "./PromptMessage.ts"

/** Options of the AI SDK that are the same in every call. */
export type Settings = Omit<
  Provider.LanguageModelV4CallOptions,
  "prompt" | "tools" | "toolChoice" | "abortSignal" | "responseFormat" | "includeRawChunks"
>

type V4Tool = NonNullable<Provider.LanguageModelV4CallOptions["tools"]>[number]
type V4Schema = Provider.LanguageModelV4FunctionTool["inputSchema"]

/** Converter that converts every message and every tool once. Throws a `TypeError` when a value is not JSON. */
export const converter = (
  settings: Settings,
  write: PromptMessage.Writer
): ((request: LanguageModel.ProviderOptions, abortSignal: AbortSignal) => Provider.LanguageModelV4CallOptions) => {
  const tools = new WeakMap<Tool.Any, V4Tool>()
  const toolFor = (tool: Tool.Any): V4Tool => {
    const known = tools.get(tool)
    if (known !== undefined) return known
    const converted = convertTool(tool)
    tools.set(tool, converted)
    return converted
  }
  return (request, abortSignal) => ({
    ...settings,
    abortSignal,
    prompt: PromptMessage.converted(request.prompt.content.flatMap(write)),
    ...(request.tools.length === 0
      ? undefined
      : { tools: request.tools.map(toolFor), toolChoice: convertChoice(request.toolChoice) }),
    ...(request.responseFormat.type === "json"
      ? {
          responseFormat: {
            type: "json" as const,
            name: request.responseFormat.objectName,
            schema: Tool.getJsonSchemaFromSchema(request.responseFormat.schema) as V4Schema
          }
        }
      : undefined)
  })
}

const convertTool = (tool: Tool.Any): V4Tool => {
  if (Tool.isProviderDefined(tool))
    return { type: "provider", id: tool.id, name: tool.providerName, args: argsOf(tool) }
  const description = Tool.getDescription(tool)
  const strict = Tool.getStrictMode(tool)
  return {
    type: "function",
    name: tool.name,
    inputSchema: ToolSchema.bounded(Tool.getJsonSchema(tool)) as V4Schema,
    ...(description === undefined ? undefined : { description }),
    ...(strict === undefined ? undefined : { strict })
  }
}

const argsOf = (tool: { readonly args: unknown }): Record<string, unknown> => ({ ...(tool.args as object) })

const convertChoice = (choice: LanguageModel.ToolChoice<string>): Provider.LanguageModelV4ToolChoice => {
  if (typeof choice === "string") return { type: choice }
  if ("tool" in choice) return { type: "tool", toolName: choice.tool }
  return { type: choice.mode ?? "auto" } // `oneOf` has narrowed the tools already
}
