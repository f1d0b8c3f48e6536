/**
 * What the runtime must know of a tool beyond its schema, as annotations on plain `effect/ai` tools.
 *
 * ```ts
 * const Charge = ToolPolicy.once(Tool.make("charge", { … }))
 * const Search = ToolPolicy.annotate(Tool.make("search", { … }), { effects: "pure", timeout: "30 seconds" })
 * ```
 *
 * `Tool.annotate` takes the annotations as well, with any value: TypeScript finds a slip in the functions here only. What is
 * wrong is found where the agent is made at the latest (`ToolRules`).
 *
 * Owns: the policy vocabulary and its defaults (`spec: tool policy`). Does not own: how a policy is carried out (`ToolRun`).
 */
import type { Json } from "./Canonical.ts"
import * as Noise from "./Noise.ts"
import * as Tool from "effect/ai/Tool"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Result from "effect/Result"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Option from "effect/Option"
import type * as Schedule from "effect/Schedule"

/**
 * What running the tool again would do.
 *
 * - `pure`: nothing happens outside; it may run any number of times
 * - `idempotent`: one effect per call key, however often it runs
 * - `queryable`: the outside can be asked whether it happened
 * - `once`: it must never run twice; the default for a tool that says nothing of itself
 */
export type EffectClass = (typeof effectClasses)[number]
export const effectClasses = ["pure", "idempotent", "queryable", "once"] as const

/** How much of the result the model sees: `slim` cuts an oversized text head and tail, `exempt` never cuts. */
export type OutputPolicy = (typeof outputPolicies)[number]
export const outputPolicies = ["slim", "exempt"] as const

/** The tool's effect class. Without it `Tool.Readonly` means pure, `Tool.Idempotent` idempotent, neither means once. */
export const Effects = Context.Reference<EffectClass | undefined>("core/ToolPolicy/Effects", {
  defaultValue: () => undefined
})

/**
 * Where the tool runs.
 *
 * - `server`: in this process, or called from it
 * - `client`, `local`, `desktop`, `plugin`: at the user's; the last three have a `FailureBudget`
 * - `mcp`: a server of tools
 * - `provider`: at the provider of the model
 */
export type Domain = (typeof domains)[number]
export const domains = ["server", "client", "local", "desktop", "plugin", "mcp", "provider"] as const

/** The tool's domain. Default `server`. */
export const Domain = Context.Reference<Domain>("core/ToolPolicy/Domain", { defaultValue: () => "server" })

/**
 * What two results of the tool are compared by, to see whether a repeated call brought anything new (`Breaker`). By default
 * a tool that only reads is compared by its whole result, since a new time may be what it was asked for; a tool with effects
 * without times and ids (`Noise.mask`), which are new each time it does the same.
 */
export const Normalise = Context.Reference<((result: Json) => Json) | undefined>("core/ToolPolicy/Normalise", {
  defaultValue: () => undefined
})

/** How long one attempt of a call may take. Default two minutes. */
export const Timeout = Context.Reference<Duration.Input>("core/ToolPolicy/Timeout", {
  defaultValue: () => Duration.minutes(2)
})

/** Whether an oversized result is slimmed for the model. Default `slim`. */
export const Output = Context.Reference<OutputPolicy>("core/ToolPolicy/Output", {
  defaultValue: () => "slim"
})

/**
 * Calls of one batch with the same key run one after the other, in the order of the response; all others side by side. A
 * key, or a function of the call's arguments that may give none; they are as the model wrote them, and those it throws for have
 * the tool's name for a key. Default: none.
 */
export const Exclusive = Context.Reference<string | ((params: Json) => string | undefined) | undefined>(
  "core/ToolPolicy/Exclusive",
  { defaultValue: () => undefined }
)

/** When a call that failed is run again; only of tools that are `pure` or `idempotent`. Default: never. */
export const Retry = Context.Reference<Schedule.Schedule<unknown> | undefined>("core/ToolPolicy/Retry", {
  defaultValue: () => undefined
})

/** A call whose process died while it ran. `params` are the arguments as the model wrote them. */
export interface LostCall {
  readonly params: Json
  /** The key that the handler got as `toolCallId`. */
  readonly callKey: string
}

/** Asks the outside what became of a lost call: its result as the tool would have given it, none where that cannot be told. */
export type Query = (call: LostCall) => Effect.Effect<Option.Option<Json>, unknown>

/**
 * How a `queryable` tool is asked after a crash (mechanism C3). It is never run again: a process that was only frozen may
 * still do what it was at, so "not done" is no answer. A `queryable` tool must have one.
 */
export const Query = Context.Reference<Query | undefined>("core/ToolPolicy/Query", { defaultValue: () => undefined })

/**
 * Marks a durable local read (`DurableRead`): its text is kept beside the history, which has the proof alone. The function
 * gives the path for the proof, from the call's arguments. Where no spill store is, the text is a result like any other.
 */
export const DurableRead = Context.Reference<((params: Json) => string) | undefined>("core/ToolPolicy/DurableRead", {
  defaultValue: () => undefined
})

/** What a tool can say of itself; what it leaves out keeps its default. */
export interface Settings {
  readonly effects?: EffectClass
  readonly domain?: Domain
  readonly normalise?: (result: Json) => Json
  readonly timeout?: Duration.Input
  readonly output?: OutputPolicy
  readonly exclusive?: string | ((params: Json) => string | undefined)
  readonly retry?: Schedule.Schedule<unknown>
  readonly query?: Query
  readonly durableRead?: (params: Json) => string
}

