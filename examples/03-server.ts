// An agent of your own behind the HTTP API, durable. Run it, then talk to it from another terminal:
//   npx node -C @turnstep/source examples/03-server.ts
//   npx turnstep chat --server 127.0.0.1:4200 --data .turnstep/clerk "/time"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Agent from "@turnstep/runtime/Agent"
import * as Pglite from "@turnstep/runtime/database/Pglite"
import * as Demo from "@turnstep/runtime/model/Demo"
import * as Runtime from "@turnstep/runtime/Runtime"
import * as Server from "@turnstep/server/Server"
import * as Token from "@turnstep/server/Token"
import { DateTime, Effect, Layer, Schema } from "effect"
import * as SecureRandom from "effect/crypto/SecureRandom"
import { Tool, Toolkit } from "effect/ai"

const CurrentTime = Tool.make("current_time", { success: Schema.String }).annotate(Tool.Readonly, true)
const Tools = Toolkit.make(CurrentTime)
const handlers = Tools.toLayer({ current_time: () => Effect.map(DateTime.now, DateTime.formatIso) })

const clerk = Agent.make("clerk", { instructions: "Answer in one sentence.", toolkit: Tools })

const data = ".turnstep/clerk"

const server = Effect.map(Token.ensure(data), (token) =>
  Server.layer({
    host: "127.0.0.1",
    port: 4200,
    token,
    allowHosts: [],
    allowOrigins: [],
    about: { model: { name: "demo", demo: true }, agents: ["clerk"], storage: "pglite" }
  })
)

// What starts first stops last: the database, then the runtime, then the server.
Layer.unwrap(server).pipe(
  Layer.provide(Runtime.layerSql([clerk])),
  Layer.provide([handlers, Demo.layer, Pglite.layer({ dataDir: `${data}/db` })]),
  Layer.provide([NodeServices.layer, SecureRandom.layerWebCrypto]),
  Layer.launch,
  NodeRuntime.runMain
)
