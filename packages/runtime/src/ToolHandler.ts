/**
 * A tool's handler with its schemas, run the short way: one call, one answer.
 *
 * `Toolkit.handle` puts a fiber, a queue and a stream around every call, which is what a model stream needs and what a
 * step pays for with several turns of the event loop. A handler that answers at once answers here at once.
 *
 * Owns: decoding parameters, encoding what comes back, and the words of `effect/ai` for what does not fit. Does not own:
 * time limits, interruption, or the fact that is recorded (`ToolRun`).
 *
 * - H1. A tool cannot tell the difference: the same handler, services, schemas and failures as under `Toolkit.handle`.
 */
import * as Canonical from "@turnstep/core/Canonical"
import type { SpillId } from "@turnstep/core/Ids"
import type * as SpillStore from "@turnstep/core/SpillStore"
import * as AiError from "effect/ai/AiError"
import * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { Output } from "./LargeOutput.ts"
import * as ToolCall from "./ToolCall.ts"
import { ToolStream } from "./ToolStream.ts"

/** What a tool said. `modelText` is what the model reads instead of the output, when the tool maps it. */
export interface Answer {
  readonly isFailure: boolean
  readonly output: Canonical.Json
  readonly modelText?: string | undefined
  /** Where all of it is kept, when the tool gave it as a stream and it was too large. */
  readonly spill?: SpillId | undefined
  /** Where the text of a durable local read is kept, of which the output is the proof. */
  readonly received?: SpillStore.Spill | undefined
}

/** The tool was started, and how it ended cannot be known: a call that may have had effects gets a receipt for that. */
export class OutcomeUnknown extends Schema.TaggedError<OutcomeUnknown>()("OutcomeUnknown", {
  message: Schema.String
}) {}

export interface ToolHandler {
  /**
   * Runs the tool. Fails with what the tool fails with, or with an `AiError` when parameters or result do not fit its
   * schemas. `callKey` reaches the handler as its `toolCallId`.
   */
  readonly run: (
    params: Canonical.Json,
    callKey: string,
    onProgress: (progress: Canonical.Json) => Effect.Effect<void>
  ) => Effect.Effect<Answer, unknown>
  /** Turns a result that the handler has committed (`ToolCall.commit`) into its answer. */
  readonly encode?: (result: unknown) => Effect.Effect<Answer, unknown>
}

/** Finds the handler of a tool in a context; `undefined` when the application has provided none. */
export const finder = (tool: Tool.Any): ((context: Context.Context<never>) => ToolHandler | undefined) => {
  const key = Context.Service<Tool.Handler<string>>(tool.id)
  const schemas = schemasOf(tool)
  return (context) => {
    const found = Context.getOption(context, key)
    return Option.isNone(found) ? undefined : make(tool, schemas, found.value)
  }
}

/** The answer of an output that was collected: its text, or where all of it is kept. */
export const streamed = ({ bytes, spill, text }: Output): Answer =>
  spill === undefined
    ? { isFailure: false, output: text }
    : { isFailure: false, output: { text, bytes, spill }, modelText: text, spill }

interface Schemas {
  readonly decode: (params: unknown) => Effect.Effect<unknown, AiError.AiError>
  readonly encode: (result: unknown, isFailure: boolean) => Effect.Effect<Canonical.Json, AiError.AiError>
}

const make = (tool: Tool.Any, { decode, encode }: Schemas, { context, handler }: Tool.Handler<string>): ToolHandler => {
  const success = (result: unknown): Effect.Effect<Answer, unknown> =>
    result instanceof ToolStream
      ? Effect.map(ToolCall.keep(result.content), streamed)
      : Effect.map(encode(result, false), (output) => ({
          isFailure: false,
          output,
          modelText:
            tool.toModelOutput === undefined ? undefined : Prompt.toolModelOutputToText(tool.toModelOutput(result))
        }))
  /**
   * A failure is the answer that its schema makes of it, in either failure mode: what the schema does not name goes nowhere.
   * One that is not the schema's stays an error, of which the words alone are told (`ToolAnswer.failureText`).
   */
  const failure = (error: unknown): Effect.Effect<Answer, unknown> => {
    if (AiError.isAiError(error) || error instanceof OutcomeUnknown) return Effect.fail(error)
    return encode(error, true).pipe(
      Effect.map((output) => ({ isFailure: true, output })),
      Effect.mapError((unfit) => (tool.failureMode === "return" ? unfit : error))
    )
  }
  return {
    encode: (result) =>
      Effect.updateContext(success(result), (own: Context.Context<never>) => Context.merge(context, own)),
    run: (params, callKey, onProgress) => {
      const handlerContext: Toolkit.HandlerContext<Tool.Any> = {
        toolCallId: callKey,
        // What cannot be encoded cannot be shown; the call itself goes on.
        preliminary: (progress) => Effect.ignore(Effect.flatMap(encode(progress, false), onProgress))
      }
      return Effect.flatMap(decode(params), (decoded) =>
        handler(decoded, handlerContext).pipe(
          Effect.updateContext((own: Context.Context<never>) => Context.merge(context, own)),
          Effect.matchEffect({ onFailure: (error) => failure(normalized(tool, error)), onSuccess: success })
        )
      )
    }
  }
}

const schemasOf = (tool: Tool.Any): Schemas => {
  const fail = (reason: AiError.AiErrorReason) =>
    AiError.make({ module: "Toolkit", method: `${tool.name}.handle`, reason })
  const decodeParams = Schema.isSchema(tool.parametersSchema)
    ? (Schema.decodeUnknownEffect(tool.parametersSchema) as Codec)
    : Effect.succeed
  const encodeSuccess = Schema.encodeUnknownEffect(tool.successSchema) as Codec
  const encodeFailure = Schema.encodeUnknownEffect(Tool.failureResultSchema(tool)) as Codec
  return {
    decode: (params) =>
      Effect.mapError(decodeParams(params), ({ message }) =>
        fail(new AiError.ToolParameterValidationError({ toolName: tool.name, description: message }))
      ),
    encode: (result, isFailure) =>
      Effect.mapBoth(isFailure ? encodeFailure(result) : encodeSuccess(result), {
        onFailure: ({ message }) =>
          fail(new AiError.ToolResultEncodingError({ toolName: tool.name, toolResult: result, description: message })),
        onSuccess: Canonical.toJson
      })
  }
}

// What the schemas need is part of the agent's needs and in the context the tool runs with.
type Codec = (value: unknown) => Effect.Effect<unknown, Schema.SchemaError>

const normalized = (tool: Tool.Any, error: unknown): unknown => {
  const method = `${tool.name}.handle`
  if (AiError.isAiErrorReason(error)) return AiError.make({ module: "Toolkit", method, reason: error })
  if (!Schema.isSchemaError(error)) return error
  const description = `Tool handler returned invalid result: ${error.message}`
  const reason = new AiError.InvalidToolResultError({ toolName: tool.name, description })
  return AiError.make({ module: "Toolkit", method, reason })
}
