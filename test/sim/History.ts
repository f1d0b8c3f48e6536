/**
 * One history: a session with everything that happens to it, from a seed.
 *
 * Owns: what a history is made of, and when it is over. Does not own: what must hold of it (`Invariants`).
 *
 * - H1. The same seed gives the same history, to the order of every fiber.
 * - H2. A history of the *safety* kind is broken off at any moment; faults may strike to the last one.
 * - H3. A history of the *liveness* kind goes on when the last fault has struck, and must come to rest: as long as there
 *   is work, the log grows within `patience`.
 */
import * as SpillStore from "@turnstep/core/SpillStore"
import * as SessionState from "@turnstep/core/SessionState"
import * as Ids from "@turnstep/core/Ids"
import * as Agent from "@turnstep/runtime/Agent"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import type { Dice } from "./Dice.ts"
import * as Faults from "./Faults.ts"
import * as Invariants from "./Invariants.ts"
import * as Operator from "./Operator.ts"
import * as SimClients from "./SimClients.ts"
import * as SimStore from "./SimStore.ts"
import * as SimTools from "./SimTools.ts"
import * as SimWatcher from "./SimWatcher.ts"
import * as Witness from "./Witness.ts"
import * as World from "./World.ts"

export type Kind = "safety" | "liveness"

export interface Report {
  readonly seed: number
  readonly kind: Kind
  /** Broken promises; none in a good history. */
  readonly violations: ReadonlyArray<string>
  readonly trace: ReadonlyArray<string>
  readonly figures: Figures
  /** What happened at least once: types of events, kinds of faults, places of crashes. */
  readonly seen: ReadonlySet<string>
}

/** How much happened. */
export interface Figures {
  readonly turns: number
  readonly events: number
  readonly calls: number
  readonly faults: number
  /** Virtual milliseconds. */
  readonly millis: number
}

const sessionId = Schema.decodeSync(Ids.SessionId)("sim")

/**
 * How long a session with work may go without a new event, in milliseconds: the longest that one is left alone whose writes
 * storage refused, and then a tool's minute, a lease, a sweep (H3).
 */
const patience = 420_000

/** Tasks after which a world is called busy: a history has some thousand. */
const taskLimit = 30_000

/** Three of ten histories are broken off (H2, H3). */
export const kindOf = (seed: number): Kind => (seed % 10 < 3 ? "safety" : "liveness")

export const run = (seed: number): Report => {
  const world = World.make(seed)
  const { dice } = world
  const witness = Witness.make(world.note)
  const faults = Faults.draw(world, dice.fork(), seed)
  const kind = kindOf(seed)
  let store: SimStore.SimStore | undefined
  const rest = world.run(
    // The scope is never closed: a history ends where it stands (H2).
    Effect.provideService(
      Effect.gen(function* () {
        let operator: Operator.Operator | undefined
        let nudge = Latch.makeUnsafe(false)
        store = yield* SimStore.make({
          world,
          dice: dice.fork(),
          faults,
          witness,
          sessionId,
          beforeWrite: () => {
            if (!dice.chance(0.15)) return
            nudge.openUnsafe()
            nudge = Latch.makeUnsafe(false)
          },
          shutDown: (host) => operator?.shutDown(host)
        })
        const spills = SpillStore.makeMemory({ quota: Infinity })
        const room: Operator.Room = { world, dice, faults, witness, store, spills, agent: agentOf(dice) }
        const keeper = (operator = Operator.make(room))
        yield* Effect.forkScoped(keeper.keep(dice.weighted({ one: 3, two: 2 }) === "one" ? 1 : 2))
        yield* SimClients.open(room, keeper)
        const watchers = Array.from({ length: Number(dice.weighted({ 0: 1, 1: 3, 2: 2 })) }, (_, n) =>
          SimWatcher.make(room, keeper, `w${n}`)
        )
        for (const watcher of watchers) yield* Effect.forkScoped(watcher.watch)
        const acts = SimClients.act(
          room,
          keeper,
          Effect.suspend(() => nudge.await)
        )
        if (kind === "safety") {
          yield* Effect.forkScoped(acts)
          return yield* Effect.sleep(dice.between(1, dice.pick([2_000, 20_000, 90_000])))
        }
        yield* acts
        faults.end()
        store.heal()
        yield* comeToRest(room)
      }),
      Scope.Scope,
      Scope.makeUnsafe()
    ),
    taskLimit
  )
  if (rest._tag !== "Ended") witness.violate(`the world does not come to its end: ${rest._tag}`)
  else if (rest.exit._tag === "Failure") witness.violate(`the history itself failed: ${String(rest.exit.cause)}`)
  if (store !== undefined) Invariants.judge(store, witness, faults.kinds(), world.now(), kind === "liveness")
  return {
    seed,
    kind,
    violations: witness.violations,
    trace: world.trace(),
    figures: {
      turns: store?.state.turns ?? 0,
      events: store?.events.length ?? 0,
      calls: witness.toolRuns.size,
      faults: faults.struck(),
      millis: world.now()
    },
    seen: new Set([...(store?.events.map((event) => event.type) ?? []), ...faults.seen()])
  }
}

/** Waits until nothing is left to do (H3). */
const comeToRest = Effect.fnUntraced(function* ({ store, witness, world }: Operator.Room) {
  let seq = store.state.seq
  let since = world.now()
  for (;;) {
    if (store.state.seq !== seq) {
      seq = store.state.seq
      since = world.now()
    }
    if (!SessionState.hasWork(store.state) && store.state.status === "idle") return
    if (world.now() - since > patience)
      return witness.violate(`nothing has happened for ${patience} ms, and there is work (H3)`)
    yield* Effect.sleep(2_000)
  }
})

const agentOf = (dice: Dice): Operator.Room["agent"] => {
  const isSlow = dice.chance(0.3)
  const maxTokens = dice.chance(0.1) ? { maxTokens: dice.between(1, 80) } : {}
  const maxDuration = dice.chance(0.1) ? { maxDuration: Duration.millis(dice.between(100, 60_000)) } : {}
  return Agent.make("sim", {
    instructions: Effect.suspend(() =>
      isSlow && dice.chance(0.5)
        ? Effect.as(Effect.sleep(dice.between(1, 2_000)), "be useful")
        : Effect.succeed("be useful")
    ),
    toolkit: SimTools.toolkit,
    policy: { maxSteps: Number(dice.weighted({ 1: 2, 2: 3, 3: 3, 5: 3, 8: 9 })), ...maxTokens, ...maxDuration }
  })
}
