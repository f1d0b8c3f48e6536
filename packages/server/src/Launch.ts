/**
 * From settings to a server that runs, until it is told to stop.
 *
 * Owns: what is put together from which setting, what is said at the start, and in which words a start fails. Does not own:
 * the settings (`Config`), the server (`Server`).
 *
 * - L1. It ends from the outside in: HTTP first, then the runtime lets its sessions go, then the database.
 * - L2. A start that fails says in one line what is wrong and what to do; never more, and never a secret.
 * - L3. The agent's file tools reach nothing that the next start would read or run: data folder, MCP file, packages.
 * - L4. Nothing that was recorded somewhere else runs before a human has agreed (`DataFolder` F3).
 * - L5. A stop takes no longer than running steps have and seven seconds more, though the database be silent: nothing that was
 *   acknowledged depends on how a process ends, and its sessions are free when its lease is over.
 */
import * as Drivers from "@turnstep/runtime/Drivers"
import * as Demo from "@turnstep/runtime/model/Demo"
import * as Models from "@turnstep/runtime/model/Models"
import * as ProtectedPath from "@turnstep/runtime/ProtectedPath"
import * as Runtime from "@turnstep/runtime/Runtime"
import * as Place from "@turnstep/runtime/sql/Place"
import type { Backlog } from "@turnstep/runtime/sql/Backlog"
import * as TurnConfig from "@turnstep/runtime/TurnConfig"
import * as SpillFiles from "@turnstep/runtime/spill/SpillFiles"
import * as DemoTools from "@turnstep/runtime/tools/DemoTools"
import * as RunCommand from "@turnstep/runtime/tools/RunCommand"
import * as Workspace from "@turnstep/runtime/tools/Workspace"
import * as WorkspaceWrite from "@turnstep/runtime/tools/WorkspaceWrite"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Model from "effect/ai/Model"
import * as Console from "effect/Console"
import * as Context from "effect/Context"
import * as Prompt from "effect/cli/Prompt"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FileSystem from "effect/FileSystem"
import * as HttpServer from "effect/http/HttpServer"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import * as Config from "./Config.ts"
import * as DataFolder from "./DataFolder.ts"
import * as Database from "./Database.ts"
import * as DefaultAgent from "./DefaultAgent.ts"
import { bracketed, isWildcard } from "./http/Access.ts"
import * as McpApproval from "./McpApproval.ts"
import type { McpFile } from "./McpFile.ts"
import * as Server from "./Server.ts"
import * as Token from "./Token.ts"
import { version } from "./Version.ts"
import { getCompileCacheDir } from "node:module"
import { fileURLToPath } from "node:url"

/** Serves until it is interrupted (L1, L2). */
export const run = Effect.fn("Launch.run")(
  function* (command: "dev" | "serve", flags: Config.Flags) {
    const resolved = yield* Config.resolve(flags)
    const config = command === "serve" ? yield* Config.checkStorageChosen(resolved) : resolved
    const serving = Effect.gen(function* () {
      const folder = yield* DataFolder.open(config.data.value)
      yield* protect(config)
      const servers = yield* mcpOf(config)
      const database = yield* Database.open(config)
      const backlog = yield* Effect.provide(Database.backlog(config), database)
      if (folder.origin === "foreign") yield* adopt(folder, backlog, config) // L4
      const token = config.token.value ?? (yield* Token.ensure(config.data.value))
      const context = yield* Effect.provide(Layer.build(application(config, token, servers)), database)
      yield* announce(config, servers, backlog, Context.get(context, HttpServer.HttpServer))
      return yield* Effect.never
    }).pipe(
      Effect.provideService(TurnConfig.DefaultPolicy, Config.policyOf(config)),
      Effect.provideService(Place.TableSchema, config.schema.value),
      Effect.provideService(Drivers.Workers, config.workers.value ?? Infinity),
      Effect.provideService(Drivers.Drain, Duration.seconds(config.drain.value))
    )
    return yield* scopedWithin(serving, Duration.seconds(config.drain.value + 7))
  },
  Effect.provide([
    SecureRandom.layerWebCrypto,
    Logger.layer([Logger.consolePretty()]),
    Layer.succeed(Logger.LogToStderr, true)
  ])
)

