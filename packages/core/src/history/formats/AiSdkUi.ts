/**
 * UIMessages of the Vercel AI SDK (rules U1-U6).
 *
 * Owns: their form. Call and result are one part with a state, so nothing can be displaced or orphaned here; what goes
 * wrong is the state, and parts that a resumed stream wrote twice. Who may speak after whom is a matter of the model
 * messages these become: nothing is put between messages a person reads.
 */
import { empty, error, rewriting, unknownRole } from "../Blemish.ts"
import type { Code } from "../Contract.ts"
import type { Blemish, Draft, Edit, Entry, Fault, Format, History, Place } from "../Format.ts"
import { assistant, silent, system, user } from "../Format.ts"
import { isSuspended } from "../History.ts"
import { equal, isObject, listOf, omit, show, textOf, type JsonObject } from "../Json.ts"
import { minter } from "../NewId.ts"
import * as Shape from "../Shape.ts"
import * as Synthetic from "../Synthetic.ts"
import { inspectUiPart } from "./AiSdkShape.ts"
import { blankless, textPart } from "./Content.ts"

const entry = (message: unknown): Entry => {
  if (!isObject(message)) return silent
  const { role } = message
  return role === "user" ? user : role === "assistant" ? assistant : role === "system" ? system : silent
}

const isTool = (part: unknown): part is JsonObject => {
  const type = isObject(part) ? part["type"] : undefined
  return typeof type === "string" && (type.startsWith("tool-") || type === "dynamic-tool")
}

/** The finding for a client's call in this state, if nothing ever answers it; `undefined` if it is answered. */
const openCode = (part: JsonObject): Code | undefined => {
  if (part["providerExecuted"] === true) return undefined
  switch (part["state"]) {
    case "output-available":
    case "output-error":
    case "output-denied":
      return undefined
    case "input-available":
      return "DANGLING_CALL"
    case "approval-requested":
      return "PENDING_APPROVAL"
    case "approval-responded":
      // A denial gets its result when the SDK converts the message.
      return isApproved(part) === true ? "DANGLING_CALL" : undefined
    default:
      return "UI_STATE_STALE"
  }
}

const approvalOf = (part: JsonObject): JsonObject | undefined => {
  const approval = part["approval"]
  return isObject(approval) ? approval : undefined
}
const isApproved = (part: JsonObject): unknown => approvalOf(part)?.["approved"]

interface OpenCall extends Place {
  readonly code: Code
  /** The model has not gone on since. */
  readonly isLast: boolean
}

const openCalls = ({ messages }: Draft): ReadonlyArray<OpenCall> => {
  const last = messages.findLastIndex((message) => isObject(message) && message["role"] !== "system")
  return messages.flatMap((message, index): ReadonlyArray<OpenCall> => {
    if (!isObject(message) || message["role"] !== "assistant") return []
    const parts = listOf(message, "parts")
    let lastStep: number | undefined
    return parts.flatMap((part, slot) => {
      const code = isTool(part) ? openCode(part) : undefined
      if (code === undefined) return []
      lastStep ??= index === last ? stepOf(parts) : parts.length
      return [{ message: index, slot, code, isLast: slot >= lastStep }]
    })
  })
}

/** Where the last step with content begins. */
const stepOf = (parts: ReadonlyArray<unknown>): number => {
  const end = parts.findLastIndex((part) => !isStepStart(part))
  return parts.slice(0, end + 1).findLastIndex(isStepStart) + 1
}

const isStepStart = (part: unknown): boolean => isObject(part) && part["type"] === "step-start"

/** U1, U2: calls that were left without an answer. */
const states = (history: History): ReadonlyArray<Fault> => {
  let closing = -1
  return openCalls(history).map(({ code, message: index, slot }): Fault => {
    const fault = { index, path: `/parts/${slot}` }
    if (isSuspended(history, index, slot)) {
      return { ...fault, code: "SUSPENDED_CALL", severity: "info", message: "waits for its result; not sendable yet" }
    }
    const edits = index === closing ? {} : { edits: [closingOf(history, index)] }
    closing = index
    return { ...fault, code, severity: "error", message: says[code] ?? "has no result", ...edits }
  })
}

const says: { readonly [code: string]: string } = {
  UI_STATE_STALE: "was left while its input was streaming",
  PENDING_APPROVAL: "was passed over while it waited for approval"
}

/** Closes all open calls of a message at once. */
const closingOf = (history: History, index: number): Edit => {
  const message = history.messages[index] as JsonObject
  const parts = listOf(message, "parts").map((part, slot) =>
    isTool(part) && !isSuspended(history, index, slot) && openCode(part) !== undefined ? closed(part) : part
  )
  const note = "calls closed: the outcome is unknown, or the approval was passed over"
  return { index, replace: [{ ...message, parts }], action: "synthesise", note }
}

