/**
 * Tool names of past calls (rules O7, A11).
 *
 * Owns: the legal form of an illegal name. Does not own: which tools exist.
 */
import type { Rules } from "./Contract.ts"
import type { Blemish } from "./Format.ts"
import { show } from "./Json.ts"

/** Faults of a tool name; `put` builds the value with the mended name. */
export const inspectName = (
  name: unknown,
  rules: Rules,
  path: string,
  put: (name: string) => unknown
): Blemish | undefined => {
  const rule = rules.toolName
  if (rule === undefined || (typeof name === "string" && rule.pattern.test(name))) return undefined
  const to = legal(typeof name === "string" ? name : "")
  return {
    code: "NAME_INVALID",
    severity: rule.severity,
    path,
    message: "tool name has illegal characters or length",
    fix: { to: [put(to)], action: "rewrite", note: `tool name ${show(name ?? "")} is now ${to}` }
  }
}

/** The legal form of any name. */
export const legal = (name: string): string => name.replaceAll(/[^A-Za-z0-9_-]/g, "_").slice(0, 64) || "unnamed_tool"
