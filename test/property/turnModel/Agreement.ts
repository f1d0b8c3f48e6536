/**
 * Whether a real session looks like its model, now that nothing moves.
 *
 * Owns: the comparison. Does not own: what the model says (`Model`), or the rules every log keeps (`LogRules`).
 */
import { assert } from "@effect/vitest"
import * as SessionView from "@turnstep/core/SessionView"
import { isTerminal, type TurnEvent } from "@turnstep/core/TurnEvent"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import { TestClock } from "effect/testing"
import * as LogRules from "../../sim/LogRules.ts"
import type * as Gates from "./Gates.ts"
import type * as Model from "./Model.ts"
import type { Process, Room } from "./Room.ts"

/** Somebody who watches, and comes back after the last event seen. */
export interface Watcher {
  readonly seen: Array<TurnEvent>
  process: Process | undefined
  fiber: Fiber.Fiber<unknown, unknown> | undefined
}

/** The real session, and how effects are run on it. */
export interface Real {
  readonly room: Room
  readonly watcher: Watcher
  readonly run: <A>(effect: Effect.Effect<A>) => Promise<A>
}

/** Half a second passes, so many times: four of them are a sweep. */
export const pass = ({ quiet }: Room, times: number): Effect.Effect<void> =>
  Effect.asVoid(Effect.repeat(Effect.andThen(TestClock.adjust("500 millis"), quiet), { times: times - 1 }))

/** How long a session may take to look like its model: half a minute of its time, many sweeps. */
const patience = 60

/** Waits until the session looks like the model. */
export const reach = Effect.fnUntraced(function* (model: Model.Model, { room, watcher }: Real) {
  const expected = expectedOf(model)
  for (let tries = 0; ; tries++) {
    yield* room.quiet
    const events = yield* room.log
    const seen = seenOf(events, room, model)
    const isWatched = watcher.process !== undefined && !watcher.process.wire.isCut
    const isSame = same(seen, expected) && (!isWatched || same(watcher.seen, events))
    if (!isSame && tries < patience) {
      yield* pass(room, 1)
      continue
    }
    assert.deepStrictEqual(seen, expected)
    if (isWatched) assert.deepStrictEqual(watcher.seen, events, "what was watched is the log")
    const broken: Array<string> = []
    LogRules.read(room.sessionId, events, (what) => broken.push(what))
    assert.deepStrictEqual(broken, [])
    for (const [call, count] of room.gates.counts) assert.strictEqual(count, 1, `${call} ran once`)
    assert.deepStrictEqual(room.gates.refused, [], "what a provider refuses")
    return
  }
})

/** Whether it waits for the process that holds the session. */
export const isHolders = (room: Room, gate: Pick<Gates.Run, "process" | "fence">): boolean => {
  const holder = room.holder()
  return holder?.process.name === gate.process && holder.fence === gate.fence
}

/** Whether it waits for a process that lives and has lost the session. */
export const isZombies = (room: Room, gate: Pick<Gates.Run, "process" | "fence" | "isWaiting">): boolean =>
  gate.isWaiting &&
  !isHolders(room, gate) &&
  room.processes.some(({ name, wire }) => name === gate.process && !wire.isCut)

/** The places of the open calls. */
export const openCalls = (open: Model.Open | undefined): ReadonlyArray<number> =>
  (open?.calls ?? []).flatMap((each, index) => (each.state === "open" ? [index] : []))

const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b)

const expectedOf = ({ ends, isAttended, items, open, said }: Model.Model) => ({
  items: items.map(({ delivery, state, steers }) => ({
    state,
    delivery,
    steers: state === "waiting" && steers !== undefined ? `trn_${steers}` : undefined
  })),
  ends,
  open:
    open === undefined
      ? undefined
      : {
          step: open.step,
          isHandBack: open.isHandBack,
          isCancelling: open.isCancelling,
          calls: open.calls?.map(({ attempts, state }) => ({ attempts, state }))
        },
  asked: isAttended && open !== undefined && open.calls === undefined ? [said] : [],
  running: isAttended ? openCalls(open).length : 0
})

const seenOf = (
  events: ReadonlyArray<TurnEvent>,
  room: Room,
  { isAttended, said }: Model.Model
): ReturnType<typeof expectedOf> => {
  const { requests, runs } = room.gates
  const open = SessionView.turns(events).find(({ state }) => state === "running" || state === "cancelling")
  const step = events.findLast((event) => event.type === "step.started")
  const isAnswered = events.some(
    (event) => event.seq > (step?.seq ?? 0) && event.type === "message.added" && event.data.role === "assistant"
  )
  const calls = SessionView.calls(events).filter((each) => each.turnId === open?.id && each.step === step?.data.step)
  const waiting = requests.filter((request) => request.isWaiting && isHolders(room, request))
  return {
    items: SessionView.inbox(events).map(({ delivery, state, turnId }) => ({
      state,
      delivery,
      steers: state === "waiting" ? turnId : undefined
    })),
    ends: events.flatMap((event) => (isTerminal(event) ? [event.type.slice("turn.".length) as Model.Ending] : [])),
    open:
      open === undefined || step === undefined
        ? undefined
        : {
            step: step.data.step,
            isHandBack: step.data.kind === "hand-back",
            isCancelling: open.state === "cancelling",
            calls: isAnswered ? calls.map(({ attempts, state }) => ({ attempts, state: stateOf(state) })) : undefined
          },
    // Behind the messages, a request for the hand-back has a question of the runtime's.
    asked: isAttended ? waiting.map((request) => request.said.slice(0, said.length)) : [],
    running: isAttended ? runs.filter((run) => run.isWaiting && isHolders(room, run)).length : 0
  }
}

const stateOf = (state: SessionView.CallState): Model.Call["state"] =>
  state === "completed" || state === "receipted" ? state : "open"