const closed = (part: JsonObject): JsonObject => {
  const approval = approvalOf(part)
  if (part["state"] === "approval-requested" && typeof approval?.["id"] === "string") {
    return { ...part, state: "output-denied", approval: { ...approval, approved: false, reason: Synthetic.superseded } }
  }
  const errorText = part["state"] === "approval-requested" ? Synthetic.superseded : Synthetic.outcomeUnknown
  return { ...part, input: part["input"] ?? {}, state: "output-error", errorText }
}

/** U5 and ids: one call id, one part. */
const ids = (history: History): ReadonlyArray<Fault> => {
  const seen = new Map<string, Place>()
  let mint: (() => string) | undefined
  return history.messages.flatMap((message, index): ReadonlyArray<Fault> => {
    if (!isObject(message)) return []
    const parts = listOf(message, "parts")
    const names = new Map<number, string>()
    let clonedUpTo = -1
    let common: { readonly message: number; readonly length: number } | undefined
    const copies = new Set<number>()
    const faults = parts.flatMap((part, slot): ReadonlyArray<Fault> => {
      if (!isTool(part)) return []
      const id = blankless(part["toolCallId"])
      const first = id === undefined ? undefined : seen.get(id)
      if (id !== undefined && first === undefined) {
        seen.set(id, { message: index, slot })
        return []
      }
      const deferred = isSuspended(history, index, slot) ? ({ choices: ["answer-call"] } as const) : {}
      const other = first === undefined ? [] : listOf(history.messages[first.message] as JsonObject, "parts")
      if (first !== undefined && equal(other[first.slot], part)) {
        copies.add(slot)
        if (common?.message !== first.message) {
          common = { message: first.message, length: first.message === index ? 0 : commonPrefix(other, parts) }
        }
        if (common.length > slot) clonedUpTo = slot
      } else if (!isSuspended(history, index, slot)) {
        mint ??= minter(callIds(history))
        names.set(slot, mint())
      }
      const fault = { severity: "error", index, path: `/parts/${slot}`, ...deferred } as const
      return id === undefined
        ? [{ ...fault, code: "ID_INVALID", path: `/parts/${slot}/toolCallId`, message: "call has no id" }]
        : [{ ...fault, code: "DUPLICATE_CALL_ID", message: "has the id of an earlier call" }]
    })
    if (copies.size + names.size === 0) return faults
    const isGone = (slot: number) => copies.has(slot) || slot <= clonedUpTo
    const kept = parts.flatMap((part, slot) => {
      const name = names.get(slot)
      return isGone(slot) ? [] : [name !== undefined && isTool(part) ? { ...part, toolCallId: name } : part]
    })
    const dropped = parts.filter((_, slot) => isGone(slot))
    const edit: Edit = {
      index,
      replace: kept.length === 0 ? [] : [{ ...message, parts: kept }],
      action: dropped.length > 0 ? "collapse" : "rename",
      note: names.size > 0 ? `new call ids ${[...names.values()].join(", ")}` : "parts that an earlier message has",
      ...(dropped.length > 0 ? { dropped } : {})
    }
    return faults.map((fault, nth) => (nth === 0 ? { ...fault, edits: [edit] } : fault))
  })
}

const commonPrefix = (a: ReadonlyArray<unknown>, b: ReadonlyArray<unknown>): number => {
  const end = b.findIndex((part, slot) => !equal(part, a[slot]))
  return end < 0 ? b.length : end
}

const callIds = (history: History): Set<string> =>
  new Set(
    history.messages.flatMap((message) =>
      isObject(message)
        ? listOf(message, "parts").flatMap((part) => (isTool(part) ? [show(part["toolCallId"] ?? "")] : []))
        : []
    )
  )

/** A part with the type that its members show. */
const typed = (part: JsonObject): JsonObject | undefined => {
  if (typeof part["toolCallId"] === "string") {
    return { ...part, type: "dynamic-tool", toolName: textOf(part, "toolName") ?? "unnamed_tool" }
  }
  return typeof part["text"] === "string" ? { ...part, type: "text" } : undefined
}

