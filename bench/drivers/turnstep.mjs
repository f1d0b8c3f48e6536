// Turnstep as a library, everything in memory.
import * as Agent from "@turnstep/runtime/Agent"
import * as OpenAiChat from "@turnstep/runtime/model/OpenAiChat"
import * as Runtime from "@turnstep/runtime/Runtime"
import * as Session from "@turnstep/runtime/Session"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { lookup, SYSTEM, TOOL, TOOL_DESC } from "../lib/job.mjs"

/** `annotate` says of the tool what its effects are; without it a tool may have some, and its answer is saved first. */
export const agentOf = (annotate = (tool) => tool) => {
  const tool = annotate(
    Tool.make(TOOL, {
      description: TOOL_DESC,
      parameters: Schema.Struct({ i: Schema.Int, q: Schema.String }),
      success: Schema.String
    })
  )
  const toolkit = Toolkit.make(tool)
  const agent = Agent.make("bench", { instructions: SYSTEM, toolkit, policy: { maxSteps: 1_000_000 } })
  const handlers = toolkit.toLayer({ [TOOL]: (params) => Effect.sync(() => lookup(params)) })
  return { agent, handlers }
}

/** What the agent needs from its application: the model and the handlers of its tools. */
export const needsOf = (handlers, baseURL) =>
  Layer.merge(handlers, OpenAiChat.layer({ baseUrl: baseURL, model: "mock" }))

/** Runs a turn; with `onDelta` by watching the session, as a server does. */
export const turn = async (ctx, session, text, onDelta) => {
  const outcome = await ctx.runtime.runPromise(
    onDelta === undefined ? session.run(text) : watched(session, text, onDelta)
  )
  return outcome.text
}

const watched = Effect.fnUntraced(function* (session, text, onDelta) {
  const { seq } = yield* session.summary
  const { turnId } = yield* session.send(text)
  yield* session.watch(seq).pipe(
    Stream.takeUntil((seen) => seen._tag === "Event" && seen.event.type === "turn.completed"),
    Stream.runForEach((seen) =>
      Effect.sync(() => {
        if (seen._tag === "Snapshot") onDelta(seen.snapshot.text)
        if (seen._tag === "Ephemeral" && seen.ephemeral.type === "delta") onDelta(seen.ephemeral.delta)
      })
    )
  )
  return yield* session.outcome(turnId)
})

export default {
  label: "Turnstep library, memory",
  setup: async ({ baseURL }) => {
    const { agent, handlers } = agentOf()
    const layer = Runtime.layerMemory([agent]).pipe(Layer.provide(needsOf(handlers, baseURL)))
    const runtime = ManagedRuntime.make(layer)
    await runtime.runPromise(Effect.void)
    return { runtime }
  },
  open: (ctx, id) => ctx.runtime.runPromise(Session.open({ id })),
  turn,
  teardown: (ctx) => ctx.runtime.dispose()
}
