/**
 * Which facts accept a response of the model: its calls registered and started or refused, its last words, or the runtime's
 * in their place. Pure functions of the session's state.
 *
 * Owns: which calls of a response run. Does not own: what comes before and after (`TurnPlan`), or how a call runs (`ToolRun`).
 *
 * - P1. A response is registered with all its calls before any of them runs.
 * - P4. What repeats itself is stopped before it runs: a Turn that trips has started nothing of its last batch.
 */
import type { Json } from "./Canonical.ts"
import * as Breaker from "./Breaker.ts"
import * as Budget from "./Budget.ts"
import * as Call from "./Call.ts"
import * as Canonical from "./Canonical.ts"
import * as Consent from "./Consent.ts"
import * as FailureBudget from "./FailureBudget.ts"
import * as Ids from "./Ids.ts"
import type { OpenTurn } from "./OpenTurn.ts"
import type { SessionState } from "./SessionState.ts"
import * as Start from "./Start.ts"
import type { ToolPolicy } from "./ToolPolicy.ts"
import type { AssistantPart } from "./Transcript.ts"
import * as Transcript from "./Transcript.ts"
import type { DataOf, Fact, Figures, Usage } from "./TurnEvent.ts"

/** A model response as the wire gave it. `id` is the provider's call id, `params` a raw string when it was not JSON. */
export interface Response {
  readonly parts: ReadonlyArray<ResponsePart>
  readonly finishReason: string
  readonly usage: Usage
  /** Milliseconds from the request to the end of the response. */
  readonly ms: number
}

type PartOptions = { readonly options?: Transcript.ToolCallPart["options"] }
export type ResponsePart = PartOptions &
  (
    | { readonly type: "text" | "reasoning"; readonly text: string }
    | { readonly type: "tool-call"; readonly id: string; readonly name: string; readonly params: Json }
  )

/** What is known of a called tool: `undefined` for a tool that does not exist. */
export type PolicyOf = (
  tool: string
) => (Pick<ToolPolicy, "effects" | "domain"> & Partial<Pick<ToolPolicy, "needsApproval" | "exclusive">>) | undefined

/** What is known of the calls of one response when it is accepted. */
export interface Known {
  /** The calls of tools that decide from case to case which need no approval. */
  readonly free?: ReadonlySet<Ids.CallId> | undefined
  readonly reachable?: Consent.Known["reachable"]
  /** Why a call must not run as things stand in this process, in words for the model. */
  readonly refusalOf?: Start.Rules["refusalOf"] | undefined
  readonly atOnce?: number | undefined
}

/** Calls of one response that are run or answered one by one, unless the agent says otherwise. */
export const defaultCallLimit = 128

/**
 * Facts that accept a response with calls (P1). Calls that must not run are answered in the same write: the tool does
 * not exist, the arguments are not JSON, the response was cut off before it was finished, it asks for too many calls, a person
 * would have to approve it, its domain is out of use. Of the others those are started whose turn has come (`Start`). When the
 * calls would only repeat what is known, none of them runs and the Turn is tripped (P4).
 */
export const withCalls = (
  state: SessionState,
  turn: OpenTurn,
  response: Response,
  policyOf: PolicyOf,
  known: Known = {}
): ReadonlyArray<Fact> => {
  const parts = storedParts(state, turn, response)
  const given = response.parts.filter((part) => part.type === "tool-call")
  const asked = parts
    .filter((part) => part.type === "tool-call")
    .map((part, index) => {
      // Judged by what the model wrote: the stored name and arguments may be mended, and a mended call is not the one it made.
      const written = given[index] ?? part
      const policy = written.name === part.name ? policyOf(part.name) : undefined
      const { callId, name, params, wireId } = part
      const domain = policy?.domain ?? "server"
      const data: DataOf<"call.requested"> = {
        callId,
        wireId,
        name,
        params,
        argsDigest: Canonical.digest(params),
        effects: policy?.effects ?? "pure",
        ...(domain === "server" ? {} : { domain })
      }
      const call = { ...data, domain, state: "registered" } as const
      const why =
        refusal(turn, { ...written, index }, policy, response.finishReason, {
          isFree: known.free?.has(callId),
          reachable: known.reachable
        }) ?? known.refusalOf?.(call)
      return { ...call, data, exclusive: policy?.exclusive, refusal: why }
    })
  const facts: ReadonlyArray<Fact> = [
    answerAdded(turn, parts, figuresOf(response)),
    ...asked.map(({ data }) => ({ type: "call.requested", data }) as const)
  ]
  const loop = Breaker.trips(turn.breaker, asked, turn.limits.repeatedToolCallLimit)
  if (loop !== undefined) {
    const receipts = asked.map(({ data: { callId, name } }): Fact => ({
      type: "call.receipt",
      data: { callId, outcome: "not-started", text: Breaker.refusal(name, loop) }
    }))
    return [...facts, repeatedFact(turn, "tripped", loop, Breaker.reason(loop)), ...receipts]
  }
  const refusals = new Map(asked.map(({ callId, refusal }) => [callId, refusal]))
  const keys = new Map(asked.map(({ callId, exclusive, params }) => [callId, exclusive?.(params)]))
  const begun = Start.next(asked, new Set(), {
    keyOf: ({ callId }) => keys.get(callId),
    refusalOf: ({ callId }) => refusals.get(callId),
    atOnce: known.atOnce ?? Start.defaultAtOnce
  })
  return [...facts, ...begun.filter(Call.isAnswering), ...begun.filter((fact) => !Call.isAnswering(fact))]
}

