/**
 * What can be done to a session, each to the model and to the real one, which must then look the same.
 *
 * Owns: the commands. Does not own: what follows from them (`Model`), or the comparison (`Agreement`).
 */
import { assert } from "@effect/vitest"
import * as Ids from "@turnstep/core/Ids"
import type { EffectClass } from "@turnstep/core/ToolPolicy"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import * as fc from "fast-check"
import * as Agreement from "./Agreement.ts"
import * as Model from "./Model.ts"
import type { Process, Room } from "./Room.ts"

type Real = Agreement.Real
export type Command = fc.AsyncCommand<Model.Model, Real>

const command = (
  name: string,
  check: (model: Model.Model) => boolean,
  run: (model: Model.Model, real: Real) => Effect.Effect<void>
): Command => ({
  check,
  run: (model, real) => real.run(Effect.andThen(run(model, real), Agreement.reach(model, real))),
  toString: () => name
})

/** A process that answers. */
const alive = ({ processes }: Room, choice: number): Process => {
  const living = processes.filter(({ wire }) => !wire.isCut)
  const process = living[choice % living.length]
  if (process === undefined) throw new Error("no process is left")
  return process
}

const outcome = <A, E extends { readonly _tag: string }>(effect: Effect.Effect<A, E>): Effect.Effect<A | string> =>
  Effect.map(Effect.result(effect), (result) => (Result.isSuccess(result) ? result.success : result.failure._tag))

/** Asks a process for something. Who holds the session hears of it at once, or with the next sweep. */
const ask = <A, E extends { readonly _tag: string }>(
  { room }: Real,
  choice: number,
  what: (session: Process["session"]) => Effect.Effect<A, E>
): Effect.Effect<A | string> =>
  Effect.suspend(() => {
    const process = alive(room, choice)
    const isHeard = room.holder()?.process === process
    return Effect.tap(outcome(what(process.session)), isHeard ? Effect.void : Agreement.pass(room, 5))
  })

/** What a sender is told, in short. */
const toldOf = (told: Model.Told | string): string =>
  typeof told === "string" ? told : `${told.delivery} ${told.effect} ${told.turn}`

const deliver = (real: Real, choice: number, message: Pick<Model.Item, "text" | "key" | "ifNotApplied" | "asked">) =>
  Effect.map(
    ask(real, choice, (session) =>
      session.send(message.text, {
        delivery: message.asked,
        ifNotApplied: message.ifNotApplied,
        clientKey: message.key
      })
    ),
    (told) =>
      typeof told === "string"
        ? told
        : toldOf({ ...told, turn: told.turnId === undefined ? undefined : Ids.numberOf(told.turnId) })
  )

const send = fc
  .record({
    asked: fc.constantFrom("auto", "start", "steer", "follow-up"),
    ifNotApplied: fc.constantFrom("follow-up", "return"),
    process: fc.nat(3)
  })
  .map(({ asked, ifNotApplied, process }) =>
    command(
      `send ${asked} ${ifNotApplied} by ${process}`,
      () => true,
      (model, real) =>
        Effect.gen(function* () {
          const number = model.items.length + 1
          const message = { text: `m${number}`, key: `k${number}`, asked, ifNotApplied } as const
          const told = Model.send(model, message)
          assert.strictEqual(yield* deliver(real, process, message), toldOf(told))
        })
    )
  )

/** Any message so far, and often one that waits. */
const about = (
  name: string,
  run: (model: Model.Model, real: Real, item: Model.Item, id: string, process: number) => Effect.Effect<void>
) =>
  fc.tuple(fc.nat(20), fc.nat(3)).map(([choice, process]) =>
    command(
      `${name} ${choice} by ${process}`,
      (model) => model.items.length > 0,
      (model, real) => {
        const waiting = Model.waiting(model)
        const from = choice % 2 === 0 && waiting.length > 0 ? waiting : model.items
        const item = from[choice % from.length]
        if (item === undefined) return Effect.void
        return run(model, real, item, Ids.itemId(model.items.indexOf(item) + 1), process)
      }
    )
  )

