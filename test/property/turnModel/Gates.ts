/**
 * A model and tools that wait to be let answer.
 *
 * Owns: what is waited for, and what is said then. Does not own: who lets through what (`Commands`).
 */
import type { EffectClass } from "@turnstep/core/ToolPolicy"
import * as ToolPolicy from "@turnstep/core/ToolPolicy"
import * as Agent from "@turnstep/runtime/Agent"
import * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import type * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as PromptContract from "../../sim/PromptContract.ts"
import * as Model from "./Model.ts"

/** Something outside that a process waits for. */
interface Gate<A> {
  /** The process, and the claim under which it waits; 0 when it had none. */
  readonly process: string
  readonly fence: number
  readonly open: Deferred.Deferred<A>
  isWaiting: boolean
}

/** A question to the model. */
export interface Request extends Gate<Model.Reply> {
  /** The messages of people in it. */
  readonly said: ReadonlyArray<string>
}

/** A tool that was started. */
export interface Run extends Gate<void> {
  readonly call: string
}

/** Who waits, as far as is known. */
export type Who = () => Pick<Gate<never>, "process" | "fence">

export interface Gates {
  readonly requests: Array<Request>
  readonly runs: Array<Run>
  /** Runs of calls that must not run twice, by call. */
  readonly counts: Map<string, number>
  /** Prompts that a provider refuses, in words. */
  readonly refused: Array<string>
}

export const make = (): Gates => ({ requests: [], runs: [], counts: new Map(), refused: [] })

const tool = <const Name extends string>(name: Name, effects: EffectClass) =>
  Tool.make(name, { parameters: Schema.Struct({}), success: Schema.String })
    .annotate(ToolPolicy.Effects, effects)
    .annotate(ToolPolicy.Timeout, Duration.days(1))

const toolkit = Toolkit.make(
  tool("pure", "pure"),
  tool("idempotent", "idempotent"),
  tool("queryable", "queryable").annotate(ToolPolicy.Query, () => Effect.succeedNone), // nobody can tell here
  tool("once", "once")
)

export const agent = Agent.make("held", { instructions: "wait", toolkit, policy: { maxSteps: Model.maxSteps } })

/** The model and the tools of a process. */
export const layer = (gates: Gates, who: Who) => Layer.mergeAll(modelOf(gates, who), toolsOf(gates, who))

/** Waits at a gate until it is opened. */
const wait = <A, More extends object>(at: Array<Gate<A> & More>, who: Who, more: More): Effect.Effect<A> =>
  Effect.suspend(() => {
    const open = Deferred.makeUnsafe<A>()
    const gate: Gate<A> & More = { ...who(), open, isWaiting: true, ...more }
    at.push(gate)
    return Effect.ensuring(
      Deferred.await(open),
      Effect.sync(() => {
        gate.isWaiting = false
      })
    )
  })

const toolsOf = ({ counts, runs }: Gates, who: Who) => {
  const run = (effects: EffectClass) =>
    Effect.fnUntraced(function* (_: {}, { toolCallId }: Toolkit.HandlerContext<Tool.Any>) {
      const call = toolCallId?.split("/")[1] ?? ""
      if (effects === "once" || effects === "queryable") counts.set(call, (counts.get(call) ?? 0) + 1)
      yield* wait(runs, who, { call })
      return `done ${toolCallId}`
    })
  return toolkit.toLayer({
    pure: run("pure"),
    idempotent: run("idempotent"),
    queryable: run("queryable"),
    once: run("once")
  })
}

const modelOf = ({ refused, requests }: Gates, who: Who) =>
  Layer.effect(
    LanguageModel.LanguageModel,
    LanguageModel.make({
      generateText: () => Effect.die("the engine streams"),
      streamText: ({ prompt }) =>
        Stream.unwrap(
          Effect.suspend(() => {
            const fault = PromptContract.check(prompt.content)
            if (fault !== undefined) refused.push(fault)
            const said: ReadonlyArray<string> = prompt.content.flatMap((message) =>
              message.role === "user" ? [textOf(message.content)] : []
            )
            return Effect.map(wait(requests, who, { said }), parts)
          })
        )
    })
  )

const textOf = (content: Prompt.UserMessage["content"]): string =>
  content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("")

const parts = (reply: Model.Reply): Stream.Stream<Response.StreamPartEncoded, AiError.AiError> => {
  switch (reply.type) {
    case "answer":
      return Stream.fromIterable([
        { type: "text-start", id: "t" },
        { type: "text-delta", id: "t", delta: "so" },
        { type: "text-end", id: "t" },
        finish("stop")
      ])
    case "refuse":
      return Stream.fail(
        AiError.make({
          module: "Gates",
          method: "streamText",
          reason: new AiError.InvalidRequestError({ description: "no" })
        })
      )
    case "call":
      return Stream.fromIterable([
        ...reply.effects.map((name): Response.StreamPartEncoded => ({
          type: "tool-call",
          id: "call",
          name,
          params: {}
        })),
        finish("tool-calls")
      ])
  }
}

const finish = (reason: Response.FinishReason): Response.StreamPartEncoded => ({
  type: "finish",
  reason,
  usage: { inputTokens: { total: 1, uncached: 1, cacheRead: 0 }, outputTokens: { total: 1, text: 1 } }
})
