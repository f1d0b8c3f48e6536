/**
 * The conversation of the crash matrix: it crosses every place of `CrashPoint`, and can be taken up anywhere.
 *
 * One Turn with all four effect classes side by side, steered twice while a call is held; one that is cancelled while two
 * calls are open; one that spends its budget; one that goes in circles. Beside them a message that is taken back, one that
 * is moved into the running Turn, and one that is returned because its Turn ended.
 *
 * Owns: what the model answers and what the client does. Does not own: when the process dies (`Cell`), or what must hold
 * (`Judge`).
 *
 * - S1. The model's answer is a function of its prompt: a request that is sent again gets the same answer.
 * - S2. The client may begin anew in any process: what it said before is said again under the same key.
 * - S3. No operation is a guess about time: calls that are to be open are held outside (`Outside`) until the client says so.
 */
import * as ToolPolicy from "@turnstep/core/ToolPolicy"
import type { ItemId } from "@turnstep/core/Ids"
import { isTerminal, type TurnEvent } from "@turnstep/core/TurnEvent"
import type { SendOptions, Session } from "@turnstep/runtime/Session"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"

const tool = <const Name extends string>(name: Name, effects: ToolPolicy.EffectClass) =>
  Tool.make(name, { parameters: Schema.Struct({ act: Schema.String }), success: Schema.String }).annotate(
    ToolPolicy.Effects,
    effects
  )

export const toolkit = Toolkit.make(
  tool("look", "pure"),
  tool("put", "idempotent"),
  // Nobody can tell what became of a lost call: it is not run again all the same.
  tool("poll", "queryable").annotate(ToolPolicy.Query, () => Effect.succeedNone),
  tool("pay", "once")
)

export type ToolName = keyof typeof toolkit.tools

/** Steps with tools a Turn may take: enough for all but one. */
export const maxSteps = 4

const call = (name: ToolName, act: string) => ({ name, arguments: { act } })

/** Answers to each message that opens a Turn, in the order of its steps. */
const answers: Readonly<Record<string, ReadonlyArray<StrictProvider.Reply>>> = {
  m1: [
    StrictProvider.calls([call("look", "hold-1"), call("put", "put-1"), call("poll", "poll-1"), call("pay", "pay-1")]),
    StrictProvider.calls([call("put", "put-2"), call("pay", "pay-2"), call("look", "look-2")], { text: "more" }),
    StrictProvider.text("first is done")
  ],
  m3: [StrictProvider.calls([call("look", "hold-2"), call("put", "put-3"), call("pay", "hold-3")])],
  m7: Array.from({ length: maxSteps }, (_, n) => StrictProvider.calls([call("look", `look-7${n}`)])),
  // One that only reads: whoever dies over it, it is run again, and says the same.
  m8: Array.from({ length: maxSteps }, () => StrictProvider.calls([call("look", "look-8")]))
}

/**
 * Calls that are answered only when another has been started: whenever the first process learns of any effect, what must
 * not be repeated has happened.
 */
export const first: Readonly<Record<string, string>> = {
  "put-1": "pay-1",
  "poll-1": "pay-1",
  "pay-1": "poll-1",
  "put-2": "pay-2",
  "look-2": "pay-2",
  "put-3": "hold-3"
}

/** The act whose output is too large for the log. */
export const large = "look-2"

/** How the Turn of each message ends, whatever happens to its processes. */
export const endings: Readonly<Record<string, TurnEvent["type"]>> = {
  m1: "turn.completed",
  m3: "turn.cancelled",
  m7: "turn.exhausted",
  m8: "turn.tripped"
}

/** The model (S1). */
export const respond: StrictProvider.Respond = ({ messages }) => {
  const at = messages.findLastIndex((message) => message.role === "user" && textOf(message.content) in answers)
  const planned = answers[textOf(messages[at]?.content)] ?? []
  const given = messages.slice(at).filter(({ role }) => role === "assistant").length
  return planned[given] ?? StrictProvider.text("nothing is left")
}

const textOf = (content: unknown): string =>
  typeof content === "string"
    ? content
    : Array.isArray(content)
      ? content.map((part) => (typeof part === "object" && part !== null && "text" in part ? part.text : "")).join("")
      : ""

/** What the client learns and does, told to whoever watches over it from outside. */
export interface Telling {
  /** A message was acknowledged. */
  readonly admitted: (name: string, itemId: ItemId) => void
  /** A message was taken back, and that was acknowledged. */
  readonly withdrawn: (itemId: ItemId) => void
  /** A held call may go on (S3). */
  readonly release: (act: string) => void
}

/** The client: has the whole conversation, whatever of it was had before, and ends when the session is at rest (S2). */
export const play = Effect.fnUntraced(function* (session: Session, telling: Telling) {
  const say = Effect.fnUntraced(function* (name: string, options: SendOptions) {
    const { itemId } = yield* asked(session.send(name, { ...options, clientKey: name }))
    telling.admitted(name, itemId)
    return itemId
  })
  const opened = (itemId: ItemId) =>
    Effect.map(
      until(session, (event) => event.type === "turn.started" && event.data.itemId === itemId),
      (event) => (event.type === "turn.started" ? event.data.turnId : undefined)
    )

  yield* opened(yield* say("m1", {}))
  yield* say("m2", { delivery: "steer" })
  const m3 = yield* say("m3", { delivery: "follow-up" })
  const m4 = yield* say("m4", { delivery: "follow-up" })
  yield* asked(session.withdraw(m4))
  telling.withdrawn(m4)
  const m5 = yield* say("m5", { delivery: "follow-up" })
  // The second time it may have been applied.
  yield* Effect.catchTag(asked(session.move(m5, "steer")), "ItemSettled", () => Effect.void)
  telling.release("hold-1")

  const second = yield* opened(m3)
  yield* say("m6", { delivery: "steer", ifNotApplied: "return" })
  yield* until(session, (event) => event.type === "call.completed" && event.data.callId.startsWith("cal_2_"))
  yield* asked(session.cancel(second ?? ""))
  yield* until(session, (event) => isTerminal(event) && event.data.turnId === second)

  yield* opened(yield* say("m7", {}))
  yield* until(session, (event) => isTerminal(event) && event.data.turnId === "trn_3")

  yield* opened(yield* say("m8", {}))
  yield* until(session, (event) => isTerminal(event) && event.data.turnId === "trn_4")
})

/** Storage that is away for a while is asked again: a client would. */
export const asked = <A, E, R>(operation: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.catchDefect(operation, () => Effect.andThen(Effect.sleep("50 millis"), asked(operation)))

/** Waits for an event of the session, recorded by whatever process; read over and over, since storage may go away. */
const until = (session: Session, is: (event: TurnEvent) => boolean): Effect.Effect<TurnEvent> =>
  asked(session.events({ after: 0 })).pipe(
    Effect.map((events) => events.find(is)),
    Effect.repeat({ schedule: Schedule.spaced("20 millis"), until: (event) => event !== undefined }),
    Effect.flatMap(Effect.fromNullishOr),
    Effect.orDie
  )
