/**
 * ModelMessages of the Vercel AI SDK (rules V1-V6).
 *
 * Owns: their form, approvals included. What the SDK checks by itself and what it lets through is told in the rules.
 */
import { inspectObject } from "../Arguments.ts"
import { empty, error, misplaced, rewriting, unknownRole } from "../Blemish.ts"
import type { Blemish, Call, CallForm, Draft, Edit, Entry, Fault, Format, History, Result, Wait } from "../Format.ts"
import { assistant, callAt, resultAt, silent, system, user } from "../Format.ts"
import { isObject, listOf, show, textOf, type JsonObject } from "../Json.ts"
import { alternation, ending, userAfterTool } from "../Order.ts"
import * as Shape from "../Shape.ts"
import * as Synthetic from "../Synthetic.ts"
import { inspectModelPart } from "./AiSdkShape.ts"
import { blankless, textIn, textPart } from "./Content.ts"

const entry = (message: unknown, index: number): Entry => {
  if (!isObject(message)) return silent
  switch (message["role"]) {
    case "system":
      return system
    case "user": {
      const results = resultsIn(message, index)
      return results.length === 0 ? user : { ...user, results }
    }
    case "tool":
      return { role: "tool", speaks: false, calls: silent.calls, results: resultsIn(message, index) }
    case "assistant": {
      const calls = callsIn(message, index)
      if (calls.length === 0) return assistant
      const results = resultsIn(message, index)
      if (results.length === 0) return { ...assistant, calls }
      // A provider writes its own results here; one for a client's call is in the wrong place.
      const ours = new Set(calls.flatMap((call) => (call.isExempt || call.id === undefined ? [] : [call.id])))
      return { ...assistant, calls, results: results.filter(({ id }) => id !== undefined && ours.has(id)) }
    }
    default:
      return silent
  }
}

const callsIn = (message: JsonObject, index: number): ReadonlyArray<Call> => {
  const calls: Array<Call> = []
  let ownResults: Set<unknown> | undefined
  const parts = listOf(message, "content")
  for (let slot = 0; slot < parts.length; slot++) {
    const part = parts[slot]
    if (!isObject(part) || part["type"] !== "tool-call") continue
    const call = callAt(index, slot, blankless(part["toolCallId"]), textOf(part, "toolName") ?? "", part["input"])
    if (part["providerExecuted"] === true) {
      ownResults ??= new Set(parts.flatMap((other) => (isResult(other) ? [other["toolCallId"]] : [])))
      calls.push({ ...call, isExempt: true, hasOwnResult: ownResults.has(part["toolCallId"]) })
    } else calls.push(call)
  }
  return calls
}

/** A result; one that has lost its type is known by its output. */
const isResult = (part: unknown): part is JsonObject =>
  isObject(part) &&
  (part["type"] === "tool-result" || (blankless(part["type"]) === undefined && part["output"] !== undefined))

const resultsIn = (message: JsonObject, index: number): ReadonlyArray<Result> => {
  const results: Array<Result> = []
  const parts = listOf(message, "content")
  for (let slot = 0; slot < parts.length; slot++) {
    const part = parts[slot]
    if (isResult(part)) results.push(resultAt(index, slot, blankless(part["toolCallId"])))
  }
  return results
}

interface Approval {
  readonly request: JsonObject
  response: JsonObject | undefined
}

/** The approvals of a history, by message and call id. Asked for call by call, read once. */
const approvals = new WeakMap<ReadonlyArray<unknown>, Map<string, Approval>>()

/** The approval asked for a call, and what was answered. */
const approvalOf = (call: Call, { messages }: Draft): Approval | undefined => {
  const known = approvals.get(messages) ?? approvalsIn(messages)
  approvals.set(messages, known)
  return known.get(`${call.message} ${call.id}`)
}

const approvalsIn = (messages: ReadonlyArray<unknown>): Map<string, Approval> => {
  const byCall = new Map<string, Approval>()
  const byId = new Map<unknown, Approval>()
  messages.forEach((message, index) => {
    for (const part of isObject(message) ? listOf(message, "content") : []) {
      if (!isObject(part)) continue
      if (part["type"] === "tool-approval-request") {
        const approval: Approval = { request: part, response: undefined }
        byCall.set(`${index} ${show(part["toolCallId"] ?? "")}`, approval)
        if (typeof part["approvalId"] === "string") byId.set(part["approvalId"], approval)
      }
      const asked = part["type"] === "tool-approval-response" ? byId.get(part["approvalId"]) : undefined
      if (asked !== undefined) asked.response ??= part
    }
  })
  return byCall
}

