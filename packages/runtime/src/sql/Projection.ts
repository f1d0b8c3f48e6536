/**
 * The rows that facts become in the projections: numbers and closed words, nothing a user wrote (schema T1).
 *
 * Owns: which fact becomes which row, and the order rows are made in. Does not own: the tables (`schema/Tables`) or the
 * making (`schema/Append`).
 *
 * - P1. Rows of all writes of a statement are made group by group, in an order in which every row finds what it builds on:
 *   `kinds` is that order for what follows from one another in the usual writes; where the facts of a write come in
 *   another order, a new round of groups begins.
 */
import * as Canonical from "@turnstep/core/Canonical"
import * as Ids from "@turnstep/core/Ids"
import type { Fact } from "@turnstep/core/TurnEvent"

/** Kinds of rows, in the order they are made (P1). */
const kinds = [
  "answered",
  "requested",
  "started",
  "receipt",
  "completed",
  "returned",
  "moved",
  "settled",
  "closed",
  "admitted",
  "opened",
  "cancelling",
  "applied",
  "stepped",
  "status"
] as const
export type Kind = (typeof kinds)[number]

type Column = string | number | null

/** A row of write `w` (from 1), made by its fact number `i` (from 0). */
export type Row = Readonly<Record<string, Column>> & { readonly w: number; readonly i: number }

/** Rows of one kind, made by one statement. */
export interface Group {
  readonly kind: Kind
  readonly rows: Array<Row>
}

/** Facts of one write; `digest` is that of the body behind the client key of what it admits, `txn` the id of the write. */
export interface Source {
  readonly facts: ReadonlyArray<Fact>
  readonly digest: string | undefined
  readonly txn: string
}

/** The rows of the facts of many writes (P1). */
export const groups = (sources: ReadonlyArray<Source>): ReadonlyArray<Group> => {
  const rounds: Array<Array<Group | undefined>> = []
  sources.forEach(({ digest, facts, txn }, index) => {
    let round = 0
    let last = 0
    let made = new Set<string>()
    facts.forEach((fact, i) => {
      const row = projected(fact, txn, digest)
      if (row === undefined) return
      const [kind, columns] = row
      const rank = kinds.indexOf(kind)
      const key = `${kind}/${columns.item ?? ""}/${columns.turn ?? ""}/${columns.step ?? ""}/${columns.idx ?? ""}`
      if (rank < last || made.has(key)) {
        round++
        made = new Set()
      }
      last = rank
      made.add(key)
      const group = ((rounds[round] ??= [])[rank] ??= { kind, rows: [] })
      group.rows.push({ w: index + 1, i, ...columns })
    })
  })
  return rounds.flatMap((round) => round.filter((group) => group !== undefined))
}

/** What a client key is known by: any string, of any length and any code units, as 64 hexadecimal digits. */
export const keyDigest = (clientKey: string): string => Canonical.digestText(JSON.stringify(clientKey))

type Projected = readonly [kind: Kind, columns: Readonly<Record<string, Column>>]

const projected = (fact: Fact, txn: string, digest: string | undefined): Projected | undefined => {
  switch (fact.type) {
    case "inbox.admitted": {
      const { clientKey, delivery, itemId } = fact.data
      const isKeyed = clientKey !== undefined && digest !== undefined
      const keyed = isKeyed ? { key: keyDigest(clientKey), digest } : { key: null, digest: null }
      return ["admitted", { item: Ids.numberOf(itemId), delivery, txn, ...keyed }]
    }
    case "inbox.moved":
      return ["moved", { item: Ids.numberOf(fact.data.itemId), delivery: fact.data.delivery }]
    case "inbox.returned": {
      const item = Ids.numberOf(fact.data.itemId)
      return fact.data.disposition === "follow-up" ? ["moved", { item, delivery: "follow-up" }] : ["returned", { item }]
    }
    case "inbox.applied":
      return ["applied", { item: Ids.numberOf(fact.data.itemId), turn: Ids.numberOf(fact.data.turnId) }]
    case "turn.started": {
      const { itemId, limits, turnId } = fact.data
      return ["opened", { turn: Ids.numberOf(turnId), item: Ids.numberOf(itemId), max_steps: limits.maxSteps }]
    }
    case "turn.cancelling":
      return ["cancelling", { turn: Ids.numberOf(fact.data.turnId) }]
    case "turn.settled":
      return ["settled", { turn: Ids.numberOf(fact.data.turnId) }]
    case "turn.completed":
    case "turn.exhausted":
    case "turn.tripped":
    case "turn.cancelled":
    case "turn.failed":
      return ["closed", { turn: Ids.numberOf(fact.data.turnId), outcome: fact.type.slice("turn.".length) }]
    case "step.started":
      return ["stepped", { turn: Ids.numberOf(fact.data.turnId), step: fact.data.step, kind: fact.data.kind }]
    case "step.completed":
      return ["completed", { turn: Ids.numberOf(fact.data.turnId), step: fact.data.step }]
    case "message.added":
      return fact.data.role === "assistant" ? ["answered", stepOf(fact.data.messageId)] : undefined
    case "call.requested":
      return ["requested", { ...place(fact.data.callId), effects: fact.data.effects }]
    case "call.started":
      return ["started", { ...place(fact.data.callId), attempt: fact.data.attempt }]
    case "call.completed":
      return ["receipt", { ...place(fact.data.callId), outcome: fact.data.isFailure ? "error" : "ok" }]
    case "call.receipt":
      return ["receipt", { ...place(fact.data.callId), outcome: fact.data.outcome }]
    case "session.status":
      return ["status", { status: fact.data.status }]
    case "session.created":
    case "history.imported":
    case "worker.claimed":
    case "write.refused":
    case "call.late":
    case "spill.created":
    case "transcript.repaired":
    case "content.set-aside":
    case "step.slimmed":
    case "guard.repeated":
      return undefined
  }
}

/** The step an answer is given in: its id says so (`Ids.assistantMessageId`). */
const stepOf = (messageId: Ids.MessageId): { readonly turn: number; readonly step: number } => {
  const [, turn, step] = /^msg_([1-9][0-9]{0,8})_([1-9][0-9]{0,8})$/.exec(messageId) ?? []
  if (turn === undefined || step === undefined) throw new Error(`${messageId} is not the id of an answer`)
  return { turn: Number(turn), step: Number(step) }
}

const place = (callId: Ids.CallId): { readonly turn: number; readonly step: number; readonly idx: number } => {
  const { index, step, turn } = Ids.placeOf(callId)
  return { turn, step, idx: index }
}
