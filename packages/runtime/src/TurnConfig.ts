/**
 * What one Turn runs with: model, tools, prompt and policy, resolved anew for every Turn (mechanisms H2, H3).
 *
 * Owns: the shape. Does not own: where it comes from (`Agent`, `Prepare`).
 */
import type * as LanguageModel from "effect/ai/LanguageModel"
import type * as Prompt from "effect/ai/Prompt"
import type * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import type { Wire } from "@turnstep/core/history/RequestGate"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Budget from "@turnstep/core/Budget"
import type { SessionId, TurnId } from "@turnstep/core/Ids"
import type { ToolPolicy } from "@turnstep/core/ToolPolicy"
import type { ToolHandler } from "./ToolHandler.ts"
import type { Limits } from "@turnstep/core/TurnEvent"

/** The Turn a configuration is resolved for. */
export interface TurnRequest {
  readonly sessionId: SessionId
  readonly turnId: TurnId
}

export interface TurnConfig {
  readonly agent: string
  /** The system prompt; one object per text, so that wire clients encode it once. */
  readonly system: Prompt.SystemMessage
  readonly model: LanguageModel.LanguageModel
  /** How the model's requests leave, and whose contract they keep. */
  readonly wire: Wire
  /** The model's name for people and records: `provider/model`, or `unknown` when its layer does not say. */
  readonly modelName: string
  /** The toolkit as it is shown to the model: its handlers are never called by `effect/ai`. */
  readonly advertised: Toolkit.WithHandler<Record<string, Tool.Any>>
  /** The handlers of the tools by name. */
  readonly handlers: ReadonlyMap<string, ToolHandler>
  readonly policies: ReadonlyMap<string, ToolPolicy>
  /** What the handlers of the tools still need when they run. */
  readonly context: Context.Context<never>
  readonly policy: Policy
}

/** Prices per million tokens; `cachedInput` is for input read from the provider's cache, and as `input` when absent. */
export interface Price {
  readonly input: number
  readonly output: number
  readonly cachedInput?: number | undefined
}

/**
 * What a Turn of the agent may use; the values are checked where an agent is made (`AgentRules`). What is left out is not
 * limited, besides steps; `Infinity` says so of a count.
 */
export interface Policy {
  /** Steps with tools: default 15, at least 1. */
  readonly maxSteps?: number | undefined
  /** Tokens in and out, as the provider counts them. */
  readonly maxTokens?: number | undefined
  /** Money: `max` in the currency of `price`, which is per million tokens. Without `max` the cost is told and limits nothing. */
  readonly cost?: { readonly max?: number | undefined; readonly price: Price } | undefined
  /** Wall time from the Turn's start; what runs then is stopped. */
  readonly maxDuration?: Duration.Input | undefined
  /**
   * How often the same calls may be asked for in a row with the same results, the refused time included: default 3, at
   * least 2, `Infinity` for as often as the model likes.
   */
  readonly repeatedToolCallLimit?: number | undefined
  /** Failures in a row after which tools of a domain at the user's are out of use in the Turn; default 5, at least 1. */
  readonly failureLimit?: number | undefined
  /** Calls of one response that are run; those beyond are answered in words. Default 128, at least 1. */
  readonly callLimit?: number | undefined
}

/** What holds for an agent that says nothing of it. */
export const DefaultPolicy = Context.Reference<Policy>("runtime/TurnConfig/DefaultPolicy", { defaultValue: () => ({}) })

/** The limits of a Turn that starts now (`now` in milliseconds since the epoch). */
export const limitsOf = (policy: Policy, now: number): Limits => {
  const { callLimit, cost, failureLimit, maxDuration, maxSteps, maxTokens, repeatedToolCallLimit } = policy
  return {
    maxSteps: Math.min(largestSteps, whole(maxSteps) ?? (maxSteps === Infinity ? mostSteps : Budget.defaultMaxSteps)),
    ...given("maxTokens", whole(maxTokens)),
    ...(cost === undefined ? {} : { price: priceOf(cost.price) }),
    ...given("maxCost", Number.isFinite(cost?.max) ? cost?.max : undefined),
    ...given("deadline", until(now, maxDuration)),
    ...given("repeatedToolCallLimit", atLeast(2, repeatedToolCallLimit)),
    ...given("failureLimit", atLeast(1, failureLimit)),
    ...given("callLimit", atLeast(1, callLimit))
  }
}

const priceOf = ({ cachedInput, input, output }: Price) => ({ input, output, ...given("cachedInput", cachedInput) })

const until = (now: number, input: Duration.Input | undefined): number | undefined => {
  const duration = input === undefined ? Duration.infinity : Duration.fromInputUnsafe(input)
  return Duration.isFinite(duration) ? now + Duration.toMillis(duration) : undefined
}

/** The last step but one that a table can number. */
const largestSteps = 2 ** 31 - 2

/** What stands for a Turn without such a limit. */
const mostSteps = 1_000_000

/** A count that can be recorded; `undefined` for what limits nothing. */
const whole = (count: number | undefined): number | undefined =>
  count === undefined || !Number.isFinite(count)
    ? undefined
    : Math.min(mostSteps * 1_000_000, Math.max(0, Math.floor(count)))

/** A count that means something only from `least` on. */
const atLeast = (least: number, count: number | undefined): number | undefined =>
  count === undefined || Number.isNaN(count)
    ? undefined
    : Math.max(least, whole(count) ?? (count > 0 ? mostSteps : least))

const given = <Name extends string>(name: Name, value: number | undefined) =>
  (value === undefined ? {} : { [name]: value }) as { readonly [K in Name]?: number }
