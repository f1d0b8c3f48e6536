/**
 * Arguments of past calls in a form providers take (rules O9, A11).
 *
 * Owns: what a legal form is, and how an illegal one is kept inside a legal one. Does not own: running calls; arguments
 * mended here were never run in their mended form and never will be.
 */
import type { Rules, Severity } from "./Contract.ts"
import type { Blemish } from "./Format.ts"
import { isObject } from "./Json.ts"

/** The key under which text that is no JSON object is kept. */
export const rawKey = "INVALID_JSON"

/** Faults of arguments that must be the JSON text of an object; `put` builds the value with mended arguments. */
export const inspectText = (
  args: unknown,
  rules: Rules,
  path: string,
  put: (args: string) => unknown
): Blemish | undefined => {
  const wrong = wrongText(args, rules)
  if (wrong === undefined) return undefined
  const { code, message, severity, to } = wrong
  return { code, severity, path, message, fix: { to: [put(to)], action: "rewrite", note: `arguments are now ${to}` } }
}

/** Faults of arguments that must be an object; `put` builds the value with mended arguments. */
export const inspectObject = (
  args: unknown,
  severity: Severity,
  path: string,
  put: (args: unknown) => unknown
): Blemish | undefined => {
  if (isObject(args)) return undefined
  const to = typeof args === "string" ? fromText(args) : isNothing(args) ? {} : { [rawKey]: args }
  return {
    code: "ARGS_NOT_OBJECT",
    severity,
    path,
    message: "arguments are not an object",
    fix: { to: [put(to)], action: "rewrite", note: `arguments are now ${JSON.stringify(to)}` }
  }
}

const wrongText = (args: unknown, rules: Rules) => {
  if (isObject(args)) {
    const to = JSON.stringify(args)
    return { code: "ARGS_INVALID_JSON", severity: rules.badArgs, message: "arguments are not a text", to } as const
  }
  if (args === undefined || args === null || (typeof args === "string" && args.trim() === "")) {
    return { code: "ARGS_EMPTY", severity: rules.badArgs, message: "arguments are empty", to: "{}" } as const
  }
  const raw = typeof args === "string" ? args : JSON.stringify(args)
  const parsed = parse(raw)
  if (isObject(parsed)) return undefined
  const to = isNothing(parsed) ? "{}" : JSON.stringify({ [rawKey]: raw })
  if (parsed !== undefined) {
    return { code: "ARGS_NOT_OBJECT", severity: "portability", message: "arguments are not an object", to } as const
  }
  const kept = JSON.stringify({ [rawKey]: raw })
  return { code: "ARGS_INVALID_JSON", severity: rules.badArgs, message: "arguments are not JSON", to: kept } as const
}

const fromText = (text: string): unknown => {
  if (text.trim() === "") return {}
  const parsed = parse(text)
  return isObject(parsed) ? parsed : { [rawKey]: text }
}

const isNothing = (value: unknown): boolean =>
  value === undefined || value === null || (Array.isArray(value) && value.length === 0)

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}
