/** The state folded from the log of a session is the state its tables hold, whatever legal way it went. */
import * as Call from "@turnstep/core/Call"
import * as Accept from "@turnstep/core/Accept"
import { assert, layer } from "@effect/vitest"
import * as Admission from "@turnstep/core/Admission"
import * as Ids from "@turnstep/core/Ids"
import * as Inbox from "@turnstep/core/Inbox"
import { Journal } from "@turnstep/core/Journal"
import * as Ledger from "@turnstep/core/Ledger"
import type { OpenTurn } from "@turnstep/core/OpenTurn"
import * as SessionState from "@turnstep/core/SessionState"
import type { TurnEvent } from "@turnstep/core/TurnEvent"
import * as TurnPlan from "@turnstep/core/TurnPlan"
import * as Effect from "effect/Effect"
import { SqlClient } from "effect/sql/SqlClient"
import * as fc from "fast-check"
import * as Owned from "../contract/Owned.ts"
import * as Databases from "./Databases.ts"

/** Plays a session by chance; every choice is read off the tape. */
const play = Effect.fnUntraced(function* (tape: ReadonlyArray<number>) {
  const journal = yield* Journal
  const owned = yield* Owned.make
  const { sessionId, state } = owned
  let at = 0
  const draw = (below: number): number => (tape[at++] ?? 0) % below
  const pick = <A>(from: ReadonlyArray<A>): A => from[draw(from.length)] as A

  const arrive = Effect.suspend(() => {
    const [waiting] = [...state.pending.keys()].slice(-1)
    const kind = draw(5)
    if (kind <= 2 || waiting === undefined) {
      const delivery = pick(["auto", "steer", "follow-up"] as const)
      const ifNotApplied = pick(["follow-up", "return"] as const)
      const clientKey = pick([undefined, "a", "b"])
      return Effect.ignore(Owned.send(sessionId, "hi", { delivery, ifNotApplied, clientKey }))
    }
    const lookup = { itemId: waiting }
    return kind === 3
      ? Effect.ignore(journal.admit(sessionId, lookup, Admission.withdraw(waiting)))
      : Effect.ignore(journal.admit(sessionId, lookup, Admission.move(waiting, pick(["steer", "follow-up"]))))
  })

  const cancel = (turnId: Ids.TurnId) =>
    journal.admit(sessionId, { turnId }, Admission.cancel(sessionId, turnId, "user", undefined))

  const factsOf = (turn: OpenTurn) => {
    if (turn.cancelling !== undefined) {
      return TurnPlan.endTurn(state, turn, { type: "cancelled", by: "user", reason: undefined })
    }
    if (draw(12) === 0) return TurnPlan.endTurn(state, turn, { type: "failed", error: { code: "c", message: "m" } })
    if (turn.step?.state === "requested") {
      const names = turn.step.kind === "hand-back" ? [] : Array.from({ length: draw(4) }, () => pick(tools))
      const response = Owned.calling(...names)
      if (names.length > 0) return Accept.withCalls(state, turn, response, Owned.policyOf)
      const isSpent = turn.step.kind === "hand-back"
      const words = isSpent
        ? Accept.handBack(turn, TurnPlan.reasonToEnd(turn, "steps"))
        : Accept.final(state, turn, response)
      return TurnPlan.endTurn(
        state,
        turn,
        isSpent ? { type: "exhausted", limit: "steps" } : { type: "completed" },
        words
      )
    }
    const open = Ledger.openCalls(turn.ledger)
    if (open.length === 0) return TurnPlan.nextStep(state, turn, 0)
    if (draw(8) === 0) return Ledger.recovery(turn.ledger, () => undefined)
    const answered = open.slice(0, 1 + draw(open.length))
    const results = answered.map((call) =>
      draw(4) === 0 ? Call.receipt(call, "timed-out") : Owned.result(call.callId)
    )
    return results
  }

  const proceed = Effect.suspend((): Effect.Effect<unknown, unknown, Journal> => {
    const item = Inbox.nextStart(state.pending)
    if (state.turn !== undefined) return owned.write(factsOf(state.turn))
    return item === undefined
      ? Owned.send(sessionId, "go")
      : owned.write(TurnPlan.startTurn(state, item, { model: "m", limits: { maxSteps: draw(4) } }))
  })

  while (at < tape.length) {
    if (draw(4) === 0) yield* arrive
    if (draw(20) === 0 && state.turn !== undefined) yield* cancel(state.turn.id)
    yield* owned.catchUp
    yield* proceed
  }
  return sessionId
})

const tools = ["pure", "idempotent", "queryable", "once", "unknown"]

