/**
 * The room a process has for running tools: how many at once, and which of those left behind still run.
 *
 * Owns: the places of running calls, and what is known of a tool that did not stop. Does not own: the order of the calls of a
 * batch (`core/Start`), or how a tool is stopped (`ToolStop`).
 *
 * - R1. Nobody waits for ever: a place that is given back goes to whoever waits longest, and where none is given back for
 *   `patience` one more call is let in. So calls that wait for each other (a tool that runs a Turn of another session, whose
 *   calls need places as well) are slowed down and never stuck.
 * - R2. Who holds a place waits for nothing of the runtime: the exclusive key is held before the place is asked for, the
 *   record of the start is written before, and the result is recorded after it was given back. No cycle can form.
 * - R3. A tool that was left behind gives its place back, since it may never end; it keeps its key and its likeness (the same
 *   tool with the same arguments) until it ends, for `longestLeft` at the most.
 */
import type * as Call from "@turnstep/core/Call"
import type { SessionId } from "@turnstep/core/Ids"
import type * as Start from "@turnstep/core/Start"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"

/** How long nothing may move before one more call is let in (R1). */
export const patience = Duration.seconds(5)

/** How long a tool that was left behind holds up calls like its own, should it never end (R3). */
export const longestLeft = Duration.minutes(10)

/** What a tool that was left behind was called for. */
interface Left {
  readonly call: Pick<Call.Call, "callId" | "name" | "argsDigest">
  readonly key: string | undefined
  /** Milliseconds since the epoch. */
  readonly since: number
}

export interface CallRoom {
  /** Calls that run at once, R1 aside. */
  readonly atOnce: number
  /** Runs something in a place of its own. */
  readonly hold: <A, E, R>(work: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /** Remembers a tool that was left behind, until its fiber ends (R3). */
  readonly leave: (
    sessionId: SessionId,
    call: Left["call"],
    key: string | undefined,
    fiber: Fiber.Fiber<unknown, unknown>
  ) => Effect.Effect<void>
  /** Says why a call must wait for one that was left behind, in words for the model (R3). `now`: milliseconds since the epoch. */
  readonly refusalOf: (
    sessionId: SessionId,
    call: Start.Waiting,
    key: string | undefined,
    now: number
  ) => string | undefined
}

type Restore = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>

/** A room with so many places. */
export const make = (atOnce: number): CallRoom => {
  const waiting: Array<Deferred.Deferred<void>> = []
  const left = new Map<SessionId, Set<Left>>()
  let running = 0
  let moves = 0

  /** Takes a place, or waits for one where `restore` lets it be interrupted. */
  const enter = (restore: Restore): Effect.Effect<void> =>
    Effect.suspend(() => {
      if (running < atOnce && waiting.length === 0) {
        running++
        return Effect.void
      }
      const turn = Deferred.makeUnsafe<void>()
      waiting.push(turn)
      return admitted(turn, restore)
    })

  const admitted = (turn: Deferred.Deferred<void>, restore: Restore): Effect.Effect<void> =>
    Effect.suspend(() => {
      const seen = moves
      return restore(Effect.timeoutOption(Deferred.await(turn), patience)).pipe(
        // A place may be given to it in the moment it leaves.
        Effect.onInterrupt(() => Effect.suspend(() => (withdraw(turn) ? Effect.void : exit))),
        Effect.flatMap((isIn) => {
          if (Option.isSome(isIn)) return Effect.void
          if (moves !== seen || waiting[0] !== turn) return admitted(turn, restore)
          waiting.shift()
          running++
          moves++
          return Effect.void
        })
      )
    })

  const withdraw = (turn: Deferred.Deferred<void>): boolean => {
    const at = waiting.indexOf(turn)
    if (at >= 0) waiting.splice(at, 1)
    return at >= 0
  }

  const exit = Effect.suspend(() => {
    running--
    moves++
    const next = running < atOnce ? waiting.shift() : undefined
    if (next === undefined) return Effect.void
    running++
    return Effect.asVoid(Deferred.succeed(next, undefined))
  })

  return {
    atOnce,
    hold: (work) =>
      Effect.uninterruptibleMask((restore) => Effect.andThen(enter(restore), Effect.ensuring(restore(work), exit))),
    leave: (sessionId, call, key, fiber) =>
      Effect.map(Clock.currentTimeMillis, (since) => {
        const entry: Left = { call, key, since }
        const all = left.get(sessionId) ?? new Set()
        left.set(sessionId, all.add(entry))
        fiber.addObserver(() => {
          all.delete(entry)
          if (all.size === 0 && left.get(sessionId) === all) left.delete(sessionId)
        })
      }),
    refusalOf: (sessionId, { argsDigest, effects, name }, key, now) => {
      for (const { call, key: held, since } of left.get(sessionId) ?? []) {
        if (now - since >= Duration.toMillis(longestLeft)) continue
        const isAlike = effects !== "pure" && call.name === name && call.argsDigest === argsDigest
        if (!isAlike && (key === undefined || key !== held)) continue
        return (
          `This call was not executed: the call ${call.callId} of ${call.name} was stopped, did not end, and may still be running. ` +
          `To run ${name} now could do its work twice. Find out first whether it took effect, or go on with something else.`
        )
      }
      return undefined
    }
  }
}

/** The room of this process. Default: sixteen places, shared by all runtimes in it. */
export const CallRoom = Context.Reference<CallRoom>("runtime/CallRoom", { defaultValue: () => make(defaultAtOnce) })

/** Places unless the application says otherwise. */
export const defaultAtOnce = 16

/** A room of its own for a runtime: at least one place. */
export const layer = (options: { readonly atOnce: number }): Layer.Layer<never> =>
  Layer.sync(CallRoom, () => make(Math.max(1, Math.floor(options.atOnce))))
