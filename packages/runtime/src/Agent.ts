/**
 * An agent: instructions, tools and policy under a name.
 *
 * ```ts
 * const coder = Agent.make("coder", { instructions: "…", toolkit: Files, policy: { maxSteps: 15 } })
 * ```
 *
 * Tools are plain `effect/ai` toolkits and the model is whatever `LanguageModel` the application provides; `layer` holds
 * what must be made anew for every Turn.
 *
 * Tools that are known only when a Turn begins come from `sources`.
 *
 * Owns: how a `TurnConfig` is resolved. Does not own: when (`Prepare`), or what runs in it (`Turn`).
 *
 * - A1. Resolving makes no model request.
 * - A2. In a runtime that keeps large outputs, every agent can look into them; a tool of its own with that name goes first.
 */
import * as SpillStore from "@turnstep/core/SpillStore"
import * as ToolPolicy from "@turnstep/core/ToolPolicy"
import * as ToolRules from "@turnstep/core/ToolRules"
import * as Transcript from "@turnstep/core/Transcript"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Model from "effect/ai/Model"
import type * as Prompt from "effect/ai/Prompt"
import type * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as AgentRules from "./AgentRules.ts"
import { Wire } from "./model/Wire.ts"
import * as ToolHandler from "./ToolHandler.ts"
import type * as ToolSource from "./ToolSource.ts"
import * as SpillTools from "./tools/SpillTools.ts"
import { DefaultPolicy, type Policy, type TurnConfig, type TurnRequest } from "./TurnConfig.ts"

/** An agent that needs `R` from the application. */
export interface Agent<out R = never> {
  readonly name: string
  /** Resolves the configuration of a Turn in the Turn's scope (A1). */
  readonly resolve: (request: TurnRequest) => Effect.Effect<TurnConfig, never, R | Scope.Scope>
}

/** What an agent's tools and model need. */
export type Needs<Tools extends Record<string, Tool.Any>> =
  | LanguageModel.LanguageModel
  | Tool.HandlersFor<Tools>
  | Tool.HandlerServices<Tools[keyof Tools]>

/** Names an agent. Throws `AgentInvalid` for a policy that makes no sense. `instructions` may be an effect, and `layer` is built anew, for every Turn. */
export const make = <
  Tools extends Record<string, Tool.Any> = {},
  RI = never,
  LOut = never,
  LIn = never,
  Source extends ToolSource.ToolSource<unknown> = ToolSource.ToolSource
>(
  name: string,
  options: {
    readonly instructions: string | Effect.Effect<string, never, RI>
    readonly toolkit?: Toolkit.Toolkit<Tools> | undefined
    /** Tools that are asked for when a Turn begins, such as those of MCP servers (`tools/Mcp`). */
    readonly sources?: ReadonlyArray<Source> | undefined
    readonly policy?: Policy | undefined
    readonly layer?: Layer.Layer<LOut, never, LIn> | undefined
  }
): Agent<Exclude<Needs<Tools> | RI | ToolSource.Needs<Source>, LOut | Scope.Scope> | LIn> => {
  const wrong = AgentRules.wrongAgent(name, options.policy ?? {}, Object.values<Tool.Any>(options.toolkit?.tools ?? {}))
  if (wrong !== undefined) throw wrong
  const toolkit = (options.toolkit ?? Toolkit.empty) as Toolkit.Toolkit<Tools>
  const plain = kit(toolkit.tools)
  const spilling = kit({ ...SpillTools.toolkit.tools, ...toolkit.tools })
  const sources = options.sources ?? []
  const systemOf = memoizedSystem()
  const resolve = Effect.fnUntraced(function* () {
    const text = typeof options.instructions === "string" ? options.instructions : yield* options.instructions
    const keepsSpills = (yield* SpillStore.SpillStore) !== undefined
    const own = keepsSpills ? spilling : plain
    const more = yield* gathered(name, own.advertised.tools, sources)
    const { advertised, policies } = more.length === 0 ? own : joined(own, more)
    const spillTools = keepsSpills ? yield* SpillTools.toolkit.toHandlers(SpillTools.handlers) : Context.empty()
    const context = Context.merge(spillTools, yield* Effect.context<never>())
    const config: TurnConfig = {
      agent: name,
      system: systemOf(text),
      model: yield* LanguageModel.LanguageModel,
      wire: yield* Wire,
      modelName: yield* modelName,
      advertised,
      handlers: new Map([
        ...own.finders.flatMap(([tool, find]) => entry(tool, find(context))),
        ...more.map(({ handler, tool }) => [tool.name, handler] as const)
      ]),
      policies,
      context,
      policy: { ...(yield* DefaultPolicy), ...options.policy }
    }
    return config
  })
  const perTurn = options.layer ?? (Layer.empty as unknown as Layer.Layer<LOut, never, LIn>)
  return {
    name,
    resolve: () =>
      Effect.flatMap(Layer.build(Layer.fresh(perTurn)), (made) =>
        Effect.updateContext(
          resolve() as Effect.Effect<TurnConfig, never, never>,
          (input: Context.Context<never>) => Context.merge(input, made) as Context.Context<never>
        )
      ) as Effect.Effect<
        TurnConfig,
        never,
        Exclude<Needs<Tools> | RI | ToolSource.Needs<Source>, LOut | Scope.Scope> | LIn | Scope.Scope
      >
  }
}

