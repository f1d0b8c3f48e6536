/**
 * `/big` and `/huge`: outputs that are too large for the model, and too large for the record.
 *
 * Owns: what is asked for and what is told of it. Does not own: the tool (`tools/DemoOutput`).
 *
 * - U1. Every figure in an answer is taken from what the model was shown.
 */
import { lineBytes, mostBytes } from "../../tools/DemoOutput.ts"
import { act, answer, type Script, short, troubles, valueOf } from "./Reply.ts"
import { callsOf } from "./Conversation.ts"

/** The tools the scripts need. */
export const bigTools = ["long_output"] as const
export const hugeTools = ["long_output", "spill_grep"] as const

export const big: Script = (turn) => {
  const [call] = callsOf(turn)
  if (call === undefined) {
    const asked = Number.parseInt(turn.intent?.rest ?? "", 10)
    const kibibytes = Number.isFinite(asked) ? Math.min(Math.max(asked, 1), 900) : 300
    return act(`Asking for ${kibibytes} KiB.`, { name: "long_output", params: { bytes: kibibytes * 1024 } })
  }
  const text = valueOf(call)
  if (typeof text !== "string") return answer(turn, troubles(turn).join(" ") || "The tool gave no text.")
  const note = /\[…[^\]]*…\]/.exec(text)?.[0] ?? "Nothing was left out."
  return answer(
    turn,
    `I was shown ${text.length} characters, from "${short(edge(text, 0))}" to "${short(edge(text, -1))}". ${note} ` +
      "The whole output is in the record: GET /api/sessions/{session}/calls."
  )
}

export const huge: Script = (turn) => {
  const [output, search] = callsOf(turn)
  if (output === undefined) {
    const bytes = sizeOf(turn.intent?.rest ?? "")
    return act(`Asking for ${bytes} bytes. This takes a few seconds for each GiB.`, {
      name: "long_output",
      params: { bytes }
    })
  }
  const text = valueOf(output)
  const [, bytes, lines, spill] =
    typeof text === "string" ? (/: (\d+) bytes in (\d+) lines\. .* spill ([0-9a-f]{64})/.exec(text) ?? []) : []
  if (spill === undefined) {
    return answer(turn, troubles(turn).join(" ") || "That was small enough to be shown whole: ask for more than 1MB.")
  }
  const middle = Math.ceil(Number(lines) / 2)
  if (search === undefined) {
    return act(`It is kept: ${bytes} bytes in ${lines} lines. Looking for line ${middle} in it.`, {
      name: "spill_grep",
      params: { spill, pattern: `line ${String(middle).padStart(10, "0")} `, literal: true }
    })
  }
  const found = JSON.stringify(valueOf(search) ?? troubles(turn).join(" "))
  return answer(
    turn,
    `The tool gave ${bytes} bytes; I was shown ${String(text).length} characters of them. spill_grep says: ${short(found)} ` +
      `All of it: GET /api/sessions/{session}/spills/${spill}`
  )
}

const edge = (text: string, at: 0 | -1): string => text.trimEnd().split("\n").at(at)?.trimEnd() ?? ""

/** `200MB`, `2 GiB`, `5000000`; without one, 1 GiB. */
const sizeOf = (text: string): number => {
  const found = /^\s*(\d{1,12})\s*([kmg]?)i?b?\s*$/i.exec(text)
  if (found === null) return 1024 ** 3
  const [, digits = "", unit = ""] = found
  const bytes = Number(digits) * 1024 ** ["", "k", "m", "g"].indexOf(unit.toLowerCase())
  return Math.min(Math.max(bytes, lineBytes), mostBytes)
}
