/** The budgets of a served agent, set as an operator sets them, end its Turns. */
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Runtime from "@turnstep/runtime/Runtime"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as TurnConfig from "@turnstep/runtime/TurnConfig"
import * as Config from "@turnstep/server/Config"
import * as DefaultAgent from "@turnstep/server/DefaultAgent"
import * as Workspace from "@turnstep/runtime/tools/Workspace"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Server from "../fixtures/Server.ts"
import * as Sse from "../fixtures/Sse.ts"

const settings: ReadonlyArray<readonly [limit: string, env: Readonly<Record<string, string>>]> = [
  ["steps", { TURNSTEP_MAX_STEPS: "3" }],
  ["tokens", { TURNSTEP_MAX_TOKENS: "2000" }],
  ["cost", { TURNSTEP_MAX_COST: "0.002", TURNSTEP_PRICE: "1/1" }],
  ["time", { TURNSTEP_MAX_SECONDS: "1" }]
]

describe("a served agent", () => {
  for (const [limit, env] of settings) {
    it.live(`gives back when its ${limit} are spent`, () =>
      Effect.gen(function* () {
        const config = yield* Config.resolve(Config.noFlags).pipe(
          Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromEnv({ env: { ...env } }))
        )
        const usage = { prompt_tokens: 800, completion_tokens: 200, total_tokens: 1000 }
        const provider = yield* StrictProvider.make({
          respond: ({ body, index }) => {
            if (body["tool_choice"] === "none") return StrictProvider.text("I came this far", { usage })
            if (limit === "time") return StrictProvider.text(["half", Effect.never])
            // Other arguments each time, or the Turn would end for its repetitions.
            const call = {
              id: `call_${index}`,
              name: "list_files",
              arguments: JSON.stringify({ pattern: `*.${index}` })
            }
            return StrictProvider.calls([call], { usage })
          }
        })
        const runtime = Runtime.layerMemory([
          DefaultAgent.agent({ allowWrites: false, allowCommands: false }, [])
        ]).pipe(
          Layer.provide([provider.layer, Workspace.layer({ root: "docs" })]),
          Layer.provide(NodeServices.layer),
          Layer.provide(Layer.succeed(TurnConfig.DefaultPolicy, Config.policyOf(config)))
        )
        const server = Context.get(yield* Layer.build(Layer.fresh(Server.layer(runtime as never))), Server.TestServer)
        yield* server.json("/api/sessions", { method: "POST", body: { id: "s", input: "go" } })
        const stream = yield* Sse.open(server, "/api/sessions/s/events?until=turn-end")
        const ended = (yield* stream.rest).find(({ event }) =>
          /^turn\.(exhausted|completed|failed|tripped)$/.test(event)
        )
        assert.strictEqual(ended?.event, "turn.exhausted")
        assert.strictEqual(ended?.data.data["limit"], limit)
      })
    )
  }
})
