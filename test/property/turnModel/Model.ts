/**
 * A session in a few lines: what it must look like whenever nothing moves. It knows no writes, no fibers and no time.
 *
 * Owns: what follows from what is done to a session. Does not own: how that is done to a real one (`Commands`).
 *
 * - M1. The first message that waits opens the next Turn; steers meant for that Turn are read with it.
 * - M2. A step ends when all its calls are answered; steers are read then, and the model is asked again.
 * - M3. A Turn that ends returns its steers or makes them follow-ups, as their senders asked.
 * - M4. Nothing moves while nobody drives the session. The next owner answers for calls that must not run again.
 */
import type { EffectClass } from "@turnstep/core/ToolPolicy"

export interface Item {
  readonly text: string
  readonly key: string
  readonly ifNotApplied: "follow-up" | "return"
  readonly asked: Item["delivery"] | "auto"
  /** What its sender was told. */
  readonly told: Told
  delivery: "start" | "steer" | "follow-up"
  /** The Turn it steers. */
  steers: number | undefined
  state: "waiting" | "applied" | "returned"
  /** Its sender took it back. */
  isWithdrawn: boolean
}

export interface Told {
  readonly delivery: Item["delivery"]
  readonly effect: "started" | "steering" | "queued"
  readonly turn: number | undefined
}

export interface Call {
  readonly effects: EffectClass
  state: "open" | "completed" | "receipted"
  attempts: number
}

export interface Open {
  step: number
  isHandBack: boolean
  isCancelling: boolean
  /** The calls of the step; `undefined` while the model is asked. */
  calls: Array<Call> | undefined
}

/** What the model is let say. */
export type Reply =
  | { readonly type: "answer" | "refuse" }
  | { readonly type: "call"; readonly effects: ReadonlyArray<EffectClass> }

export type Ending = "completed" | "exhausted" | "cancelled" | "failed"

export interface Model {
  readonly items: Array<Item>
  /** The messages a provider is shown, in order. */
  readonly said: Array<string>
  /** How the Turns ended, in order. */
  readonly ends: Array<Ending>
  open: Open | undefined
  /** Whether somebody drives the session, or will within a sweep (M4). */
  isAttended: boolean
}

/** Steps with tools a Turn may take. */
export const maxSteps = 2

export const make = (): Model => ({ items: [], said: [], ends: [], open: undefined, isAttended: true })

export const waiting = (model: Model): ReadonlyArray<Item> => model.items.filter((item) => item.state === "waiting")

/** The number of the Turn that can be steered. */
export const running = (model: Model): number | undefined =>
  model.open !== undefined
    ? model.open.isCancelling
      ? undefined
      : model.ends.length + 1
    : waiting(model).length > 0
      ? model.ends.length + 1
      : undefined

export type Refusal = "SessionBusy" | "TurnNotRunning" | "ItemSettled"

/** Admits a message, or says why not. */
export const send = (model: Model, message: Pick<Item, "text" | "key" | "ifNotApplied" | "asked">): Told | Refusal => {
  const turn = running(model)
  const isBusy = model.open !== undefined || waiting(model).length > 0
  const delivery =
    message.asked !== "auto" ? message.asked : !isBusy ? "start" : turn === undefined ? "follow-up" : "steer"
  if (delivery === "start" && isBusy) return "SessionBusy"
  if (delivery === "steer" && turn === undefined) return "TurnNotRunning"
  const effect = delivery === "steer" ? "steering" : isBusy ? "queued" : "started"
  const target = effect === "queued" ? undefined : effect === "steering" ? turn : model.ends.length + 1
  const told: Told = { delivery, effect, turn: target }
  model.items.push({
    ...message,
    told,
    delivery,
    steers: delivery === "steer" ? turn : undefined,
    state: "waiting",
    isWithdrawn: false
  })
  progress(model)
  return told
}

export const withdraw = (model: Model, item: Item): Refusal | undefined => {
  if (item.state !== "waiting" && !item.isWithdrawn) return "ItemSettled"
  item.state = "returned"
  item.isWithdrawn = true
  return undefined
}

export const move = (model: Model, item: Item, to: "steer" | "follow-up"): Refusal | undefined => {
  if (item.state !== "waiting") return "ItemSettled"
  const turn = running(model)
  if (to === "steer" && turn === undefined) return "TurnNotRunning"
  if (item.delivery === to) return undefined
  item.delivery = to
  item.steers = to === "steer" ? turn : undefined
  return undefined
}

export const cancel = (model: Model): void => {
  if (model.open !== undefined) model.open.isCancelling = true
  progress(model)
}

/** The model answers: with words, with calls of tools, or not at all. */
export const answer = (model: Model, said: Reply): void => {
  if (model.open === undefined) return
  if (said.type === "call") {
    model.open.calls = said.effects.map((effects) => ({ effects, state: "open", attempts: 1 }))
  } else end(model, said.type === "refuse" ? "failed" : model.open.isHandBack ? "exhausted" : "completed")
}

/** A tool answers. */
export const finish = (model: Model, index: number): void => {
  const found = model.open?.calls?.[index]
  if (found !== undefined) found.state = "completed"
  progress(model)
}

/** The owner is gone, and nobody has noticed. */
export const lose = (model: Model): void => {
  model.isAttended = false
}

/** Another owner takes the session (M4). */
export const takeOver = (model: Model): void => {
  model.isAttended = true
  if (model.open?.isCancelling !== true) {
    for (const each of model.open?.calls ?? []) {
      if (each.state !== "open") continue
      if (each.effects === "pure" || each.effects === "idempotent") each.attempts++
      else each.state = "receipted"
    }
  }
  progress(model)
}

/** Does what is to be done until somebody outside is waited for. */
const progress = (model: Model): void => {
  if (!model.isAttended) return
  for (;;) {
    const { open } = model
    if (open?.isCancelling === true) end(model, "cancelled")
    else if (open !== undefined) {
      if (open.calls === undefined || open.calls.some(({ state }) => state === "open")) return
      open.calls = undefined
      open.isHandBack = open.step >= maxSteps
      open.step++
      readSteers(model) // M2
    } else {
      const [first] = waiting(model)
      if (first === undefined) return
      apply(model, first) // M1
      model.open = { step: 1, isHandBack: false, isCancelling: false, calls: undefined }
      readSteers(model)
    }
  }
}

const readSteers = (model: Model): void => {
  for (const item of waiting(model)) if (item.steers === model.ends.length + 1) apply(model, item)
}

const apply = (model: Model, item: Item): void => {
  item.state = "applied"
  model.said.push(item.text)
}

/** M3 */
const end = (model: Model, ending: Ending): void => {
  for (const item of waiting(model)) {
    if (item.steers !== model.ends.length + 1) continue
    if (item.ifNotApplied === "return") item.state = "returned"
    else {
      item.delivery = "follow-up"
      item.steers = undefined
    }
  }
  model.ends.push(ending)
  model.open = undefined
  progress(model)
}
