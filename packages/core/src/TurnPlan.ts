/**
 * Which facts come next in a Turn: every decision of the engine, as pure functions of the session's state.
 *
 * Owns: the order of facts inside a write. Does not own: when a write happens (`Turn`), or the fold (`SessionState`).
 *
 * - P1. A response is registered with all its calls before any of them runs.
 * - P2. Steering is applied after all results of a batch and before the next request, in the same write as that request.
 * - P3. A Turn ends with one receipt for every open call, then `turn.settled`, then its terminal fact.
 * - P4. What repeats itself is stopped before it runs: a Turn that trips has started nothing of its last batch.
 */
import type { Json } from "./Canonical.ts"
import * as Breaker from "./Breaker.ts"
import * as Budget from "./Budget.ts"
import * as Canonical from "./Canonical.ts"
import * as FailureBudget from "./FailureBudget.ts"
import * as Ids from "./Ids.ts"
import * as Inbox from "./Inbox.ts"
import * as Ledger from "./Ledger.ts"
import type { Cause } from "./Receipt.ts"
import type { OpenTurn, SessionState } from "./SessionState.ts"
import * as ToolOutput from "./ToolOutput.ts"
import type { ToolPolicy } from "./ToolPolicy.ts"
import type { AssistantPart } from "./Transcript.ts"
import * as Transcript from "./Transcript.ts"
import type { DataOf, Fact, Failure, Figures, Limit, Limits, Usage } from "./TurnEvent.ts"
import { addUsage } from "./TurnEvent.ts"

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
export type PolicyOf = (tool: string) => Pick<ToolPolicy, "effects" | "domain"> | undefined

/** Facts that open a Turn from a waiting item and request its first step. */
export const startTurn = (
  state: SessionState,
  item: Inbox.Item,
  config: { readonly model: string; readonly limits: Limits }
): ReadonlyArray<Fact> => {
  const turnId = Ids.turnId(state.turns + 1)
  const steers = Inbox.steersFor(state.pending, turnId).filter((steer) => steer.id !== item.id)
  return [
    ...(state.status === "running" ? [] : [{ type: "session.status", data: { status: "running" } } as const]),
    {
      type: "turn.started",
      data: { turnId, itemId: item.id, agent: state.agent, model: config.model, limits: config.limits }
    },
    ...[item, ...steers].flatMap((each) => applyItem(each, turnId, 1)),
    { type: "step.started", data: { turnId, step: 1, kind: config.limits.maxSteps === 0 ? "hand-back" : "work" } }
  ]
}

/**
 * Facts that close a settled step and request the next one (P2): with tools, or for the hand-back when the Turn must end.
 * `unrecorded` are answers of its calls that are written before these; `now` is milliseconds since the epoch.
 */
export const nextStep = (
  state: SessionState,
  turn: OpenTurn,
  now: number,
  unrecorded: ReadonlyArray<Fact> = []
): ReadonlyArray<Fact> => {
  const step = stepOf(turn) + 1
  const kind = mustEnd(turn, now) === undefined ? "work" : "hand-back"
  const isAnswered = turn.step?.state === "accepted"
  return [
    ...shownShorter(turn, unrecorded),
    ...(isAnswered && kind === "work" ? repetition(turn, unrecorded) : []),
    ...(isAnswered && turn.step !== undefined ? [stepCompleted(turn.id, turn.step.step, turn.step.figures)] : []),
    ...Inbox.steersFor(state.pending, turn.id).flatMap((item) => applyItem(item, turn.id, step)),
    { type: "step.started", data: { turnId: turn.id, step, kind } }
  ]
}

/** The results of an open step that are shown shorter, because they are too much together (mechanism E1). */
const shownShorter = (turn: OpenTurn, unrecorded: ReadonlyArray<Fact>): ReadonlyArray<Fact> => {
  if (turn.step?.state !== "accepted") return []
  const views = ToolOutput.slimBatch(
    Ledger.answered(turn.ledger, unrecorded).map(({ answer, callId, effects }) => ({ callId, effects, ...answer }))
  )
  return views.length === 0 ? [] : [{ type: "step.slimmed", data: { turnId: turn.id, step: stepOf(turn), views } }]
}

/** What the model is told when the step brought nothing new (mechanism D2). */
const repetition = (turn: OpenTurn, unrecorded: ReadonlyArray<Fact>): ReadonlyArray<Fact> => {
  const breaker = Ledger.isSettled(turn.ledger)
    ? turn.breaker
    : Breaker.observe(turn.breaker, Ledger.round(Ledger.answered(turn.ledger, unrecorded)))
  const loop = Breaker.repeated(breaker)
  return loop === undefined ? [] : [repeatedFact(turn, "noted", loop, Breaker.note(loop))]
}