/** Takes over a folder that was made somewhere else, when a human says so: with `--adopt`, or at the terminal (L4). */
const adopt = Effect.fnUntraced(function* (folder: DataFolder.DataFolder, backlog: Backlog, { adopt }: Config.Config) {
  const waits = isEmpty(backlog) ? "Nothing in it waits to be run." : `It would run at once: ${wordsOf(backlog)}.`
  const isAgreed = adopt.value || (yield* isAgreedTo(`${folder.path} was not made here. ${waits} Take it over?`))
  if (!isAgreed) return yield* new DataFolder.DataFolderForeign({ folder: folder.path, backlog: waits })
  yield* DataFolder.adopt(folder)
})

/** The answer of whoever sits at the terminal; no without one. */
const isAgreedTo = (message: string) =>
  process.stdin.isTTY === true && process.stderr.isTTY === true
    ? Effect.orElseSucceed(Prompt.run(Prompt.Confirm({ message })), () => false)
    : Effect.succeed(false)

const isEmpty = ({ messages, turns }: Backlog): boolean => messages === 0 && turns === 0

const wordsOf = ({ messages, turns }: Backlog): string =>
  `${turns} unfinished ${turns === 1 ? "turn" : "turns"}, ${messages} waiting ${messages === 1 ? "message" : "messages"}`

/** L5 */
const scopedWithin = <A, E, R>(
  self: Effect.Effect<A, E, R>,
  patience: Duration.Duration
): Effect.Effect<A, E, Exclude<R, Scope.Scope>> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const exit = yield* Effect.exit(restore(Scope.provide(self, scope)))
      const closing = yield* Effect.forkDetach(Scope.close(scope, exit), { startImmediately: true })
      const closed = yield* Effect.timeoutOption(Fiber.await(closing), patience)
      if (Option.isNone(closed)) yield* Effect.logWarning("the database does not let go: the process ends without it")
      return yield* exit
    })
  )

/** L3. The file of MCP servers is a program for the next start; so are the packages this process is loaded from. */
const protect = Effect.fnUntraced(function* ({ data, mcp, workspace }: Config.Config) {
  yield* ProtectedPath.protect(data.value)
  // By itself as well: a hard link to it lies in no protected folder.
  yield* ProtectedPath.protect(yield* Token.fileIn(data.value))
  const { spots } = yield* ProtectedPath.ProtectedPaths
  const root = yield* Effect.option(FileSystem.FileSystem.use((fs) => fs.realPath(workspace.value)))
  if (Option.isSome(root) && ProtectedPath.accessTo(spots(), root.value) === "none") {
    return yield* new Config.SettingInvalid({
      setting: workspace.name,
      problem: `${workspace.value} lies in the data folder, of which the agent's tools see nothing.`,
      advice: "Choose another folder with --workspace or --data."
    })
  }
  if (mcp.value !== undefined) yield* ProtectedPath.protect(mcp.value)
  if (installed !== undefined) yield* ProtectedPath.protect(installed, "read")
  const compiled = getCompileCacheDir()
  if (compiled !== undefined) yield* ProtectedPath.protect(compiled)
})

/** The folder of packages that this process is loaded from: the outermost one, as package managers nest them. */
const installed = /^.*?[/\\]node_modules(?=[/\\])/.exec(fileURLToPath(import.meta.resolve("effect/package.json")))?.[0]

/** Everything that runs, for these settings. */
const application = (config: Config.Config, token: Redacted.Redacted, servers: McpFile) => {
  const isDemo = config.model.value === "demo"
  const server = Server.layer({
    host: config.host.value,
    port: config.port.value,
    token,
    allowHosts: config.allowHosts.value,
    allowOrigins: config.allowOrigins.value,
    about: {
      model: { name: config.model.value, demo: isDemo },
      agents: ["default"],
      storage: config.databaseUrl.value === undefined ? "pglite" : "postgres"
    }
  })
  const runtime = isDemo
    ? demoRuntime(servers)
    : Layer.provide(
        Runtime.layerSql([
          DefaultAgent.agent(
            { allowWrites: config.allowWrites.value, allowCommands: config.allowCommands.value },
            servers.toolkits
          )
        ]),
        Models.layer(config.model.value)
      )
  return server.pipe(
    Layer.provide(Layer.catchTag(runtime, "SqlError", Database.refuse(Database.placeIn(config)))),
    Layer.provide([tools(config.workspace.value), servers.layer]),
    Layer.provide(spills(config))
  )
}

