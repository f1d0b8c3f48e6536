/** Writes no session may have, by the session they are tried on. Each is SQL straight at the tables. */

/** A session a write is tried on: its key, its fence, and the next sequence number. */
export interface Target {
  readonly no: bigint
  readonly fence: number
  readonly seq: number
}

/** `refusal` is the SQLSTATE. */
export type Case = readonly [name: string, refusal: string, sql: (target: Target) => string]

const event = (target: Target, seq: number, fence = target.fence) =>
  `insert into turnstep.events (session_no, seq, fence, at, type, data) values (${target.no}, ${seq}, ${fence}, now(), 't', '{}')`
const item = (target: Target, number: number, more = "null, null, null", fence = target.fence) =>
  `insert into turnstep.inputs (session_no, item, fence, delivery, admitted_seq, txn, key, digest, turn)
    values (${target.no}, ${number}, ${fence}, 'follow-up', 1, gen_random_uuid(), ${more})`
const turn = (target: Target, number: number, from: number, fence = target.fence) =>
  `insert into turnstep.turns (session_no, turn, fence, item, max_steps, started_seq)
    values (${target.no}, ${number}, ${fence}, ${from}, 3, ${target.seq})`
const step = (target: Target, number: number, kind = "work", fence = target.fence, of = 1) =>
  `insert into turnstep.steps (session_no, turn, step, fence, kind, started_seq)
    values (${target.no}, ${of}, ${number}, ${fence}, '${kind}', ${target.seq})`
const call = (target: Target, of: number, idx: number, effects = "pure", fence = target.fence) =>
  `insert into turnstep.tool_calls (session_no, turn, step, idx, fence, requested_seq, effects)
    values (${target.no}, 1, ${of}, ${idx}, ${fence}, ${target.seq}, '${effects}')`
const attempt = (target: Target, idx: number, number: number, fence = target.fence) =>
  `insert into turnstep.tool_attempts (session_no, turn, step, idx, attempt, fence, started_seq)
    values (${target.no}, 1, 1, ${idx}, ${number}, ${fence}, ${target.seq})`
const receipt = (target: Target, idx: number, outcome: string, fence = target.fence) =>
  `insert into turnstep.receipts (session_no, turn, step, idx, fence, answered_seq, outcome)
    values (${target.no}, 1, 1, ${idx}, ${fence}, ${target.seq}, '${outcome}')`
const change = (table: string, target: Target, set: string, where = "true") =>
  `update turnstep.${table} set ${set} where session_no = ${target.no} and ${where}`
const append = (target: Target, kind: string, row: string) =>
  `select seqs from turnstep.sessions s, turnstep.turnstep_append(jsonb_build_array(jsonb_build_object('w', 1, 'session', s.session_id,
      'fence', s.fence, 'txn', gen_random_uuid(), 'count', 1)), '{0}', '{1}', '{0}', '{t}', '{"{}"}',
      '[{"kind": "${kind}", "rows": [{"w": 1, "i": 0, ${row}}]}]')
    where s.session_no = ${target.no}`

/** Without the gate: by SQL that does not pass it, and by the function that passes it itself. The session is that of `called`. */
export const outside: ReadonlyArray<Case> = [
  ["an event", "TS001", (t) => event(t, t.seq)],
  ["a receipt", "TS001", (t) => receipt(t, 0, "ok")],
  ["a changed step", "TS001", (t) => change("steps", t, `completed_seq = ${t.seq}`)],
  ["the return of an item that does not wait, by the function", "TS002", (t) => append(t, "returned", '"item": 7')],
  ["an answer nobody awaits, by the function", "TS002", (t) => append(t, "answered", '"x": 1')],
  [
    "the end of a step that was never requested, by the function",
    "TS002",
    (t) => append(t, "completed", '"turn": 1, "step": 9')
  ]
]

