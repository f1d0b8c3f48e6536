/**
 * A rule of the contract, as it is written down.
 *
 * Owns: its form. Does not own: the rules (`RuleBook`, `ShapeRules`).
 */
import type { Code } from "./Contract.ts"

/** `schema`: published schema or documentation. `error`: seen in reports. `client`: how a large client behaves. `inference`: ours. */
export type Grade = "schema" | "error" | "client" | "inference"

export interface Rule {
  readonly id: string
  readonly says: string
  readonly codes: ReadonlyArray<Code>
  readonly grades: ReadonlyArray<Grade>
  /** Public reports (`name#number`) and documents. */
  readonly evidence: string
}

/** A rule; without evidence it is ours. */
export const rule = (
  id: string,
  says: string,
  codes: ReadonlyArray<Code>,
  grades: ReadonlyArray<Grade>,
  evidence = ""
): Rule => ({ id, says, codes, grades, evidence })
