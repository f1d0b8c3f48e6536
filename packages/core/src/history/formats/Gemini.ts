/**
 * Gemini contents (rules G1-G6).
 *
 * Owns: their form, in camel case as the REST interface documents it.
 */
import { inspectObject } from "../Arguments.ts"
import { empty, error, found, misplaced, removal, rewriting, unknownRole } from "../Blemish.ts"
import type { Blemish, Call, CallForm, Edit, Entry, Fault, Format, History, Result } from "../Format.ts"
import { assistant, callAt, resultAt, silent, user } from "../Format.ts"
import { isSuspended } from "../History.ts"
import { equal, isObject, listOf, show, textOf, type JsonObject } from "../Json.ts"
import { alternation, ending, roleOrder } from "../Order.ts"
import { recordOf } from "../Record.ts"
import * as Shape from "../Shape.ts"
import * as Synthetic from "../Synthetic.ts"
import { inspectName } from "../ToolName.ts"
import { blankless } from "./Content.ts"

/** What Google documents for histories whose signatures are not at hand (G4). */
const signatureSentinel = "skip_thought_signature_validator"

const isUserRole = (role: unknown): boolean => role === "user" || role === "function" || role === undefined

const entry = (message: unknown, index: number): Entry => {
  if (!isObject(message)) return silent
  const { role } = message
  if (role !== "model" && !isUserRole(role)) return silent
  const calls: Array<Call> = []
  const results: Array<Result> = []
  let speaks = false
  listOf(message, "parts").forEach((part, slot) => {
    const call = isObject(part) ? part["functionCall"] : undefined
    const response = isObject(part) ? part["functionResponse"] : undefined
    if (isObject(call) && role === "model") {
      calls.push(callAt(index, slot, blankless(call["id"]), textOf(call, "name") ?? "", call["args"]))
    } else if (isObject(response)) {
      results.push(resultAt(index, slot, blankless(response["id"]), "", speaks, textOf(response, "name") ?? ""))
    } else speaks = true
  })
  if (calls.length === 0 && results.length === 0) return role === "model" ? assistant : user
  return role === "model"
    ? { role: "assistant", speaks: true, calls, results }
    : { role: "user", speaks, calls, results }
}

const key = (isResult: boolean) => (isResult ? "functionResponse" : "functionCall")

const calls: CallForm = {
  callList: "parts",
  resultList: "parts",
  idPath: (_, isResult) => `/${key(isResult)}/id`,
  withId: (part, isResult, id) => {
    const body = part[key(isResult)]
    return { ...part, [key(isResult)]: { ...(isObject(body) ? body : {}), id } }
  },
  isRun: false,
  isByName: true,
  host: {
    accepts: ({ role }) => role === "user" || role === "function",
    isInFront: true,
    make: (parts) => ({ role: "user", parts })
  },
  answer: (call) => {
    const id = call.id === undefined ? {} : { id: call.id }
    return [{ functionResponse: { ...id, name: call.name, response: { output: Synthetic.outcomeUnknown } } }]
  },
  misnamed: {
    // An id tells by itself.
    is: (result, call) => (result.id === undefined || call.id === undefined) && result.name !== call.name,
    path: "/functionResponse/name",
    withName: (part, name) => {
      const body = part["functionResponse"]
      return { ...part, functionResponse: { ...(isObject(body) ? body : {}), name } }
    }
  },
  remainder: (message) => (listOf(message, "parts").length === 0 ? undefined : message),
  resultText: (part) => {
    const body = part["functionResponse"]
    const response = isObject(body) ? body["response"] : undefined
    const output = isObject(response) ? (response["output"] ?? response["result"]) : undefined
    return show(output ?? response ?? "")
  }
}

const inspectPart = (part: unknown, message: JsonObject, { rules }: History): ReadonlyArray<Blemish> | undefined => {
  if (!isObject(part)) return Shape.inspectStray(part, (text) => ({ text }))
  const call = part["functionCall"]
  if (isObject(call)) {
    if (isUserRole(message["role"])) {
      return misplaced(part, [{ text: Synthetic.strayCall(textOf(call, "name") ?? "", show(call["args"] ?? {})) }])
    }
    const put = (field: string) => (to: unknown) => ({ ...part, functionCall: { ...call, [field]: to } })
    const name = inspectName(call["name"], rules, "/functionCall/name", put("name"))
    const args = call["args"] ?? {}
    return found(name, inspectObject(args, "error", "/functionCall/args", put("args")))
  }
  const result = part["functionResponse"]
  if (!isObject(result)) return inspectContent(part)
  const put = (field: string) => (to: unknown) => ({ ...part, functionResponse: { ...result, [field]: to } })
  return found(
    inspectName(result["name"], rules, "/functionResponse/name", put("name")),
    inspectResponse(result["response"], put("response"))
  )
}

