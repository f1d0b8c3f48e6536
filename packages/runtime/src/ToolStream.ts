/**
 * A tool's result that is a stream: of any size, read once, never whole in memory.
 *
 * ```ts
 * const Log = Tool.make("read_log", { parameters, success: ToolStream.schema })
 * const handlers = { read_log: () => Effect.succeed(ToolStream.make(lines)) }
 * ```
 *
 * It is read inside the call: under its timeout, and stopped with it. A stream that fails is a tool that fails.
 */
import * as Schema from "effect/Schema"
import type { Content } from "./LargeOutput.ts"

export class ToolStream {
  readonly content: Content
  constructor(content: Content) {
    this.content = content
  }
}

/** A result that is this content. */
export const make = (content: Content): ToolStream => new ToolStream(content)

/** The success schema of a tool that gives a stream. */
export const schema = Schema.declare((result): result is ToolStream => result instanceof ToolStream)
