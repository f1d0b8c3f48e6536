/**
 * One tool of each effect class, and the services behind them, which outlive every process.
 *
 * Owns: what the tools do and what the services remember. Does not own: which calls are made (`SimModel`).
 *
 * - T1. A service counts what it is asked, by call key; nothing that happens to a process makes it forget.
 * - T2. A call that may have effects starts when its start is in the log, and is not answered there yet.
 */
import * as SpillStore from "@turnstep/core/SpillStore"
import type { EffectClass } from "@turnstep/core/ToolPolicy"
import * as ToolPolicy from "@turnstep/core/ToolPolicy"
import * as ToolCall from "@turnstep/runtime/ToolCall"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { Dice } from "./Dice.ts"
import type { SimStore } from "./SimStore.ts"
import type { Witness } from "./Witness.ts"
import type { Host, World } from "./World.ts"

/** How long a call may take. */
const timeout = Duration.seconds(60)

const tool = <const Name extends string>(name: Name, effects: EffectClass) =>
  Tool.make(name, { parameters: Schema.Struct({ n: Schema.Int }), success: Schema.String, failure: Schema.String })
    .annotate(ToolPolicy.Effects, effects)
    .annotate(ToolPolicy.Timeout, timeout)

export const toolkit = Toolkit.make(
  tool("look", "pure"),
  tool("put", "idempotent"),
  // Nobody can tell here: what can be asked and tells is tried in `test/runtime/engine/Query`.
  tool("order", "queryable").annotate(ToolPolicy.Query, () => Effect.succeedNone),
  tool("charge", "once")
)

/** Names of the tools. */
export const names = ["look", "put", "order", "charge"] as const

/** The argument of a call that is answered with the same words every time. */
export const stale = 5

/** What any other call is answered when all goes well. */
export const resultOf = (callKey: string): string => `done ${callKey}`

/** Whether a call gives more than the log holds: a few in a hundred, the same ones every time they run. */
const isLarge = (n: number, callKey: string): boolean => n === 3 && callKey.endsWith("_1_0")

/** The handlers in one process. */
export const handlers = (options: {
  readonly world: World
  readonly dice: Dice
  readonly store: SimStore
  readonly witness: Witness
  readonly host: Host
}) => {
  const { dice, host, store, witness, world } = options

  const begin = (key: string, effects: EffectClass): void => {
    // A pure call of a response that was then not accepted may have run under this key; it is another call.
    const name = `${key} ${effects}`
    const runs = witness.toolRuns.get(name) ?? { effects, starts: 0, finished: undefined }
    witness.toolRuns.set(name, runs)
    runs.starts++
    world.note(`${host.name} runs ${key} (${effects}, ${runs.starts})`)
    if (runs.starts > 1 && (effects === "once" || effects === "queryable")) {
      witness.violate(`${key} (${effects}) was started ${runs.starts} times`)
    }
    if (!store.isOwner(host)) return // a zombie: what it may still do is counted above (T1)
    const call = store.state.turn?.ledger.calls.find(({ callId }) => `${store.sessionId}/${callId}` === key)
    if (call?.answer !== undefined) witness.violate(`${key} is started and was answered before (T2)`)
    if (effects !== "pure" && (call === undefined || call.attempt === 0)) {
      witness.violate(`${key} (${effects}) is started before that is recorded (T2)`)
    }
  }

  const work = (effects: EffectClass) =>
    Effect.fnUntraced(function* ({ n }: { readonly n: number }, context: Toolkit.HandlerContext<Tool.Any>) {
      const key = context.toolCallId ?? "no key"
      begin(key, effects)
      const duration = dice.weighted({ none: 6, short: 4, long: 1, over: 0.3 })
      const millis =
        duration === "none" ? 0 : duration === "short" ? dice.between(1, 2_000) : dice.between(5_000, 40_000)
      const wait = Effect.sleep(duration === "over" ? 90_000 : millis)
      if (dice.chance(0.1)) yield* context.preliminary(`${n} is coming`)
      const way = dice.weighted({ stops: 7, "goes on": 1, commits: 2 })
      const finish = (isCommitted: boolean) =>
        Effect.sync(() => {
          const runs = witness.toolRuns.get(`${key} ${effects}`)
          if (runs !== undefined) {
            runs.finished = { host: host.name, fence: store.fenceOf(host), at: world.now(), isCommitted }
          }
          if (isLarge(n, key)) return resultOf(key).padEnd(SpillStore.threshold + 1, ".")
          return n === stale ? "nothing new" : resultOf(key)
        })
      if (way === "commits") return yield* ToolCall.commit(Effect.andThen(wait, finish(true)))
      if (millis > 0) yield* way === "goes on" ? Effect.uninterruptible(wait) : wait
      const ending = dice.weighted({ answers: 12, fails: 1, throws: 1, stops: 0.3 })
      if (ending === "throws") return yield* Effect.die(new Error("the tool is broken"))
      if (ending === "fails") return yield* Effect.fail(`no ${key}`)
      if (ending === "stops") return yield* Effect.interrupt
      return yield* finish(false)
    })

  return toolkit.toLayer({
    look: work("pure"),
    put: work("idempotent"),
    order: work("queryable"),
    charge: work("once")
  })
}