/** Members that say something about the data of a part, and are none themselves. */
const aside: ReadonlySet<string> = new Set([
  "thought",
  "thoughtSignature",
  "videoMetadata",
  "partMetadata",
  "mediaResolution"
])

/** G6: a part has data; an empty text is data only for a signature. */
const inspectContent = (part: JsonObject): ReadonlyArray<Blemish> | undefined => {
  const { inlineData, text } = part
  const hasOther = Object.keys(part).some((key) => key !== "text" && !aside.has(key) && part[key] !== null)
  if (!hasOther && (text === undefined || text === null)) {
    return [error("PART_INVALID", "", "part has no data", removal("a part without data", part))]
  }
  if (!hasOther && text === "" && textOf(part, "thoughtSignature") === undefined) {
    return [error("EMPTY_TEXT_BLOCK", "", "text part without text", removal("an empty text", part))]
  }
  if (text !== undefined && typeof text !== "string") return Shape.all(Shape.textMember(part, "text"))
  if (!isObject(inlineData) || textOf(inlineData, "mimeType")?.startsWith("image/") !== true) return undefined
  const image: Shape.ImageData = {
    base64: inlineData["data"],
    declared: inlineData["mimeType"],
    path: "/inlineData",
    retyped: (mimeType) => ({ ...part, inlineData: { ...inlineData, mimeType } })
  }
  return Shape.all(Shape.inspectImage(part, image, { text: Synthetic.unreadableImage }))
}

const inspectResponse = (response: unknown, put: (response: unknown) => unknown): Blemish | undefined => {
  if (isObject(response)) return undefined
  const fix = rewriting("the response is an object", put({ output: response ?? Synthetic.noOutput }))
  return error("RESULT_MISSING_OUTPUT", "", "result has no response object", fix)
}

const inspect = (message: JsonObject, _: number, { rules }: History): ReadonlyArray<Blemish> | undefined => {
  const { role } = message
  if (role !== "model" && !isUserRole(role)) return unknownRole(role)
  if (listOf(message, "parts").length > 0) return undefined
  return empty(message, rules, role === "model" ? { ...message, parts: [{ text: Synthetic.interrupted }] } : undefined)
}

/** G2: a message with calls follows a user message. */
const callsFollowUser = (history: History): ReadonlyArray<Fault> =>
  history.entries.flatMap((entry, index): ReadonlyArray<Fault> => {
    const previous = history.entries[index - 1]?.role
    if (entry.calls.length === 0 || previous === "user") return []
    return previous === "assistant"
      ? [roleOrder(history, index, "calls follow another message of the model", "user", Synthetic.proceed)]
      : [roleOrder(history, index, "calls stand at the beginning", "user", Synthetic.omitted)]
  })

/** G4: in the current turn, the first call of each message carries its signature. */
const signatures = (history: History): ReadonlyArray<Fault> => {
  if (!needsSignatures(history.context.model)) return []
  const restored = recordOf(history)
  const start = history.entries.findLastIndex((entry) => entry.role === "user" && entry.speaks)
  return history.entries.flatMap((entry, index): ReadonlyArray<Fault> => {
    const first = entry.calls[0]
    const message = history.messages[index]
    if (index < start || first === undefined || !isObject(message)) return []
    const parts = listOf(message, "parts")
    const part = parts[first.slot]
    if (!isObject(part) || textOf(part, "thoughtSignature") !== undefined) return []
    const original = listOf(restored(message) ?? {}, "parts").find((other) => isSameCall(other, part))
    const found = textOf(isObject(original) ? original : {}, "thoughtSignature")
    const signed = { ...part, thoughtSignature: found ?? signatureSentinel }
    const edit: Edit = {
      index,
      replace: [{ ...message, parts: parts.with(first.slot, signed) }],
      action: "restore",
      note: found === undefined ? "the documented sentinel in place of a signature" : "signature from the record"
    }
    return [
      {
        code: "SIGNATURE_MISSING",
        severity: "error",
        index,
        path: `/parts/${first.slot}/thoughtSignature`,
        message: "the first call of a step carries its thought signature",
        ...(isSuspended(history, index, first.slot) ? { choices: ["answer-call"] } : { edits: [edit] })
      }
    ]
  })
}

const isSameCall = (a: unknown, b: JsonObject): boolean => isObject(a) && equal(a["functionCall"], b["functionCall"])

const needsSignatures = (model: string | undefined): boolean => {
  const generation = /gemini-(\d+)/.exec(model ?? "")?.[1]
  return generation !== undefined && Number(generation) >= 3
}

export const Gemini: Format = {
  name: "gemini",
  entry,
  calls,
  parts: [{ list: "parts", inspect: inspectPart }],
  inspect,
  sequence: [callsFollowUser, signatures, alternation, ending],
  note: (role, text) => ({ role: role === "user" ? "user" : "model", parts: [{ text }] }),
  textPart: (text) => ({ text })
}
