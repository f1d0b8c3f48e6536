/**
 * One store for all processes of a history: a `MemoryStore` behind wires that are slow and break.
 *
 * It keeps the lease that `MemoryStore` has no need of: a claim is taken from an owner that has been silent for its whole
 * lease, and from one that is wrongly taken for dead.
 *
 * Owns: leases, delays, the faults of storage, and what was written by whom under which fence. Does not own: the record
 * itself (`MemoryStore`), or when faults strike (`Faults`).
 *
 * - S1. What an operation does happens at one moment; it can be delayed, refused or left unanswered, never halved.
 * - S2. A write under a fence older than the newest claim is a broken promise.
 * - S3. No session stays owned by a live process that does not drive it: what could not be given back is given back later.
 */
import { Claim } from "@turnstep/core/Claim"
import type { SessionId } from "@turnstep/core/Ids"
import { Journal, type Write } from "@turnstep/core/Journal"
import * as MemoryStore from "@turnstep/core/MemoryStore"
import * as SessionState from "@turnstep/core/SessionState"
import { SessionClaimed } from "@turnstep/core/TurnError"
import type { TurnEvent, Type } from "@turnstep/core/TurnEvent"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { Dice } from "./Dice.ts"
import type { AtStore, Faults } from "./Faults.ts"
import type { Witness } from "./Witness.ts"
import type { Host, World } from "./World.ts"

/** Storage did not answer, or not well. */
export class StorageAway extends Error {
  override readonly name = "StorageAway"
}

/** An owner's lease and how often it is renewed, in milliseconds. */
const lease = 15_000
const renewal = 5_000

/** Who wrote an event; without a fence when it was admitted from outside. */
export interface Author {
  readonly host: string
  readonly fence: number | undefined
}

export interface SimStore {
  readonly sessionId: SessionId
  /** What the store of one process is. */
  readonly port: (host: Host) => Context.Context<Journal | Claim>
  readonly events: ReadonlyArray<TurnEvent>
  readonly eventAt: (seq: number) => TurnEvent | undefined
  /** The authors of the events, in the same order. */
  readonly authors: ReadonlyArray<Author | undefined>
  /** The fold of the events. */
  readonly state: SessionState.SessionState
  /** Whether the process holds the newest claim. */
  readonly isOwner: (host: Host) => boolean
  /** The fence a process got last; 0 when it never had one. */
  readonly fenceOf: (host: Host) => number
  readonly memory: Journal["Service"]
  /** When every process can read again that could not, in milliseconds; 0 when each always could. */
  readonly deafUntil: number
  /** The longest an operation takes, in milliseconds. */
  readonly slowestOperation: number
  /** Takes and gives everything again. */
  readonly heal: () => void
}

