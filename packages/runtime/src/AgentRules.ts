/**
 * What an agent and the agents of a runtime may be: checked where they are made, so that a slip is no surprise of a Turn.
 *
 * Owns: the ranges of a policy's values, and names. Does not own: what the values mean (`TurnConfig`), or what a tool may say of
 * itself (`ToolRules`).
 */
import * as ToolRules from "@turnstep/core/ToolRules"
import type * as Tool from "effect/ai/Tool"
import * as Duration from "effect/Duration"
import * as Schema from "effect/Schema"
import type { Policy } from "./TurnConfig.ts"

/** An agent cannot be made as it is written: a bug of the application, thrown where it is. */
export class AgentInvalid extends Schema.TaggedError<AgentInvalid>()("AgentInvalid", {
  agent: Schema.String,
  problem: Schema.String
}) {
  override get message() {
    return `Agent ${JSON.stringify(this.agent)} cannot be used: ${this.problem}.`
  }
}

/** The agents of a runtime do not fit together: a defect of the layer that was to be built of them. */
export class AgentsInvalid extends Schema.TaggedError<AgentsInvalid>()("AgentsInvalid", { problem: Schema.String }) {
  override get message() {
    return `The runtime cannot be built: ${this.problem}.`
  }
}

/** The first thing that is wrong with an agent; `undefined` when all is well. */
export const wrongAgent = (
  agent: string,
  policy: Policy,
  tools: ReadonlyArray<Tool.Any> = []
): AgentInvalid | undefined => {
  const problem = wrongName(agent) ?? wrongPolicy(policy) ?? wrongTool(tools)
  return problem === undefined ? undefined : new AgentInvalid({ agent, problem })
}

/** The first thing that is wrong with the agents of a runtime and the policy they fall back on; `undefined` when all is well. */
export const wrongAgents = (
  names: ReadonlyArray<string>,
  fallback: Policy
): AgentInvalid | AgentsInvalid | undefined => {
  if (names.length === 0) return new AgentsInvalid({ problem: "it has no agents; give it at least one" })
  const twice = names.find((name, index) => names.indexOf(name) !== index)
  if (twice !== undefined) {
    const problem = `two of its agents have the name ${JSON.stringify(twice)}; give each a name of its own`
    return new AgentsInvalid({ problem })
  }
  const nameless = names.find((name) => wrongName(name) !== undefined)
  if (nameless !== undefined) return wrongAgent(nameless, {})
  const problem = wrongPolicy(fallback)
  return problem === undefined ? undefined : new AgentsInvalid({ problem: `DefaultPolicy: ${problem}` })
}

const wrongName = (name: string): string | undefined =>
  name.trim() === "" ? "its name is empty; sessions are kept under the name of their agent" : undefined

const wrongPolicy = (policy: Policy): string | undefined =>
  wrongCount("maxSteps", policy.maxSteps, 1) ??
  wrongCount("maxTokens", policy.maxTokens, 1, Number.MAX_SAFE_INTEGER) ??
  wrongCount("repeatedToolCallLimit", policy.repeatedToolCallLimit, 2) ??
  wrongCount("failureLimit", policy.failureLimit, 1) ??
  wrongCount("callLimit", policy.callLimit, 1) ??
  wrongDuration(policy.maxDuration) ??
  wrongCost(policy.cost)

const wrongTool = (tools: ReadonlyArray<Tool.Any>): string | undefined => {
  for (const tool of tools) {
    const problem = ToolRules.problemOf(tool)
    if (problem !== undefined) return problem
  }
  return undefined
}

/** The largest number of a step, or of what is counted in steps, that a database can hold. */
const mostSteps = 2 ** 31 - 2

const wrongCount = (field: string, value: number | undefined, least: number, most = mostSteps): string | undefined =>
  value === undefined || value === Infinity || (Number.isInteger(value) && value >= least && value <= most)
    ? undefined
    : `${field} is ${value}, and must be a whole number from ${least} to ${most}, or Infinity`

const wrongDuration = (value: Duration.Input | undefined): string | undefined => {
  if (value === undefined) return undefined
  const millis = Duration.toMillis(Duration.fromInputUnsafe(value))
  return millis > 0 ? undefined : `maxDuration is ${millis} ms, and must be longer than none`
}

const wrongCost = (cost: Policy["cost"]): string | undefined => {
  if (cost === undefined) return undefined
  if (cost.max !== undefined && !(cost.max > 0)) return `cost.max is ${cost.max}, and must be more than 0`
  for (const kind of ["input", "output", "cachedInput"] as const) {
    const price = cost.price[kind] ?? (kind === "cachedInput" ? 0 : Number.NaN)
    if (!(price >= 0) || price === Infinity) {
      return `cost.price.${kind} is ${price}, and must be 0 or more, per million tokens`
    }
  }
  return undefined
}
