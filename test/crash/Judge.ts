/**
 * What must hold of a conversation when it is at rest, whatever happened to its processes: the complaints.
 *
 * Owns: the promises, checked against log, tables, the model server and the services behind the tools. Does not own: the
 * rules of a single log (`fixtures/Sound`) or of a prompt (`StrictProvider`).
 */
import * as SessionState from "@turnstep/core/SessionState"
import { isTerminal, type TurnEvent } from "@turnstep/core/TurnEvent"
import type * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Log from "../fixtures/Log.ts"
import * as Sound from "../fixtures/Sound.ts"
import type * as Outside from "./Outside.ts"
import * as Script from "./Script.ts"
import * as Tables from "./Tables.ts"
import type { End } from "./Told.ts"

/** What was seen of the processes from outside. */
export interface Seen {
  /** Messages by name, with the items their sender was told of. */
  readonly admitted: Map<string, Set<string>>
  readonly withdrawn: Set<string>
  /** Answers of the model that were accepted when a process began, and the requests that had been made by then. */
  readonly found: Array<{ readonly answers: number; readonly requests: number }>
  /** Processes that died or were taken for dead, and times the database was away. */
  crashes: number
  /** Processes that were taken for dead and went on: what they ask the model may be old. */
  zombies: number
}

/** The complaints: none in a sound world. */
export const complaints = (
  end: End,
  seen: Seen,
  provider: Pick<StrictProvider.StrictProvider, "requests" | "refusals">,
  starts: ReadonlyArray<Outside.Start>
): ReadonlyArray<string> => {
  const events = end.events.map(({ fact, seq }): TurnEvent => ({ ...fact, seq, at: 0 }))
  return [
    ...provider.refusals.map(({ message }) => `refused by the provider: ${message}`),
    ...Sound.ofEvents(Log.sessionId, events),
    ...ofLog(end),
    ...ofTables(events, end.tables),
    ...ofTurns(events),
    ...ofCalls(events, starts),
    ...ofInputs(events, seen),
    ...ofSpills(events, end.spills),
    ...ofRequests(events, seen, provider.requests),
    ...(end.watched.every((seq, at) => seq === at + 1) ? [] : [`a watcher saw ${end.watched.join()}`])
  ]
}

/** Dense numbers, fences that only grow. */
const ofLog = ({ events }: End): ReadonlyArray<string> =>
  events.flatMap(({ fence, seq }, at) => [
    ...(seq === at + 1 ? [] : [`event ${at + 1} has seq ${seq}`]),
    ...(fence >= (events[at - 1]?.fence ?? 0) ? [] : [`event ${seq} was written under the stale fence ${fence}`])
  ])

const ofTables = (events: ReadonlyArray<TurnEvent>, tables: Tables.Tables): ReadonlyArray<string> =>
  Object.entries(Tables.follow(events)).flatMap(([table, rows]) => {
    const [held, due] = [tables[table as keyof Tables.Tables], rows].map((each) => each.map(inOrder))
    return JSON.stringify(held) === JSON.stringify(due)
      ? []
      : [`${table} hold ${JSON.stringify(held)}, from the log follows ${JSON.stringify(due)}`]
  })

const inOrder = (row: Record<string, unknown>) => Object.entries(row).toSorted(([a], [b]) => (a < b ? -1 : 1))

/** At rest; one Turn at a time; each ended as it was to end. */
const ofTurns = (events: ReadonlyArray<TurnEvent>): ReadonlyArray<string> => {
  const found: Array<string> = []
  const names = namesOf(events)
  const opened = new Map<string, string>()
  let open: string | undefined
  for (const event of events) {
    if (event.type === "turn.started") {
      if (open !== undefined) found.push(`${event.data.turnId} started while ${open} was open`)
      open = event.data.turnId
      opened.set(open, names.get(event.data.itemId) ?? "")
    }
    if (event.type === "step.started" && event.data.step > Script.maxSteps + 1) found.push(`${open} has too many steps`)
    if (!isTerminal(event)) continue
    const name = opened.get(event.data.turnId) ?? ""
    if (Script.endings[name] !== event.type) found.push(`the Turn of ${name} ended as ${event.type}`)
    open = undefined
  }
  const state = SessionState.fold(Log.sessionId, events)
  if (SessionState.hasWork(state) || state.status !== "idle") found.push("the session is not at rest")
  for (const name of Object.keys(Script.endings)) {
    if (![...opened.values()].includes(name)) found.push(`${name} has no Turn`)
  }
  return found
}

