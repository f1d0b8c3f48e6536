/**
 * What traces, logs and metrics call the things of a Turn: the names of OpenTelemetry's conventions for generative AI where
 * there are any, `turnstep.*` for the rest.
 *
 * Owns: the names, and the metrics of Turns, steps, requests and calls. Does not own: counting events (`EventMetrics`), or
 * the span of a request on its wire (`model/CallSpan`).
 *
 * - T1. The attributes of a metric have few values: names of agents, models and tools, never ids.
 */
import type { CallId, SessionId, TurnId } from "@turnstep/core/Ids"
import type { Usage } from "@turnstep/core/TurnEvent"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Metric from "effect/Metric"
import type { TurnConfig } from "./TurnConfig.ts"

/** Where the work of a Turn belongs. */
export interface Place {
  readonly sessionId: SessionId
  readonly agent: string
  readonly turnId: TurnId
}

/** Names something on every span and log line of some work. */
const named =
  (onSpans: Readonly<Record<string, unknown>>, inLogs: Readonly<Record<string, unknown>>) =>
  <A, E, R>(work: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.annotateLogs(Effect.annotateSpans(work, onSpans), inLogs)

/** Names the session. */
export const ofSession = (sessionId: SessionId) =>
  named({ "gen_ai.conversation.id": sessionId }, { session: sessionId })

/** The attributes by which a span is known to belong to a Turn. */
export const spanOf = ({ agent, sessionId, turnId }: Place) => ({
  "gen_ai.conversation.id": sessionId,
  "gen_ai.agent.name": agent,
  "turnstep.turn.id": turnId
})

/** Names session, agent and Turn, also for the work of tools and models. */
export const within = (place: Place) =>
  named(spanOf(place), { session: place.sessionId, agent: place.agent, turn: place.turnId })

/** Names the step. */
export const inStep = (step: number) => named({ "turnstep.step": step }, { step })

/** Attributes of the span of one call. */
export const callAttributes = (tool: string, callId: CallId) => ({
  "gen_ai.operation.name": "execute_tool",
  "gen_ai.tool.name": tool,
  "gen_ai.tool.call.id": callId,
  "gen_ai.tool.type": "function"
})

/** Bounds of the buckets that the conventions name, in seconds. */
const seconds = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]

/** Turns may take longer than any request. */
const longSeconds = [...seconds, 163.84, 327.68, 655.36, 1310.72, 2621.44, 5242.88]

const tokens = Metric.histogram("gen_ai.client.token.usage", {
  description: "Tokens of the requests to models, by kind",
  attributes: { unit: "{token}" },
  boundaries: [1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864]
})

const duration = (name: string, description: string, boundaries: ReadonlyArray<number>) =>
  Metric.histogram(name, { description: `${description}, in seconds`, attributes: { unit: "s" }, boundaries })

const requests = duration(
  "gen_ai.client.operation.duration",
  "Time of the requests to models, repeated ones together",
  seconds
)
const tools = duration("gen_ai.execute_tool.duration", "Time of the calls of tools", longSeconds)
const steps = duration("turnstep.step.duration", "Time of the steps of Turns, request and calls together", longSeconds)
const turns = duration("turnstep.turn.duration", "Time that this process ran a Turn", longSeconds)

const running = Metric.gauge("turnstep.turns.running", { description: "Turns that run in this process" })

/** Measures one request to the model, with what it used. */
export const request =
  ({ agent, modelName }: TurnConfig) =>
  <A extends { readonly usage: Usage }, E, R>(asked: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> => {
    const attributes = {
      "gen_ai.operation.name": "chat",
      "gen_ai.request.model": modelName,
      "gen_ai.agent.name": agent
    }
    const kind = (type: "input" | "output") =>
      Metric.withAttributes(tokens, { ...attributes, "gen_ai.token.type": type })
    return timed(
      requests,
      attributes
    )(asked).pipe(
      Effect.tap(({ usage }) => Metric.update(kind("input"), usage.inputTokens)),
      Effect.tap(({ usage }) => Metric.update(kind("output"), usage.outputTokens))
    )
  }

/** Measures one call of a tool. */
export const call = (tool: string) =>
  timed(tools, { "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool })

/** Counts a step that took so many milliseconds. */
export const step = (agent: string, ms: number): Effect.Effect<void> =>
  Metric.update(Metric.withAttributes(steps, { "gen_ai.agent.name": agent }), ms / 1000)

/** Measures a Turn as it is run here, and counts it while it is. */
export const turn =
  (agent: string) =>
  <A, E, R>(run: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.acquireUseRelease(
      Metric.modify(running, 1),
      () => timed(turns, { "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": agent })(run),
      () => Metric.modify(running, -1)
    )

const timed =
  (metric: Metric.Histogram<number>, attributes: Readonly<Record<string, string>>) =>
  <A, E, R>(work: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.flatMap(Clock.currentTimeMillis, (started) =>
      Effect.onExit(work, (exit) =>
        Effect.flatMap(Clock.currentTimeMillis, (now) =>
          Metric.update(
            Metric.withAttributes(
              metric,
              Exit.isSuccess(exit) ? attributes : { ...attributes, "error.type": "_OTHER" }
            ),
            (now - started) / 1000
          )
        )
      )
    )
