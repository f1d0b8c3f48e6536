/**
 * One step of a Turn: a model request, then the calls its response asks for. An interruptible fiber inside the Turn's scope.
 *
 * Owns: the request of a step and the running of a batch. Does not own: what is written when (`Turn`, `TurnPlan`).
 *
 * - S1. A call that may have effects starts only when its response is recorded.
 * - S2. A result is recorded as soon as it is there while others of its batch still run; the last ones wait for the record
 *   that requests the next step. A result that is not recorded yet is in `unrecorded`, never only in a fiber.
 * - S3. A call that waits for its key or for room is started in the write of the result that lets it: no write is spent on it.
 */
import * as Accept from "@turnstep/core/Accept"
import type * as Call from "@turnstep/core/Call"
import * as Budget from "@turnstep/core/Budget"
import type { Json } from "@turnstep/core/Canonical"
import * as DurableRead from "@turnstep/core/DurableRead"
import type { CallId } from "@turnstep/core/Ids"
import type { OpenTurn } from "@turnstep/core/OpenTurn"
import * as SetAside from "@turnstep/core/SetAside"
import * as SpillStore from "@turnstep/core/SpillStore"
import type * as Start from "@turnstep/core/Start"
import * as Transcript from "@turnstep/core/Transcript"
import type { Fact } from "@turnstep/core/TurnEvent"
import * as TurnPlan from "@turnstep/core/TurnPlan"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { CallRoom } from "./CallRoom.ts"
import type { EventHub } from "./EventHub.ts"
import * as LargeOutput from "./LargeOutput.ts"
import * as ModelCall from "./ModelCall.ts"
import type { Owner, WriteError } from "./Owner.ts"
import * as Telemetry from "./Telemetry.ts"
import * as ToolAnswer from "./ToolAnswer.ts"
import * as ToolRun from "./ToolRun.ts"
import type { TurnConfig } from "./TurnConfig.ts"

/** What a step works with. */
export interface StepContext {
  readonly owner: Owner
  readonly hub: EventHub["Service"]
  readonly config: TurnConfig
  /** Results that are there and not recorded (S2). */
  readonly unrecorded: Array<Fact>
  /** Calls that were lost with their process: their tools are asked, not run. */
  readonly toAsk: ReadonlySet<CallId>
}

/**
 * Asks the model with the window as it stands, or for the hand-back when there is a reason to end; `saved` completes when
 * the window is durable. Files that the wire cannot carry are set aside first, and those that the provider refuses then.
 */
export const ask = Effect.fnUntraced(function* (
  context: StepContext,
  turn: OpenTurn,
  saved: Effect.Effect<void, WriteError>,
  reasonToEnd: string | undefined
) {
  const { config, owner } = context
  let ready = saved
  for (const [reason, media] of uncarried(context)) {
    ready = (yield* setAside(context, turn, media, "wire", reason)) ?? ready
  }
  for (;;) {
    const asked = yield* Effect.result(askOnce(context, turn, ready, reasonToEnd))
    if (asked._tag === "Success") return asked.success
    const { failure } = asked
    if (failure._tag !== "ModelFailed" || failure.content === undefined) return yield* Effect.fail(failure)
    // Every round sets at least one more file aside, so the rounds come to an end.
    const media = SetAside.next(owner.state.setAside, config.modelName, failure.content)
    const recorded = yield* setAside(context, turn, media, "provider", failure.message)
    if (recorded === undefined) return yield* failure
    ready = recorded
  }
})

/** The files that the wire cannot carry, by the reason why. */
const uncarried = ({ config, owner }: StepContext): ReadonlyMap<string, ReadonlyArray<SetAside.Medium>> => {
  const reasons = new Map<string, Array<SetAside.Medium>>()
  const { state } = owner
  if (config.wire.uncarried === undefined) return reasons
  for (const medium of SetAside.sent(state.setAside, config.modelName)) {
    const message = state.window[medium.message]
    const part = message?.role === "user" ? message.content[medium.part] : undefined
    const reason = part?.type === "file" ? config.wire.uncarried(part) : undefined
    if (reason !== undefined) reasons.set(reason, [...(reasons.get(reason) ?? []), medium])
  }
  return reasons
}

