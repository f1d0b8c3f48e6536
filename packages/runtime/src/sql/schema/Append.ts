/**
 * The write: facts of one or many sessions in one statement, log and projections together.
 *
 * Owns: the gate, and which fact becomes which row. Does not own: what is legal (`Guards`) or who waits for whom
 * (`AppendBatch`).
 *
 * - A1. `append` updates the session row first (the gate): it checks the fence and the expected seq, gives out dense
 *   sequence numbers, and locks the session for the rest of the statement. A write that does not pass is reported and leaves
 *   no trace; the others of the statement are written. Anything illegal raises, and nothing of the statement is written.
 * - A2. A write that is sent again after a lost answer reports what it wrote the first time: one with a fence is known by its
 *   transaction id (`sessions.last_txn`), an admission by that of its item (`inputs.txn`).
 * - A3. A row that should change and is not there, or not in the state it should be in, is an illegal write: it raises.
 *
 * The arguments of `append`: `writes` describes the writes, numbered from 1 (`w`); `owners`, `types` and `datas` are the
 * facts (the write a fact belongs to, its type, its body as JSON text) and `places` their places inside their write,
 * counted from 0; `groups` are the rows to project, in the order they are to be made, `{kind, rows: [{w, i, …}]}`.
 */

/** The rows of a group whose writes passed the gate, with their session, sequence number and fence. */
const rows = (columns: string): string =>
  `select nos[r.w] as session_no, firsts[r.w] + r.i as seq, fences[r.w] as fence, r.*
          from jsonb_to_recordset(g.rows) as r(w int, i int${columns === "" ? "" : `, ${columns}`})
          where firsts[r.w] is not null`

/** One row changed for each row of the group (A3). */
const change = (kind: string, columns: string, update: string): string => `
      when '${kind}' then
        with r as (${rows(columns)}),
        u as (${update} returning 1)
        select (select count(*) from r) - (select count(*) from u) into missing;`

