/**
 * What the demo answers in one Step, and the sentences its scripts share.
 *
 * Owns: the label every text carries (`Demo` R1). Does not own: when what is said.
 */
import { callsOf, type Conversation, type DemoCall } from "./Conversation.ts"

export interface Reply {
  readonly text: string
  readonly calls: ReadonlyArray<{ readonly name: string; readonly params: Readonly<Record<string, unknown>> }>
}

/** A script: the next Step of a Turn, from nothing but what the prompt tells of it. */
export type Script = (turn: Conversation) => Reply

/** Stands before every text, so that nobody takes the demo for a language model. */
export const label = "[scripted demo, not an LLM]"

/** A final answer: it calls nothing. Acknowledges every message that steered the Turn. */
export const answer = (turn: Conversation, text: string): Reply => ({
  text: [
    `${label} ${text}`,
    ...turn.steers.map((steer) => `You also wrote while I worked: "${short(steer)}". Noted.`)
  ].join("\n\n"),
  calls: []
})

/** A Step that calls tools, all of them at once. */
export const act = (text: string, ...calls: Reply["calls"]): Reply => ({ text: `${label} ${text}`, calls })

/** What a call that did not succeed has to say, or undefined if it did. */
export const trouble = (call: DemoCall): string | undefined => {
  const { name, result } = call
  if (result === undefined) return `${name} has no result.`
  if (result.receipt !== undefined)
    return `${name} gave no result of its own; the runtime says: ${short(String(result.value))}`
  return result.isFailure ? `${name} failed: ${short(messageOf(result.value))}` : undefined
}

/** What all calls of a Turn that did not succeed have to say. */
export const troubles = (turn: Conversation): ReadonlyArray<string> =>
  callsOf(turn).flatMap((call) => trouble(call) ?? [])

/** The value of a call that succeeded. */
export const valueOf = (call: DemoCall | undefined): unknown =>
  call === undefined || trouble(call) !== undefined ? undefined : call.result?.value

/** One line, not too long. */
export const short = (text: string): string => {
  const line = text.replace(/\s+/g, " ").trim()
  return line.length > 200 ? `${line.slice(0, 200)}…` : line
}

/** `1 file`, `2 files` */
export const count = (n: number, noun: string, plural = `${noun}s`): string => `${n} ${n === 1 ? noun : plural}`

const messageOf = (value: unknown): string =>
  typeof value === "object" && value !== null && "message" in value && typeof value.message === "string"
    ? value.message
    : typeof value === "string"
      ? value
      : (JSON.stringify(value) ?? "no message")
