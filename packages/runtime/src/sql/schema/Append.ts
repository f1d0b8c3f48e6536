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
 * The arguments of `append`: `writes` describes the writes, numbered from 1 (`w`), and `times` are theirs in milliseconds;
 * `owners`, `types` and `datas` are the facts (the write a fact belongs to, its type, its body as JSON text) and `places`
 * their places inside their write, counted from 0; `groups` are the rows to project, in the order they are to be made,
 * `{kind, rows: [{w, i, …}]}`. The result: the first sequence number of each write in `seqs`; when the gate did not let
 * every write through, what became of each in `verdicts`, and for one that is behind the last number others wrote.
 *
 * Its first form spent twice the time. What costs is the start of each statement, the expressions of PL/pgSQL, which are
 * prepared anew in every transaction, and checks and conditions of triggers, which are read anew for every statement.
 */

/** The rows of a group whose writes passed the gate, with their session, sequence number and fence. */
const rows = (columns: string): string =>
  `select nos[r.w] as session_no, firsts[r.w] + r.i as seq, fences[r.w] as fence, r.*
          from jsonb_to_recordset(g.rows) as r(w int, i int${columns === "" ? "" : `, ${columns}`})
          where firsts[r.w] is not null`

/** One row changed for each row of the group (A3). */
const change = (kind: string, columns: string, update: string, set: string, where: string): string => `
      when '${kind}' then
        update :schema.${update} set ${set}, fence = r.fence
        from (${rows(columns)}) r
        where ${where};
        get diagnostics changed = row_count;`

/** One row made for each row of the group. */
const make = (kind: string, columns: string, into: string, values: string): string => `
      when '${kind}' then
        insert into :schema.${into}
        select ${values}
        from (${rows(columns)}) r;`