const repeatedFact = (turn: OpenTurn, verdict: "noted" | "tripped", loop: Breaker.Loop, text: string): Fact => ({
  type: "guard.repeated",
  data: { turnId: turn.id, step: stepOf(turn), verdict, code: Breaker.code, ...loop, text }
})

/** Owners a Turn may lose, one after the other, without coming further: the next one ends it. */
export const maxTakeovers = 3

/**
 * Facts with which an owner takes up an open Turn (mechanism C3); `wasLeft` when its former owner died. `undefined` when too
 * many have died over it: whatever it does then, it is not to be tried again. Calls `toAsk` stay open: their tools are asked.
 */
export const takeUp = (
  turn: OpenTurn,
  wasLeft: boolean,
  toAsk?: ReadonlySet<Ids.CallId>
): ReadonlyArray<Fact> | undefined => {
  if (wasLeft && turn.takeovers >= maxTakeovers) return undefined
  const claimed: ReadonlyArray<Fact> = wasLeft ? [{ type: "worker.claimed", data: { turnId: turn.id } }] : []
  return [...claimed, ...Ledger.recovery(turn.ledger, toAsk)]
}

/** Why a Turn must end with a hand-back: it went round in circles, or a limit is spent. */
export type HandBackCause = "repetition" | Limit

/** Why no further step with tools may start when the Turn's current one is over. */
export const mustEnd = (turn: OpenTurn, now: number): HandBackCause | undefined =>
  turn.tripped !== undefined
    ? "repetition"
    : Budget.spent(turn.limits, { steps: stepsOf(turn), usage: turn.usage, now })

/** The same in words. */
export const reasonToEnd = (turn: OpenTurn, cause: HandBackCause): string =>
  cause !== "repetition" ? Budget.reason(turn.limits, cause) : (turn.tripped?.text ?? "")

/** How a Turn ends after its hand-back. */
export const afterHandBack = (cause: HandBackCause): Ending =>
  cause === "repetition" ? { type: "tripped" } : { type: "exhausted", limit: cause }

/**
 * Facts that accept a response with calls (P1). Calls that must not run are answered in the same write: the tool does
 * not exist, the arguments are not JSON, the response was cut off before it was finished, its domain is out of use. When
 * the calls would only repeat what is known, none of them runs and the Turn is tripped (P4).
 */
export const accept = (
  state: SessionState,
  turn: OpenTurn,
  response: Response,
  policyOf: PolicyOf
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
      const why = refusal(turn, written, policy, response.finishReason)
      return { data, name, argsDigest: data.argsDigest, effects: data.effects, domain, refusal: why }
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
  return [
    ...facts,
    ...asked.flatMap(({ data: { callId }, refusal }): ReadonlyArray<Fact> =>
      refusal === undefined
        ? []
        : [{ type: "call.completed", data: { callId, isFailure: true, output: refusal, ms: 0 } }]
    ),
    ...asked.flatMap(({ data: { callId }, refusal }): ReadonlyArray<Fact> =>
      refusal === undefined ? [{ type: "call.started", data: { callId, attempt: 1 } }] : []
    )
  ]
}

/** Facts that accept a final answer: the message and the end of its step. */
export const acceptFinal = (state: SessionState, turn: OpenTurn, response: Response): ReadonlyArray<Fact> => {
  const spoken = storedParts(state, turn, response).filter((part) => part.type !== "tool-call")
  // A message without text is refused by every provider; the words say whose they are.
  const parts: ReadonlyArray<AssistantPart> =
    Transcript.textOf(spoken).trim() === "" ? [...spoken, { type: "text", text: emptyAnswer }] : spoken
  const figures = figuresOf(response)
  return [answerAdded(turn, parts, figures), stepCompleted(turn.id, stepOf(turn), figures)]
}

/** Facts that write the hand-back in the model's place: what was done is counted, nothing is claimed (Budget B2). */
export const acceptHandBack = (turn: OpenTurn, cause: HandBackCause): ReadonlyArray<Fact> => {
  const text = Budget.handBackText(reasonToEnd(turn, cause), turn.done)
  const figures: Figures = { finishReason: "hand-back", usage: { inputTokens: 0, outputTokens: 0 }, ms: 0 }
  return [answerAdded(turn, [{ type: "text", text }], figures), stepCompleted(turn.id, stepOf(turn), figures)]
}

/** How a Turn ends. */
export type Ending =
  | { readonly type: "completed" }
  | { readonly type: "exhausted"; readonly limit: Limit }
  | { readonly type: "tripped" }
  | { readonly type: "cancelled"; readonly by: "user" | "caller"; readonly reason: string | undefined }
  | { readonly type: "failed"; readonly error: Failure }