/** Annotates a tool with several things at once, so that TypeScript finds a slip. */
export const annotate = <T extends Tool.Any>(tool: T, settings: Settings): T => {
  const said = [
    [Effects, settings.effects],
    [Domain, settings.domain],
    [Normalise, settings.normalise],
    [Timeout, settings.timeout],
    [Output, settings.output],
    [Exclusive, settings.exclusive],
    [Retry, settings.retry],
    [Query, settings.query],
    [DurableRead, settings.durableRead]
  ] as ReadonlyArray<readonly [Context.Key<never, unknown>, unknown]>
  const annotations = said.reduce(
    (all, [key, value]) => (value === undefined ? all : Context.add(all, key, value)),
    Context.empty()
  )
  return tool.annotateMerge(annotations) as Tool.Any as T
}

/** A tool that only reads: it may run any number of times. */
export const pure = <T extends Tool.Any>(tool: T): T => annotate(tool, { effects: "pure" })

/** A tool that has one effect per call key, however often it runs. */
export const idempotent = <T extends Tool.Any>(tool: T): T => annotate(tool, { effects: "idempotent" })

/** A tool that must never run twice for one call. */
export const once = <T extends Tool.Any>(tool: T): T => annotate(tool, { effects: "once" })

/** A tool of which the outside can be asked after a crash whether it happened. */
export const queryable = <T extends Tool.Any>(tool: T, query: Query): T =>
  annotate(tool, { effects: "queryable", query })

/**
 * Whether a call must be approved by a person. `params` are the arguments as the model wrote them; it fails where they do not
 * fit the tool, or where the tool's own rule fails.
 */
export type NeedsApproval = (params: Json, context: Tool.NeedsApprovalContext) => Effect.Effect<boolean, unknown>

export interface ToolPolicy {
  readonly effects: EffectClass
  readonly domain: Domain
  /** The tool's `needsApproval`: always, never, or as its rule says for the call. */
  readonly needsApproval: boolean | NeedsApproval
  /** `undefined`: results are compared as they are. */
  readonly normalise: ((result: Json) => Json) | undefined
  readonly timeout: Duration.Duration
  readonly output: OutputPolicy
  readonly durableRead: ((params: Json) => string) | undefined
  /** The key of `Exclusive` for a call's arguments. */
  readonly exclusive: (params: Json) => string | undefined
  readonly retry: Schedule.Schedule<unknown> | undefined
  readonly query: Query | undefined
}

/** The policy of a tool, defaults filled in. */
export const of = (tool: Tool.Any): ToolPolicy => {
  const annotations = tool.annotations
  const exclusive = Context.get(annotations, Exclusive)
  const effects =
    Context.get(annotations, Effects) ??
    (Context.get(annotations, Tool.Readonly)
      ? "pure"
      : Context.get(annotations, Tool.Idempotent)
        ? "idempotent"
        : "once")
  return {
    effects,
    domain: Context.get(annotations, Domain),
    needsApproval: approvalOf(tool),
    normalise: Context.get(annotations, Normalise) ?? (effects === "pure" ? undefined : Noise.mask),
    timeout: Duration.fromInputUnsafe(Context.get(annotations, Timeout)),
    output: Context.get(annotations, Output),
    durableRead: Context.get(annotations, DurableRead),
    exclusive: typeof exclusive === "function" ? keyOf(exclusive, tool.name) : () => exclusive,
    retry: mayRunAgain(effects) ? Context.get(annotations, Retry) : undefined,
    query: effects === "queryable" ? Context.get(annotations, Query) : undefined
  }
}

/** The need for an approval, in each form that `effect/ai` has for it. */
const approvalOf = (tool: Tool.Any): boolean | NeedsApproval => {
  const { needsApproval, parametersSchema } = tool as Tool.Any & {
    readonly needsApproval?: boolean | Tool.NeedsApprovalFunction<Schema.Constraint> | undefined
  }
  if (typeof needsApproval !== "function") return needsApproval ?? false
  // What the schema needs is part of the agent's needs, and in the context that the rule is asked with.
  const decode = Schema.isSchema(parametersSchema)
    ? (Schema.decodeUnknownEffect(parametersSchema) as (params: unknown) => Effect.Effect<unknown, unknown>)
    : Effect.succeed
  return (params, context) =>
    Effect.flatMap(decode(params), (decoded) =>
      Effect.suspend(() => {
        const needed = needsApproval(decoded, context)
        return Effect.isEffect(needed) ? needed : Effect.succeed(needed)
      })
    )
}

const keyOf =
  (exclusive: (params: Json) => string | undefined, otherwise: string) =>
  (params: Json): string | undefined =>
    Result.getOrElse(
      Result.try(() => exclusive(params)),
      () => otherwise
    )

/** The policy of a call to a tool that does not exist: it is answered, never run. */
export const unknownTool: ToolPolicy = {
  effects: "pure",
  domain: "server",
  needsApproval: false,
  normalise: undefined,
  timeout: Duration.zero,
  output: "slim",
  durableRead: undefined,
  exclusive: () => undefined,
  retry: undefined,
  query: undefined
}

/** Whether running a call again under its key does no harm. */
export const mayRunAgain = (effects: EffectClass): boolean => effects === "pure" || effects === "idempotent"
