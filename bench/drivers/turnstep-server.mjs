// Turnstep's HTTP server on PostgreSQL: a message is posted, then its Turn is followed as events. The client is in the
// same process, so CPU is that of both.
import * as Postgres from "@turnstep/runtime/database/Postgres"
import * as Runtime from "@turnstep/runtime/Runtime"
import * as Server from "@turnstep/server/Server"
import * as HttpServer from "effect/http/HttpServer"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import * as Redacted from "effect/Redacted"
import * as Sse from "../lib/sse.mjs"
import { agentOf, needsOf } from "./turnstep.mjs"

const token = "a-token-of-the-benchmark-0123456789abcdef"

export default {
  label: "Turnstep server on PostgreSQL, message in, events out",
  durable: true,
  setup: async ({ baseURL, pgUrl }) => {
    const { agent, handlers } = agentOf()
    const sessions = Runtime.layerSql([agent]).pipe(
      Layer.provide(Postgres.layer({ url: Redacted.make(pgUrl) })),
      Layer.provide(needsOf(handlers, baseURL))
    )
    const server = Server.layer({
      host: "127.0.0.1",
      port: 0,
      token: Redacted.make(token),
      allowHosts: [],
      allowOrigins: [],
      about: { model: { name: "mock", demo: false }, agents: ["bench"], storage: "postgres" }
    })
    const runtime = ManagedRuntime.make(Layer.provide(server, sessions))
    const { address } = await runtime.runPromise(HttpServer.HttpServer)
    const url = `http://127.0.0.1:${address.port}/api/sessions`
    return { runtime, client: Sse.client(url, { authorization: `Bearer ${token}` }) }
  },
  open: async (ctx, id) => {
    await ctx.client.json("POST", "", { id })
    return { id }
  },
  turn: async (ctx, { id }, text, onDelta) => {
    const { after } = await ctx.client.json("POST", `/${id}/messages`, { text })
    let answer = ""
    const onEvent = ({ type, data }) => {
      if (type === "delta") onDelta?.(data.delta)
      else if (type === "message.added" && data.role === "assistant") answer = textOf(data.parts)
      else if (type === "turn.failed") throw new Error(data.error.message)
    }
    await ctx.client.events("GET", `/${id}/events?after=${after}&until=turn-end`, undefined, onEvent)
    return answer
  },
  teardown: async (ctx) => {
    ctx.client.close()
    await ctx.runtime.dispose()
  }
}

const textOf = (parts) => parts.map((part) => (part.type === "text" ? part.text : "")).join("")
