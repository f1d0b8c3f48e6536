/**
 * The rules between rows, kept by the database itself: whoever writes, whatever the program believes.
 *
 * Owns: triggers that refuse illegal rows and keep the counters of `sessions`. Does not own: which facts become which rows
 * (`Append`).
 *
 * - G1. The gate: a row of a session is written only in a transaction that holds the session's row because it has updated
 *   it, and under the fence that row has. So writers of a session come one after the other, a stale owner writes nothing,
 *   and the look-ups below see everything there is.
 * - G2. Nothing is deleted; events, calls, attempts and receipts are never changed.
 * - G3. One open Turn; steps one after the other, at most `max_steps` and one hand-back; no item is applied inside a step; no
 *   step starts or ends and no Turn ends while calls are open; a call belongs to the accepted answer of the open step.
 * - G4. Attempts are numbered 1, 2, 3, …, and a call with effects `once` has one; a receipt claims no more than that (R1).
 * - G5. `items`, `waiting`, `turns` and `active_turn` of a session follow from its rows and are changed in no other way.
 *
 * They refuse with SQLSTATE TS001 (stale fence, G1) or TS002 (illegal write). They are triggers for each row, because the
 * statements of a trigger that sees all rows of its statement at once are planned anew at every call: 0.24 ms against 0.02.
 */

const stale = "the fence is stale, or the gate was not passed"

/** A trigger after each row: the first rule that holds for it (`new`, of session `s`) refuses it. */
const guard = (
  table: string,
  event: "insert" | "update",
  rules: { readonly join?: string; readonly cases: string; readonly after?: string }
): ReadonlyArray<string> => [
  `create function :schema.turnstep_${table}_${event}() returns trigger language plpgsql as $guard$
  declare
    refusal text;
  begin
    select case
        when s.fence <> new.fence or s.xmin <> pg_current_xact_id()::xid then '${stale}'${rules.cases}
        else ''
      end into refusal
    from :schema.sessions s${rules.join ?? ""}
    where s.session_no = new.session_no;
    if refusal is distinct from '' then
      raise exception 'turnstep: ${event} of ${table} refused: %', coalesce(refusal, '${stale}')
        using errcode = case coalesce(refusal, '${stale}') when '${stale}' then 'TS001' else 'TS002' end;
    end if;${rules.after ?? ""}
    return null;
  end $guard$`,
  `create trigger guard_${event} after ${event} on :schema.${table}
    for each row execute function :schema.turnstep_${table}_${event}()`
]

/** Whether a call of step `step` of the row's turn has no receipt. */
const openCall = (turn: string, step: string): string => `exists (
  select from :schema.tool_calls c where c.session_no = new.session_no and c.turn = ${turn} and c.step = ${step}
    and not exists (
      select from :schema.receipts r
      where r.session_no = c.session_no and r.turn = c.turn and r.step = c.step and r.idx = c.idx))`

const lastStep = "(select max(p.step) from :schema.steps p where p.session_no = new.session_no and p.turn = new.turn)"

const events = guard("events", "insert", {
  // The numbers the gate has given out, each with its predecessor in place: no gap, no number twice.
  cases: `
        when new.seq >= s.next_seq then 'seq was not given out by the gate'
        when new.seq > 1 and not exists (
          select from :schema.events e where e.session_no = new.session_no and e.seq = new.seq - 1)
          then 'seq would leave a gap'`
})

const inputs = [
  ...guard("inputs", "insert", {
    cases: `
        when new.state <> 'waiting' then 'an item starts as waiting'
        when new.item <> s.items + 1 then 'items are numbered in order'`,
    after: `
    update :schema.sessions s set items = new.item, waiting = s.waiting + 1 where s.session_no = new.session_no;`
  }),
  ...guard("inputs", "update", {
    cases: `
        when old.state <> 'waiting' or (new.session_no, new.item, new.admitted_seq, new.txn, new.key, new.digest)
          is distinct from (old.session_no, old.item, old.admitted_seq, old.txn, old.key, old.digest)
          then 'an item is applied or returned once'
        when new.state = 'applied' and new.turn is distinct from s.active_turn then 'its Turn is not open'
        when new.state = 'applied' and (
          select p.completed_seq is null from :schema.steps p where p.session_no = new.session_no and p.turn = new.turn
          order by p.step desc limit 1)
          then 'a step is open'`,
    after: `
    if new.state <> 'waiting' then
      update :schema.sessions s set waiting = s.waiting - 1 where s.session_no = new.session_no;
    end if;`
  })
]

