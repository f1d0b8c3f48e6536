/**
 * Why a tool of a server cannot be offered to a model, whatever its server says.
 *
 * A provider refuses a whole request for one schema that it does not take, and the client a whole list for one tool that is not
 * of the protocol's form.
 */
import { isSpecType } from "@modelcontextprotocol/client"

/** The fault of a tool as its server sent it, to be read behind its name; undefined for none. */
export const of = (tool: unknown): string | undefined => {
  if (!isRecord(tool) || typeof tool["name"] !== "string" || tool["name"] === "") return "has no name"
  const schema = tool["inputSchema"]
  if (!isRecord(schema)) return "has no inputSchema"
  if (schema["type"] !== "object") return 'has an inputSchema that is not of "type": "object"'
  const word = refusedAtRoot.find((word) => word in schema)
  if (word !== undefined) return `has "${word}" at the root of its inputSchema, which providers refuse`
  const { properties = {}, required = [] } = schema
  if (!isRecord(properties) || !Object.values(properties).every(isSchema)) return "has properties that are no schemas"
  if (!Array.isArray(required) || !required.every((name) => typeof name === "string")) {
    return 'has a "required" that is no list of names'
  }
  return isWritable(schema) && isSpecType.Tool(tool) ? undefined : "is not of the form of the protocol"
}

/** How a tool is named in a report. */
export const nameOf = (tool: unknown): string =>
  isRecord(tool) && typeof tool["name"] === "string" && tool["name"] !== "" ? tool["name"].slice(0, 100) : "a tool"

/** Words that OpenAI and Anthropic refuse at the root of a tool's parameters. */
const refusedAtRoot = ["anyOf", "oneOf", "allOf", "not", "enum"]

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const isSchema = (value: unknown): boolean => typeof value === "boolean" || isRecord(value)

/** Nested too deep, a schema overflows whatever reads it. */
const isWritable = (schema: unknown): boolean => {
  try {
    return JSON.stringify(schema) !== undefined
  } catch {
    return false
  }
}
