// An agent with a tool of its own, in memory or durable. Run it:
//   npx node -C @turnstep/source examples/01-hello.ts            (memory)
//   npx node -C @turnstep/source examples/01-hello.ts pglite     (durable, in .turnstep/hello)
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as Agent from "@turnstep/runtime/Agent"
import * as Pglite from "@turnstep/runtime/database/Pglite"
import * as Demo from "@turnstep/runtime/model/Demo"
import * as Runtime from "@turnstep/runtime/Runtime"
import * as Session from "@turnstep/runtime/Session"
import { Console, DateTime, Effect, Layer, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"

const CurrentTime = Tool.make("current_time", { success: Schema.String }).annotate(Tool.Readonly, true)
const Tools = Toolkit.make(CurrentTime)
const handlers = Tools.toLayer({ current_time: () => Effect.map(DateTime.now, DateTime.formatIso) })

const assistant = Agent.make("assistant", { instructions: "Answer in one sentence.", toolkit: Tools })

const program = Effect.gen(function* () {
  const session = yield* Session.open()
  const outcome = yield* session.run("/time") // a value: Answered, BudgetSpent, Tripped or Cancelled
  yield* Console.log(outcome)
})

// Demo is a scripted model that needs no key; `Models.layer("openai/<model>")` is a real one.
const needs = Layer.mergeAll(handlers, Demo.layer)
const runtime =
  process.argv[2] === "pglite"
    ? Runtime.layerSql([assistant]).pipe(Layer.provide(Pglite.layer({ dataDir: ".turnstep/hello" })))
    : Runtime.layerMemory([assistant])

program.pipe(Effect.provide(runtime.pipe(Layer.provide(needs))), NodeRuntime.runMain)