const sendAgain = about("send again", (_, real, item, __, process) =>
  Effect.map(deliver(real, process, item), (told) => assert.strictEqual(told, toldOf(item.told)))
)

const reuseKey = about("reuse the key of", (_, real, item, __, process) =>
  Effect.map(deliver(real, process, { ...item, text: "another" }), (told) =>
    assert.strictEqual(told, "ClientKeyReused")
  )
)

const withdraw = about("withdraw", (model, real, item, id, process) =>
  Effect.map(
    ask(real, process, (session) => session.withdraw(id)),
    (told) => assert.strictEqual(told, Model.withdraw(model, item))
  )
)

const move = fc.constantFrom("steer", "follow-up").chain((to) =>
  about(`move to ${to}`, (model, real, item, id, process) =>
    Effect.map(
      ask(real, process, (session) => session.move(id, to)),
      (told) => assert.strictEqual(told, Model.move(model, item, to) ?? to)
    )
  )
)

const cancel = fc.nat(3).map((process) =>
  command(
    `cancel by ${process}`,
    ({ open }) => open !== undefined,
    (model, real) =>
      Effect.gen(function* () {
        const turnId = Ids.turnId(model.ends.length + 1)
        Model.cancel(model)
        const told = yield* ask(real, process, (session) => session.cancel(turnId))
        assert.deepStrictEqual(told, { turnId, state: "cancelling" })
      })
  )
)

/** What becomes of the owner when it writes down what it was just told: it may die over the write, or before it hears of it. */
type Fate = "lives" | "dies before its write" | "dies after its write"
const fates = fc.oneof(
  { weight: 6, arbitrary: fc.constant<Fate>("lives") },
  { weight: 1, arbitrary: fc.constantFrom<Fate>("dies before its write", "dies after its write") }
)

const meet = ({ holder }: Room, fate: Fate): void => {
  const process = holder()?.process
  if (process !== undefined && fate !== "lives") {
    process.wire.cutAt = fate === "dies before its write" ? "before" : "after"
  }
}

/** The provider answers whoever holds the session. */
const answer = (model: Model.Model, { room }: Real, said: Model.Reply, fate: Fate): Effect.Effect<void> =>
  Effect.suspend(() => {
    if (fate !== "lives") Model.lose(model)
    if (fate !== "dies before its write") Model.answer(model, said)
    meet(room, fate)
    const asked = room.gates.requests.findLast((each) => each.isWaiting && Agreement.isHolders(room, each))
    if (asked === undefined) return assert.fail("the model is not asked")
    return Effect.asVoid(Deferred.succeed(asked.open, said))
  })

/** A tool answers whoever holds the session. */
const finish = (model: Model.Model, { room }: Real, choice: number, fate: Fate): Effect.Effect<void> =>
  Effect.suspend(() => {
    const open = Agreement.openCalls(model.open)
    const index = open[choice % open.length] ?? 0
    const id = Ids.callId(model.ends.length + 1, model.open?.step ?? 0, index)
    if (fate !== "dies before its write") Model.finish(model, index)
    if (fate !== "lives") Model.lose(model)
    meet(room, fate)
    const run = room.gates.runs.findLast(
      (each) => each.call === id && each.isWaiting && Agreement.isHolders(room, each)
    )
    if (run === undefined) return assert.fail(`${id} does not run`)
    return Effect.asVoid(Deferred.succeed(run.open, undefined))
  })

/** The lease of a dead owner runs out. */
const takeOver = (model: Model.Model, { room }: Real): Effect.Effect<void> => {
  Model.takeOver(model)
  return Effect.andThen(room.expire, room.start)
}

const calls = fc
  .array(fc.constantFrom<EffectClass>("pure", "idempotent", "queryable", "once"), { minLength: 1, maxLength: 3 })
  .map((effects): Model.Reply => ({ type: "call", effects }))