const wait = (call: Call, history: Draft): Wait => {
  const approval = approvalOf(call, history)
  if (approval === undefined) return { code: "DANGLING_CALL", canWait: true }
  if (approval.response === undefined) return { code: "PENDING_APPROVAL", canWait: true }
  // V3: the SDK lets a denied call pass without a result; the provider does not.
  return approval.response["approved"] === true
    ? { code: "DANGLING_CALL", canWait: true }
    : { code: "DENIED_WITHOUT_RESULT", canWait: false }
}

const answer: CallForm["answer"] = (call, { code }, history) => {
  const result = (output: JsonObject) => ({
    type: "tool-result",
    toolCallId: call.id,
    toolName: call.name,
    output
  })
  const denied = (reason: string | undefined) =>
    result({ type: "execution-denied", ...(reason === undefined ? {} : { reason }) })
  if (code === "DANGLING_CALL") return [result({ type: "error-text", value: Synthetic.outcomeUnknown })]
  const approval = approvalOf(call, history)
  if (code === "DENIED_WITHOUT_RESULT") return [denied(textOf(approval?.response ?? {}, "reason"))]
  const approvalId = approval?.request["approvalId"]
  // A question without its id cannot be answered; it goes with the denial of its call.
  if (typeof approvalId !== "string") return [denied(Synthetic.superseded)]
  const response = { type: "tool-approval-response", approvalId, approved: false, reason: Synthetic.superseded }
  return [response, denied(Synthetic.superseded)]
}

const calls: CallForm = {
  callList: "content",
  resultList: "content",
  idPath: () => "/toolCallId",
  withId: (part, _, toolCallId) => ({ ...part, toolCallId }),
  isRun: false,
  isByName: false,
  host: {
    accepts: (message) => message["role"] === "tool",
    isInFront: false,
    make: (content) => ({ role: "tool", content })
  },
  answer,
  wait,
  renameAlong: (before, after) => {
    const names = new Map<unknown, unknown>()
    return after.map((part, slot) => {
      const old = before[slot]
      if (!isObject(part) || !isObject(old)) return part
      if (part["type"] === "tool-call") names.set(old["toolCallId"], part["toolCallId"])
      const name = part["type"] === "tool-approval-request" ? names.get(part["toolCallId"]) : undefined
      return name === undefined || name === part["toolCallId"] ? part : { ...part, toolCallId: name }
    })
  },
  remainder: (message) => (listOf(message, "content").length === 0 ? undefined : message),
  resultText: (part) => {
    const output = part["output"]
    return isObject(output) ? textIn(output["value"] ?? output["reason"] ?? output) : show(output ?? "")
  }
}

/** The parts each role can carry, of those the SDK knows. */
const carried = new Map<unknown, ReadonlySet<unknown>>([
  ["user", new Set(["text", "image", "file"])],
  [
    "assistant",
    new Set([
      "text",
      "file",
      "reasoning",
      "reasoning-file",
      "custom",
      "tool-call",
      "tool-result",
      "tool-approval-request"
    ])
  ],
  ["tool", new Set(["tool-result", "tool-approval-response"])]
])
const known = new Set([...carried.values()].flatMap((types) => [...types]))

const inspectPart = (part: unknown, message: JsonObject, history: History): ReadonlyArray<Blemish> | undefined => {
  const { role } = message
  if (!isObject(part)) {
    // A tool message has no texts.
    return role === "tool" && !Array.isArray(part) ? misplaced(part ?? null, []) : Shape.inspectStray(part, textPart)
  }
  if (blankless(part["type"]) === undefined) return Shape.inspectUntyped(part, typed(part, role), textPart)
  if (carried.get(role)?.has(part["type"]) === false && known.has(part["type"])) {
    // A result among the user's parts is not dropped here but moved (`Pairing`).
    if (part["type"] === "tool-result") return undefined
    const text = Synthetic.strayCall(textOf(part, "toolName") ?? "", show(part["input"] ?? {}))
    return misplaced(part, role === "user" && part["type"] === "tool-call" ? [textPart(text)] : [])
  }
  const lost = role === "assistant" ? inspectNameless(part) : undefined
  if (lost !== undefined) return [lost]
  const shape = inspectModelPart(part, (id) => nameOf(id, history))
  if (part["type"] !== "tool-call") return shape
  const args = inspectObject(part["input"], history.rules.badArgs, "/input", (input) => ({ ...part, input }))
  return args === undefined ? shape : [...(shape ?? []), args]
}

