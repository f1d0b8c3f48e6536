/** A session in the hands of a test: created, claimed, and written to as its owner would. */
import * as Accept from "@turnstep/core/Accept"
import * as Admission from "@turnstep/core/Admission"
import { Claim } from "@turnstep/core/Claim"
import * as Ids from "@turnstep/core/Ids"
import type * as Inbox from "@turnstep/core/Inbox"
import { Journal } from "@turnstep/core/Journal"
import type { OpenTurn } from "@turnstep/core/OpenTurn"
import * as SessionState from "@turnstep/core/SessionState"
import type { Fact, Limits } from "@turnstep/core/TurnEvent"
import * as TurnPlan from "@turnstep/core/TurnPlan"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Log from "../fixtures/Log.ts"

let sessions = 0

/** An id no other session of this process has. */
export const freshId = (): Ids.SessionId => Schema.decodeSync(Ids.SessionId)(`ses_${++sessions}`)

/** A new session of an agent that nobody owns. */
export const createdFor = Effect.fnUntraced(function* (agent: string) {
  const journal = yield* Journal
  const sessionId = freshId()
  yield* journal.create(sessionId, { agent })
  return sessionId
})

/** A new session that nobody owns. */
export const created = createdFor("a")

/** Admits a message from outside. */
export const send = (sessionId: Ids.SessionId, text: string, rest: Partial<Inbox.Request> = {}) =>
  Effect.flatMap(Journal, (journal) =>
    journal.admit(sessionId, { clientKey: rest.clientKey }, Admission.send(Log.request(text, rest)))
  )

/** A new session, claimed. `write` appends and folds; `catchUp` folds what others wrote. */
export const make = Effect.gen(function* () {
  const journal = yield* Journal
  const claims = yield* Claim
  const sessionId = yield* created
  const { fence } = yield* claims.acquire(sessionId)
  const state = SessionState.make(sessionId)
  const catchUp = Effect.map(
    Effect.suspend(() => journal.read(sessionId, { after: state.seq })),
    (events) => events.forEach((event) => SessionState.apply(state, event))
  )
  yield* catchUp
  const write = (facts: ReadonlyArray<Fact>) =>
    Effect.tap(
      Effect.suspend(() => journal.append({ sessionId, fence, expectedSeq: state.seq, facts })),
      (events) => Effect.sync(() => events.forEach((event) => SessionState.apply(state, event)))
    )
  const open = (): OpenTurn => {
    if (state.turn === undefined) throw new Error("no Turn is open")
    return state.turn
  }
  return { sessionId, fence, state, catchUp, write, open }
})

/** A session with an open Turn whose first step is requested. */
export const started = (limits: Limits = { maxSteps: 3 }) =>
  Effect.gen(function* () {
    const owned = yield* make
    yield* send(owned.sessionId, "go")
    yield* owned.catchUp
    const [item] = owned.state.pending.values()
    if (item === undefined) throw new Error("nothing was admitted")
    yield* owned.write(TurnPlan.startTurn(owned.state, item, { model: "m", limits }))
    return owned
  })

/** A response that calls tools; the id of a call is its name and number. */
export const calling = (...names: ReadonlyArray<string>): Accept.Response => ({
  parts: names.map((name, index) => ({ type: "tool-call", id: `${name}_${index}_${++calls}`, name, params: {} })),
  finishReason: "tool-calls",
  usage: { inputTokens: 2, outputTokens: 1 },
  ms: 1
})

let calls = 0

/** Tools that start with their effect class. */
export const policyOf: Accept.PolicyOf = (tool) => {
  const effects = (["pure", "idempotent", "queryable", "once"] as const).find((each) => tool.startsWith(each))
  return effects === undefined ? undefined : { effects, domain: "server" }
}

/** A session with an open Turn whose first response called these tools; they are started. */
export const called = (...names: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const owned = yield* started()
    yield* owned.write(Accept.withCalls(owned.state, owned.open(), calling(...names), policyOf))
    return owned
  })

/** The answer of a tool. */
export const result = (callId: Ids.CallId, output: Schema.Json = "done"): Fact => ({
  type: "call.completed",
  data: { callId, isFailure: false, output, ms: 1 }
})
