// What the model server answers to a history, and which histories it refuses. Pure: the same messages, the same answer.
//
// A script is a tag in a user message: [[bench id=ID n=N d=D gap=MS hold=MS@K]]
//   n     the turn takes N tool steps, with arguments that differ, and then a final text
//   d     the final text comes in D deltas (default 4)
//   gap   milliseconds between those deltas; each then carries the server's monotonic clock in nanoseconds
//   hold  at tool step K the answer is held back for MS milliseconds, once per session

const tag = /\[\[bench ([^\]]*)\]\]/

/** A history a strict provider answers with 400. */
export class Refused extends Error {}

const refuse = (why) => {
  throw new Refused(why)
}

/** Reads a history as a strict provider does and returns where in its script it stands. Throws `Refused`. */
export const read = (messages) => {
  if (!Array.isArray(messages) || messages.length === 0) refuse("messages must be a non-empty array")
  const unanswered = new Set()
  const ids = new Set()
  let script
  let step = 0
  for (const message of messages) {
    if (message.role !== "tool" && unanswered.size > 0) refuse(`no tool message answers ${[...unanswered].join(", ")}`)
    switch (message.role) {
      case "system":
      case "developer":
        break
      case "user": {
        const found = tag.exec(textOf(message.content))
        if (found === null) break
        if (script !== undefined && step !== script.n)
          refuse(`an earlier turn came back with ${step} of ${script.n} steps`)
        script = parse(found[1])
        step = 0
        break
      }
      case "assistant":
        if (!message.tool_calls?.length && textOf(message.content) === "") refuse("an assistant message is empty")
        for (const call of message.tool_calls ?? []) {
          if (ids.has(call.id)) refuse(`tool call id ${call.id} comes twice`)
          if (argumentsOf(call).i !== step) refuse(`the arguments of ${call.id} were changed`)
          ids.add(call.id)
          unanswered.add(call.id)
          step++
        }
        break
      case "tool": {
        const id = message.tool_call_id
        if (!unanswered.delete(id)) refuse(`the tool message for ${id} answers no open call`)
        const index = id.slice(id.lastIndexOf("_") + 1)
        if (!textOf(message.content).includes(`result ${index} `)) refuse(`the result of ${id} was changed`)
        break
      }
      default:
        refuse(`unknown role ${message.role}`)
    }
  }
  if (unanswered.size > 0) refuse(`no tool message answers ${[...unanswered].join(", ")}`)
  if (script === undefined) refuse("no user message has a [[bench …]] tag")
  return { ...script, step, earlier: ids.size - step }
}

/** The id and the arguments of the call at a step. `earlier`: tool steps of the session's earlier turns. */
export const callAt = ({ id, earlier, step }) => ({
  callId: `call_${id}_${earlier}_${step}`,
  text: JSON.stringify({ i: step, q: `query number ${step} of session ${id}` })
})

/** The text a turn ends with. */
export const finalText = (id, n) => `final answer of ${id} after ${n} steps`

const textOf = (content) =>
  typeof content === "string" ? content : Array.isArray(content) ? content.map((part) => part.text ?? "").join("") : ""

const argumentsOf = (call) => {
  try {
    return JSON.parse(call.function.arguments)
  } catch {
    return refuse(`the arguments of ${call.id} are not JSON`)
  }
}

const parse = (text) => {
  const fields = Object.fromEntries(text.split(" ").map((field) => field.split("=")))
  const [ms, at] = (fields.hold ?? "").split("@").map(Number)
  return {
    id: fields.id,
    n: Number(fields.n),
    deltas: Number(fields.d ?? 4),
    gap: Number(fields.gap ?? 0),
    hold: fields.hold === undefined ? undefined : { ms, at }
  }
}
