/**
 * The tables: the log of every session, and the projections of it that keep illegal histories out of the database.
 *
 * Owns: columns, keys, and what one row alone can say about itself. Does not own: rules between rows (`Guards`).
 *
 * - T1. Bodies live in `events` alone, as `json`, not `jsonb`: what was written comes back byte for byte, U+0000 and lone
 *   surrogates included. Projections hold numbers and closed words, never a user's text, and point to events by seq.
 * - T2. Rows of a session are keyed by its short `session_no`; every fact of a step would otherwise repeat the id twice.
 * - T3. No foreign keys: rows are never deleted, so the guards' look-ups prove the same without row locks and their WAL.
 * - T4. What changes at every write is in no index, so that the update stays on its page (HOT).
 * - T5. Tables that every step writes have few checks: the database reads a check anew for every statement, a guard's query
 *   once for every connection.
 */

export const tables: ReadonlyArray<string> = [
  `create table :schema.runners (
    incarnation uuid primary key,
    address text not null,
    lease_until timestamptz not null,
    started_at timestamptz not null default clock_timestamp()
  ) with (fillfactor = 50)`,

  // agent and title are json for T1's reason: text cannot hold U+0000. The columns that every write changes stand together
  // at the end: WAL holds the bytes of an update from the first that changed to the last.
  `create table :schema.sessions (
    session_no bigint generated always as identity primary key,
    session_id text not null unique,
    agent json not null,
    title json,
    created_at timestamptz not null,
    status text not null default 'idle',
    fence int not null default 0,
    owner uuid,
    items int not null default 0,
    waiting int not null default 0,
    turns int not null default 0,
    active_turn int,
    last_txn uuid,
    last_txn_seq int,
    next_seq int not null default 1,
    updated_at timestamptz not null
  ) with (fillfactor = 50)`,
  `create index sessions_in_need on :schema.sessions (session_no)
    where active_turn is not null or waiting > 0 or status = 'running'`,

  `create table :schema.events (
    session_no bigint not null,
    seq int not null,
    fence int not null,
    at timestamptz not null,
    type text not null,
    data json not null,
    primary key (session_no, seq)
  )`,

  // key is the SHA-256 of the client key, digest that of the body behind it.
  `create table :schema.inputs (
    session_no bigint not null,
    item int not null,
    fence int not null,
    delivery text not null check (delivery in ('start', 'steer', 'follow-up')),
    state text not null default 'waiting' check (state in ('waiting', 'applied', 'returned')),
    turn int,
    admitted_seq int not null,
    settled_seq int check (settled_seq > admitted_seq),
    txn uuid not null,
    key text,
    digest text,
    primary key (session_no, item),
    check ((state = 'waiting') = (settled_seq is null)),
    check ((state = 'applied') = (turn is not null)),
    check ((key is null) = (digest is null))
  ) with (fillfactor = 80)`,
  `create unique index inputs_keyed on :schema.inputs (session_no, key) where key is not null`,

  `create table :schema.turns (
    session_no bigint not null,
    turn int not null,
    fence int not null,
    item int not null,
    max_steps int not null check (max_steps >= 0),
    outcome text check (outcome in ('completed', 'exhausted', 'tripped', 'cancelled', 'failed')),
    started_seq int not null,
    cancelling_seq int check (cancelling_seq > started_seq),
    settled_seq int check (settled_seq > started_seq),
    closed_seq int check (closed_seq > started_seq),
    primary key (session_no, turn),
    check ((closed_seq is null) = (outcome is null))
  ) with (fillfactor = 70)`,
  `create unique index turns_open on :schema.turns (session_no) where closed_seq is null`,

  `create table :schema.steps (
    session_no bigint not null,
    turn int not null,
    step int not null,
    fence int not null,
    kind text not null,
    started_seq int not null,
    answered_seq int,
    completed_seq int,
    primary key (session_no, turn, step)
  ) with (fillfactor = 70)`,

  `create table :schema.tool_calls (
    session_no bigint not null,
    turn int not null,
    step int not null,
    idx int not null,
    fence int not null,
    requested_seq int not null,
    effects text not null,
    primary key (session_no, turn, step, idx)
  )`,

  `create table :schema.tool_attempts (
    session_no bigint not null,
    turn int not null,
    step int not null,
    idx int not null,
    attempt int not null,
    fence int not null,
    started_seq int not null,
    primary key (session_no, turn, step, idx, attempt)
  )`,

  // The primary key is mechanism C1: one answer per call.
  `create table :schema.receipts (
    session_no bigint not null,
    turn int not null,
    step int not null,
    idx int not null,
    fence int not null,
    answered_seq int not null,
    outcome text not null,
    primary key (session_no, turn, step, idx)
  )`
]