/** What the tables say of a session, in the words of its state. */
const tablesOf = Effect.fnUntraced(function* (sessionId: Ids.SessionId) {
  const sql = yield* SqlClient
  const [session] = yield* sql<Record<string, unknown>>`
    select session_no as no, next_seq - 1 as seq, status, items, waiting, turns, active_turn as active
    from turnstep.sessions where session_id = ${sessionId}`
  const no = session?.["no"]
  return {
    session: { ...session, no: undefined },
    waiting: yield* sql`
      select item, delivery from turnstep.inputs where session_no = ${no} and state = 'waiting' order by item`,
    turn: yield* sql`
      select turn, max_steps as max, cancelling_seq is not null as cancelling
      from turnstep.turns where session_no = ${no} and closed_seq is null`,
    step: yield* sql`
      select step, kind, answered_seq is not null as answered, completed_seq is not null as completed
      from turnstep.steps p where session_no = ${no} and turn = ${session?.["active"]} order by step desc limit 1`,
    calls: yield* sql`
      select c.idx, c.effects, (select count(*)::int from turnstep.tool_attempts a where a.session_no = c.session_no
          and a.turn = c.turn and a.step = c.step and a.idx = c.idx) as attempts, r.idx is not null as answered
      from turnstep.tool_calls c
      left join turnstep.receipts r on r.session_no = c.session_no and r.turn = c.turn and r.step = c.step and r.idx = c.idx
      where c.session_no = ${no} and c.turn = ${session?.["active"]}
        and c.step = (select max(step) from turnstep.steps p where p.session_no = c.session_no and p.turn = c.turn)
      order by c.idx`,
    rows: yield* sql`
      select (select count(*)::int from turnstep.inputs where session_no = ${no}) as admitted,
        (select count(*)::int from turnstep.inputs where session_no = ${no} and state = 'applied') as applied,
        (select count(*)::int from turnstep.inputs where session_no = ${no} and state = 'returned') as returned,
        (select count(*)::int from turnstep.turns where session_no = ${no}) as turns,
        (select count(*)::int from turnstep.turns where session_no = ${no} and settled_seq is not null) as settled,
        (select string_agg(outcome, ' ' order by turn) from turnstep.turns where session_no = ${no}) as outcomes,
        (select count(*)::int from turnstep.steps where session_no = ${no}) as steps,
        (select count(*)::int from turnstep.steps where session_no = ${no} and completed_seq is not null) as completed,
        (select count(*)::int from turnstep.tool_calls where session_no = ${no}) as calls,
        (select count(*)::int from turnstep.tool_attempts where session_no = ${no}) as attempts,
        (select count(*)::int from turnstep.receipts where session_no = ${no}) as receipts`
  }
})

/** What the fold says, in the same words. */
const foldOf = (sessionId: Ids.SessionId, events: ReadonlyArray<TurnEvent>) => {
  const state = SessionState.fold(sessionId, events)
  const { turn } = state
  const count = (...types: ReadonlyArray<TurnEvent["type"]>) => events.filter(({ type }) => types.includes(type)).length
  const outcomes = events.flatMap(({ type }) => /^turn\.(completed|exhausted|cancelled|failed)$/.exec(type)?.[1] ?? [])
  return {
    session: {
      no: undefined,
      seq: state.seq,
      status: state.status,
      items: state.items,
      waiting: state.pending.size,
      turns: state.turns,
      active: turn?.number ?? null
    },
    waiting: [...state.pending.values()].map(({ delivery, id }) => ({ item: Ids.numberOf(id), delivery })),
    turn:
      turn === undefined
        ? []
        : [{ turn: turn.number, max: turn.limits.maxSteps, cancelling: turn.cancelling !== undefined }],
    step:
      turn?.step === undefined
        ? []
        : [
            {
              step: turn.step.step,
              kind: turn.step.kind,
              answered: turn.step.state !== "requested",
              completed: turn.step.state === "completed"
            }
          ],
    calls: (turn?.ledger.calls ?? []).map(({ answer, attempt, callId, effects }) => ({
      idx: Ids.placeOf(callId).index,
      effects,
      attempts: attempt,
      answered: answer !== undefined
    })),
    rows: [
      {
        admitted: count("inbox.admitted"),
        applied: count("inbox.applied"),
        returned: events.filter((event) => event.type === "inbox.returned" && event.data.disposition === "returned")
          .length,
        turns: count("turn.started"),
        settled: count("turn.settled"),
        outcomes: outcomes.length === 0 ? null : outcomes.join(" "),
        steps: count("step.started"),
        completed: count("step.completed"),
        calls: count("call.requested"),
        attempts: count("call.started"),
        receipts: count("call.completed", "call.receipt")
      }
    ]
  }
}

const histories = fc.sample(fc.array(fc.nat(255), { minLength: 20, maxLength: 200 }), {
  numRuns: Number(process.env["TURNSTEP_PROPERTY_RUNS"] ?? 20),
  seed: 20261130
})

for (const database of Databases.migrated) {
  const storage = Databases.storage(database.layer)
  layer(storage, { excludeTestServices: true, timeout: "60 seconds" })(database.name, (it) => {
    it.effect("holds in its tables what follows from the log", () =>
      Effect.gen(function* () {
        const journal = yield* Journal
        for (const tape of histories) {
          const sessionId = yield* play(tape)
          const events = yield* journal.read(sessionId, { after: 0 })
          assert.deepStrictEqual<unknown>(yield* tablesOf(sessionId), foldOf(sessionId, events), JSON.stringify(tape))
        }
      })
    )

    it.effect("holds the same when the whole history is one write", () =>
      Effect.gen(function* () {
        const journal = yield* Journal
        for (const tape of histories) {
          const [, ...played] = yield* journal.read(yield* play(tape), { after: 0 })
          const copy = yield* Owned.make
          yield* copy.write(played)
          const events = yield* journal.read(copy.sessionId, { after: 0 })
          assert.deepStrictEqual<unknown>(yield* tablesOf(copy.sessionId), foldOf(copy.sessionId, events))
        }
      })
    )
  })
}
