/**
 * Tools of MCP servers, beside an agent's own.
 *
 * ```ts
 * const files = Mcp.toolkit("files", { command: "npx", args: ["-y", "@modelcontextprotocol/server-filesystem", "."] })
 * const issues = Mcp.toolkit("issues", { url: "https://…/mcp", headers: { authorization: Redacted.make("Bearer …") } }, { trust: true })
 * const coder = Agent.make("coder", { instructions, toolkit, sources: [files, issues] })
 *
 * Runtime.layerSql([coder]).pipe(Layer.provide([files.layer, issues.layer]))
 * ```
 *
 * The layer owns the connection: the server is started or called when the layer is built, in the background, and is gone when
 * its scope closes. The model knows a tool as `<server>__<tool>`. How calls, failures and changes are treated: docs/mcp.md.
 *
 * Owns: the public names, and how a call of the runtime becomes a call of a server. Does not own: the connection
 * (`mcp/Connection`), the tools (`mcp/ToolList`).
 */
import * as AiError from "effect/ai/AiError"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Canonical from "@turnstep/core/Canonical"
import * as Connection from "../mcp/Connection.ts"
import * as Content from "../mcp/Content.ts"
import * as Endpoint from "../mcp/Endpoint.ts"
import * as ModelName from "../mcp/ModelName.ts"
import type * as ToolList from "../mcp/ToolList.ts"
import { OutcomeUnknown, type ToolHandler } from "../ToolHandler.ts"
import type { ProvidedTool, ToolSource } from "../ToolSource.ts"

export type { Status } from "../mcp/Connection.ts"
export type { Endpoint, Http, Stdio } from "../mcp/Endpoint.ts"

/** How the tools of a server are used. */
export interface Options extends Omit<ToolList.Rules, "timeout"> {
  /** How long one call may take. Default two minutes. */
  readonly timeout?: Duration.Input | undefined
}

/** The connection to the server of this name. */
export interface Server<in out Name extends string> {
  readonly _: (name: Name) => Name
}

/** The name or the address of a server cannot be used. */
export class McpInvalid extends Schema.TaggedError<McpInvalid>()("McpInvalid", {
  server: Schema.String,
  problem: Schema.String
}) {
  override get message() {
    return `MCP server ${this.server}: ${this.problem}`
  }
}

/** The tools of a server: a source for `Agent.make`, and the layer it needs. */
export interface McpToolkit<Name extends string> extends ToolSource<Server<Name>> {
  readonly name: Name
  /** Keeps the server in reach for as long as its scope is open. */
  readonly layer: Layer.Layer<Server<Name>>
  /** How it stands with the server. */
  readonly status: Effect.Effect<Connection.Status, never, Server<Name>>
}

/** What is wrong with a name or an address; `undefined` for none. */
export const problemOf = (name: string, endpoint: Endpoint.Endpoint): string | undefined => {
  if (!ModelName.isServerName(name)) {
    return "A server's name has 1 to 32 letters, digits, hyphens or underscores, and begins and ends with a letter or digit."
  }
  if (Endpoint.isStdio(endpoint)) return endpoint.command.trim() === "" ? "Its command is empty." : undefined
  const url = URL.parse(endpoint.url)
  return url?.protocol === "http:" || url?.protocol === "https:" ? undefined : "Its url is no http or https address."
}

/** The tools of a server. Throws `McpInvalid` for a name or an address that can never work. */
export const toolkit = <const Name extends string>(
  name: Name,
  endpoint: Endpoint.Endpoint,
  options: Options = {}
): McpToolkit<Name> => {
  const problem = problemOf(name, endpoint)
  if (problem !== undefined) throw new McpInvalid({ server: name, problem })
  const key = Context.Service<Server<Name>, Connection.Connection>(`runtime/Mcp/${name}`)
  const rules: ToolList.Rules = {
    ...options,
    timeout: options.timeout === undefined ? undefined : Duration.fromInputUnsafe(options.timeout)
  }
  return {
    name,
    layer: Layer.effect(key, Connection.make(name, endpoint, rules)),
    status: Effect.flatMap(key, ({ status }) => status),
    tools: Effect.flatMap(key, (connection) =>
      Effect.map(connection.tools, (tools) => [...tools.values()].map((listed) => provided(connection, listed)))
    )
  }
}

const provided = (connection: Connection.Connection, listed: ToolList.Listed): ProvidedTool => ({
  tool: listed.tool,
  handler: handler(connection, listed)
})

const handler = (connection: Connection.Connection, listed: ToolList.Listed): ToolHandler => ({
  run: Effect.fnUntraced(function* (params, callKey, onProgress) {
    yield* (listed.check?.(params) ?? Effect.void).pipe(
      Effect.mapError((description) => {
        const reason = new AiError.ToolParameterValidationError({ toolName: listed.tool.name, description })
        return AiError.make({ module: "Mcp", method: listed.tool.name, reason })
      })
    )
    const result = yield* connection
      .call(listed, params as Readonly<Record<string, unknown>>, callKey, (progress) =>
        onProgress(Canonical.toJson(progress))
      )
      .pipe(Effect.catchTag("McpAnswerLost", (lost) => Effect.fail(new OutcomeUnknown({ message: lost.message }))))
    return yield* Content.toAnswer(result)
  })
})
