/**
 * The one preparation boundary, shared by direct runs and by Turns that were admitted durably (mechanisms H1, H3, H4).
 *
 * Owns: finding the agent of a session and resolving its `TurnConfig` from three sets of dependencies: those of the
 * runtime, those of the application (models, tool handlers), and those made anew for the Turn.
 * Does not own: the Turn that runs with it (`Turn`).
 *
 * - P1. Preparation touches no model: a model that dies when asked is never noticed here.
 */
import { AgentNotFound } from "@turnstep/core/TurnError"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import type * as Agent from "./Agent.ts"
import * as AgentRules from "./AgentRules.ts"
import { DefaultPolicy, type TurnConfig, type TurnRequest } from "./TurnConfig.ts"

export class Prepare extends Context.Service<
  Prepare,
  {
    /** Names of the agents, the first being the default. */
    readonly agents: ReadonlyArray<string>
    /** Checks that an agent is known. */
    readonly agent: (name: string) => Effect.Effect<string, AgentNotFound>
    /** Resolves what a Turn of the agent runs with, in the Turn's scope (P1). */
    readonly prepare: (agent: string, request: TurnRequest) => Effect.Effect<TurnConfig, AgentNotFound, Scope.Scope>
  }
>()("runtime/Prepare") {}

/**
 * Preparation for a set of agents, with everything they need taken from the application's context. Dies with `AgentsInvalid`
 * for none, or two of one name.
 */
export const layer = <R>(agents: ReadonlyArray<Agent.Agent<R>>): Layer.Layer<Prepare, never, R> =>
  Layer.effect(
    Prepare,
    Effect.gen(function* () {
      const wrong = AgentRules.wrongAgents(
        agents.map(({ name }) => name),
        yield* DefaultPolicy
      )
      if (wrong !== undefined) return yield* Effect.die(wrong)
      const application = yield* Effect.context<R>()
      const byName = new Map(agents.map((agent) => [agent.name, agent]))
      const known = [...byName.keys()]
      const find = (name: string) => {
        const agent = byName.get(name)
        return agent === undefined ? Effect.fail(new AgentNotFound({ agent: name, known })) : Effect.succeed(agent)
      }
      return Prepare.of({
        agents: known,
        agent: (name) => Effect.map(find(name), (agent) => agent.name),
        prepare: Effect.fn("Prepare.prepare")(function* (name, request) {
          const agent = yield* find(name)
          return yield* Effect.updateContext(agent.resolve(request), (own: Context.Context<Scope.Scope>) =>
            Context.merge(application, own)
          )
        })
      })
    })
  )
