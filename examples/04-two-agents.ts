// Two agents with different tools in one runtime. Run it:
//   npx node -C @turnstep/source examples/04-two-agents.ts
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as Agent from "@turnstep/runtime/Agent"
import * as Demo from "@turnstep/runtime/model/Demo"
import * as Runtime from "@turnstep/runtime/Runtime"
import * as Session from "@turnstep/runtime/Session"
import { Console, DateTime, Effect, Layer, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"

const Clock = Toolkit.make(Tool.make("current_time", { success: Schema.String }).annotate(Tool.Readonly, true))
const Files = Toolkit.make(
  Tool.make("list_files", { success: Schema.Array(Schema.String) }).annotate(Tool.Readonly, true)
)
const handlers = Layer.mergeAll(
  Clock.toLayer({ current_time: () => Effect.map(DateTime.now, DateTime.formatIso) }),
  Files.toLayer({ list_files: () => Effect.succeed(["README.md"]) })
)

const clerk = Agent.make("clerk", { instructions: "Tell the time.", toolkit: Clock })
const librarian = Agent.make("librarian", { instructions: "List the files.", toolkit: Files })

const program = Effect.gen(function* () {
  for (const agent of ["clerk", "librarian"]) {
    const session = yield* Session.open({ agent })
    yield* Console.log(agent, yield* session.run("/time")) // the librarian has no such tool, and says so
  }
})

program.pipe(
  Effect.provide(Runtime.layerMemory([clerk, librarian]).pipe(Layer.provide([handlers, Demo.layer]))),
  NodeRuntime.runMain
)
