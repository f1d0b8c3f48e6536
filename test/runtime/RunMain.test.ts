/** A process that is told to stop while its main program waits for a Turn. */
import { assert, describe, it } from "@effect/vitest"
import * as Agent from "@turnstep/runtime/Agent"
import * as Demo from "@turnstep/runtime/model/Demo"
import * as Pglite from "@turnstep/runtime/database/Pglite"
import * as Runtime from "@turnstep/runtime/Runtime"
import * as Session from "@turnstep/runtime/Session"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Child from "../fixtures/Child.ts"
import * as PgliteDirectory from "../fixtures/Pglite.ts"

const tools = Toolkit.make(Tool.make("current_time", { success: Schema.String }).annotate(Tool.Readonly, true))
const agent = Agent.make("agent", { instructions: "Tell the time.", toolkit: tools })

describe("A main program that is told to stop while it waits in `run`", () => {
  for (const onInterrupt of ["leave", "cancel"]) {
    it.live(
      `leaves the Turn to the next process, with onInterrupt: ${onInterrupt}`,
      () =>
        Effect.gen(function* () {
          const dataDir = yield* PgliteDirectory.freshDirectory()
          const child = yield* Child.start("runMain", dataDir, onInterrupt)
          assert.strictEqual(yield* child.line, "running")
          assert.strictEqual(yield* child.stop, 130)
          const next = Runtime.layerSql([agent]).pipe(
            Layer.provide([
              tools.toLayer({ current_time: () => Effect.succeed("noon") }),
              Demo.layer,
              Pglite.layer({ dataDir, sync: false })
            ])
          )
          const { events, outcome } = yield* Effect.gen(function* () {
            const session = yield* Session.get("main")
            const outcome = yield* session.outcome("trn_1")
            return { outcome, events: yield* session.events({ after: 0 }) }
          }).pipe(Effect.provide(next))
          assert.strictEqual(outcome._tag, "Answered")
          assert.isEmpty(events.filter(({ type }) => type === "turn.cancelling" || type === "call.receipt"))
        }).pipe(Effect.scoped),
      90_000
    )
  }
})