/** Facts that accept a final answer: the message and the end of its step. */
export const final = (state: SessionState, turn: OpenTurn, response: Response): ReadonlyArray<Fact> => {
  const spoken = storedParts(state, turn, response).filter((part) => part.type !== "tool-call")
  // A message without text is refused by every provider; the words say whose they are.
  const parts: ReadonlyArray<AssistantPart> =
    Transcript.textOf(spoken).trim() === "" ? [...spoken, { type: "text", text: emptyAnswer }] : spoken
  const figures = figuresOf(response)
  return [answerAdded(turn, parts, figures), stepCompleted(turn.id, stepOf(turn), figures)]
}

/** Facts that write the hand-back in the model's place: `why` the Turn ends, and what was done, without a claim (Budget B2). */
export const handBack = (turn: OpenTurn, why: string): ReadonlyArray<Fact> => {
  const text = Budget.handBackText(why, turn.done)
  const figures: Figures = { finishReason: "hand-back", usage: { inputTokens: 0, outputTokens: 0 }, ms: 0 }
  return [answerAdded(turn, [{ type: "text", text }], figures), stepCompleted(turn.id, stepOf(turn), figures)]
}

/** The text that stands for a response without any. */
export const emptyAnswer = "[The model returned an empty answer.]"

/** The number of the step that a Turn is in. */
export const stepOf = (turn: OpenTurn): number => turn.step?.step ?? 1

/** The fact that ends a step. */
export const stepCompleted = (turnId: Ids.TurnId, step: number, figures: Figures): Fact => ({
  type: "step.completed",
  data: { turnId, step, ...figures }
})

/** The fact that says that the Turn repeats itself. */
export const repeatedFact = (turn: OpenTurn, verdict: "noted" | "tripped", loop: Breaker.Loop, text: string): Fact => ({
  type: "guard.repeated",
  data: { turnId: turn.id, step: stepOf(turn), verdict, code: Breaker.code, ...loop, text }
})

const figuresOf = ({ finishReason, usage, ms }: Response): Figures => ({ finishReason, usage, ms })

const answerAdded = (turn: OpenTurn, parts: ReadonlyArray<AssistantPart>, figures: Figures): Fact => ({
  type: "message.added",
  data: { messageId: Ids.assistantMessageId(turn.number, stepOf(turn)), role: "assistant", parts, figures }
})

/** The response's parts as they are stored: legal names, unique wire ids, arguments that can be sent again. */
const storedParts = (state: SessionState, turn: OpenTurn, response: Response): ReadonlyArray<AssistantPart> => {
  const used = new Set<string>()
  let index = 0
  return response.parts.flatMap((part): ReadonlyArray<AssistantPart> => {
    const options = part.options === undefined ? {} : { options: part.options }
    if (part.type !== "tool-call") {
      return part.text === "" && part.options === undefined ? [] : [{ type: part.type, text: part.text, ...options }]
    }
    const callId = Ids.callId(turn.number, stepOf(turn), index++)
    const isUsable = isLegalWireId(part.id) && !state.wireIds.has(part.id) && !used.has(part.id)
    const wireId = isUsable ? part.id : callId
    used.add(wireId)
    const params = isRecord(part.params) ? part.params : { invalid_arguments: part.params }
    return [{ type: "tool-call", callId, wireId, name: legalName(part.name), params, ...options }]
  })
}

/** Ids that every provider takes (provider contract O8, A11), and that do not look like one of ours for another call. */
const isLegalWireId = (id: string): boolean => /^[A-Za-z0-9_-]{1,40}$/.test(id) && !id.startsWith("cal_")

/** A name that every provider takes in a history (provider contract O7). */
const legalName = (name: string): string => name.replace(/[^A-Za-z0-9_-]/g, "_").slice(0, 64) || "_"

const isRecord = (params: Json): params is { readonly [key: string]: Json } =>
  typeof params === "object" && params !== null && !Array.isArray(params)

/** Finish reasons after which a response may be incomplete. */
const cutOff: ReadonlySet<string> = new Set(["length", "content-filter", "error", "interrupted"])

/** Why a call must not run, in words for the model. */
const refusal = (
  turn: OpenTurn,
  call: { readonly name: string; readonly params: Json; readonly index: number },
  policy: ReturnType<PolicyOf>,
  finishReason: string,
  known: Consent.Known
): string | undefined => {
  if (cutOff.has(finishReason)) {
    return (
      `This call was not executed: the response ended early (${finishReason}), so its arguments may be cut off. ` +
      "Send it again with less text in the arguments."
    )
  }
  const { callLimit = defaultCallLimit, failureLimit } = turn.limits
  if (call.index >= callLimit) {
    return `This call was not executed: a response may make ${callLimit} calls. Make the others when you have read these results.`
  }
  if (policy === undefined) return `This call was not executed: there is no tool named "${call.name}".`
  if (!isRecord(call.params)) {
    return "This call was not executed: its arguments are not a JSON object. Send valid JSON that fits the tool's schema."
  }
  return (
    Consent.refusal(call.name, policy, known) ??
    FailureBudget.refused(turn.failures, call.name, policy.domain, failureLimit)
  )
}
