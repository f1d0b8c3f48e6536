/**
 * Tools that are known only when a Turn begins, beside the toolkit an agent was made with.
 *
 * A source is asked once for every Turn; what it gave holds to the Turn's end, whatever the source offers meanwhile.
 */
import type * as Tool from "effect/ai/Tool"
import type * as Effect from "effect/Effect"
import type { ToolHandler } from "./ToolHandler.ts"

/** A tool as it is shown to the model, with what runs it. */
export interface ProvidedTool {
  readonly tool: Tool.Any
  readonly handler: ToolHandler
}

/** Where tools come from; it needs `R` from the application. */
export interface ToolSource<out R = never> {
  readonly name: string
  /** The tools of a Turn that begins now. A source that is out of order gives none: it keeps no Turn from its start. */
  readonly tools: Effect.Effect<ReadonlyArray<ProvidedTool>, never, R>
}

/** What a source needs of the application. */
export type Needs<Source> = Source extends ToolSource<infer R> ? R : never