// That no other Turn is open is said by the index turns_open.
const turns = [
  ...guard("turns", "insert", {
    cases: `
        when new.turn <> s.turns + 1 then 'Turns are numbered in order'
        when new.closed_seq is not null or new.settled_seq is not null then 'a Turn starts open'
        when not exists (
          select from :schema.inputs i where i.session_no = new.session_no and i.item = new.item and i.state = 'waiting')
          then 'a Turn starts from a waiting item'`,
    after: `
    update :schema.sessions s set turns = new.turn, active_turn = new.turn where s.session_no = new.session_no;`
  }),
  ...guard("turns", "update", {
    cases: `
        when old.closed_seq is not null or (old.settled_seq is not null and new.closed_seq is null)
          or (new.session_no, new.turn, new.item, new.max_steps, new.started_seq)
          is distinct from (old.session_no, old.turn, old.item, old.max_steps, old.started_seq)
          then 'a Turn is settled once, and closed once'
        when (new.settled_seq is not null or new.closed_seq is not null) and ${openCall("new.turn", lastStep)}
          then 'calls are open'`,
    after: `
    if new.closed_seq is not null then
      update :schema.sessions s set active_turn = null where s.session_no = new.session_no;
    end if;`
  })
]

const steps = [
  ...guard("steps", "insert", {
    join: "\n    left join :schema.turns t on t.session_no = new.session_no and t.turn = new.turn",
    cases: `
        when new.turn is distinct from s.active_turn then 'its Turn is not open'
        when t.settled_seq is not null then 'its Turn is settled'
        when new.answered_seq is not null or new.completed_seq is not null then 'a step starts unanswered'
        when new.step <> 1 and not exists (
          select from :schema.steps p where p.session_no = new.session_no and p.turn = new.turn and p.step = new.step - 1
            and p.completed_seq is not null)
          then 'the step before it is not completed'
        when new.kind not in ('work', 'hand-back') then 'a step is for work or for the hand-back'
        when new.kind = 'work' and new.step > t.max_steps then 'the step budget is spent'
        when new.step > t.max_steps + 1 then 'the hand-back is the last step'`
  }),
  ...guard("steps", "update", {
    cases: `
        when old.completed_seq is not null
          or (old.answered_seq is not null and new.answered_seq is distinct from old.answered_seq)
          or (new.session_no, new.turn, new.step, new.kind, new.started_seq)
          is distinct from (old.session_no, old.turn, old.step, old.kind, old.started_seq)
          then 'a step is answered once, and completed once'
        when new.answered_seq is null or new.answered_seq <= new.started_seq or new.completed_seq <= new.answered_seq
          then 'a step is requested, then answered, then completed'
        when new.turn is distinct from s.active_turn then 'its Turn is not open'
        when new.completed_seq is not null and ${openCall("new.turn", "new.step")} then 'calls are open'`
  })
]