/** A session nobody has sent anything to but one waiting message; items 1 (waits). */
export const fresh: ReadonlyArray<Case> = [
  ["a Turn that starts from no item", "TS002", (t) => turn(t, 1, 7)],
  ["a Turn under an old fence", "TS001", (t) => turn(t, 1, 1, t.fence - 1)],
  ["a Turn whose number leaves a gap", "TS002", (t) => turn(t, 2, 1)],
  [
    "a Turn that starts closed",
    "TS002",
    (t) =>
      `insert into turnstep.turns (session_no, turn, fence, item, max_steps, started_seq, closed_seq, outcome)
        values (${t.no}, 1, ${t.fence}, 1, 3, ${t.seq}, ${t.seq + 1}, 'completed')`
  ],
  ["a step without a Turn", "TS002", (t) => step(t, 1)],
  ["an item whose number leaves a gap", "TS002", (t) => item(t, 3)],
  ["an item whose number was used", "23505", (t) => item(t, 1)],
  [
    "an item with the key of another",
    "23505",
    (t) => item(t, 2, `(select key from turnstep.inputs where session_no = ${t.no} and item = 1), 'd', null`)
  ],
  [
    "an item that starts as returned",
    "TS002",
    (t) => item(t, 2).replace("turn)", "turn, state, settled_seq)").replace("null)", `null, 'returned', ${t.seq})`)
  ],
  ["an item with a key and no digest", "23514", (t) => item(t, 2, "'k', null, null")],
  ["an item applied to no Turn", "23514", (t) => change("inputs", t, `state = 'applied', settled_seq = ${t.seq}`)],
  [
    "an item applied to a Turn that is not open",
    "TS002",
    (t) => change("inputs", t, `state = 'applied', turn = 1, settled_seq = ${t.seq}`)
  ],
  ["an item that moves to nowhere", "23514", (t) => change("inputs", t, "delivery = 'elsewhere'")],
  ["an item that is renumbered", "TS002", (t) => change("inputs", t, "item = 2")],
  ["an event under an old fence", "TS001", (t) => event(t, t.seq, t.fence - 1)],
  ["an event under a fence never given", "TS001", (t) => event(t, t.seq, t.fence + 1)],
  ["an event of no session", "TS001", (t) => event({ ...t, no: 0n }, t.seq)],
  ["an event whose number was not given out", "TS002", (t) => event(t, t.seq + 1)],
  [
    "an event that leaves a gap",
    "TS002",
    (t) =>
      `with g as (update turnstep.sessions set next_seq = next_seq + 1 where session_no = ${t.no}) ${event(t, t.seq + 1)}`
  ],
  ["an event whose number is taken", "23505", (t) => event(t, t.seq - 1)],
  ["an event that is not JSON", "22P02", (t) => event(t, t.seq).replace("'{}'", "'{'")],
  ["a changed event", "TS002", (t) => change("events", t, "data = '[]'")],
  ["a deleted event", "TS002", (t) => `delete from turnstep.events where session_no = ${t.no}`],
  ...["sessions", "events", "inputs", "turns", "steps", "tool_calls", "tool_attempts", "receipts"].map(
    (table): Case => [`truncated ${table}`, "TS002", () => `truncate turnstep.${table}`]
  ),
  ["a deleted session", "TS002", (t) => `delete from turnstep.sessions where session_no = ${t.no}`],
  ["a deleted item", "TS002", (t) => `delete from turnstep.inputs where session_no = ${t.no}`],
  ["a fence that shrinks", "TS002", (t) => change("sessions", t, "fence = fence - 1, owner = null")],
  ["a new owner under the old fence", "TS002", (t) => change("sessions", t, "owner = gen_random_uuid()")],
  ["a session of another id", "TS002", (t) => change("sessions", t, "session_id = 'other'")],
  ["a session with a status of its own", "TS002", (t) => change("sessions", t, "status = 'busy'")],
  ["counters that do not follow from the rows", "TS002", (t) => change("sessions", t, "waiting = 0")],
  ["a Turn opened on the session alone", "TS002", (t) => change("sessions", t, "turns = 1, active_turn = 1")],
  [
    "a session with the id of another",
    "23505",
    (t) =>
      `insert into turnstep.sessions (session_id, agent, created_at, updated_at)
        select session_id, agent, created_at, updated_at from turnstep.sessions where session_no = ${t.no}`
  ],
  [
    "a session born with a fence",
    "TS002",
    () =>
      `insert into turnstep.sessions (session_id, agent, fence, created_at, updated_at) values ('x', '"a"', 3, now(), now())`
  ]
]

