/**
 * A real session and the processes that may drive it, with everything outside of them at hand.
 *
 * Owns: the processes, who holds the session, and their ends. Does not own: what is done when (`Commands`).
 */
import { Claim } from "@turnstep/core/Claim"
import type { SessionId } from "@turnstep/core/Ids"
import * as Ids from "@turnstep/core/Ids"
import { Journal } from "@turnstep/core/Journal"
import { SessionClaimed } from "@turnstep/core/TurnError"
import type { TurnEvent } from "@turnstep/core/TurnEvent"
import * as CallRoom from "@turnstep/runtime/CallRoom"
import * as Runtime from "@turnstep/runtime/Runtime"
import { type Session, Sessions } from "@turnstep/runtime/Session"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Gates from "./Gates.ts"
import * as Wire from "./Wire.ts"

export interface Process {
  readonly name: string
  readonly session: Session
  readonly wire: Wire.Wire
  /** Stops it as its host would. */
  readonly stop: Effect.Effect<void>
}

/** Who holds the session, and under which fence. */
export interface Holder {
  readonly process: Process
  readonly fence: number
}

export interface Room {
  readonly sessionId: SessionId
  readonly processes: ReadonlyArray<Process>
  readonly gates: Gates.Gates
  readonly log: Effect.Effect<ReadonlyArray<TurnEvent>>
  readonly holder: () => Holder | undefined
  /** Ends the holder's lease, as time would. */
  readonly expire: Effect.Effect<void>
  /** Starts one more process. */
  readonly start: Effect.Effect<void>
  /** Waits until nobody waits for storage. */
  readonly quiet: Effect.Effect<void>
}

/** The storage of one process: in memory all share one, in a database each has its own door. */
export type Storage = Effect.Effect<Context.Context<Journal | Claim>, never, Scope.Scope>

export const make = Effect.fnUntraced(function* (name: string, storage: Storage) {
  const scope = yield* Effect.scope
  const sessionId = yield* Effect.orDie(Schema.decodeEffect(Ids.SessionId)(name))
  const admin = yield* storage
  const processes: Array<Process> = []
  const gates = Gates.make()
  let held: { readonly by: string; readonly claims: Claim["Service"]; readonly fence: number } | undefined
  let started = 0

  /** Claims as a process sees them: as long as the session is held, its holder's lease lasts. */
  const claimsOf = (by: string, claims: Claim["Service"], { through }: Wire.Wire): Claim["Service"] => ({
    acquire: (id) =>
      through(
        Effect.suspend((): ReturnType<Claim["Service"]["acquire"]> => {
          if (held !== undefined && held.by !== by) return Effect.fail(new SessionClaimed({ sessionId: id }))
          return Effect.tap(claims.acquire(id), ({ fence }) =>
            Effect.sync(() => {
              held = { by, claims, fence }
            })
          )
        })
      ),
    release: (id, fence) =>
      through(
        Effect.andThen(
          claims.release(id, fence),
          Effect.sync(() => {
            if (held?.fence === fence) held = undefined
          })
        )
      )
  })

  const start = Effect.gen(function* () {
    const by = `p${++started}`
    const own = yield* storage
    const wire = Wire.make()
    const ports = Context.make(Journal, journalOf(Context.get(own, Journal), wire, sessionId)).pipe(
      Context.add(Claim, claimsOf(by, Context.get(own, Claim), wire))
    )
    const outside = Gates.layer(gates, () => ({ process: by, fence: held?.by === by ? held.fence : 0 }))
    const layer = Layer.provide(Runtime.layer([Gates.agent]), [
      outside,
      Layer.succeedContext(ports),
      Logger.layer([]),
      // A process that died holds its places for ever.
      CallRoom.layer({ atOnce: CallRoom.defaultAtOnce })
    ])
    const life = yield* Scope.make()
    const stop = Effect.suspend(() => (wire.isCut ? Effect.void : Scope.close(life, Exit.void))).pipe(
      Effect.andThen(
        Effect.sync(() => {
          wire.isCut = true
        })
      )
    )
    yield* Scope.addFinalizer(scope, stop)
    const sessions = Context.get(yield* Layer.buildWithScope(Layer.fresh(layer), life), Sessions)
    if (started === 1) yield* Effect.orDie(sessions.open({ id: sessionId }))
    processes.push({ name: by, session: yield* Effect.orDie(sessions.get(sessionId)), wire, stop })
  }).pipe(Effect.provideService(Scope.Scope, scope))

  yield* start
  yield* start
  const room: Room = {
    sessionId,
    processes,
    gates,
    start,
    log: Context.get(admin, Journal).read(sessionId, { after: 0 }),
    holder: () => {
      const process = processes.find((each) => each.name === held?.by)
      return process === undefined || held === undefined ? undefined : { process, fence: held.fence }
    },
    expire: Effect.suspend(() => {
      const lost = held
      held = undefined
      return lost === undefined ? Effect.void : lost.claims.release(sessionId, lost.fence)
    }),
    quiet: Effect.gen(function* () {
      for (let calm = 0; calm < 3; calm++) {
        yield* turnOfTheLoop
        if (processes.some(({ wire }) => wire.underWay > 0)) calm = -1
      }
    })
  }
  return room
})

/** Once around the event loop: a database answers, fibers go on. */
const turnOfTheLoop = Effect.callback<void>((resume) => void setImmediate(() => resume(Effect.void)))

/** The journal of a process, which sees no session but this one. */
const journalOf = (journal: Journal["Service"], { through, write }: Wire.Wire, id: SessionId): Journal["Service"] => ({
  create: (session, data) => through(journal.create(session, data)),
  append: (asked) => write(journal.append(asked)),
  admit: (session, lookup, decide) => through(journal.admit(session, lookup, decide)),
  read: (session, page) => through(journal.read(session, page)),
  resultOf: (session, callId) => through(journal.resultOf(session, callId)),
  heads: (sessions) => through(journal.heads(sessions)),
  summary: (session) => through(journal.summary(session)),
  list: (page) => through(journal.list(page)),
  // Others of the same storage are none of its business, however many they are.
  unattended: (agents) =>
    through(Effect.map(journal.unattended(agents, 1_000_000), (found) => found.filter((each) => each === id)))
})