const calls = [
  ...guard("tool_calls", "insert", {
    join: "\n    left join :schema.steps p on p.session_no = new.session_no and p.turn = new.turn and p.step = new.step",
    cases: `
        when new.turn is distinct from s.active_turn then 'its Turn is not open'
        when new.effects not in ('pure', 'idempotent', 'queryable', 'once') then 'there is no such class of effects'
        when new.idx < 0 then 'calls are numbered from 0'
        when p.answered_seq is null then 'its response was not accepted'
        when p.completed_seq is not null then 'its step is completed'
        when exists (
          select from :schema.receipts r where r.session_no = new.session_no and r.turn = new.turn and r.step = new.step)
          then 'a call of its batch is answered already'`
  }),
  // A call without a receipt is a call of the open Turn: the two guards below need not ask.
  ...guard("tool_attempts", "insert", {
    join: `
      left join :schema.tool_calls c
        on c.session_no = new.session_no and c.turn = new.turn and c.step = new.step and c.idx = new.idx
      left join :schema.receipts r
        on r.session_no = new.session_no and r.turn = new.turn and r.step = new.step and r.idx = new.idx`,
    cases: `
        when c.idx is null then 'there is no such call'
        when r.idx is not null then 'the call is answered already'
        when c.effects = 'once' and new.attempt > 1 then 'it must never run twice'
        when new.attempt <> 1 and not exists (
          select from :schema.tool_attempts a where a.session_no = new.session_no and a.turn = new.turn and a.step = new.step
            and a.idx = new.idx and a.attempt = new.attempt - 1)
          then 'attempts are numbered in order'`
  }),
  ...guard("receipts", "insert", {
    join: `
      left join :schema.tool_calls c
        on c.session_no = new.session_no and c.turn = new.turn and c.step = new.step and c.idx = new.idx
      left join :schema.tool_attempts a
        on a.session_no = new.session_no and a.turn = new.turn and a.step = new.step and a.idx = new.idx and a.attempt = 1`,
    cases: `
        when c.idx is null then 'there is no such call'
        when new.outcome not in ('ok', 'error', 'not-started', 'cancelled', 'timed-out', 'outcome-unknown')
          then 'there is no such outcome'
        when new.outcome = 'not-started' and a.attempt is not null then 'the call was started'
        when new.outcome not in ('not-started', 'error') and a.attempt is null then 'the call was never started'
        when new.outcome in ('cancelled', 'timed-out') and c.effects <> 'pure' then 'it may have had effects'`
  })
]

// After the update, not before it: a trigger before a row locks it, in WAL. The columns that every write changes are not
// watched; what guards them is that events are dense and numbered once.
const sessions = [
  `create function :schema.turnstep_sessions_change() returns trigger language plpgsql as $guard$
  begin
    if tg_op = 'INSERT' then
      if (new.items, new.waiting, new.turns, new.fence) <> (0, 0, 0, 0)
        or new.active_turn is not null or new.owner is not null or new.status <> 'idle'
      then
        raise exception 'turnstep: insert of sessions refused: a session starts empty' using errcode = 'TS002';
      end if;
    elsif new.fence < old.fence
      or (new.fence = old.fence and new.owner is not null and new.owner is distinct from old.owner)
      or new.session_no <> old.session_no or new.session_id <> old.session_id or new.created_at <> old.created_at
      or new.status not in ('idle', 'running')
      or (pg_trigger_depth() = 1 and (new.items <> old.items or new.waiting <> old.waiting
        or new.turns <> old.turns or new.active_turn is distinct from old.active_turn))
    then
      raise exception 'turnstep: update of sessions refused: a fence only grows, a new owner has a new fence, '
        'the counters follow from the rows' using errcode = 'TS002';
    end if;
    return null;
  end $guard$`,
  `create trigger guard_change after insert or update of
    session_no, session_id, created_at, status, fence, owner, items, waiting, turns, active_turn
    on :schema.sessions for each row execute function :schema.turnstep_sessions_change()`
]

const kept = ["sessions", "events", "inputs", "turns", "steps", "tool_calls", "tool_attempts", "receipts"].flatMap(
  (table) =>
    ["delete", "truncate"].map(
      (event) => `create trigger kept_${event} before ${event} on :schema.${table} for each statement
        execute function :schema.turnstep_refuse('rows are kept')`
    )
)

const appended = ["events", "tool_calls", "tool_attempts", "receipts"].map(
  (table) => `create trigger appended before update on :schema.${table} for each statement
    execute function :schema.turnstep_refuse('rows are never changed')`
)

export const guards: ReadonlyArray<string> = [
  `create function :schema.turnstep_refuse() returns trigger language plpgsql as $refuse$
  begin
    raise exception 'turnstep: % of % refused: %', lower(tg_op), tg_table_name, tg_argv[0] using errcode = 'TS002';
  end $refuse$`,
  ...sessions,
  ...events,
  ...inputs,
  ...turns,
  ...steps,
  ...calls,
  ...kept,
  ...appended
]