/** Records that files are set aside; gives the write to wait for, or nothing when there is nothing to set aside any more. */
const setAside = Effect.fnUntraced(function* (
  { config, owner }: StepContext,
  turn: OpenTurn,
  media: ReadonlyArray<SetAside.Medium>,
  by: "provider" | "wire",
  reason: string
) {
  if (media.length === 0) return undefined
  let isRecorded = false
  const recorded = yield* owner.ahead((state) => {
    isRecorded = state.turn?.id === turn.id && state.turn.cancelling === undefined
    if (!isRecorded) return []
    const parts = media.map(({ message, messageId, part }) => ({
      message,
      part,
      ...(messageId === undefined ? {} : { messageId })
    }))
    const step = Accept.stepOf(turn)
    const told = reason.replaceAll(/\s+/g, " ").slice(0, longestReason).toWellFormed()
    return [
      { type: "content.set-aside", data: { turnId: turn.id, step, model: config.modelName, parts, by, reason: told } }
    ]
  })
  return isRecorded ? recorded : undefined
})

/** Characters of a provider's reason that the record and the model are told. */
const longestReason = 300

const askOnce = (
  { config, hub, owner }: StepContext,
  turn: OpenTurn,
  saved: Effect.Effect<void, WriteError>,
  reasonToEnd: string | undefined
) => {
  const step = Accept.stepOf(turn)
  const question =
    reasonToEnd === undefined ? [] : [Transcript.userMessage(Transcript.userText(Budget.handBackPrompt(reasonToEnd)))]
  return Effect.flatMap(textsFor(owner, turn), (shown) =>
    ModelCall.request({
      config,
      window: SetAside.windowFor(owner.state.setAside, config.modelName, owner.state.window),
      shown,
      question,
      toolChoice: reasonToEnd === undefined ? "auto" : "none",
      ready: saved,
      onDelta: (channel, offset, delta) =>
        hub.show(owner.sessionId, { type: "delta", turnId: turn.id, step, channel, offset, delta }),
      onRepaired: (evidence) =>
        Effect.asVoid(
          owner.ahead((state) =>
            state.turn?.id === turn.id
              ? [{ type: "transcript.repaired", data: { turnId: turn.id, step, ...evidence } }]
              : []
          )
        ),
      onReset: (reason) => hub.show(owner.sessionId, { type: "step.reset", turnId: turn.id, step, reason }),
      onRetry: (retrying) => hub.show(owner.sessionId, { type: "model.retrying", turnId: turn.id, step, ...retrying })
    }).pipe(Telemetry.request(config), Telemetry.inStep(step))
  )
}

/** Shows messages with the texts of what the Turn has read beside the history. What is not there any more stays a proof. */
const textsFor = Effect.fnUntraced(function* ({ sessionId }: Owner, turn: OpenTurn) {
  const store = yield* SpillStore.SpillStore
  if (turn.reads.length === 0 || store === undefined) return undefined
  const textOf = (read: DurableRead.Read) =>
    DurableRead.isLarge(read)
      ? LargeOutput.shownOf(store, sessionId, read.spillId)
      : Effect.map(Stream.runCollect(store.read(sessionId, read.spillId)), (pieces) => Buffer.concat(pieces).toString())
  const found = yield* Effect.forEach(DurableRead.shown(turn.reads), (read) =>
    textOf(read).pipe(
      Effect.map((text) => [[read.wireId, text]] as const),
      Effect.catchTag("SpillNotFound", () => Effect.succeed([]))
    )
  )
  return DurableRead.withTexts(new Map(found.flat()))
})

/** The exclusive keys of the calls of a batch; a tool is asked for the key of a call once. */
const keysOf = ({ policies }: TurnConfig): Start.Rules["keyOf"] => {
  const keys = new Map<CallId, string | undefined>()
  return ({ callId, name, params }) => {
    if (!keys.has(callId)) keys.set(callId, policies.get(name)?.exclusive(params))
    return keys.get(callId)
  }
}

/** The rules by which calls of a batch start now: keys, and what the process holds up, beside the tools of their kind (`core/Start`). */
export const rulesOf = Effect.fnUntraced(function* (
  { config, owner }: Pick<StepContext, "config" | "owner">,
  keyOf: Start.Rules["keyOf"] = keysOf(config)
) {
  const room = yield* CallRoom
  const now = yield* Clock.currentTimeMillis
  const rules: Start.Rules = {
    keyOf,
    refusalOf: (call) => room.refusalOf(owner.sessionId, call, keyOf(call), now),
    atOnce: room.atOnce
  }
  return rules
})

/**
 * Runs the open calls of the batch, each when it is started, and leaves the last results in `unrecorded` (S1, S2). What waits
 * for its start is started in the write of a result (S3).
 */
