// The durable floor: the raw loop with one INSERT, and so one commit, per step.
import { Pool } from "pg"
import { fetchTransport, newHistory, rawTurn } from "../lib/raw.mjs"

export const DDL = "create table if not exists steps (session text, seq int, body jsonb, primary key (session, seq))"

/** `commits`: 1 writes answer and results in one row, 2 writes the answer before its tools run. */
export const make = (label, commits) => {
  const load = async (ctx, session) => {
    const text = "select seq, body from steps where session = $1 order by seq"
    const { rows } = await ctx.pool.query({ name: "load", text, values: [session.id] })
    session.seq = rows.length
    return [...newHistory(), ...rows.flatMap((row) => row.body)]
  }
  const save = (ctx, session, messages) => {
    const values = [session.id, session.seq++, JSON.stringify(messages)]
    return ctx.pool.query({ name: "save", text: "insert into steps values ($1, $2, $3)", values })
  }
  const drive = (ctx, session, messages, onDelta) => {
    const inOne = (_, answer, results) => save(ctx, session, [answer, ...results])
    const answerFirst = (_, answer) => save(ctx, session, [answer])
    const thenResults = (_, answer, results) => (results.length > 0 ? save(ctx, session, results) : undefined)
    const hooks = commits === 1 ? { onStep: inOne } : { onAssistant: answerFirst, onStep: thenResults }
    return rawTurn({ call: ctx.call, messages, onDelta, ...hooks })
  }
  return {
    label,
    durable: true,
    setup: async ({ baseURL, pgUrl }) => {
      const pool = new Pool({ connectionString: pgUrl, max: 16 })
      await pool.query(DDL)
      return { call: fetchTransport(baseURL), pool }
    },
    // An idle session is its id and nothing else: its history lives in the table.
    open: async (_, id) => ({ id, seq: 0 }),
    turn: async (ctx, session, text, onDelta) => {
      const messages = await load(ctx, session)
      const message = { role: "user", content: text }
      messages.push(message)
      await save(ctx, session, [message])
      return drive(ctx, session, messages, onDelta)
    },
    recover: async (ctx, id) => {
      const session = { id, seq: 0 }
      return drive(ctx, session, await load(ctx, session))
    },
    teardown: (ctx) => ctx.pool.end()
  }
}

export default make("raw loop + PostgreSQL, one commit per step (the durable floor)", 1)