/** U1, U4: the fields of a part agree with its state. */
const inspectPart = (part: unknown): ReadonlyArray<Blemish> | undefined => {
  if (!isObject(part)) return Shape.inspectStray(part, textPart)
  if (blankless(part["type"]) === undefined) return Shape.inspectUntyped(part, typed(part), textPart)
  const shape = inspectUiPart(part, isTool(part))
  if (shape !== undefined || !isTool(part)) return shape
  const { state } = part
  const approval = approvalOf(part)
  const approved = approval?.["approved"]
  const mismatch = (message: string, to: JsonObject, dropped: ReadonlyArray<unknown>): ReadonlyArray<Blemish> => [
    error("APPROVAL_MISMATCH", "", message, rewriting("state and approval agree", to, dropped))
  ]
  switch (state) {
    case "output-available":
    case "input-available":
      if (approval === undefined || (state === "output-available" && approved === true)) return undefined
      return mismatch("this state has no such approval", omit(part, "approval"), [approval])
    case "output-error": {
      if (approval !== undefined && approved !== true) {
        return mismatch("this state has no such approval", omit(part, "approval"), [approval])
      }
      if (typeof part["errorText"] === "string") return undefined
      const fix = rewriting("a text that says there was no output", { ...part, errorText: Synthetic.noOutput })
      return [error("RESULT_MISSING_OUTPUT", "", "has no errorText", fix)]
    }
    case "output-denied":
    case "approval-responded":
    case "approval-requested": {
      const isWhole = typeof approval?.["id"] === "string"
      const isRight =
        state === "output-denied"
          ? approved === false
          : state === "approval-requested"
            ? approved === undefined
            : typeof approved === "boolean"
      if (isWhole && isRight) return undefined
      // Without a decision on record nothing may count as approved.
      if (isWhole && state === "output-denied") {
        return mismatch("a denied call says so", { ...part, approval: { ...approval, approved: false } }, [approved])
      }
      const to = { ...omit(part, "approval"), state: "output-error", errorText: Synthetic.superseded }
      return mismatch("the approval this state speaks of is not there", to, [approval ?? null])
    }
    default:
      return settled(part)
  }
}

/** A part of an unknown state that has its result all the same. */
const settled = (part: JsonObject): ReadonlyArray<Blemish> | undefined => {
  if (part["state"] === "input-streaming") return undefined
  const state =
    part["output"] !== undefined ? "output-available" : typeof part["errorText"] === "string" ? "output-error" : ""
  if (state === "") return undefined
  const fix = rewriting(`state is ${state}`, { ...part, state })
  return [error("UI_STATE_STALE", "/state", "state is unknown", fix)]
}

const inspect = (message: JsonObject, index: number, history: History): ReadonlyArray<Blemish> | undefined => {
  const { role } = message
  const parts = listOf(message, "parts")
  if (role === "assistant") {
    // An answer may have no parts, but it has a list of them.
    if (!Array.isArray(message["parts"])) return empty(message, history.rules)
    return emptySteps(message, parts, index === history.messages.length - 1)
  }
  if (role !== "user" && role !== "system") return unknownRole(role)
  return parts.length > 0 ? undefined : empty(message, history.rules)
}

/** U3: a step with nothing but empty text becomes an empty message at some providers. */
const emptySteps = (
  message: JsonObject,
  parts: ReadonlyArray<unknown>,
  isLast: boolean
): ReadonlyArray<Blemish> | undefined => {
  const isHollow = (part: unknown) =>
    isObject(part) && part["type"] === "text" && part["text"] === "" && part["providerMetadata"] === undefined
  if (!parts.some(isHollow)) return undefined
  const gone: Array<number> = []
  let step: Array<number> = []
  const close = () => {
    if (step.every((slot) => isHollow(parts[slot]))) for (const slot of step) gone.push(slot)
    step = []
  }
  parts.forEach((part, slot) => (isStepStart(part) ? close() : step.push(slot)))
  if (!isLast || !parts.some((part) => isObject(part) && part["state"] === "streaming")) close()
  if (gone.length === 0) return undefined
  const isGone = new Set(gone)
  const kept = parts.filter((_, slot) => !isGone.has(slot))
  const to = kept.every(isStepStart) ? [] : [{ ...message, parts: kept }]
  const dropped = to.length === 0 ? [message] : gone.map((slot) => parts[slot])
  const fix = { to, action: "drop", note: "a step with nothing but empty text", dropped } as const
  return gone.map((slot, nth) => ({
    code: "EMPTY_TEXT_BLOCK",
    severity: "portability",
    path: `/parts/${slot}`,
    message: "the only content of a step is empty text",
    ...(nth === 0 ? { fix } : {})
  }))
}

export const AiSdkUi: Format = {
  name: "ai-sdk-ui",
  entry,
  suspended: (draft) => {
    if (draft.context.turn === "terminated") return []
    return openCalls(draft).filter((call) => call.isLast)
  },
  parts: [{ list: "parts", inspect: inspectPart }],
  inspect,
  sequence: [states, ids],
  note: (role, text) => ({ id: `synthetic-${role}`, role, parts: [textPart(text)] }),
  textPart
}
