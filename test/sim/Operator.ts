/**
 * Whoever runs the processes: one or two of them, each replaced when it is gone.
 *
 * Owns: starting, ending and replacing processes, and what they log. Does not own: the faults that end them (`Faults`).
 *
 * - O1. A process that is told to end does so in a bounded time, whatever its tools do.
 * - O2. A process logs an unexpected error only when its storage failed.
 */
import { CrashPoint } from "@turnstep/core/CrashPoint"
import * as SpillStore from "@turnstep/core/SpillStore"
import type * as Agent from "@turnstep/runtime/Agent"
import * as CallRoom from "@turnstep/runtime/CallRoom"
import * as Runtime from "@turnstep/runtime/Runtime"
import { Sessions } from "@turnstep/runtime/Session"
import * as LanguageModel from "effect/ai/LanguageModel"
import type * as Tool from "effect/ai/Tool"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Scope from "effect/Scope"
import type { Dice } from "./Dice.ts"
import type { Faults } from "./Faults.ts"
import * as SimModel from "./SimModel.ts"
import { type SimStore, StorageAway } from "./SimStore.ts"
import * as SimTools from "./SimTools.ts"
import type { Witness } from "./Witness.ts"
import type { Host, HostDied, World } from "./World.ts"

/** Everything a history is made of. */
export interface Room {
  readonly world: World
  readonly dice: Dice
  readonly faults: Faults
  readonly witness: Witness
  readonly store: SimStore
  /** Large outputs outlive every process, as files do. */
  readonly spills: SpillStore.Service
  readonly agent: Agent.Agent<LanguageModel.LanguageModel | Tool.HandlersFor<typeof SimTools.toolkit.tools>>
}

/** A runtime that answers. */
export interface Process {
  readonly host: Host
  readonly sessions: Sessions["Service"]
  /** Tells it to end. */
  readonly told: Latch.Latch
}

export interface Operator {
  /** A process that is there now, dead ones included when nobody has noticed yet. */
  readonly pick: () => Process | undefined
  readonly shutDown: (host: Host) => void
  /** Keeps so many processes running, for ever. */
  readonly keep: (processes: number) => Effect.Effect<never>
}

/** How long a shutdown may take, in milliseconds: the grace of a tool, a slow store, and a process that was stopped (O1). */
const shutdownBound = 75_000

export const make = (room: Room): Operator => {
  const { dice, world } = room
  const processes: Array<Process> = []
  let started = 0

  const slot = Effect.gen(function* () {
    for (;;) {
      const process = yield* Effect.result(start(room, `p${++started}`))
      if (process._tag === "Success") {
        const { host, scope, told } = process.success
        processes.push(process.success)
        const gone = yield* Effect.raceFirst(
          Effect.as(Effect.ignore(host.call(Effect.never)), "died" as const),
          Effect.as(told.await, "told" as const)
        )
        if (gone === "told") yield* end(room, host, scope)
        processes.splice(processes.indexOf(process.success), 1)
        world.note(`${host.name} ${gone === "died" ? "is found dead" : "has ended"}`)
      }
      yield* Effect.sleep(dice.between(0, 4_000))
    }
  })

  return {
    pick: () => processes[dice.below(processes.length)],
    shutDown: (host) => {
      for (const process of processes) if (process.host === host) process.told.openUnsafe()
    },
    keep: (count) =>
      Effect.andThen(
        Effect.all(
          Array.from({ length: count }, () => slot),
          { concurrency: "unbounded" }
        ),
        Effect.never
      )
  }
}

const start = Effect.fnUntraced(function* (room: Room, name: string) {
  const { agent, faults, store, witness, world } = room
  const host = world.host(name, (host) =>
    Context.make(CrashPoint, (boundary, cut) =>
      Effect.suspend(() =>
        faults.atPlace(boundary, cut) ? Effect.andThen(Effect.sync(host.kill), Effect.never) : Effect.void
      )
    ).pipe(
      // Every process has a room of its own; what died in one takes no place in another.
      Context.add(CallRoom.CallRoom, CallRoom.make(CallRoom.defaultAtOnce)),
      Context.add(Logger.CurrentLoggers, new Set([loggerOf(host, witness, world.note)]))
    )
  )
  const service = { ...room, host, dice: room.dice.fork() }
  const needs = Layer.mergeAll(
    SimTools.handlers(service),
    Layer.effect(LanguageModel.LanguageModel, SimModel.make(service)),
    Layer.succeedContext(store.port(host)),
    Layer.succeed(SpillStore.SpillStore, room.spills)
  )
  const scope = yield* Scope.make()
  const built = Layer.buildWithScope(Layer.provide(Runtime.layer([agent]), needs), scope)
  const sessions = Context.get(yield* host.call(built), Sessions)
  world.note(`${name} is up`)
  return { host, sessions, scope, told: Latch.makeUnsafe(false) }
})

const end = Effect.fnUntraced(function* ({ witness, world }: Room, host: Host, scope: Scope.Closeable) {
  const began = world.now()
  world.note(`${host.name} is told to end`)
  yield* Effect.ignore(host.call(Scope.close(scope, Exit.void)) as Effect.Effect<void, HostDied>)
  const took = world.now() - began
  if (took > shutdownBound) witness.violate(`${host.name} took ${took} ms to end (O1)`)
  host.kill()
})

/** Nothing is written; what must not be said is a broken promise (O2). */
const loggerOf = (host: Host, witness: Witness, note: World["note"]) =>
  Logger.make<unknown, void>(({ cause, logLevel, message }) => {
    const said = Array.isArray(message) ? message : [message]
    const text = String(said[0])
    note(`${host.name} logs ${logLevel}: ${text}`)
    if (logLevel !== "Error" && logLevel !== "Fatal") return
    if (text.startsWith("tool ")) return
    const reasons = [...said.slice(1), ...cause.reasons.map((reason) => ("defect" in reason ? reason.defect : reason))]
    if (reasons.some((reason) => reason instanceof StorageAway)) return
    witness.violate(`${host.name} logs: ${text} ${reasons.map((reason) => detailOf(reason)).join(" ")}`)
  })

const detailOf = (reason: unknown): string =>
  reason instanceof Error ? `${reason.name}: ${reason.message} ${reason.stack?.split("\n")[1] ?? ""}` : String(reason)
