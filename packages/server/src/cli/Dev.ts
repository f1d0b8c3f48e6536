/**
 * `turnstep dev`: a server on this machine, without any preparation.
 */
import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import type { Flags } from "../Config.ts"
import { Lifetime, orphaned } from "./Lifetime.ts"
import * as Settings from "./Settings.ts"

export const command = Command.make(
  "dev",
  Settings.flags,
  Effect.fn("turnstep dev")(function* (flags: Flags) {
    // Loaded here, so that no other command waits for the server's modules.
    const Launch = yield* Effect.promise(() => import("../Launch.ts"))
    yield* (yield* Lifetime).endsBySignal
    return yield* Effect.raceFirst(Launch.run("dev", flags), orphaned)
  })
).pipe(
  Command.withDescription(
    "Start a server for development: embedded database in .turnstep, scripted demo model, everything on this machine."
  ),
  Command.withExamples([
    { command: "turnstep dev", description: "Serve the current folder to the demo model" },
    { command: "turnstep dev --model openai/<model> --workspace src", description: "Use a model of a provider" }
  ])
)
