/**
 * The people outside: they send, steer, move, withdraw, cancel and give up, at moments of chance, through any process.
 *
 * Owns: what is asked and what the asker was told. Does not own: what must follow from it (`Invariants`).
 *
 * - C1. A message with a key is delivered until it is answered, sometimes twice at once; all answers are the same.
 * - C2. What was acknowledged is remembered by the witness.
 */
import type { ItemId } from "@turnstep/core/Ids"
import type * as Inbox from "@turnstep/core/Inbox"
import type { Session, SendOptions } from "@turnstep/runtime/Session"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import type { Operator, Process, Room } from "./Operator.ts"

/** How long a client waits for an answer before it asks again, in milliseconds. */
const patience = 10_000

type Act = (room: Room, operator: Operator, number: number) => Effect.Effect<void>

/** Asks a process for something of the session; `undefined` when there was no answer, or when it refused. */
const ask = <A, E>(
  room: Room,
  process: Process,
  request: (session: Session) => Effect.Effect<A, E>
): Effect.Effect<Exit.Exit<A, unknown> | undefined> =>
  process.host
    .call(Effect.flatMap(process.sessions.get(room.store.sessionId), request))
    .pipe(Effect.exit, Effect.timeoutOption(patience), Effect.map(Option.getOrUndefined))

/** A process to ask, as soon as there is one. */
const reach = (operator: Operator): Effect.Effect<Process> =>
  Effect.suspend(() => {
    const process = operator.pick()
    return process === undefined ? Effect.andThen(Effect.sleep(500), reach(operator)) : Effect.succeed(process)
  })

/** Opens the session, however often it takes. */
export const open = (room: Room, operator: Operator): Effect.Effect<void> =>
  Effect.gen(function* () {
    const { host, sessions } = yield* reach(operator)
    yield* Effect.exit(host.call(sessions.open({ id: room.store.sessionId })))
    if (room.store.state.seq === 0) {
      yield* Effect.sleep(100)
      yield* open(room, operator)
    }
  })

const tellAdmitted = ({ witness }: Room, text: string, admission: Inbox.Admission) => {
  witness.acknowledged.push({ text, admission })
}

const send: Act = Effect.fnUntraced(function* (room, operator, number) {
  const { dice } = room
  const text = `m${number}`
  const key = dice.chance(0.7) ? `k${number}` : undefined
  const running = room.store.state.turn?.id
  const options: SendOptions = {
    delivery: dice.weighted({ auto: 4, start: 1, steer: 4, "follow-up": 3 }),
    ifNotApplied: dice.pick(["follow-up", "return"]),
    ...(dice.chance(0.1) && running !== undefined ? { expectedTurnId: running } : {}),
    ...(key === undefined ? {} : { clientKey: key })
  }
  const deliver = Effect.gen(function* () {
    // Without a key an answer that was lost cannot be asked for again (C1).
    for (let tries = 0; tries < (key === undefined ? 1 : 20); tries++) {
      const exit = yield* ask(room, yield* reach(operator), (session) => session.send(text, options))
      if (exit !== undefined && Exit.isSuccess(exit)) {
        tellAdmitted(room, text, exit.value)
        return exit.value
      }
      if (exit !== undefined && isRefusal(exit)) return undefined
      yield* Effect.sleep(200)
    }
    return undefined
  })
  const answers = yield* Effect.all(key !== undefined && dice.chance(0.3) ? [deliver, deliver] : [deliver], {
    concurrency: "unbounded"
  })
  const items = new Set(answers.flatMap((answer) => (answer === undefined ? [] : [answer.itemId])))
  if (items.size > 1) room.witness.violate(`${text} was admitted as ${[...items].join()} (C1)`)
  if (key !== undefined && items.size > 0 && dice.chance(0.1)) yield* reuseKey(room, operator, key)
})

/** The same key with another message is refused. */
const reuseKey = Effect.fnUntraced(function* (room: Room, operator: Operator, key: string) {
  const exit = yield* ask(room, yield* reach(operator), (session) => session.send("another", { clientKey: key }))
  if (exit !== undefined && Exit.isSuccess(exit)) room.witness.violate(`key ${key} was taken twice`)
})

/** A refusal is an answer; a dead host, a fault of storage and an interruption are none. */
const isRefusal = (exit: Exit.Exit<unknown, unknown>): boolean => {
  if (Exit.isSuccess(exit)) return false
  const error = Cause.findErrorOption(exit.cause)
  return (
    Option.isSome(error) && !(error.value instanceof Object && "_tag" in error.value && error.value._tag === "HostDied")
  )
}

const someItem = ({ dice, store, witness }: Room): ItemId | undefined =>
  dice.chance(0.8)
    ? [...store.state.pending.keys()][dice.below(store.state.pending.size)]
    : witness.acknowledged[dice.below(witness.acknowledged.length)]?.admission.itemId

