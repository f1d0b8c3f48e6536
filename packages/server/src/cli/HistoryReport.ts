/**
 * Findings and changes as lines for people.
 *
 * Owns: the words and the layout. Does not own: the findings (`core/history`).
 *
 * - R1. A pure function of the history and what was found in it.
 * - R2. Text of the history is stripped of control characters, so that it cannot drive the terminal.
 */
import type { Change, Finding, Severity } from "@turnstep/core/history/Contract"
import type { Exported } from "@turnstep/core/history/Export"
import type { ImportReport } from "@turnstep/core/history/Import"
import { isObject } from "@turnstep/core/history/Json"
import type { Repaired } from "@turnstep/core/history/Repair"
import type { History } from "./HistoryInput.ts"
import { brief, clean } from "./Transcript.ts"

/** Whether there is something to mend; a remark is not. */
export const isFlawed = (findings: ReadonlyArray<Finding>): boolean =>
  findings.some(({ severity }) => severity !== "info")

/** The findings of a history, each under the message it is in. */
export const ofFindings = (history: History, findings: ReadonlyArray<Finding>): string => {
  return [
    `${isFlawed(findings) ? "✗" : "✓"} ${titleOf(history)}: ${sumOf(findings)}`,
    ...placed(history.document.messages, findings)
  ].join("\n")
}

/** What a repair did to a history, and what it left. */
export const ofRepair = (history: History, { changes, messages, remaining }: Repaired): string => {
  const before = history.document.messages
  const size = messages.length === before.length ? "" : ` → ${messages.length}`
  const left = remaining.length === 0 ? "" : `, ${counted(remaining.length, "finding")} left for you to decide`
  return [
    `${remaining.length === 0 ? "✓" : "✗"} ${titleOf(history)}${size}: ${counted(changes.length, "change")}${left}`,
    ...changes.flatMap(ofChange),
    ...placed(messages, remaining)
  ].join("\n")
}

/** What became of a history that a session goes on from. */
export const ofImport = (place: string, { changes, format, lost, messages, remaining }: ImportReport): string =>
  [
    `✓ ${flat(place)}: ${format}, ${counted(messages, "message")} brought in: ${counted(changes.length, "change")}`,
    ...changes.flatMap(ofChange),
    ...ofLost(lost),
    ...remaining.map(({ at, code, message }) => `  left       ${code} at ${flat(at)}: ${flat(message)}`)
  ].join("\n")

/** What became of the messages of a session on their way out; `undefined` if they went as they are. */
export const ofExport = (session: string, { changes, format, lost }: Exported): string | undefined =>
  changes.length + lost.length === 0
    ? undefined
    : [`${flat(session)} as ${format}:`, ...changes.flatMap(ofChange), ...ofLost(lost)].join("\n")

const ofLost = (lost: ImportReport["lost"]): ReadonlyArray<string> =>
  lost.flatMap(({ at, content, note }) => [
    `  left out   ${flat(note)}, at ${flat(at)}`,
    `             ${brief(content)}`
  ])

const ofChange = ({ action, at, code, dropped = [], note }: Change): ReadonlyArray<string> => [
  `  ${action.padEnd(10)} ${code} at ${flat(at)}`,
  `             ${flat(note)}`,
  ...dropped.map((content) => `             gone: ${brief(content)}`)
]

/** What became of many histories. */
export const ofMany = (histories: number, flawed: number): string =>
  `${counted(histories, "history", "histories")}: ${histories - flawed} clean, ${flawed} not`

const titleOf = ({ document, format, place }: History): string =>
  `${flat(place)}: ${format}, ${counted(document.messages.length, "message")}`

const sumOf = (findings: ReadonlyArray<Finding>): string => {
  const counts = [
    [countOf(findings, "error"), "error", "errors"],
    [countOf(findings, "portability"), "portability finding", "portability findings"],
    [countOf(findings, "info"), "remark", "remarks"]
  ] as const
  const told = counts.filter(([count]) => count > 0).map(([count, one, many]) => counted(count, one, many))
  return told.length === 0 ? "clean" : told.join(", ")
}

const countOf = (findings: ReadonlyArray<Finding>, severity: Severity): number =>
  findings.filter((finding) => finding.severity === severity).length

const counted = (count: number, one: string, many = `${one}s`): string => `${count} ${count === 1 ? one : many}`

/** Findings come in the order of their messages; each message is announced once. */
const placed = (messages: ReadonlyArray<unknown>, findings: ReadonlyArray<Finding>): ReadonlyArray<string> => {
  const lines: Array<string> = []
  let shown: string | undefined
  for (const { at, choices, code, message, severity } of findings) {
    const [, index = ""] = at.split("/")
    if (index !== shown) lines.push(`  ${index === "" ? "the whole" : headOf(index, messages[Number(index)])}`)
    shown = index
    lines.push(`    ${severity} ${code} at ${flat(at)}`, `      ${flat(message)}`)
    const excerpt = excerptOf(messages, at)
    if (excerpt !== undefined) lines.push(`      │ ${excerpt}`)
    if (choices !== undefined) lines.push(`      choose: ${choices.join(", ")}`)
  }
  return lines
}

const headOf = (index: string, message: unknown): string => {
  const who = isObject(message) ? (message["role"] ?? message["type"]) : undefined
  return `message ${index}${typeof who === "string" ? ` (${brief(who)})` : ""}`
}

/** R2 */
const flat = (text: string): string => clean(text).replaceAll(/\s+/g, " ")

/** The value at a pointer, or the nearest one around it that exists. */
const excerptOf = (messages: ReadonlyArray<unknown>, pointer: string): string | undefined => {
  let value: unknown = messages
  for (const step of pointer.split("/").slice(1)) {
    const key = step.replaceAll("~1", "/").replaceAll("~0", "~")
    const next: unknown =
      typeof value === "object" && value !== null && Object.hasOwn(value, key) ? Reflect.get(value, key) : undefined
    if (next === undefined) break
    value = next
  }
  return value === messages ? undefined : brief(value)
}