export const runCalls = Effect.fnUntraced(function* (
  context: StepContext,
  calls: ReadonlyArray<Call.Call>,
  saved: Effect.Effect<void, WriteError>
) {
  const { config, hub, owner, toAsk, unrecorded } = context
  const room = yield* CallRoom
  const keyOf = keysOf(config)
  const waiting = new Map(
    calls.flatMap(({ callId, state }) =>
      state === "registered" ? [[callId, Deferred.makeUnsafe<Begun>()] as const] : []
    )
  )
  let left = calls.length
  let isRecording = false

  /** Records what is there, and starts what may start by it; what is refused is answered (S2, S3). */
  const advance = Effect.gen(function* () {
    const rules = yield* rulesOf(context, keyOf)
    let begun: ReadonlyArray<Fact> = []
    // Not waited for: the write that requests the next step comes after it in any case.
    const written = yield* owner.ahead(({ turn }) => {
      const results = unrecorded.splice(0)
      begun = turn === undefined || turn.cancelling !== undefined ? [] : TurnPlan.startNext(turn, results, rules)
      return [...results, ...begun]
    })
    for (const fact of begun) {
      if (fact.type === "call.completed") left--
      if (fact.type !== "call.completed" && fact.type !== "call.started") continue
      const call = waiting.get(fact.data.callId)
      if (call !== undefined) yield* Deferred.succeed(call, fact.type === "call.started" ? { written } : "refused")
    }
  })

  const record = Effect.gen(function* () {
    isRecording = true
    for (;;) {
      if (left === 0 || unrecorded.length === 0) break
      yield* advance
    }
    isRecording = false
  })

  const settle = (facts: ReadonlyArray<Fact>, answer: Array<Fact>) =>
    Effect.uninterruptible(
      Effect.suspend(() => {
        answer.length = 0
        unrecorded.push(...facts)
        left--
        return left === 0 || isRecording ? Effect.void : record
      })
    )

  const allowance = ToolAnswer.allowance()
  const run = (call: Call.Call, written: Effect.Effect<void, WriteError>) => {
    const show = (progress: Json) => hub.show(owner.sessionId, { type: "call.progress", callId: call.callId, progress })
    /** An answer that is there, and not in `unrecorded` yet (S2). */
    const answer: Array<Fact> = []
    const answering = toAsk.has(call.callId) ? ToolRun.ask : ToolRun.run
    const ran = answering(config, owner.sessionId, call, {
      allowance,
      // Nobody hears of a call before its record: what a tool tells before waits for it.
      onProgress: (progress) =>
        Effect.ignore(
          Effect.andThen(
            written,
            Effect.sync(() => show(progress))
          )
        ),
      outputOf: owner.outputOf,
      onRetry: (attempt) => restarted(owner, call, attempt),
      onLate: (late) => owner.aside(Effect.flatMap(late, (facts) => owner.decide(() => facts))),
      onLeft: (fiber) => room.leave(owner.sessionId, call, keyOf(call), fiber),
      onAnswer: (facts) => void answer.push(...facts)
    })
    const placed = room.hold(ran)
    return (call.effects === "pure" ? placed : Effect.andThen(written, placed)).pipe(
      Effect.flatMap((facts) => settle(facts, answer)),
      Effect.onInterrupt(() => Effect.sync(() => void unrecorded.push(...answer)))
    )
  }

  // After a takeover there may be room, and nothing running whose result would start what waits.
  if (waiting.size > 0) yield* advance
  return yield* Effect.forEach(
    calls,
    (call) => {
      const begun = waiting.get(call.callId)
      if (begun === undefined) return run(call, saved)
      return Effect.flatMap(Deferred.await(begun), (state) =>
        state === "refused" ? Effect.void : run(call, state.written)
      )
    },
    { concurrency: "unbounded", discard: true }
  )
})

/** What has become of a call that waited: its start is on its way into the record, or it was answered without one. */
type Begun = "refused" | { readonly written: Effect.Effect<void, WriteError> }

/** Records that a call is started once more. In a Turn that has been told to stop nothing is: its end is waited for. */
const restarted = (owner: Owner, { callId }: Call.Call, attempt: number) =>
  owner
    .ahead(({ turn }) => (turn?.cancelling === undefined ? [{ type: "call.started", data: { callId, attempt } }] : []))
    .pipe(
      Effect.flatten,
      Effect.andThen(Effect.suspend(() => (owner.state.turn?.cancelling === undefined ? Effect.void : Effect.never)))
    )
