/**
 * Why a call to an MCP server gave no result. The messages are for the model, and for people.
 */
import * as Schema from "effect/Schema"

/** The server cannot be spoken to: nothing of the call has reached it. */
export class McpUnavailable extends Schema.TaggedError<McpUnavailable>()("McpUnavailable", {
  server: Schema.String,
  reason: Schema.String
}) {
  override get message() {
    return (
      `This call was not executed: the MCP server ${this.server} cannot be used now (${this.reason}). ` +
      "It is being tried again; go on without it, or try once more later."
    )
  }
}

/** The call was sent, and the server went away before it answered. */
export class McpAnswerLost extends Schema.TaggedError<McpAnswerLost>()("McpAnswerLost", {
  server: Schema.String,
  reason: Schema.String
}) {
  override get message() {
    return `The MCP server ${this.server} was lost before it answered (${this.reason}). The call may or may not have been executed.`
  }
}

/** The server answered with an error of its protocol instead of a result. */
export class McpRefused extends Schema.TaggedError<McpRefused>()("McpRefused", {
  server: Schema.String,
  reason: Schema.String
}) {
  override get message() {
    return `The MCP server ${this.server} answered with an error instead of a result: ${this.reason}`
  }
}

/** The server does not offer the tool as it was shown to the model in this Turn. */
export class McpToolChanged extends Schema.TaggedError<McpToolChanged>()("McpToolChanged", {
  server: Schema.String,
  tool: Schema.String,
  isGone: Schema.Boolean
}) {
  override get message() {
    const what = this.isGone ? "no longer offers" : "has changed"
    return (
      `This call was not executed: the MCP server ${this.server} ${what} the tool ${this.tool} since this turn began. ` +
      "What it offers now can be used from the next turn on."
    )
  }
}

export type McpError = McpUnavailable | McpAnswerLost | McpRefused | McpToolChanged