/** An open Turn with `max_steps` 3 whose first step is requested; item 1 applied, item 2 waits. */
export const requested: ReadonlyArray<Case> = [
  ["a second open Turn", "23505", (t) => turn(t, 2, 2)],
  ["a second open step", "TS002", (t) => step(t, 2)],
  ["a step whose number leaves a gap", "TS002", (t) => step(t, 3)],
  ["a step under an old fence", "TS001", (t) => step(t, 2, "work", t.fence - 1)],
  ["a step of another Turn", "TS002", (t) => step(t, 1, "work", t.fence, 2)],
  ["a step of a kind of its own", "TS002", (t) => step(t, 2, "rest")],
  ["a step completed without an answer", "TS002", (t) => change("steps", t, `completed_seq = ${t.seq}`)],
  ["a step answered before it was requested", "TS002", (t) => change("steps", t, "answered_seq = started_seq")],
  ["an answer under an old fence", "TS001", (t) => change("steps", t, `answered_seq = ${t.seq}, fence = fence - 1`)],
  ["a call before the answer is accepted", "TS002", (t) => call(t, 1, 0)],
  ["a call of no step", "TS002", (t) => call(t, 2, 0)],
  ["an item applied twice", "TS002", (t) => change("inputs", t, `settled_seq = ${t.seq}`, "item = 1")],
  [
    "an applied item that is returned",
    "TS002",
    (t) => change("inputs", t, `state = 'returned', turn = null, settled_seq = ${t.seq}`, "item = 1")
  ],
  [
    "an item applied inside a step",
    "TS002",
    (t) => change("inputs", t, `state = 'applied', turn = 1, settled_seq = ${t.seq}`, "item = 2")
  ],
  ["a moved item under an old fence", "TS001", (t) => change("inputs", t, "fence = fence - 1", "item = 2")],
  ["an item under an old fence", "TS001", (t) => item(t, 3, undefined, t.fence - 1)],
  ["a Turn closed without an outcome", "23514", (t) => change("turns", t, `closed_seq = ${t.seq}`)],
  ["a Turn with an outcome that is not closed", "23514", (t) => change("turns", t, "outcome = 'failed'")],
  ["a Turn that gets more steps", "TS002", (t) => change("turns", t, "max_steps = 99")],
  [
    "a Turn cancelled under an old fence",
    "TS001",
    (t) => change("turns", t, `cancelling_seq = ${t.seq}, fence = fence - 1`)
  ],
  ["a deleted Turn", "TS002", (t) => `delete from turnstep.turns where session_no = ${t.no}`],
  ["a deleted step", "TS002", (t) => `delete from turnstep.steps where session_no = ${t.no}`]
]

/** Its answer called four tools: pure (0), once (1), idempotent (2), started; and one that was never started, once (3). */
export const called: ReadonlyArray<Case> = [
  ["the next request while calls are open", "TS002", (t) => step(t, 2)],
  ["a step completed while calls are open", "TS002", (t) => change("steps", t, `completed_seq = ${t.seq}`)],
  ["a step answered twice", "TS002", (t) => change("steps", t, `answered_seq = ${t.seq}`)],
  ["a Turn settled while calls are open", "TS002", (t) => change("turns", t, `settled_seq = ${t.seq}`)],
  [
    "a Turn closed while calls are open",
    "TS002",
    (t) => change("turns", t, `closed_seq = ${t.seq}, outcome = 'failed'`)
  ],
  ["a call registered twice", "23505", (t) => call(t, 1, 0)],
  ["a call numbered below 0", "TS002", (t) => call(t, 1, -1)],
  ["a call with an effect class of its own", "TS002", (t) => call(t, 1, 4, "harmless")],
  ["a call under an old fence", "TS001", (t) => call(t, 1, 4, "pure", t.fence - 1)],
  ["a call that becomes pure", "TS002", (t) => change("tool_calls", t, "effects = 'pure'")],
  ["a second attempt of a once-only call", "TS002", (t) => attempt(t, 1, 2)],
  ["the same attempt twice", "23505", (t) => attempt(t, 0, 1)],
  ["an attempt whose number leaves a gap", "TS002", (t) => attempt(t, 0, 3)],
  ["an attempt numbered 0", "TS002", (t) => attempt(t, 3, 0)],
  ["an attempt of no call", "TS002", (t) => attempt(t, 4, 1)],
  ["an attempt under an old fence", "TS001", (t) => attempt(t, 0, 2, t.fence - 1)],
  ["a changed attempt", "TS002", (t) => change("tool_attempts", t, "attempt = 9")],
  ["a deleted attempt", "TS002", (t) => `delete from turnstep.tool_attempts where session_no = ${t.no}`],
  ["a deleted call", "TS002", (t) => `delete from turnstep.tool_calls where session_no = ${t.no}`],
  ["a receipt of no call", "TS002", (t) => receipt(t, 4, "error")],
  ["a receipt under an old fence", "TS001", (t) => receipt(t, 0, "ok", t.fence - 1)],
  ["a receipt that says a started call was not", "TS002", (t) => receipt(t, 0, "not-started")],
  ["a receipt that says a call succeeded that was never started", "TS002", (t) => receipt(t, 3, "ok")],
  ["a receipt that does not know of a call that was never started", "TS002", (t) => receipt(t, 3, "outcome-unknown")],
  ["a receipt that says a once-only call had no effect", "TS002", (t) => receipt(t, 1, "cancelled")],
  ["a receipt that says an idempotent call had no effect", "TS002", (t) => receipt(t, 2, "timed-out")],
  ["a receipt with an outcome of its own", "TS002", (t) => receipt(t, 0, "fine")]
]

