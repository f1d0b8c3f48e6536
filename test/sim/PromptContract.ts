/**
 * What every provider demands of a prompt, and a short form of it to compare prompts by.
 *
 * Owns: the rules a history can break. Does not own: the wire's own rules (`ChatContract`).
 *
 * - C1. Every call is answered exactly once, by one tool message right behind the message that calls.
 * - C2. A tool message answers the calls of the message before it, and nothing else.
 * - C3. Call ids do not recur.
 * - C4. No message is empty, and the last one is not the model's.
 */
import type * as Prompt from "effect/ai/Prompt"

/** The first broken rule, in words. */
export const check = (messages: ReadonlyArray<Prompt.Message>): string | undefined => {
  const used = new Set<string>()
  let open: ReadonlyArray<string> = []
  for (const [place, message] of messages.entries()) {
    const at = `message ${place} (${message.role})`
    if (open.length > 0 && message.role !== "tool") return `${at} stands between calls and their answers (C1)`
    if (typeof message.content !== "string" && message.content.length === 0) return `${at} is empty (C4)`
    if (message.role === "tool") {
      const answers = message.content.flatMap((part) => (part.type === "tool-result" ? [part.id] : []))
      if (answers.join() !== open.join()) return `${at} answers [${answers.join()}] to calls [${open.join()}] (C1, C2)`
      open = []
    } else if (message.role === "assistant") {
      open = message.content.flatMap((part) => (part.type === "tool-call" ? [part.id] : []))
      for (const id of open) {
        if (used.has(id)) return `${at} uses call id ${id} again (C3)`
        used.add(id)
      }
    }
  }
  if (open.length > 0) return `calls [${open.join()}] have no answer (C1)`
  const last = messages.at(-1)
  return last?.role === "user" || last?.role === "tool"
    ? undefined
    : `the last message is ${last?.role ?? "missing"} (C4)`
}

const texts = new WeakMap<Prompt.Message, string>()

/** A message in short. */
export const text = (message: Prompt.Message): string => {
  let known = texts.get(message)
  if (known === undefined) texts.set(message, (known = `${message.role}: ${contentText(message)}`))
  return known
}

const contentText = (message: Prompt.Message): string => {
  if (typeof message.content === "string") return message.content
  const parts: ReadonlyArray<Prompt.Part> = message.content
  return parts
    .map((part) => {
      switch (part.type) {
        case "text":
        case "reasoning":
          return part.text
        case "tool-call":
          return `${part.name}#${part.id}(${JSON.stringify(part.params)})`
        case "tool-result":
          return `#${part.id}=${part.isFailure ? "!" : ""}${JSON.stringify(part.result)}`
        default:
          return part.type
      }
    })
    .join(" ")
}
