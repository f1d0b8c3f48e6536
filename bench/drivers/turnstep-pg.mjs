// Turnstep as a library on PostgreSQL, all guarantees on. The tool says nothing of its effects, so each answer is
// committed before its tools run.
import * as Postgres from "@turnstep/runtime/database/Postgres"
import * as Runtime from "@turnstep/runtime/Runtime"
import * as Session from "@turnstep/runtime/Session"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import * as Redacted from "effect/Redacted"
import turnstep, { agentOf, needsOf } from "./turnstep.mjs"

export const make = (label, annotate) => ({
  ...turnstep,
  label,
  durable: true,
  setup: async ({ baseURL, pgUrl }) => {
    const { agent, handlers } = agentOf(annotate)
    const layer = Runtime.layerSql([agent]).pipe(
      Layer.provide(Postgres.layer({ url: Redacted.make(pgUrl) })),
      Layer.provide(needsOf(handlers, baseURL))
    )
    const runtime = ManagedRuntime.make(layer)
    await runtime.runPromise(Effect.void)
    return { runtime }
  },
  // A session idles in the database; holding its handle costs its id.
  open: (ctx, id) => ctx.runtime.runPromise(Session.open({ id }))
})

export default make("Turnstep library, PostgreSQL, tools with effects")