/** What a Turn needs of a set of tools. */
const kit = (tools: Record<string, Tool.Any>) => ({
  policies: new Map(Object.values(tools).map((tool) => [tool.name, ToolPolicy.of(tool)] as const)),
  finders: Object.values(tools).map((tool) => [tool.name, ToolHandler.finder(tool)] as const),
  advertised: { tools, handle: () => Effect.die("calls are run by ToolRun") }
})

/** The tools of the sources. Of tools with the same name the first one counts, and the agent's own come before all. */
const gathered = Effect.fnUntraced(function* <R>(
  agent: string,
  own: Record<string, Tool.Any>,
  sources: ReadonlyArray<ToolSource.ToolSource<R>>
) {
  const given = yield* Effect.forEach(sources, ({ tools }) => tools, { concurrency: "unbounded" })
  const byName = new Map<string, ToolSource.ProvidedTool>()
  for (const provided of given.flat()) {
    const { name } = provided.tool
    const problem = ToolRules.problemOf(provided.tool)
    if (byName.has(name) || Object.hasOwn(own, name)) {
      yield* Effect.logWarning(`agent ${agent} has more than one tool ${name}: the first one counts`)
    } else if (problem !== undefined) {
      yield* Effect.logError(`agent ${agent} goes without a tool of a source, since it cannot be used: ${problem}`)
    } else byName.set(name, provided)
  }
  return [...byName.values()]
})

const joined = ({ advertised, policies }: ReturnType<typeof kit>, more: ReadonlyArray<ToolSource.ProvidedTool>) => ({
  policies: new Map([...policies, ...more.map(({ tool }) => [tool.name, ToolPolicy.of(tool)] as const)]),
  advertised: {
    ...advertised,
    tools: { ...advertised.tools, ...Object.fromEntries(more.map(({ tool }) => [tool.name, tool])) }
  }
})

const entry = <A>(name: string, value: A | undefined): ReadonlyArray<readonly [string, A]> =>
  value === undefined ? [] : [[name, value]]

const modelName = Effect.gen(function* () {
  const provider = yield* Effect.serviceOption(Model.ProviderName)
  const model = yield* Effect.serviceOption(Model.ModelName)
  if (Option.isNone(model)) return "unknown"
  return Option.isNone(provider) ? model.value : `${provider.value}/${model.value}`
})

/** Keeps the last system message: most agents say the same every Turn. */
const memoizedSystem = () => {
  let last: { readonly text: string; readonly message: Prompt.SystemMessage } | undefined
  return (text: string): Prompt.SystemMessage => {
    if (last?.text !== text) last = { text, message: Transcript.systemMessage(text) }
    return last.message
  }
}