const withdraw: Act = Effect.fnUntraced(function* (room, operator) {
  const item = someItem(room)
  if (item === undefined) return
  const exit = yield* ask(room, yield* reach(operator), (session) => session.withdraw(item))
  if (exit !== undefined && Exit.isSuccess(exit)) room.witness.withdrawn.add(item)
})

const move: Act = Effect.fnUntraced(function* (room, operator) {
  const item = someItem(room)
  if (item === undefined) return
  const to = room.dice.pick<"steer" | "follow-up">(["steer", "follow-up"])
  yield* ask(room, yield* reach(operator), (session) => session.move(item, to))
})

const cancel: Act = Effect.fnUntraced(function* (room, operator) {
  const { dice, store, witness } = room
  const turn = dice.chance(0.9) ? store.state.turn?.id : `trn_${dice.between(1, 8)}`
  if (turn === undefined) return
  const exit = yield* ask(room, yield* reach(operator), (session) => session.cancel(turn))
  if (exit !== undefined && Exit.isSuccess(exit)) witness.cancellations.push(exit.value)
})

/** Somebody cancels when storage can be read again: whoever could not hear is to hear that. */
const cancelAfterDeafness: Act = Effect.fnUntraced(function* (room, operator, number) {
  const { store, world } = room
  const isOver = () => store.deafUntil > 0 && store.deafUntil < world.now() && store.state.turn !== undefined
  yield* Effect.repeat(Effect.sleep(200), { while: () => !isOver(), times: 300 })
  if (isOver()) yield* cancel(room, operator, number)
})

const storageFaults: ReadonlySet<string> = new Set(["outage", "deaf", "fail-before", "fail-after", "stop"])

/** A caller that runs a message and gives up after a while. */
const giveUp: Act = Effect.fnUntraced(function* (room, operator, number) {
  const { dice, store, witness } = room
  const text = `m${number}`
  const millis = dice.weighted({ 0: 3, 300: 2, 3000: 2 })
  const { host, sessions, told } = yield* reach(operator)
  const running = Effect.gen(function* () {
    const session = yield* sessions.get(store.sessionId)
    const fiber = yield* Effect.forkChild(session.run(text, { onInterrupt: "cancel" }))
    yield* Effect.sleep(dice.below(1 + Number(millis)))
    const began = yield* Clock.currentTimeMillis
    yield* Fiber.interrupt(fiber)
    const exit = yield* Fiber.await(fiber)
    return { exit, seq: store.state.seq, millis: (yield* Clock.currentTimeMillis) - began }
  })
  const done = yield* Effect.exit(host.call(running))
  if (Exit.isFailure(done) || Exit.isSuccess(done.value.exit)) return
  // A runtime that closes ends the waiting and nothing else: the Turn goes on elsewhere.
  if (told.isOpen() || !Cause.hasInterruptsOnly(done.value.exit.cause)) return
  // The wait for the end of the Turn is bounded: five seconds, and slow storage may take longer for the steps to it.
  if (done.value.millis >= 5_000) return
  // Nothing can be taken back from storage that does not answer.
  if (room.faults.seen().some((fault) => storageFaults.has(fault))) return
  witness.abandoned.push({ text, seq: done.value.seq })
})

/**
 * All that is done in a history, each at its own moment; ends when all is answered. `nudged` is a moment that is worth it:
 * somebody is about to write.
 */
export const act = (room: Room, operator: Operator, nudged: Effect.Effect<void>): Effect.Effect<void> => {
  const { dice } = room
  const busy = dice.pick([2_000, 20_000, 60_000])
  const messages = Array.from({ length: dice.between(1, mostMessages) }, () => (dice.chance(0.85) ? send : giveUp))
  const others = Array.from({ length: dice.below(6) }, () => dice.pick([withdraw, move, move, cancel]))
  const wanted = room.faults.all.flatMap((fault) =>
    fault.kind === "deaf" ? [cancelAfterDeafness] : "where" in fault ? (leadingTo[fault.where] ?? []) : []
  )
  const acts = [...messages, ...others, ...wanted].map((act, number) =>
    Effect.gen(function* () {
      const moment = Effect.sleep(number === 0 || dice.chance(0.3) ? 0 : dice.between(0, busy))
      yield* number > 0 && dice.chance(0.5) ? Effect.raceFirst(moment, nudged) : moment
      yield* act(room, operator, number)
    })
  )
  return Effect.all(acts, { concurrency: "unbounded", discard: true })
}

/** What makes it likelier that a place is passed at which a process is to die. */
const leadingTo: { readonly [where: string]: ReadonlyArray<Act> } = {
  "input-moved": [move, move, move],
  "input-returned": [withdraw, withdraw],
  "turn-closing": [cancel, cancel],
  "receipts-written": [cancel, cancel, cancel]
}

/** Every message may become a Turn. */
const mostMessages = 6