const replies = fc.oneof(
  { weight: 4, arbitrary: calls },
  { weight: 1, arbitrary: fc.constantFrom<Model.Reply>({ type: "answer" }, { type: "refuse" }) }
)

/** Whatever is waited for comes: a new owner, an answer of the model, a tool's result. */
const goOn = fc.record({ said: replies, choice: fc.nat(2), fate: fates }).map(({ choice, fate, said }) =>
  command(
    `go on (${said.type === "call" ? said.effects.join() : said.type}, ${choice}), the owner ${fate}`,
    ({ isAttended, open }) => !isAttended || open !== undefined,
    (model, real) =>
      !model.isAttended
        ? takeOver(model, real)
        : model.open?.calls !== undefined
          ? finish(model, real, choice, fate)
          : answer(model, real, model.open?.isHandBack === true ? { type: "answer" } : said, fate)
  )
)

const crash = fc.constant(
  command(
    "the owner dies",
    ({ isAttended }) => isAttended,
    (model, { room }) =>
      Effect.sync(() => {
        const holder = room.holder()
        if (holder === undefined) return
        holder.process.wire.isCut = true
        Model.lose(model)
      })
  )
)

/** Nobody takes over from a former owner that still runs its Turn: it has to learn first that it is one. */
const isFree = (room: Room): boolean =>
  room.holder() !== undefined &&
  ![...room.gates.requests, ...room.gates.runs].some((gate) => Agreement.isZombies(room, gate))

const steal = fc.constant(
  command(
    "the owner is taken for dead",
    ({ isAttended }) => isAttended,
    (model, { room }) =>
      Effect.suspend(() => {
        if (!isFree(room)) return Effect.void
        Model.takeOver(model)
        return room.expire
      })
  )
)

const stop = fc.constant(
  command(
    "the owner is told to stop",
    ({ isAttended }) => isAttended,
    (model, { room }) =>
      Effect.suspend(() => {
        const holder = room.holder()
        if (holder === undefined || !isFree(room)) return Effect.void
        Model.takeOver(model)
        return Effect.andThen(room.start, holder.process.stop)
      })
  )
)

/** Former owners go on: all they write is refused. */
const zombies = fc.constant(
  command(
    "zombies write",
    () => true,
    (_, { room }) =>
      Effect.suspend(() => {
        if (room.holder() === undefined) return Effect.void
        for (const gate of room.gates.requests) {
          if (Agreement.isZombies(room, gate)) Deferred.doneUnsafe(gate.open, Effect.succeed({ type: "answer" }))
        }
        for (const gate of room.gates.runs) {
          if (Agreement.isZombies(room, gate)) Deferred.doneUnsafe(gate.open, Effect.void)
        }
        return Agreement.pass(room, 5)
      })
  )
)

/** Somebody watches a process; the connection before is gone, and with it the last events that came. */
const reconnect = fc.tuple(fc.nat(3), fc.nat(3)).map(([choice, lost]) =>
  command(
    `reconnect by ${choice}, ${lost} events lost`,
    () => true,
    (_, { room, watcher }) =>
      Effect.gen(function* () {
        if (watcher.fiber !== undefined) yield* Fiber.interrupt(watcher.fiber)
        const { seen } = watcher
        seen.length = Math.max(0, seen.length - lost)
        watcher.process = alive(room, choice)
        watcher.fiber = yield* watcher.process.session.watch(seen.length).pipe(
          Stream.runForEach((each) =>
            Effect.sync(() => {
              if (each._tag === "Event") seen.push(each.event)
            })
          ),
          Effect.forkDetach
        )
      })
  )
)

/** Half of what happens is that things go on. */
export const all: ReadonlyArray<fc.Arbitrary<Command>> = [
  ...Array.from({ length: 14 }, () => goOn),
  send,
  send,
  send,
  sendAgain,
  reuseKey,
  withdraw,
  move,
  move,
  move,
  cancel,
  crash,
  steal,
  stop,
  zombies,
  reconnect
]