/** Facts that settle and close a Turn (P3); `before` are facts of the same write that come first, such as the final answer. */
export const endTurn = (
  state: SessionState,
  turn: OpenTurn,
  ending: Ending,
  before: ReadonlyArray<Fact> = []
): ReadonlyArray<Fact> => {
  const receipts = before.length > 0 ? [] : Ledger.receipts(turn.ledger, causeOf(ending))
  const returned = Inbox.atTurnEnd(state.pending, turn.id)
  const left = state.pending.size - returned.filter((fact) => fact.data.disposition === "returned").length
  return [
    ...before,
    ...receipts,
    // The next Turn reads what this one was told, also where it was stopped in the middle of a batch.
    ...shownShorter(turn, receipts),
    ...returned,
    {
      type: "turn.settled",
      data: { turnId: turn.id, receipts: receipts.map(({ data: { callId, outcome } }) => ({ callId, outcome })) }
    },
    terminal(turn, ending, before),
    ...(left === 0 ? [{ type: "session.status", data: { status: "idle" } } as const] : [])
  ]
}

/** Facts for a session without work: it is idle, should it not say so. The last item may have been withdrawn after its Turn. */
export const rest = (state: SessionState): ReadonlyArray<Fact> =>
  state.status === "running" && state.turn === undefined && state.pending.size === 0
    ? [{ type: "session.status", data: { status: "idle" } }]
    : []

/** The text that stands for a response without any. */
export const emptyAnswer = "[The model returned an empty answer.]"

const stepOf = (turn: OpenTurn): number => turn.step?.step ?? 1

/** Steps with tools, the current one included. */
const stepsOf = (turn: OpenTurn): number =>
  turn.step === undefined ? 0 : turn.step.kind === "work" ? turn.step.step : turn.step.step - 1

const figuresOf = ({ finishReason, usage, ms }: Response): Figures => ({ finishReason, usage, ms })

const causeOf = (ending: Ending): Cause => (ending.type === "failed" ? "failed" : "cancelled")

const terminal = (turn: OpenTurn, ending: Ending, before: ReadonlyArray<Fact>): Fact => {
  const turnId = turn.id
  const steps = stepsOf(turn)
  const answer = before.find((fact) => fact.type === "message.added")?.data
  const figures = answer?.figures
  const usage = figures === undefined ? turn.usage : addUsage(turn.usage, figures.usage)
  const messageId = answer?.messageId ?? Ids.assistantMessageId(turn.number, stepOf(turn))
  switch (ending.type) {
    case "completed":
      return {
        type: "turn.completed",
        data: { turnId, steps, usage, finishReason: figures?.finishReason ?? "unknown", messageId }
      }
    case "exhausted":
      return {
        type: "turn.exhausted",
        data: { turnId, limit: ending.limit, steps, usage, messageId }
      }
    case "tripped":
      return {
        type: "turn.tripped",
        data: { turnId, code: Breaker.code, reason: turn.tripped?.text ?? "", steps, usage, messageId }
      }
    case "cancelled":
      return {
        type: "turn.cancelled",
        data: {
          turnId,
          by: ending.by,
          ...(ending.reason === undefined ? {} : { reason: ending.reason }),
          steps,
          usage
        }
      }
    case "failed":
      return { type: "turn.failed", data: { turnId, error: ending.error, steps, usage } }
  }
}

const applyItem = (item: Inbox.Item, turnId: Ids.TurnId, step: number): ReadonlyArray<Fact> => {
  const messageId = Ids.userMessageId(item.id)
  return [
    { type: "inbox.applied", data: { itemId: item.id, turnId, step, messageId } },
    { type: "message.added", data: { messageId, role: "user", parts: item.parts } }
  ]
}

const answerAdded = (turn: OpenTurn, parts: ReadonlyArray<AssistantPart>, figures: Figures): Fact => ({
  type: "message.added",
  data: { messageId: Ids.assistantMessageId(turn.number, stepOf(turn)), role: "assistant", parts, figures }
})

const stepCompleted = (turnId: Ids.TurnId, step: number, figures: Figures): Fact => ({
  type: "step.completed",
  data: { turnId, step, ...figures }
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
    const callId = Ids.callId(turn.number, turn.step?.step ?? 1, index++)
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
  call: { readonly name: string; readonly params: Json },
  policy: ReturnType<PolicyOf>,
  finishReason: string
): string | undefined => {
  if (cutOff.has(finishReason)) {
    return (
      `This call was not executed: the response ended early (${finishReason}), so its arguments may be cut off. ` +
      "Send it again with less text in the arguments."
    )
  }
  if (policy === undefined) return `This call was not executed: there is no tool named "${call.name}".`
  if (!isRecord(call.params)) {
    return "This call was not executed: its arguments are not a JSON object. Send valid JSON that fits the tool's schema."
  }
  return FailureBudget.isSpent(turn.failures, policy.domain, turn.limits.failureLimit)
    ? FailureBudget.refusal(call.name, policy.domain, turn.limits.failureLimit)
    : undefined
}
