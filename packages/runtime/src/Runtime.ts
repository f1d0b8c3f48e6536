/**
 * The whole runtime for a set of agents. Here, and only here, layers are put together.
 *
 * ```ts
 * program.pipe(Effect.provide(Runtime.layerMemory([coder])), Effect.provide(model))
 * ```
 */
import type { Claim } from "@turnstep/core/Claim"
import { Journal } from "@turnstep/core/Journal"
import * as MemoryStore from "@turnstep/core/MemoryStore"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Agent from "./Agent.ts"
import * as Drivers from "./Drivers.ts"
import * as EventHub from "./EventHub.ts"
import * as EventMetrics from "./EventMetrics.ts"
import * as LocalSessions from "./LocalSessions.ts"
import * as Prepare from "./Prepare.ts"
import * as Senders from "./Senders.ts"
import type { Sessions } from "./Session.ts"
import * as SqlStore from "./sql/SqlStore.ts"

/** The runtime on a store of the application's choice; needs what the agents need: a model and the handlers of their tools. */
export const layer = <R>(
  agents: ReadonlyArray<Agent.Agent<R>>
): Layer.Layer<Sessions | EventHub.EventHub, never, R | Journal | Claim> =>
  LocalSessions.layer.pipe(
    Layer.provide(Drivers.layer),
    Layer.provide(Senders.layer),
    Layer.provideMerge(EventHub.layer),
    Layer.provide(Prepare.layer(agents)),
    Layer.provide(Layer.effect(Journal, Effect.flatMap(Journal, EventMetrics.counted))),
    Layer.provide(SecureRandom.layerWebCrypto)
  )

/** The runtime with everything in memory: nothing outlives the process. */
export const layerMemory = <R>(agents: ReadonlyArray<Agent.Agent<R>>) => Layer.provide(layer(agents), MemoryStore.layer)

/** The durable runtime on a PostgreSQL or PGlite client; its schema is brought up to date first. */
export const layerSql = <R>(agents: ReadonlyArray<Agent.Agent<R>>) => Layer.provide(layer(agents), SqlStore.layer)
