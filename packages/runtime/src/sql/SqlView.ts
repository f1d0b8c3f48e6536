/**
 * A session as an admission sees it: one row of one snapshot.
 *
 * Owns: the look-ups of `Journal.View`. Does not own: the decision made on it, or its record (`SqlJournal`).
 */
import * as Ids from "@turnstep/core/Ids"
import type { ItemState, Lookup, View } from "@turnstep/core/Journal"
import * as TurnEvent from "@turnstep/core/TurnEvent"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import { keyDigest } from "./Projection.ts"
import { orUnavailable, retryDisconnect } from "./SqlFailure.ts"

/** The view, and the last sequence number it includes. */
export interface Seen {
  readonly view: View
  readonly seq: number
}

/** Looks at a session; `undefined` when there is none of this id. */
export const make = (sql: SqlClient, text: (text: string) => string) => {
  const statement = text(query)
  return (sessionId: Ids.SessionId, lookup: Lookup): Effect.Effect<Seen | undefined> =>
    sql
      .unsafe<Row>(statement, [
        sessionId,
        lookup.clientKey === undefined ? null : keyDigest(lookup.clientKey),
        numberIn(lookup.itemId, /^inb_([1-9][0-9]{0,8})$/),
        numberIn(lookup.turnId, /^trn_([1-9][0-9]{0,8})$/)
      ])
      .pipe(
        retryDisconnect, // a look may be taken twice
        orUnavailable,
        Effect.map(([row]) => (row === undefined ? undefined : { seq: row.seq, view: viewOf(sessionId, row) }))
      )
}

interface Row {
  readonly seq: number
  readonly agent: string
  readonly items: number
  readonly waiting: number
  readonly turns: number
  readonly active: number | null
  readonly stopping: boolean
  readonly keyed: unknown
  readonly keyed_seq: number | null
  readonly digest: string | null
  readonly item: number | null
  readonly delivery: TurnEvent.Delivery | null
  readonly state: ItemState | null
  readonly reason: TurnEvent.ReturnReason | null
  readonly turn: number | null
  readonly announced: ReadonlyArray<{ readonly item: number; readonly ifNotApplied: TurnEvent.IfNotApplied }> | null
}

const query = `select s.next_seq - 1 as seq, s.agent, s.items, s.waiting, s.turns, s.active_turn as active,
    open.cancelling_seq is not null as stopping, admitted.data as keyed,
    admitted.seq as keyed_seq, k.digest, i.item, i.delivery, i.state, t.turn,
    case when i.state = 'returned' then settled.data->>'reason' end as reason,
    case when $4::int is not null and s.active_turn is null and s.waiting > 0 then (
      select json_agg(json_build_object('item', w.item, 'ifNotApplied', e.data->>'ifNotApplied') order by w.item)
      from :schema.inputs w join :schema.events e on e.session_no = w.session_no and e.seq = w.admitted_seq
      where w.session_no = s.session_no and w.state = 'waiting' and (w.delivery = 'steer' or w.item = (
        select min(f.item) from :schema.inputs f where f.session_no = s.session_no and f.state = 'waiting'))
    ) end as announced
  from :schema.sessions s
  left join :schema.turns open on open.session_no = s.session_no and open.turn = s.active_turn
  left join :schema.inputs k on k.session_no = s.session_no and k.key = $2::text
  left join :schema.events admitted on admitted.session_no = s.session_no and admitted.seq = k.admitted_seq
  left join :schema.inputs i on i.session_no = s.session_no and i.item = $3::int
  left join :schema.events settled on settled.session_no = s.session_no and settled.seq = i.settled_seq
  left join :schema.turns t on t.session_no = s.session_no and t.turn = $4::int
  where s.session_id = $1::text`

const viewOf = (sessionId: Ids.SessionId, row: Row): View => {
  const active = row.active === null ? undefined : Ids.turnId(row.active)
  const isBusy = active !== undefined || row.waiting > 0
  const isOpen = row.turn !== null && row.turn === row.active
  return {
    head: {
      sessionId,
      seq: row.seq,
      items: row.items,
      waiting: row.waiting,
      turns: row.turns,
      // As `SessionState.head`: the open Turn unless it is stopping, or the one about to be opened.
      runningTurn:
        active === undefined ? (isBusy ? Ids.turnId(row.turns + 1) : undefined) : row.stopping ? undefined : active,
      isBusy
    },
    agent: row.agent,
    keyed:
      row.digest === null || row.keyed_seq === null
        ? undefined
        : { seq: row.keyed_seq, data: admittedOf(row.keyed), digest: row.digest },
    item:
      row.item === null || row.delivery === null || row.state === null
        ? undefined
        : {
            itemId: Ids.itemId(row.item),
            delivery: row.delivery,
            state: row.state,
            ...(row.reason === null ? {} : { reason: row.reason })
          },
    announced: (row.announced ?? []).map(({ ifNotApplied, item }) => ({ id: Ids.itemId(item), ifNotApplied })),
    turn: row.turn === null ? undefined : { turnId: Ids.turnId(row.turn), isOpen, isCancelling: isOpen && row.stopping }
  }
}

const admittedOf = (data: unknown): TurnEvent.DataOf<"inbox.admitted"> => {
  const fact = TurnEvent.decodeFact({ type: "inbox.admitted", data })
  if (fact.type !== "inbox.admitted") throw new Error("decoded as another type")
  return fact.data
}

/** The number in an id someone sent; an id that cannot be ours names nothing. */
const numberIn = (id: string | undefined, form: RegExp): number | null => {
  const digits = id === undefined ? undefined : form.exec(id)?.[1]
  return digits === undefined ? null : Number(digits)
}
