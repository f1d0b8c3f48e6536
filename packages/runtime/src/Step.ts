/**
 * One step of a Turn: a model request, then the calls its response asks for. An interruptible fiber inside the Turn's scope.
 *
 * Owns: the request of a step and the running of a batch. Does not own: what is written when (`Turn`, `TurnPlan`).
 *
 * - S1. A call that may have effects starts only when its response is recorded.
 * - S2. A result is recorded as soon as it is there while others of its batch still run; the last ones wait for the record
 *   that requests the next step. A result that is not recorded yet is in `unrecorded`, never only in a fiber.
 */
import * as Call from "@turnstep/core/Call"
import * as Budget from "@turnstep/core/Budget"
import type { Json } from "@turnstep/core/Canonical"
import * as DurableRead from "@turnstep/core/DurableRead"
import type { CallId } from "@turnstep/core/Ids"
import type { OpenTurn } from "@turnstep/core/OpenTurn"
import * as SpillStore from "@turnstep/core/SpillStore"
import * as Transcript from "@turnstep/core/Transcript"
import type { Fact } from "@turnstep/core/TurnEvent"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as Semaphore from "effect/Semaphore"
import type { EventHub } from "./EventHub.ts"
import * as LargeOutput from "./LargeOutput.ts"
import * as ModelCall from "./ModelCall.ts"
import type { Owner, WriteError } from "./Owner.ts"
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
 * the window is durable.
 */
export const ask = (
  { config, hub, owner }: StepContext,
  turn: OpenTurn,
  saved: Effect.Effect<void, WriteError>,
  reasonToEnd: string | undefined
) => {
  const step = turn.step?.step ?? 1
  const question =
    reasonToEnd === undefined ? [] : [Transcript.userMessage(Transcript.userText(Budget.handBackPrompt(reasonToEnd)))]
  return Effect.flatMap(textsFor(owner, turn), (shown) =>
    ModelCall.request({
      config,
      window: owner.state.window,
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
      onReset: (reason) => hub.show(owner.sessionId, { type: "step.reset", turnId: turn.id, step, reason })
    })
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

/** Runs the open calls of the batch side by side and leaves the last results in `unrecorded` (S1, S2). */
export const runCalls = (
  context: StepContext,
  calls: ReadonlyArray<Call.Call>,
  saved: Effect.Effect<void, WriteError>
): Effect.Effect<void, WriteError> => {
  const { config, hub, owner, toAsk } = context
  const settle = settler(context, calls.length)
  const inTurn = queues()
  const run = (call: Call.Call) => {
    const show = (progress: Json) => hub.show(owner.sessionId, { type: "call.progress", callId: call.callId, progress })
    const answer = toAsk.has(call.callId) ? ToolRun.ask : ToolRun.run
    const ran = answer(config, owner.sessionId, call, {
      // Nobody hears of a call before its record: what a tool tells before waits for it.
      onProgress: (progress) =>
        Effect.ignore(
          Effect.andThen(
            saved,
            Effect.sync(() => show(progress))
          )
        ),
      outputOf: owner.outputOf,
      onRetry: (attempt) => restarted(owner, call, attempt),
      onLate: (late) => owner.aside(Effect.flatMap(late, (facts) => owner.decide(() => facts)))
    })
    const started = call.effects === "pure" ? ran : Effect.andThen(saved, ran)
    const key = config.policies.get(call.name)?.exclusive(call.params)
    return Effect.flatMap(key === undefined ? started : inTurn(key, started), settle)
  }
  return Effect.forEach(calls, run, { concurrency: "unbounded", discard: true })
}

/** Records that a call is started once more. In a Turn that has been told to stop nothing is: its end is waited for. */
const restarted = (owner: Owner, { callId }: Call.Call, attempt: number) =>
  owner
    .ahead(({ turn }) => (turn?.cancelling === undefined ? [{ type: "call.started", data: { callId, attempt } }] : []))
    .pipe(
      Effect.flatten,
      Effect.andThen(Effect.suspend(() => (owner.state.turn?.cancelling === undefined ? Effect.void : Effect.never)))
    )

/** Lets what has the same key through one after the other, in the order in which it came. */
const queues = () => {
  const doors = new Map<string, Semaphore.Semaphore>()
  return <A, E, R>(key: string, work: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> => {
    const door = doors.get(key) ?? Semaphore.makeUnsafe(1)
    doors.set(key, door)
    return door.withPermits(1)(work)
  }
}

/** Takes the results of a batch of `running` calls as they come (S2). */
const settler = ({ owner, unrecorded }: StepContext, running: number) => {
  let left = running
  let isRecording = false
  const record = Effect.gen(function* () {
    isRecording = true
    for (;;) {
      if (left === 0 || unrecorded.length === 0) break
      // Not waited for: the write that requests the next step comes after it in any case.
      yield* Effect.asVoid(owner.ahead(() => unrecorded.splice(0)))
    }
    isRecording = false
  })
  return (facts: ReadonlyArray<Fact>) =>
    Effect.uninterruptible(
      Effect.suspend(() => {
        unrecorded.push(...facts)
        left--
        return left === 0 || isRecording ? Effect.void : record
      })
    )
}
