/**
 * The schema of a tool's parameters in the form that all servers take.
 *
 * Owns: what is left out of it. Does not own: judging arguments, which still uses the tool's own schema.
 *
 * - S1. No bound of 2,000 or more leaves: llama.cpp turns bounds into repetitions of a grammar and refuses the whole request.
 */

/** Bounds on lengths, which a grammar repeats. Bounds on numbers are not among them. */
const bounds: ReadonlySet<string> = new Set([
  "maxLength",
  "minLength",
  "maxItems",
  "minItems",
  "maxProperties",
  "minProperties",
  "maxContains",
  "minContains"
])

/** The bound from which on servers refuse. */
const mostRepetitions = 2_000

/** A JSON schema without large bounds (S1); the same object when it has none. */
export const bounded = <Schema>(schema: Schema): Schema => {
  if (typeof schema !== "object" || schema === null) return schema
  return (Array.isArray(schema) ? each(schema, bounded) : members(schema, isLarge, boundedMember)) as Schema
}

/** Members that hold schemas by the user's own names: a property may be called `maxLength`. */
const named: ReadonlySet<string> = new Set([
  "properties",
  "patternProperties",
  "$defs",
  "definitions",
  "dependentSchemas",
  "dependencies"
])

/** Members that hold values of the user's. */
const values: ReadonlySet<string> = new Set(["const", "default", "enum", "examples"])

const boundedMember = (name: string, value: unknown): unknown => {
  if (values.has(name)) return value
  const isNamed = named.has(name) && typeof value === "object" && value !== null && !Array.isArray(value)
  return isNamed ? members(value, never, (_, schema) => bounded(schema)) : bounded(value)
}

const isLarge = (name: string, value: unknown): boolean =>
  bounds.has(name) && typeof value === "number" && value >= mostRepetitions

const never = (): boolean => false

const members = (
  object: object,
  isOut: (name: string, value: unknown) => boolean,
  change: (name: string, value: unknown) => unknown
): object => {
  let isChanged = false
  const entries = Object.entries(object).flatMap(([name, value]) => {
    if (isOut(name, value)) {
      isChanged = true
      return []
    }
    const changed = change(name, value)
    if (changed !== value) isChanged = true
    return [[name, changed] as const]
  })
  return isChanged ? Object.fromEntries(entries) : object
}

const each = (items: ReadonlyArray<unknown>, change: (item: unknown) => unknown): ReadonlyArray<unknown> => {
  const changed = items.map(change)
  return changed.some((item, index) => item !== items[index]) ? changed : items
}
