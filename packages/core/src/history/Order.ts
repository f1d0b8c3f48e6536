/**
 * Who may speak after whom (profiles `mistral`, `strict-alternation`, `no-prefill`; rules A15, G3).
 *
 * Owns: the order of roles. Does not own: where results stand (`CallRules`).
 *
 * - O1. Order is restored by short marked messages between the others; no message is merged, moved or changed.
 */
import type { Fault, History, Role } from "./Format.ts"
import { isObject } from "./Json.ts"
import * as Synthetic from "./Synthetic.ts"

/** A user message directly after a tool message, where the provider takes none. */
export const userAfterTool = (history: History): ReadonlyArray<Fault> => {
  if (history.rules.noUserAfterTool !== true) return []
  return history.entries.flatMap((entry, index) => {
    const previous = history.entries[index - 1]
    if (entry.role !== "user" || previous?.role !== "tool") return []
    return [roleOrder(history, index, "a user message may not follow a tool message", "assistant", Synthetic.continued)]
  })
}

/** User and assistant do not alternate. Tool and system messages do not count. */
export const alternation = (history: History): ReadonlyArray<Fault> => {
  if (history.rules.alternates !== true) return []
  let last: Role | undefined
  return history.entries.flatMap((entry, index) => {
    const before = last
    // Results between two assistant messages make them steps of one turn.
    if (entry.role !== "system" && entry.role !== "aside") last = entry.role
    if (entry.role === "assistant") {
      if (before === undefined) return [roleOrder(history, index, startsWrong, "user", Synthetic.omitted)]
      if (before === "assistant") return [roleOrder(history, index, twice(entry.role), "user", Synthetic.proceed)]
    }
    if (entry.role === "user" && before === "user") {
      return [roleOrder(history, index, twice(entry.role), "assistant", Synthetic.continued)]
    }
    return []
  })
}

/** The last message is the assistant's, where the provider asks for one of the user's. */
export const ending = (history: History): ReadonlyArray<Fault> => {
  if (history.rules.endsWithUser !== true || history.context.purpose === "archive") return []
  const index = history.entries.findLastIndex((entry) => entry.role !== "system")
  const message = history.messages[index]
  if (history.entries[index]?.role !== "assistant" || history.suspended.has(index)) return []
  if (isObject(message) && message["prefix"] === true) return [] // asked for: the answer begins with this
  return [
    {
      code: "ENDS_WITH_ASSISTANT",
      severity: "error",
      index,
      path: "",
      message: "a request ends with a message of the user; only an archive may end so",
      edits: [
        {
          index,
          after: [history.format.note("user", Synthetic.proceed)],
          action: "insert",
          note: "a user message that asks to continue"
        }
      ]
    }
  ]
}

const startsWrong = "the first message must be the user's"
const twice = (role: Role) => `two ${role} messages in a row`

/** A role out of order, mended by a marked message in front of it. */
export const roleOrder = (
  history: History,
  index: number,
  message: string,
  role: "user" | "assistant",
  text: string
): Fault => ({
  code: "ROLE_ORDER",
  severity: "error",
  index,
  path: "",
  message,
  edits: [
    { index, before: [history.format.note(role, text)], action: "insert", note: `a marked ${role} message in front` }
  ]
})