/** The handlers of everything an agent may be given in a workspace. */
const tools = (root: string) =>
  Layer.mergeAll(Workspace.layer({ root }), WorkspaceWrite.layer({ root }), RunCommand.layer({ root }))

const spills = ({ data, spillDays, spillMebibytes }: Config.Config) =>
  Layer.unwrap(
    Effect.map(Path.Path, (path) =>
      SpillFiles.layer({
        folder: path.join(data.value, "spills"),
        quota: spillMebibytes.value * 1024 * 1024,
        keep: Duration.days(spillDays.value)
      })
    )
  )

const demoRuntime = ({ toolkits }: McpFile) =>
  Runtime.layerSql([DefaultAgent.demo(toolkits)]).pipe(
    Layer.provide([Demo.layer, Layer.succeed(Model.ModelName, Demo.modelId), DemoTools.layer])
  )

/** The MCP servers of the settings. The client is loaded where there are some: it takes a tenth of a second. */
const mcpOf = Effect.fnUntraced(function* ({ data, mcp, trustMcp }: Config.Config) {
  const { value } = mcp
  if (value === undefined) return noServers
  const { read } = yield* Effect.promise(() => import("./McpFile.ts"))
  const approval = McpApproval.open(data.value, trustMcp.value)
  const servers = yield* read({ ...mcp, value }, approval.approveTools)
  const changed = approval.changed(servers.entries)
  if (changed.length > 0 && !trustMcp.value) {
    const question = `${changed.join(", ")} in ${value} is new or has changed since it was approved. Start it?`
    if (!(yield* isAgreedTo(question))) {
      return yield* new Config.SettingInvalid({
        setting: mcp.name,
        problem: `${value}: ${changed.join(", ")} is new or has changed since its servers were approved.`,
        advice: "Look at the file; if it says what you want, start once with --trust-mcp."
      })
    }
  }
  approval.approve(servers.entries)
  if (servers.ignored.length > 0) yield* Effect.logWarning(`${value}: nothing here reads ${servers.ignored.join(", ")}`)
  return servers
})

const noServers: McpFile = {
  toolkits: [],
  ignored: [],
  entries: {},
  layer: Layer.empty as Layer.Layer<unknown> as McpFile["layer"]
}

/** Says what runs, where, and how to stop it; on stderr, which is for people. */
const announce = Effect.fnUntraced(function* (
  config: Config.Config,
  { toolkits }: McpFile,
  backlog: Backlog,
  server: HttpServer.HttpServer["Service"]
) {
  const path = yield* Path.Path
  const host = isWildcard(config.host.value) ? "127.0.0.1" : bracketed(config.host.value)
  const url = `http://${host}:${"port" in server.address ? server.address.port : config.port.value}`
  const isDemo = config.model.value === "demo"
  const keys = isDemo ? yield* Models.announced : []
  const lines = [
    ["api", `${url}/api`],
    ["docs", `${url}/api/docs`],
    ["token", config.token.value === undefined ? yield* Token.fileIn(config.data.value) : "from TURNSTEP_TOKEN"],
    ["storage", storageOf(config)],
    ["model", isDemo ? "demo (scripted, not an LLM)" : config.model.value],
    ["workspace", path.resolve(config.workspace.value)],
    ...(isEmpty(backlog) ? [] : [["resumes", wordsOf(backlog)]]),
    ...(toolkits.length === 0 ? [] : [["mcp", toolkits.map(({ name }) => name).join(", ")]]),
    ...keys.map(({ provider, variable }) => [
      "found",
      `${variable}: to use it, turnstep dev --model ${provider}/<model>`
    ]),
    ["stop", "Ctrl-C"]
  ]
  const width = Math.max(...lines.map(([name = ""]) => name.length))
  yield* Console.error(
    [`turnstep ${version}`, ...lines.map(([name = "", text]) => `  ${name.padEnd(width)}  ${text}`)].join("\n")
  )
})

const storageOf = (config: Config.Config): string =>
  config.databaseUrl.value === undefined
    ? `PGlite in ${Database.placeIn(config)}`
    : `PostgreSQL at ${Database.placeIn(config)} (from ${config.databaseUrl.name})`
