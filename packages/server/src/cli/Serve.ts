/**
 * `turnstep serve`: a server whose storage was chosen.
 */
import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import type { Flags } from "../Config.ts"
import { Lifetime, orphaned } from "./Lifetime.ts"
import * as Settings from "./Settings.ts"

export const command = Command.make(
  "serve",
  Settings.flags,
  Effect.fn("turnstep serve")(function* (flags: Flags) {
    // Loaded here, so that no other command waits for the server's modules.
    const Launch = yield* Effect.promise(() => import("../Launch.ts"))
    yield* (yield* Lifetime).endsBySignal
    return yield* Effect.raceFirst(Launch.run("serve", flags), orphaned)
  })
).pipe(
  Command.withDescription(
    "Start a server. Where it keeps sessions must be said: DATABASE_URL, or a folder with --data."
  ),
  Command.withExamples([
    {
      command: "DATABASE_URL=postgres://… turnstep serve --model openai/<model>",
      description: "Keep sessions in PostgreSQL"
    }
  ])
)
