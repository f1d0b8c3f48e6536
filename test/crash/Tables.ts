/**
 * The rows of a session: as its tables hold them, and as they follow from its log.
 *
 * Owns: a second, independent reading of what each fact means for the tables. Does not own: the reading under test
 * (`Projection`, `schema/Append`).
 */
import * as Ids from "@turnstep/core/Ids"
import { type DataOf, isTerminal, type TurnEvent } from "@turnstep/core/TurnEvent"
import * as Effect from "effect/Effect"
import { SqlClient } from "effect/sql/SqlClient"

type Row = Record<string, string | number | null>

export type Tables = Readonly<
  Record<"sessions" | "inputs" | "turns" | "steps" | "calls" | "attempts" | "receipts", ReadonlyArray<Row>>
>

/** What the tables hold of a session. */
export const read = Effect.fnUntraced(function* (sessionId: string) {
  const sql = yield* SqlClient
  const of = (columns: string, table: string, order: string) =>
    sql.unsafe<Row>(
      `select ${columns} from turnstep.${table} where session_no = (select session_no from turnstep.sessions where session_id = $1) order by ${order}`,
      [sessionId]
    )
  const place = "turn, step, idx"
  const tables: Tables = {
    sessions: yield* of("status, items, waiting, turns, active_turn, next_seq", "sessions", "session_no"),
    inputs: yield* of("item, delivery, state, turn, admitted_seq, settled_seq", "inputs", "item"),
    turns: yield* of(
      "turn, item, max_steps, outcome, started_seq, cancelling_seq, settled_seq, closed_seq",
      "turns",
      "turn"
    ),
    steps: yield* of("turn, step, kind, started_seq, answered_seq, completed_seq", "steps", "turn, step"),
    calls: yield* of(`${place}, effects, requested_seq`, "tool_calls", place),
    attempts: yield* of(`${place}, attempt, started_seq`, "tool_attempts", `${place}, attempt`),
    receipts: yield* of(`${place}, outcome, answered_seq`, "receipts", place)
  }
  return tables
})

/** What the tables must hold when the log is this. */
export const follow = (events: ReadonlyArray<TurnEvent>): Tables => {
  const session: Row = {
    status: "idle",
    items: 0,
    waiting: 0,
    turns: 0,
    active_turn: null,
    next_seq: events.length + 1
  }
  const inputs: Array<Row> = []
  const turns: Array<Row> = []
  const steps: Array<Row> = []
  const calls: Array<Row> = []
  const attempts: Array<Row> = []
  const receipts: Array<Row> = []
  const input = (itemId: Ids.ItemId) => rowOf(inputs, { item: Ids.numberOf(itemId) })
  const turn = (turnId: Ids.TurnId) => rowOf(turns, { turn: Ids.numberOf(turnId) })
  const count = (column: "items" | "waiting" | "turns", by: 1 | -1) => (session[column] = Number(session[column]) + by)

  for (const event of events) {
    const { seq } = event
    switch (event.type) {
      case "session.status":
        session["status"] = event.data.status
        break
      case "inbox.admitted": {
        const { delivery, itemId } = event.data
        const waits = { state: "waiting", turn: null, settled_seq: null }
        inputs.push({ item: Ids.numberOf(itemId), delivery, ...waits, admitted_seq: seq })
        count("items", 1)
        count("waiting", 1)
        break
      }
      case "inbox.moved":
        input(event.data.itemId)["delivery"] = event.data.delivery
        break
      case "inbox.applied":
        Object.assign(input(event.data.itemId), {
          state: "applied",
          turn: Ids.numberOf(event.data.turnId),
          settled_seq: seq
        })
        count("waiting", -1)
        break
      case "inbox.returned":
        if (event.data.disposition === "follow-up") input(event.data.itemId)["delivery"] = "follow-up"
        else {
          Object.assign(input(event.data.itemId), { state: "returned", settled_seq: seq })
          count("waiting", -1)
        }
        break
      case "turn.started": {
        const number = Ids.numberOf(event.data.turnId)
        const open = { outcome: null, cancelling_seq: null, settled_seq: null, closed_seq: null }
        const { itemId, limits } = event.data
        turns.push({ turn: number, item: Ids.numberOf(itemId), max_steps: limits.maxSteps, started_seq: seq, ...open })
        count("turns", 1)
        session["active_turn"] = number
        break
      }
      case "turn.cancelling":
        turn(event.data.turnId)["cancelling_seq"] = seq
        break
      case "turn.settled":
        turn(event.data.turnId)["settled_seq"] = seq
        break
      case "step.started": {
        const { kind, step, turnId } = event.data
        const open = { answered_seq: null, completed_seq: null }
        steps.push({ turn: Ids.numberOf(turnId), step, kind, started_seq: seq, ...open })
        break
      }
      case "step.completed": {
        const { step, turnId } = event.data
        rowOf(steps, { turn: Ids.numberOf(turnId), step })["completed_seq"] = seq
        break
      }
      case "message.added":
        if (event.data.role === "assistant") Object.assign(steps.at(-1) ?? {}, { answered_seq: seq })
        break
      case "call.requested":
        calls.push({ ...placeOf(event.data), effects: event.data.effects, requested_seq: seq })
        break
      case "call.started":
        attempts.push({ ...placeOf(event.data), attempt: event.data.attempt, started_seq: seq })
        break
      case "call.completed":
        receipts.push({ ...placeOf(event.data), outcome: event.data.isFailure ? "error" : "ok", answered_seq: seq })
        break
      case "call.receipt":
        receipts.push({ ...placeOf(event.data), outcome: event.data.outcome, answered_seq: seq })
        break
      default:
        if (!isTerminal(event)) break
        Object.assign(turn(event.data.turnId), { outcome: event.type.slice("turn.".length), closed_seq: seq })
        session["active_turn"] = null
    }
  }
  return {
    sessions: [session],
    inputs,
    turns,
    steps,
    calls: sorted(calls),
    attempts: sorted(attempts),
    receipts: sorted(receipts)
  }
}

const rowOf = (rows: ReadonlyArray<Row>, key: Row): Row => {
  const found = rows.find((row) => Object.entries(key).every(([column, value]) => row[column] === value))
  if (found === undefined) throw new Error(`the log speaks of ${JSON.stringify(key)} before it is there`)
  return found
}

const placeOf = ({ callId }: Pick<DataOf<"call.started">, "callId">) => {
  const { index, step, turn } = Ids.placeOf(callId)
  return { turn, step, idx: index }
}

const sorted = (rows: ReadonlyArray<Row>): ReadonlyArray<Row> => rows.toSorted((a, b) => orderOf(a) - orderOf(b))

const orderOf = (row: Row): number =>
  ((Number(row["turn"]) * 100 + Number(row["step"])) * 100 + Number(row["idx"])) * 100 + Number(row["attempt"] ?? 0)