/** A call that the provider ran, or its result, that nothing can name any more: what it says is kept as text. */
const inspectNameless = (part: JsonObject): Blemish | undefined => {
  const isOwn = part["type"] === "tool-call" ? part["providerExecuted"] === true : part["type"] === "tool-result"
  if (!isOwn || typeof part["toolCallId"] === "string") return undefined
  const text = show(part["type"] === "tool-call" ? (part["input"] ?? {}) : (part["output"] ?? ""))
  const fix = rewriting("kept as text, for it has no id", textPart(Synthetic.orphan(text)), [part])
  return error("PART_INVALID", "/toolCallId", "toolCallId is not a text", fix)
}

/** A part with the type that its members show. */
const typed = (part: JsonObject, role: unknown): JsonObject | undefined => {
  const hasOutput: boolean = isResult(part)
  if (hasOutput) return { ...part, type: "tool-result" }
  return role !== "tool" && typeof part["text"] === "string" ? { ...part, type: "text" } : undefined
}

/** The tool that a call was made for. */
const nameOf = (id: unknown, { entries }: History): string | undefined =>
  entries.flatMap(({ calls }) => calls).find((call) => call.id === id)?.name

/** V3: answers to approvals nobody asked for, and requests for calls that are gone; the SDK refuses such a prompt. */
const strayApprovals = ({ messages }: History): ReadonlyArray<Fault> => {
  const partsOf = (message: unknown) => (isObject(message) ? listOf(message, "content") : [])
  const isOf = (part: unknown, type: string): part is JsonObject => isObject(part) && part["type"] === type
  const isConcerned = messages.some((message) =>
    partsOf(message).some((part) => isOf(part, "tool-approval-response") || isOf(part, "tool-approval-request"))
  )
  if (!isConcerned) return []
  const called = new Set<unknown>()
  const asked = new Set<unknown>()
  return messages.flatMap((message, index): ReadonlyArray<Fault> => {
    const parts = partsOf(message)
    for (const part of parts) if (isOf(part, "tool-call")) called.add(part["toolCallId"])
    const isStray = (part: unknown) => {
      if (isOf(part, "tool-approval-response")) return !asked.has(part["approvalId"])
      if (!isOf(part, "tool-approval-request")) return false
      if (called.has(part["toolCallId"])) asked.add(part["approvalId"])
      return !called.has(part["toolCallId"])
    }
    const gone = parts.flatMap((part, slot) => (isStray(part) ? [slot] : []))
    if (gone.length === 0 || !isObject(message)) return []
    const kept = parts.filter((_, slot) => !gone.includes(slot))
    const edit: Edit = {
      index,
      replace: kept.length === 0 ? [] : [{ ...message, content: kept }],
      action: "drop",
      note: "an approval without the call or the question it belongs to",
      dropped: gone.map((slot) => parts[slot])
    }
    return gone.map((slot, nth): Fault => ({
      code: "APPROVAL_MISMATCH",
      severity: "error",
      index,
      path: `/content/${slot}`,
      message: "belongs to no call in front of it",
      ...(nth === 0 ? { edits: [edit] } : {})
    }))
  })
}

const inspect = (message: JsonObject, _: number, { rules }: History): ReadonlyArray<Blemish> | undefined => {
  const { content, role } = message
  if (role === "system") {
    if (typeof content === "string") return undefined
    const text = Array.isArray(content) ? textIn(content) : isObject(content) ? show(content) : ""
    if (text === "") return empty(message, rules)
    return [
      error(
        "PART_INVALID",
        "/content",
        "content is not a text",
        rewriting("the content is text now", { ...message, content: text })
      )
    ]
  }
  if (role === "tool") return Array.isArray(content) ? undefined : empty(message, rules)
  if (role !== "user" && role !== "assistant") return unknownRole(role)
  if (Array.isArray(content) ? content.length > 0 : typeof content === "string" && content !== "") return undefined
  const kept = role === "assistant" ? { ...message, content: [textPart(Synthetic.interrupted)] } : undefined
  return empty(message, rules, kept).map((blemish) => ({ ...blemish, severity: "portability" }))
}

export const AiSdkModel: Format = {
  name: "ai-sdk-model",
  entry,
  calls,
  parts: [{ list: "content", inspect: inspectPart }],
  inspect,
  sequence: [strayApprovals, userAfterTool, alternation, ending],
  note: (role, text) => ({ role, content: [textPart(text)] }),
  textPart
}
