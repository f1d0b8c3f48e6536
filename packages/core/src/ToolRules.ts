/**
 * What a tool may say of itself: checked where its agent is made, so that a slip is no surprise of a Turn.
 *
 * Owns: which values an annotation may have. Does not own: what they mean (`ToolPolicy`).
 */
import type * as Tool from "effect/ai/Tool"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as ToolPolicy from "./ToolPolicy.ts"

/** The first thing that is wrong with the annotations of a tool; `undefined` when all is well. */
export const problemOf = ({ annotations, name }: Tool.Any): string | undefined => {
  const problem =
    wrongName("Effects", Context.get(annotations, ToolPolicy.Effects), ToolPolicy.effectClasses) ??
    wrongName("Domain", Context.get(annotations, ToolPolicy.Domain), ToolPolicy.domains) ??
    wrongName("Output", Context.get(annotations, ToolPolicy.Output), ToolPolicy.outputPolicies) ??
    wrongTimeout(Context.get(annotations, ToolPolicy.Timeout)) ??
    wrongKey(Context.get(annotations, ToolPolicy.Exclusive)) ??
    wrongRetry(Context.get(annotations, ToolPolicy.Retry)) ??
    wrongFunction("Query", Context.get(annotations, ToolPolicy.Query)) ??
    wrongFunction("Normalise", Context.get(annotations, ToolPolicy.Normalise)) ??
    wrongFunction("DurableRead", Context.get(annotations, ToolPolicy.DurableRead)) ??
    wrongQuery(annotations)
  return problem === undefined ? undefined : `tool ${JSON.stringify(name)}: ToolPolicy.${problem}`
}

// `Tool.annotate` takes any value: the types of the annotations say what they should be, not what they are.

const wrongName = (field: string, value: unknown, known: ReadonlyArray<string>): string | undefined =>
  value === undefined || known.some((each) => each === value)
    ? undefined
    : `${field} is ${shown(value)}, and must be one of ${known.join(", ")}`

const wrongTimeout = (value: Duration.Input): string | undefined =>
  Option.exists(Duration.fromInput(value), (timeout) => Duration.toMillis(timeout) > 0)
    ? undefined
    : `Timeout is ${shown(value)}, and must be a duration longer than none, such as "30 seconds"`

const wrongKey = (value: unknown): string | undefined =>
  value === undefined || typeof value === "function" || (typeof value === "string" && value !== "")
    ? undefined
    : `Exclusive is ${shown(value)}, and must be a key, or a function of the arguments that may give one`

const wrongRetry = (value: unknown): string | undefined =>
  value === undefined || Schedule.isSchedule(value) ? undefined : `Retry is ${shown(value)}, and must be a Schedule`

const wrongFunction = (field: string, value: unknown): string | undefined =>
  value === undefined || typeof value === "function" ? undefined : `${field} is ${shown(value)}, and must be a function`

const wrongQuery = (annotations: Context.Context<never>): string | undefined => {
  const isQueryable = Context.get(annotations, ToolPolicy.Effects) === "queryable"
  const isAsked = Context.get(annotations, ToolPolicy.Query) !== undefined
  // The tools of a configured server have no code of the application in which a query could stand.
  if (isQueryable && !isAsked && Context.get(annotations, ToolPolicy.Domain) !== "mcp") {
    return "Query is missing: a queryable tool says how it is asked after a crash; one that cannot be asked is a once tool"
  }
  return isAsked && !isQueryable ? "Query would never be asked: Effects is not queryable" : undefined
}

const shown = (value: unknown): string => (typeof value === "string" ? JSON.stringify(value) : String(value))
