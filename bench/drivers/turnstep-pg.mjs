// Turnstep as a library on PostgreSQL, all guarantees on. The tool says nothing of its effects, so each answer is
// committed before its tools run.
import { Claim } from "@turnstep/core/Claim"
import { Journal } from "@turnstep/core/Journal"
import * as Postgres from "@turnstep/runtime/database/Postgres"
import * as Runtime from "@turnstep/runtime/Runtime"
import * as Session from "@turnstep/runtime/Session"
import * as SqlStore from "@turnstep/runtime/sql/SqlStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import * as Redacted from "effect/Redacted"
import { Client } from "pg"
import turnstep, { agentOf, needsOf } from "./turnstep.mjs"

export const make = (label, annotate) => ({
  ...turnstep,
  label,
  durable: true,
  setup: async ({ baseURL, pgUrl }) => {
    const { agent, handlers } = agentOf(annotate)
    const layer = Runtime.layer([agent]).pipe(
      Layer.provideMerge(SqlStore.layer),
      Layer.provide(Postgres.layer({ url: Redacted.make(pgUrl) })),
      Layer.provide(needsOf(handlers, baseURL))
    )
    const runtime = ManagedRuntime.make(layer)
    await runtime.runPromise(Effect.void)
    return { runtime }
  },
  // After the kill: the dead owner's lease is run down at once, which else takes up to 15 s.
  release: async ({ pgUrl }) => {
    const client = new Client({ connectionString: pgUrl })
    await client.connect()
    await client.query("update turnstep.runners set lease_until = clock_timestamp()")
    await client.end()
  },
  /** A session that was busy and idle again many times. */
  age: (ctx, id, events) => ctx.runtime.runPromise(aged(id, events)),
  recover: async (ctx, id) => {
    const outcome = Effect.gen(function* () {
      const session = yield* Session.get(id)
      const { activeTurn } = yield* session.summary
      return yield* session.outcome(activeTurn)
    })
    return (await ctx.runtime.runPromise(outcome)).text
  }
})

const aged = Effect.fnUntraced(function* (id, events) {
  const journal = yield* Journal
  const claims = yield* Claim
  const { fence } = yield* claims.acquire(id)
  const facts = Array.from({ length: 1_000 }, (_, n) => ({
    type: "session.status",
    data: { status: n % 2 === 0 ? "running" : "idle" }
  }))
  for (let seq = 1; seq <= events; seq += facts.length) {
    yield* journal.append({ sessionId: id, fence, expectedSeq: seq, facts })
  }
  yield* claims.release(id, fence)
})

export default make("Turnstep library, PostgreSQL, tools with effects")
