/**
 * What the runtime must know of a tool beyond its schema, as annotations on plain `effect/ai` tools.
 *
 * ```ts
 * const Charge = Tool.make("charge", { … }).annotate(ToolPolicy.Effects, "once")
 * ```
 *
 * Owns: the policy vocabulary and its defaults (`spec: tool policy`). Does not own: how a policy is carried out (`ToolRun`).
 */
import * as Tool from "effect/ai/Tool"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"

/**
 * What running the tool again would do.
 *
 * - `pure`: nothing happens outside; it may run any number of times
 * - `idempotent`: one effect per call key, however often it runs
 * - `queryable`: the outside can be asked whether it happened
 * - `once`: it must never run twice; the default for a tool that says nothing of itself
 */
export type EffectClass = "pure" | "idempotent" | "queryable" | "once"

/** How much of the result the model sees: `slim` cuts an oversized text head and tail, `exempt` never cuts. */
export type OutputPolicy = "slim" | "exempt"

/** The tool's effect class. Without it `Tool.Readonly` means pure, `Tool.Idempotent` idempotent, neither means once. */
export const Effects = Context.Reference<EffectClass | undefined>("core/ToolPolicy/Effects", {
  defaultValue: () => undefined
})

/** How long one call may take. Default two minutes. */
export const Timeout = Context.Reference<Duration.Duration>("core/ToolPolicy/Timeout", {
  defaultValue: () => Duration.minutes(2)
})

/** Whether an oversized result is slimmed for the model. Default `slim`. */
export const Output = Context.Reference<OutputPolicy>("core/ToolPolicy/Output", {
  defaultValue: () => "slim"
})

export interface ToolPolicy {
  readonly effects: EffectClass
  readonly timeout: Duration.Duration
  readonly output: OutputPolicy
}

/** The policy of a tool, defaults filled in. */
export const of = (tool: Tool.Any): ToolPolicy => {
  const annotations = tool.annotations
  return {
    effects:
      Context.get(annotations, Effects) ??
      (Context.get(annotations, Tool.Readonly)
        ? "pure"
        : Context.get(annotations, Tool.Idempotent)
          ? "idempotent"
          : "once"),
    timeout: Context.get(annotations, Timeout),
    output: Context.get(annotations, Output)
  }
}

/** The policy of a call to a tool that does not exist: it is answered, never run. */
export const unknownTool: ToolPolicy = { effects: "pure", timeout: Duration.zero, output: "slim" }