const append = `create function turnstep_append(
  writes jsonb, owners int[], places int[], types text[], datas text[], groups jsonb
) returns table (verdict text, seq int)
language plpgsql
-- Plans are made once, often while the tables are small, and must stay right when they are large.
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
set plan_cache_mode = force_generic_plan set jit = off
as $append$
#variable_conflict use_column
declare
  nos bigint[];
  firsts int[];
  fences int[];
  times timestamptz[];
  txns uuid[];
  g record;
  missing int;
begin
  with w as (
    select * from jsonb_to_recordset(writes)
      as r(w int, session text, fence int, expected int, txn uuid, at float8, count int, status text)
  ), gate as (
    update sessions s set
      next_seq = s.next_seq + w.count,
      last_txn = case when w.fence is null then s.last_txn else w.txn end,
      last_txn_seq = case when w.fence is null then s.last_txn_seq else s.next_seq end,
      status = coalesce(w.status, s.status),
      updated_at = case when w.count = 0 then s.updated_at else to_timestamp(w.at / 1000) end
    from (select * from w order by session) w
    where s.session_id = w.session
      and (w.fence is null or (s.fence = w.fence and s.last_txn is distinct from w.txn))
      and (w.expected is null or s.next_seq = w.expected + 1)
    returning w.w, s.session_no, s.fence, s.next_seq - w.count as first
  )
  select array_agg(gate.session_no order by w.w), array_agg(gate.first order by w.w), array_agg(gate.fence order by w.w),
    array_agg(to_timestamp(w.at / 1000) order by w.w), array_agg(w.txn order by w.w)
  into nos, firsts, fences, times, txns
  from w left join gate on gate.w = w.w;

  insert into events (session_no, seq, fence, at, type, data)
  select nos[f.w], firsts[f.w] + f.i, fences[f.w], times[f.w], f.type, f.data::json
  from unnest(owners, places, types, datas) as f(w, i, type, data)
  where firsts[f.w] is not null;

  for g in select kind, rows from jsonb_to_recordset(groups) as r(kind text, rows jsonb) loop
    missing := 0;
    case g.kind${change(
      "answered",
      "turn int, step int",
      `update steps p set answered_seq = r.seq, fence = r.fence from r
          where p.session_no = r.session_no and p.turn = r.turn and p.step = r.step and p.answered_seq is null`
    )}
      when 'requested' then
        insert into tool_calls (session_no, turn, step, idx, fence, requested_seq, effects)
        select session_no, turn, step, idx, fence, seq, effects
        from (${rows("turn int, step int, idx int, effects text")}) r;
      when 'started' then
        insert into tool_attempts (session_no, turn, step, idx, attempt, fence, started_seq)
        select session_no, turn, step, idx, attempt, fence, seq
        from (${rows("turn int, step int, idx int, attempt int")}) r;
      when 'receipt' then
        insert into receipts (session_no, turn, step, idx, fence, answered_seq, outcome)
        select session_no, turn, step, idx, fence, seq, outcome
        from (${rows("turn int, step int, idx int, outcome text")}) r;${change(
          "completed",
          "turn int, step int",
          `update steps p set completed_seq = r.seq, fence = r.fence from r
          where p.session_no = r.session_no and p.turn = r.turn and p.step = r.step and p.completed_seq is null`
        )}${change(
          "returned",
          "item int",
          `update inputs i set state = 'returned', settled_seq = r.seq, fence = r.fence from r
          where i.session_no = r.session_no and i.item = r.item and i.state = 'waiting'`
        )}${change(
          "moved",
          "item int, delivery text",
          `update inputs i set delivery = r.delivery, fence = r.fence from r
          where i.session_no = r.session_no and i.item = r.item and i.state = 'waiting'`
        )}${change(
          "settled",
          "turn int",
          `update turns t set settled_seq = r.seq, fence = r.fence from r
          where t.session_no = r.session_no and t.turn = r.turn and t.closed_seq is null`
        )}${change(
          "closed",
          "turn int, outcome text",
          `update turns t set closed_seq = r.seq, outcome = r.outcome, fence = r.fence from r
          where t.session_no = r.session_no and t.turn = r.turn and t.closed_seq is null`
        )}
      when 'admitted' then
        insert into inputs (session_no, item, fence, delivery, admitted_seq, txn, key, digest)
        select session_no, item, fence, delivery, seq, txns[w], key, digest
        from (${rows("item int, delivery text, key text, digest text")}) r;
      when 'opened' then
        insert into turns (session_no, turn, fence, item, max_steps, started_seq)
        select session_no, turn, fence, item, max_steps, seq
        from (${rows("turn int, item int, max_steps int")}) r;${change(
          "cancelling",
          "turn int",
          `update turns t set cancelling_seq = r.seq, fence = r.fence from r
          where t.session_no = r.session_no and t.turn = r.turn and t.closed_seq is null`
        )}${change(
          "applied",
          "item int, turn int",
          `update inputs i set state = 'applied', turn = r.turn, settled_seq = r.seq, fence = r.fence from r
          where i.session_no = r.session_no and i.item = r.item and i.state = 'waiting'`
        )}
      when 'stepped' then
        insert into steps (session_no, turn, step, fence, kind, started_seq)
        select session_no, turn, step, fence, kind, seq
        from (${rows("turn int, step int, kind text")}) r;
    end case;
    if missing > 0 then
      raise exception 'turnstep: % refused: what it changes is not there or not open', g.kind using errcode = 'TS002';
    end if;
  end loop;

  if array_position(firsts, null) is null then
    return query select 'written'::text, first from unnest(firsts) as f(first);
    return;
  end if;
  return query
    select
      case
        when firsts[r.w] is not null or r.before is not null then 'written'
        when r.session_no is null or r.session_fence <> r.fence then 'fence-lost'
        else 'behind'
      end,
      coalesce(firsts[r.w], r.before, r.next_seq - 1)
    from (
      select r.w, r.fence, s.session_no, s.fence as session_fence, s.next_seq,
        case
          when r.fence is null then (
            select r.expected + 1 from inputs i where i.session_no = s.session_no and i.txn = r.txn limit 1)
          when s.fence = r.fence and s.last_txn = r.txn then s.last_txn_seq
        end as before
      from jsonb_to_recordset(writes) as r(w int, session text, fence int, expected int, txn uuid)
      left join sessions s on s.session_id = r.session
    ) r
    order by r.w;
end $append$`

const create = `create function turnstep_create(
  new_session text, new_agent text, new_title text, new_txn uuid, new_at float8, new_data text
) returns boolean
language plpgsql as $create$
declare
  no bigint;
begin
  insert into sessions (session_id, agent, title, next_seq, last_txn, last_txn_seq, created_at, updated_at)
  values (new_session, new_agent::json, new_title::json, 2, new_txn, 1,
    to_timestamp(new_at / 1000), to_timestamp(new_at / 1000))
  on conflict (session_id) do nothing
  returning session_no into no;
  if no is null then
    -- Sent again after a lost answer (A2)?
    return exists (select from sessions s where s.session_id = new_session and s.last_txn = new_txn);
  end if;
  insert into events (session_no, seq, fence, at, type, data)
  values (no, 1, 0, to_timestamp(new_at / 1000), 'session.created', new_data::json);
  return true;
end $create$`

export const functions: ReadonlyArray<string> = [append, create]