/** One answer for every call, which claims no more than is known outside; `once` and `queryable` are started at most once. */
const ofCalls = (events: ReadonlyArray<TurnEvent>, starts: ReadonlyArray<Outside.Start>): ReadonlyArray<string> => {
  const found: Array<string> = []
  const keys = new Set<string>()
  for (const event of events) {
    if (event.type !== "call.requested") continue
    const { callId, effects, name } = event.data
    const key = `crash/${callId}`
    keys.add(key)
    const attempts = events.filter((each) => each.type === "call.started" && each.data.callId === callId).length
    const given = events.filter((each) => isAnswer(each) && each.data.callId === callId)
    const answer = given[0]
    const run = starts.filter((start) => start.key === key).length
    const say = (what: string) => found.push(`${callId} (${name}, ${effects}) ${what}`)
    if (given.length !== 1) say(`has ${given.length} answers`)
    if (effects === "once" || effects === "queryable") {
      if (attempts > 1) say(`has ${attempts} attempts`)
      if (run > 1) say(`ran ${run} times`)
    }
    // A call that only reads may start while its record is on its way.
    if (effects !== "pure" && run > attempts) say(`ran ${run} times and ${attempts} starts are recorded`)
    if (answer?.type === "call.completed" && run === 0) say("has a result and never ran")
    if (answer?.type === "call.completed" && answer.data.isFailure) say(`failed: ${JSON.stringify(answer.data.output)}`)
    if (answer?.type === "call.receipt" && answer.data.outcome === "not-started" && run > 0) say("ran, not-started")
  }
  const acts = new Map<string, string>()
  for (const { act, key, tool } of starts) {
    if (tool === "put" && (acts.get(act) ?? key) !== key) found.push(`${act} ran under ${acts.get(act)} and ${key}`)
    acts.set(act, key)
    // What only reads may have started for a response whose record was lost.
    if (!keys.has(key) && tool !== "look") found.push(`${act} ran under ${key}, which is no call of the log`)
  }
  return found
}

/** What the log says is kept can be read, and only what was large is kept. */
const ofSpills = (events: ReadonlyArray<TurnEvent>, whole: ReadonlyArray<string>): ReadonlyArray<string> => {
  const large = events.flatMap((event) =>
    event.type === "call.requested" && JSON.stringify(event.data.params).includes(`"${Script.large}"`)
      ? [event.data.callId]
      : []
  )
  const created = events.flatMap((event) => (event.type === "spill.created" ? [event.data] : []))
  return [
    ...created.flatMap(({ spillId }) => (whole.includes(spillId) ? [] : [`spill ${spillId} cannot be read`])),
    ...(JSON.stringify(created.map(({ callId }) => callId)) === JSON.stringify(large)
      ? []
      : [`${large.join()} are large, and the spills are of ${created.map(({ callId }) => callId).join()}`])
  ]
}

const isAnswer = (event: TurnEvent) => event.type === "call.completed" || event.type === "call.receipt"

/** What was acknowledged is applied or returned, once. */
const ofInputs = (events: ReadonlyArray<TurnEvent>, seen: Seen): ReadonlyArray<string> => {
  const found: Array<string> = []
  const names = namesOf(events)
  const admitted = [...names.values()]
  if (new Set(admitted).size !== admitted.length) found.push(`admitted were ${admitted.join()}`)
  for (const [name, items] of seen.admitted) {
    if (items.size !== 1) found.push(`${name} was acknowledged as ${[...items].join()}`)
    for (const item of items) if (names.get(item) !== name) found.push(`${name} (${item}) is lost`)
  }
  for (const item of names.keys()) {
    const settled = events.flatMap((event) =>
      (event.type === "inbox.applied" || (event.type === "inbox.returned" && event.data.disposition === "returned")) &&
      event.data.itemId === item
        ? [event]
        : []
    )
    if (settled.length !== 1) found.push(`${item} was settled ${settled.length} times`)
    if (seen.withdrawn.has(item) && settled[0]?.type !== "inbox.returned") found.push(`${item} was not withdrawn`)
  }
  return found
}

const namesOf = (events: ReadonlyArray<TurnEvent>): ReadonlyMap<string, string> =>
  new Map(
    events.flatMap((each) => (each.type === "inbox.admitted" ? [[each.data.itemId, each.data.clientKey ?? ""]] : []))
  )

/** An accepted answer is not asked for again, and a crash costs one request at most. */
const ofRequests = (
  events: ReadonlyArray<TurnEvent>,
  seen: Seen,
  requests: ReadonlyArray<StrictProvider.Request>
): ReadonlyArray<string> => {
  const found: Array<string> = []
  const answersIn = ({ messages }: StrictProvider.Request) => messages.filter(({ role }) => role === "assistant").length
  const accepted = events.filter((each) => each.type === "message.added" && each.data.role === "assistant").length
  if (requests.length > accepted + seen.crashes + seen.zombies) {
    found.push(`${requests.length} requests for ${accepted} answers, ${seen.crashes} crashes, ${seen.zombies} zombies`)
  }
  if (seen.zombies > 0) return found
  for (const { answers, requests: before } of seen.found) {
    for (const request of requests.slice(before)) {
      if (answersIn(request) < answers)
        found.push(`answer ${answersIn(request) + 1} was accepted and is asked for again`)
    }
  }
  return found
}