/** Call 0 is answered, the others are open. */
export const answered: ReadonlyArray<Case> = [
  ["a second receipt of a call", "23505", (t) => receipt(t, 0, "error")],
  ["an attempt after the receipt", "TS002", (t) => attempt(t, 0, 2)],
  ["a call beside one that is answered", "TS002", (t) => call(t, 1, 4)],
  ["a changed receipt", "TS002", (t) => change("receipts", t, "outcome = 'error'")],
  ["a deleted receipt", "TS002", (t) => `delete from turnstep.receipts where session_no = ${t.no}`]
]

/** A Turn of at most one step, which is completed; its hand-back may follow. */
export const spent: ReadonlyArray<Case> = [
  ["a step beyond the budget", "TS002", (t) => step(t, 2)],
  ["a completed step that is completed again", "TS002", (t) => change("steps", t, `completed_seq = ${t.seq}`)],
  ["a call of a completed step", "TS002", (t) => call(t, 1, 4)],
  [
    "a step that starts with an answer",
    "TS002",
    (t) =>
      step(t, 2, "hand-back")
        .replace("seq)", "seq, answered_seq)")
        .replace(`${t.seq})`, `${t.seq}, ${t.seq + 1})`)
  ],
  [
    "a step after the Turn is settled",
    "TS002",
    (t) => `with x as (${change("turns", t, `settled_seq = ${t.seq}`)}) ${step(t, 2, "hand-back")}`
  ]
]

/** The hand-back of a Turn of at most one step is completed; the Turn is open. */
export const handedBack: ReadonlyArray<Case> = [
  ["a second hand-back", "TS002", (t) => step(t, 3, "hand-back")],
  ["a step with tools after the hand-back", "TS002", (t) => step(t, 3)]
]

/** A session that was given back. */
export const released: ReadonlyArray<Case> = [
  ["an owner without a claim", "TS002", (t) => change("sessions", t, "owner = gen_random_uuid()")]
]

/** A Turn that was cancelled while its first step waited for the model. */
export const cancelled: ReadonlyArray<Case> = [
  ["an answer that comes too late", "TS002", (t) => change("steps", t, `answered_seq = ${t.seq}`)],
  ["a step that comes too late", "TS002", (t) => step(t, 2)]
]

/** A Turn that failed after an answer without calls, before the end of its step. */
export const failed: ReadonlyArray<Case> = [
  ["a call that comes too late", "TS002", (t) => call(t, 1, 0)],
  ["an end of a step that comes too late", "TS002", (t) => change("steps", t, `completed_seq = ${t.seq}`)]
]

/** A closed Turn after its hand-back. */
export const closed: ReadonlyArray<Case> = [
  ["a step after the hand-back", "TS002", (t) => step(t, 3, "hand-back")],
  ["a Turn that is opened again", "TS002", (t) => change("turns", t, "closed_seq = null, outcome = null")],
  ["a Turn that ends otherwise", "TS002", (t) => change("turns", t, "outcome = 'failed'")],
  ["a Turn from an item that is applied", "TS002", (t) => turn(t, 2, 1)]
]

/** Legal on the same sessions. */
export const legal: Readonly<Record<string, ReadonlyArray<readonly [name: string, sql: (target: Target) => string]>>> =
  {
    fresh: [
      ["an event", (t) => event(t, t.seq)],
      ["an item", (t) => item(t, 2)],
      ["a Turn", (t) => turn(t, 1, 1)]
    ],
    requested: [
      ["an answer", (t) => change("steps", t, `answered_seq = ${t.seq}`)],
      ["an end", (t) => change("turns", t, `closed_seq = ${t.seq}, outcome = 'failed'`)]
    ],
    called: [
      ["another call", (t) => call(t, 1, 4)],
      ["a second attempt of an idempotent call", (t) => attempt(t, 2, 2)],
      ["a result", (t) => receipt(t, 1, "ok")],
      ["a cancelled pure call", (t) => receipt(t, 0, "cancelled")],
      ["a call that was never started", (t) => receipt(t, 3, "not-started")],
      ["a new owner", (t) => change("sessions", t, "owner = gen_random_uuid(), fence = fence + 1")]
    ],
    answered: [["a last receipt", (t) => receipt(t, 2, "error")]],
    spent: [["a hand-back", (t) => step(t, 2, "hand-back")]],
    closed: [["a Turn", (t) => turn(t, 2, 2)]]
  }
