/**
 * The whole runtime for a set of agents. Here, and only here, layers are put together.
 *
 * ```ts
 * program.pipe(Effect.provide(Runtime.layerMemory([coder])), Effect.provide(model))
 * ```
 *
 * - R1. Every layer made here is a runtime of its own: two of them in one application share nothing but what the application
 *   provides to both. One of them used in several places of an application is built once, as every layer is.
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
import * as FrontDoor from "./FrontDoor.ts"
import * as LocalSessions from "./LocalSessions.ts"
import * as Prepare from "./Prepare.ts"
import * as Senders from "./Senders.ts"
import type { Sessions } from "./Session.ts"
import type { TurnRequest } from "./TurnConfig.ts"
import * as StorageHealth from "./StorageHealth.ts"
import * as Place from "./sql/Place.ts"
import * as SqlStore from "./sql/SqlStore.ts"

/** What a runtime provides. */
export type Services = Sessions | EventHub.EventHub

/**
 * Agents of a runtime; each may need something else of the application. The list says nothing of what `resolve` gives:
 * an agent that is made in the list would take its needs from there. `NeedsOf` tells agents from others.
 */
type Agents = ReadonlyArray<{ readonly name: string; readonly resolve: (request: TurnRequest) => unknown }>

/** What the agents need together. */
export type NeedsOf<A extends Agents> = NeedsOfOne<A[number]>

type NeedsOfOne<A> = A extends Agent.Agent<infer R> ? R : NotAnAgent

/** Needed by what is in the list and is no agent, such as one whose `resolve` may fail. Nothing provides it. */
interface NotAnAgent {
  readonly NotAnAgent: never
}

/** The runtime on a store of the application's choice; needs what the agents need: a model and the handlers of their tools. */
export const layer = <const A extends Agents>(agents: A): Layer.Layer<Services, never, NeedsOf<A> | Journal | Claim> =>
  ofItsOwn(runtime(agents))

/** The runtime with everything in memory: nothing outlives the process. */
export const layerMemory = <const A extends Agents>(agents: A) =>
  ofItsOwn(Layer.provide(runtime(agents), MemoryStore.layer))

/**
 * The durable runtime on a PostgreSQL or PGlite client; its tables are brought up to date first. They are in a PostgreSQL
 * schema of their own, `turnstep` unless `schema` says otherwise; runtimes that share it share their sessions.
 */
export const layerSql = <const A extends Agents>(agents: A, options: { readonly schema?: string | undefined } = {}) => {
  const store = options.schema === undefined ? SqlStore.layer : Layer.provide(SqlStore.layer, placed(options.schema))
  return ofItsOwn(Layer.provide(runtime(agents), store))
}

const placed = (schema: string) => Layer.succeed(Place.TableSchema, schema)

const runtime = <A extends Agents>(agents: A): Layer.Layer<Services, never, NeedsOf<A> | Journal | Claim> =>
  LocalSessions.layer.pipe(
    Layer.provide(Drivers.layer),
    Layer.provide([Senders.layer, FrontDoor.layer]),
    Layer.provideMerge(EventHub.layer),
    Layer.provide(Prepare.layer(agents as ReadonlyArray<Agent.Agent<NeedsOf<A>>>)),
    Layer.provide(journal),
    Layer.provide(StorageHealth.layer),
    Layer.provide(SecureRandom.layerWebCrypto)
  )

/** The journal as the runtime uses it: counted, and watched. */
const journal = Layer.effect(
  Journal,
  Effect.gen(function* () {
    const health = yield* StorageHealth.StorageHealth
    return health.watched(yield* EventMetrics.counted(yield* Journal))
  })
)

/** R1: the parts are constants, and would be built once for a whole application, on whichever store comes first. */
const ofItsOwn = <A, E, R>(layer: Layer.Layer<A, E, R>): Layer.Layer<A, E, R> => Layer.suspend(() => Layer.fresh(layer))