const append = `create function :schema.turnstep_append(
  writes jsonb, times float8[], owners int[], places int[], types text[], datas text[], groups jsonb,
  out verdicts text[], out seqs int[]
)
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
  g record;
  changed int;
begin
  for g in
    update :schema.sessions s set
      next_seq = s.next_seq + w.count,
      last_txn = case when w.fence is null then s.last_txn else w.txn end,
      last_txn_seq = case when w.fence is null then s.last_txn_seq else s.next_seq end,
      updated_at = case when w.count = 0 then s.updated_at else to_timestamp(times[w.w] / 1000) end
    from (
      select * from jsonb_to_recordset(writes) as w(w int, session text, fence int, expected int, txn uuid, count int)
      order by session
    ) w
    where s.session_id = w.session
      and (w.fence is null or (s.fence = w.fence and s.last_txn is distinct from w.txn))
      and (w.expected is null or s.next_seq = w.expected + 1)
    returning w.w, s.session_no, s.fence, s.next_seq - w.count as first
  loop
    nos[g.w] := g.session_no;
    firsts[g.w] := g.first;
    fences[g.w] := g.fence;
  end loop;

  insert into :schema.events (session_no, seq, fence, at, type, data)
  select nos[f.w], firsts[f.w] + f.i, fences[f.w], to_timestamp(times[f.w] / 1000), f.type, f.data::json
  from unnest(owners, places, types, datas) as f(w, i, type, data)
  where firsts[f.w] is not null;

  for g in select kind, rows from jsonb_to_recordset(groups) as r(kind text, rows jsonb) loop
    changed := null;
    case g.kind
      -- What every step does comes first.${change(
        "answered",
        "turn int, step int",
        "steps p",
        "answered_seq = r.seq",
        "p.session_no = r.session_no and p.turn = r.turn and p.step = r.step and p.answered_seq is null"
      )}${make(
        "requested",
        "turn int, step int, idx int, effects text",
        "tool_calls (session_no, turn, step, idx, fence, requested_seq, effects)",
        "session_no, turn, step, idx, fence, seq, effects"
      )}${make(
        "started",
        "turn int, step int, idx int, attempt int",
        "tool_attempts (session_no, turn, step, idx, attempt, fence, started_seq)",
        "session_no, turn, step, idx, attempt, fence, seq"
      )}${make(
        "receipt",
        "turn int, step int, idx int, outcome text",
        "receipts (session_no, turn, step, idx, fence, answered_seq, outcome)",
        "session_no, turn, step, idx, fence, seq, outcome"
      )}${change(
        "completed",
        "turn int, step int",
        "steps p",
        "completed_seq = r.seq",
        "p.session_no = r.session_no and p.turn = r.turn and p.step = r.step and p.completed_seq is null"
      )}${make(
        "stepped",
        "turn int, step int, kind text",
        "steps (session_no, turn, step, fence, kind, started_seq)",
        "session_no, turn, step, fence, kind, seq"
      )}${make(
        "admitted",
        "item int, delivery text, txn uuid, key text, digest text",
        "inputs (session_no, item, fence, delivery, admitted_seq, txn, key, digest)",
        "session_no, item, fence, delivery, seq, txn, key, digest"
      )}${change(
        "moved",
        "item int, delivery text",
        "inputs i",
        "delivery = r.delivery",
        "i.session_no = r.session_no and i.item = r.item and i.state = 'waiting'"
      )}${change(
        "returned",
        "item int",
        "inputs i",
        "state = 'returned', settled_seq = r.seq",
        "i.session_no = r.session_no and i.item = r.item and i.state = 'waiting'"
      )}${change(
        "applied",
        "item int, turn int",
        "inputs i",
        "state = 'applied', turn = r.turn, settled_seq = r.seq",
        "i.session_no = r.session_no and i.item = r.item and i.state = 'waiting'"
      )}${make(
        "opened",
        "turn int, item int, max_steps int",
        "turns (session_no, turn, fence, item, max_steps, started_seq)",
        "session_no, turn, fence, item, max_steps, seq"
      )}${change(
        "cancelling",
        "turn int",
        "turns t",
        "cancelling_seq = r.seq",
        "t.session_no = r.session_no and t.turn = r.turn and t.closed_seq is null"
      )}${change(
        "settled",
        "turn int",
        "turns t",
        "settled_seq = r.seq",
        "t.session_no = r.session_no and t.turn = r.turn and t.closed_seq is null"
      )}${change(
        "closed",
        "turn int, outcome text",
        "turns t",
        "closed_seq = r.seq, outcome = r.outcome",
        "t.session_no = r.session_no and t.turn = r.turn and t.closed_seq is null"
      )}
      when 'status' then
        update :schema.sessions s set status = r.status from (${rows("status text")}) r where s.session_no = r.session_no;
    end case;
    if changed < jsonb_array_length(g.rows) and changed < (
      select count(*) from jsonb_to_recordset(g.rows) as r(w int) where firsts[r.w] is not null
    ) then
      raise exception 'turnstep: % refused: what it changes is not there or not open', g.kind using errcode = 'TS002';
    end if;
  end loop;

  seqs := firsts;
  if cardinality(array_remove(firsts, null)) is distinct from jsonb_array_length(writes) then
    select array_agg(
        case
          when firsts[r.w] is not null or r.before is not null then 'written'
          when r.session_no is null or r.session_fence <> r.fence then 'fence-lost'
          else 'behind'
        end order by r.w),
      array_agg(coalesce(firsts[r.w], r.before, r.next_seq - 1) order by r.w)
    into verdicts, seqs
    from (
      select r.w, r.fence, s.session_no, s.fence as session_fence, s.next_seq,
        case
          when r.fence is null then (
            select r.expected + 1 from :schema.inputs i where i.session_no = s.session_no and i.txn = r.txn limit 1)
          when s.fence = r.fence and s.last_txn = r.txn then s.last_txn_seq
        end as before
      from jsonb_to_recordset(writes) as r(w int, session text, fence int, expected int, txn uuid)
      left join :schema.sessions s on s.session_id = r.session
    ) r;
  end if;
end $append$`

const create = `create function :schema.turnstep_create(
  new_session text, new_agent text, new_title text, new_txn uuid, new_at float8, new_data text
) returns boolean
language plpgsql as $create$
declare
  no bigint;
begin
  insert into :schema.sessions (session_id, agent, title, next_seq, last_txn, last_txn_seq, created_at, updated_at)
  values (new_session, new_agent::json, new_title::json, 2, new_txn, 1,
    to_timestamp(new_at / 1000), to_timestamp(new_at / 1000))
  on conflict (session_id) do nothing
  returning session_no into no;
  if no is null then
    -- Sent again after a lost answer (A2)?
    return exists (select from :schema.sessions s where s.session_id = new_session and s.last_txn = new_txn);
  end if;
  insert into :schema.events (session_no, seq, fence, at, type, data)
  values (no, 1, 0, to_timestamp(new_at / 1000), 'session.created', new_data::json);
  return true;
end $create$`

export const functions: ReadonlyArray<string> = [append, create]