export const make = Effect.fnUntraced(function* (options: {
  readonly world: World
  readonly dice: Dice
  readonly faults: Faults
  readonly witness: Witness
  readonly sessionId: SessionId
  /** Somebody outside may act now: an owner is about to write. */
  readonly beforeWrite: () => void
  readonly shutDown: (host: Host) => void
}) {
  const { dice, faults, sessionId, witness, world } = options
  const services = yield* Layer.build(MemoryStore.layer)
  const memory = Context.get(services, Journal)
  const claims = Context.get(services, Claim)
  const latency = dice.pick([0, 0, 0.2, 0.6])
  const slowest = dice.pick([5, 50, 3_000])
  const state = SessionState.make(sessionId)
  const events: Array<TurnEvent> = []
  const authors: Array<Author | undefined> = []
  const fences = new Map<string, number>()
  /** Types that are refused, and until when; until when each process reads nothing. */
  const refusals = new Map<Type, number>()
  const deaf = new Map<string, number>()
  let deafUntil = 0
  const outages = new Map<string, { readonly from: number; readonly until: number }>()
  /** After which event a fence is stale (S2). */
  const claimedAt: Array<{ readonly fence: number; readonly seq: number }> = []
  let owner: { readonly host: Host; readonly fence: number; isTakenForDead: boolean } | undefined

  const catchUp = () => {
    for (const event of now(memory.read(sessionId, { after: state.seq }))) {
      events.push(event)
      if (event.type === "message.added" && event.data.figures !== undefined) {
        if (event.data.figures.finishReason !== "hand-back") witness.answered(state.window)
      }
      try {
        SessionState.apply(state, event)
      } catch (error) {
        witness.violate(`the log does not fold: ${String(error)}`)
        state.seq = event.seq
      }
    }
  }

  const witnessed = (host: Host, fence: number | undefined, written: ReadonlyArray<TurnEvent>) => {
    catchUp()
    for (const event of written) {
      authors[event.seq - 1] = { host: host.name, fence }
      world.note(`${host.name}${fence === undefined ? "" : `/${fence}`} #${event.seq} ${describe(event)}`)
      const newer = claimedAt.find((claim) => fence !== undefined && claim.fence > fence && claim.seq < event.seq)
      if (newer !== undefined) {
        witness.violate(`#${event.seq} was written under fence ${fence} when ${newer.fence} was given out`)
      }
    }
  }

  const isAway = (host: Host): boolean => (outages.get(host.name)?.until ?? 0) > world.now()

  /** Whether the owner has not renewed its lease for too long: it is silent, or the store is away for it. */
  const isExpired = (): boolean => {
    if (owner === undefined || owner.isTakenForDead) return true
    const since = owner.host.silentSince() ?? (isAway(owner.host) ? outages.get(owner.host.name)?.from : undefined)
    return since !== undefined && since + lease <= world.now()
  }

  /** A live process gives back what it may own and does not drive when its lease is renewed next (S3). */
  const giveBackLater = (host: Host, fence: number): void =>
    world.later(renewal, () => {
      if (owner?.fence !== fence || owner.host !== host || host.state() === "dead") return
      if (host.state() === "stopped" || isAway(host)) return giveBackLater(host, fence)
      owner = undefined
      now(claims.release(sessionId, fence))
    })

  const delay = Effect.suspend(() =>
    latency > 0 && dice.chance(latency) ? Effect.sleep(dice.between(0, slowest)) : Effect.void
  )

  const strike = (host: Host, fault: AtStore): Effect.Effect<void> =>
    Effect.suspend(() => {
      switch (fault.kind) {
        case "outage":
          outages.set(host.name, { from: world.now(), until: world.now() + fault.millis })
          return Effect.die(new StorageAway("outage"))
        case "deaf":
          deaf.set(host.name, world.now() + fault.millis)
          deafUntil = Math.max(deafUntil, world.now() + fault.millis)
          return Effect.void
        case "refuse":
          refusals.set(fault.type, world.now() + fault.millis)
          return Effect.void
        case "fail-before":
          return Effect.die(new StorageAway("before"))
        case "stop":
          host.stop()
          witness.stopped.add(host.name)
          world.later(fault.millis, host.resume)
          return Effect.yieldNow
        case "steal":
          if (owner?.host === host) owner.isTakenForDead = true
          return Effect.void
        case "shutdown":
          options.shutDown(host)
          return Effect.void
        default:
          return Effect.void
      }
    })

  const strikeAfter = (host: Host, fault: AtStore): Effect.Effect<void> => {
    if (fault.kind === "fail-after") return Effect.die(new StorageAway("after"))
    if (fault.kind !== "kill-in-store") return Effect.void
    return Effect.andThen(Effect.sync(host.kill), Effect.never)
  }

  /** An operation of a process on its way to the store and back (S1). */
  const through = <A, E>(host: Host, operation: Effect.Effect<A, E>): Effect.Effect<A, E> =>
    Effect.suspend(() => {
      if (isAway(host)) return Effect.die(new StorageAway("outage"))
      const fault = faults.atStore()
      if (fault === undefined) return latency === 0 ? operation : Effect.tap(Effect.andThen(delay, operation), delay)
      return delay.pipe(
        Effect.andThen(strike(host, fault)),
        Effect.andThen(operation),
        Effect.tap(strikeAfter(host, fault))
      )
    })

  const journalOf = (host: Host): Journal["Service"] => ({
    create: (id, data) =>
      through(
        host,
        Effect.tap(memory.create(id, data), (written) => Effect.sync(() => witnessed(host, undefined, written)))
      ),
    append: (write) =>
      through(
        host,
        Effect.suspend(() => {
          options.beforeWrite()
          if (write.facts.some(({ type }) => (refusals.get(type) ?? 0) > world.now())) {
            return Effect.die(new StorageAway("refused"))
          }
          return Effect.tap(memory.append(write), (written) => Effect.sync(() => witnessed(host, write.fence, written)))
        }).pipe(Effect.onError(() => Effect.sync(() => refused(host, write))))
      ),
    admit: (id, lookup, decide) =>
      through(
        host,
        Effect.tap(memory.admit(id, lookup, decide), (admitted) =>
          Effect.sync(() => witnessed(host, undefined, admitted.events))
        )
      ),
    read: (id, page) =>
      through(
        host,
        Effect.suspend(() =>
          (deaf.get(host.name) ?? 0) > world.now() ? Effect.die(new StorageAway("deaf")) : memory.read(id, page)
        )
      ),
    resultOf: (id, callId) => through(host, memory.resultOf(id, callId)),
    heads: (ids) => Effect.suspend(() => (isAway(host) ? Effect.die(new StorageAway("outage")) : memory.heads(ids))),
    summary: memory.summary,
    list: memory.list,
    unattended: (agents, limit) =>
      Effect.suspend(() => {
        if (isAway(host)) return Effect.die(new StorageAway("outage"))
        const expired = owner !== undefined && isExpired() ? claims.release(sessionId, owner.fence) : Effect.void
        return Effect.andThen(expired, memory.unattended(agents, limit))
      })
  })

  const refused = (host: Host, write: Write) =>
    world.note(`${host.name}/${write.fence} refused ${write.facts.map((fact) => fact.type).join(" ")}`)

  const claimOf = (host: Host): Claim["Service"] => ({
    acquire: (id) =>
      through(
        host,
        Effect.suspend(() => {
          if (owner !== undefined && owner.host !== host && !isExpired()) {
            return Effect.fail(new SessionClaimed({ sessionId: id }))
          }
          const wasLeft = owner !== undefined && owner.host !== host
          const taken = Effect.runSyncExit(claims.acquire(id))
          if (taken._tag === "Failure") return taken
          const { fence } = taken.value
          world.note(`${host.name} claims ${fence}${wasLeft ? ", left behind" : ""}`)
          fences.set(host.name, fence)
          owner = { host, fence, isTakenForDead: false }
          claimedAt.push({ fence, seq: now(memory.read(id, { after: 0 })).length })
          return Effect.succeed({ fence, wasLeft, isCurrent: Effect.succeed(true) })
        })
      ).pipe(Effect.onError(() => Effect.sync(() => giveBackLater(host, fences.get(host.name) ?? 0)))),
    release: (id, fence) =>
      through(
        host,
        Effect.sync(() => {
          world.note(`${host.name} gives ${fence} back`)
          now(claims.release(id, fence))
          if (owner?.fence === fence) owner = undefined
        })
      ).pipe(Effect.catchDefect(() => Effect.sync(() => giveBackLater(host, fence))))
  })

  const store: SimStore = {
    sessionId,
    port: (host) => Context.make(Journal, journalOf(host)).pipe(Context.add(Claim, claimOf(host))),
    // A process may die between its write and the moment it is witnessed: what is in the record has happened.
    get events() {
      catchUp()
      return events
    },
    eventAt: (seq) => {
      if (seq > events.length) catchUp()
      return events[seq - 1]
    },
    authors,
    get state() {
      catchUp()
      return state
    },
    isOwner: (host) => owner?.host === host && owner.fence === fences.get(host.name),
    fenceOf: (host) => fences.get(host.name) ?? 0,
    memory,
    get deafUntil() {
      return deafUntil
    },
    slowestOperation: latency === 0 ? 0 : 2 * slowest,
    heal: () => {
      refusals.clear()
      deaf.clear()
    }
  }
  return store
})

/** What the memory store does happens at once. */
const now = <A>(operation: Effect.Effect<A>): A => Effect.runSync(operation)

const describe = (event: TurnEvent): string => {
  const { data } = event
  const what = "callId" in data ? data.callId : "itemId" in data ? data.itemId : "turnId" in data ? data.turnId : ""
  return `${event.type} ${what}${"step" in data ? `:${data.step}` : ""}`
}
