/**
 * `turnstep doctor`: what would keep a server from running here, and what to do about it.
 *
 * Owns: the checks. Does not own: the settings they check (`Config`).
 *
 * - D1. A check leaves nothing behind: no folder, no token, no database and no model request. MCP servers are started or
 *   called, asked for their tools, and let go.
 */
import type { McpToolkit } from "@turnstep/runtime/tools/Mcp"
import * as Models from "@turnstep/runtime/model/Models"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as net from "node:net"
import * as Config from "../Config.ts"
import * as DataFolder from "../DataFolder.ts"
import * as Database from "../Database.ts"
import * as Token from "../Token.ts"
import { bracketed, isWildcard } from "../http/Access.ts"
import * as Connection from "./Connection.ts"
import * as Settings from "./Settings.ts"

/** What a check found. `advice` says what to do when it is not well. */
interface Finding {
  readonly check: string
  readonly isWell: boolean
  readonly found: string
  readonly advice?: string
}

export const command = Command.make(
  "doctor",
  {
    ...Settings.flags,
    json: Flag.Boolean("json").pipe(Flag.withDescription("print JSON instead of lines"), Flag.withDefault(false))
  },
  Effect.fn("doctor")(function* ({ json, ...flags }) {
    const settings = yield* Effect.result(Config.resolve(flags))
    const findings: ReadonlyArray<Finding> =
      settings._tag === "Failure"
        ? [node(), { check: "settings", isWell: false, found: settings.failure.message, advice: "See above." }]
        : yield* Effect.all([
            Effect.sync(node),
            folder(settings.success.data.value),
            workspace(settings.success.workspace.value),
            token(settings.success.data.value),
            port(settings.success),
            storage(settings.success),
            model(settings.success.model.value),
            mcp(settings.success.mcp),
            Effect.succeed<Finding>({
              check: "budget of a turn",
              isWell: true,
              found: Config.budgetOf(settings.success)
            })
          ]).pipe(Effect.map((found) => found.flat()))
    yield* Console.log(json ? JSON.stringify(findings, undefined, 2) : findings.map(line).join("\n"))
    if (findings.some((finding) => !finding.isWell)) return yield* new Connection.CommandFailed({ exitCode: 1 })
  })
).pipe(Command.withDescription("Check what a server needs here, and say what to do about what is missing"))

const line = ({ check, isWell, found, advice }: Finding): string =>
  `${isWell ? "✓" : "✗"} ${check}: ${found}${isWell || advice === undefined ? "" : `\n  → ${advice}`}`

const node = (): Finding => {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number)
  const isWell = major > 22 || (major === 22 && minor >= 19)
  return { check: "node", isWell, found: process.version, advice: "Install Node 24, or 22.19 at least." }
}

/** The folder is fit to be used, or can be made in the nearest one above it that exists. */
const folder = Effect.fnUntraced(function* (data: string) {
  const check = "data folder"
  const looked = yield* Effect.result(DataFolder.inspect(data))
  if (looked._tag === "Failure") return { check, isWell: false, found: looked.failure.message } satisfies Finding
  const { origin, path: wanted } = looked.success
  if (origin === "foreign") {
    return {
      check,
      isWell: false,
      found: `${wanted} was not made here: it was copied, or it came with a repository`,
      advice: "Start with --adopt if it is yours, or choose another folder with --data."
    } satisfies Finding
  }
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const isThere = (folder: string) => Effect.orElseSucceed(fs.exists(folder), () => false)
  let nearest = wanted
  while (!(yield* isThere(nearest)) && path.dirname(nearest) !== nearest) nearest = path.dirname(nearest)
  // Permissions do not tell of file systems that take no folders, so one is made and removed again.
  const tried = yield* Effect.result(
    Effect.scoped(fs.makeTempDirectoryScoped({ directory: nearest, prefix: ".turnstep-" }))
  )
  return {
    check,
    isWell: tried._tag === "Success",
    found: `${wanted}${nearest === wanted ? "" : " (will be made)"}`,
    advice: `Nothing can be written in ${nearest}: correct that, or choose another folder with --data.`
  } satisfies Finding
})

const workspace = Effect.fnUntraced(function* (root: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const wanted = path.resolve(root)
  const isWell = yield* fs.readDirectory(wanted).pipe(
    Effect.as(true),
    Effect.orElseSucceed(() => false)
  )
  return {
    check: "workspace",
    isWell,
    found: isWell ? wanted : `${wanted} cannot be read`,
    advice: "Choose a folder that exists with --workspace."
  } satisfies Finding
})

const token = Effect.fnUntraced(function* (data: string) {
  const fs = yield* FileSystem.FileSystem
  const file = yield* Token.fileIn(data)
  if (Option.isNone(yield* Effect.option(fs.lstat(file)))) {
    return { check: "token", isWell: true, found: "none yet; the first start makes one" } satisfies Finding
  }
  const read = yield* Effect.result(Token.read(data))
  return read._tag === "Success"
    ? ({ check: "token", isWell: true, found: file } satisfies Finding)
    : ({ check: "token", isWell: false, found: read.failure.message } satisfies Finding)
})

/** The port is free, or taken by the server whose token this is: then all is well already. */
const port = Effect.fnUntraced(function* ({ data, host, port }: Config.Config) {
  const address = `${host.value}:${port.value}`
  const fault = yield* bindFault(host.value, port.value)
  if (fault === undefined) return { check: "port", isWell: true, found: `${address} is free` } satisfies Finding
  const running = yield* Connection.open({
    server: `http://${isWildcard(host.value) ? "127.0.0.1" : bracketed(host.value)}:${port.value}`,
    data: data.value
  }).pipe(Effect.option, Effect.provide(FetchHttpClient.layer))
  return Option.isSome(running)
    ? ({
        check: "port",
        isWell: true,
        found: `${address} has turnstep ${running.value.info.version} on it`
      } satisfies Finding)
    : ({
        check: "port",
        isWell: false,
        found: `${address} cannot be bound (${fault})`,
        advice: "Something else may be running there: choose another port with --port."
      } satisfies Finding)
})

/** Why an address cannot be listened on, if it cannot. */
const bindFault = (host: string, port: number) =>
  Effect.callback<string | undefined>((resume) => {
    const server = net.createServer()
    server.once("error", (error) => resume(Effect.succeed(String(Reflect.get(error, "code")))))
    server.listen(port, host, () => server.close(() => resume(Effect.undefined)))
    return Effect.sync(() => server.close())
  })

const storage = Effect.fnUntraced(function* (config: Config.Config) {
  const url = config.databaseUrl.value
  if (url === undefined) {
    return { check: "storage", isWell: true, found: "embedded PGlite in the data folder" } satisfies Finding
  }
  const asked = yield* Layer.build(Database.postgres(url)).pipe(
    Effect.scoped,
    Effect.timeoutOrElse({
      duration: "5 seconds",
      orElse: () => Effect.fail({ message: `${Database.placeOf(url)} did not answer within five seconds.` })
    }),
    Effect.result
  )
  return {
    check: "storage",
    isWell: asked._tag === "Success",
    found: asked._tag === "Success" ? `PostgreSQL at ${Database.placeOf(url)} lets us in` : asked.failure.message
  } satisfies Finding
})

const model = Effect.fnUntraced(function* (name: string) {
  if (name === "demo") {
    return { check: "model", isWell: true, found: "demo (scripted, not an LLM)" } satisfies Finding
  }
  const checked = yield* Effect.result(Effect.scoped(Layer.build(Models.layer(name))))
  return checked._tag === "Success"
    ? ({ check: "model", isWell: true, found: `${name} (not asked)` } satisfies Finding)
    : ({ check: "model", isWell: false, found: checked.failure.message } satisfies Finding)
})

/** Each server of the file, as it answers now. */
const mcp = Effect.fnUntraced(function* ({ value, ...setting }: Config.Setting<string | undefined>) {
  if (value === undefined) return []
  // Loaded here, so that no other command waits for the client.
  const McpFile = yield* Effect.promise(() => import("../McpFile.ts"))
  const read = yield* Effect.result(McpFile.read({ ...setting, value }))
  if (read._tag === "Failure") {
    const { advice, problem } = read.failure
    return [{ check: "mcp", isWell: false, found: problem, advice } satisfies Finding]
  }
  const { ignored, toolkits } = read.success
  const found = yield* Effect.forEach(toolkits, mcpServer, { concurrency: "unbounded" })
  const unread = ignored.length === 0 ? "" : `; nothing here reads ${ignored.join(", ")}`
  return [
    {
      check: "mcp",
      isWell: true,
      found: `${toolkits.length} ${toolkits.length === 1 ? "server" : "servers"} in ${value}${unread}`
    },
    ...found
  ]
})

const mcpServer = Effect.fnUntraced(
  function* (toolkit: McpToolkit<string>) {
    yield* toolkit.tools
    const { digest = "", reason, serverInfo, shortened, state, tools } = yield* toolkit.status
    const check = `mcp ${toolkit.name}`
    if (state === "ready") {
      const who = serverInfo === undefined ? "" : `${serverInfo.name} ${serverInfo.version}, `
      return {
        check,
        isWell: true,
        found: [`${who}${tools.length} tools, digest ${digest.slice(0, 12)}`, ...shortened].join("; ")
      } satisfies Finding
    }
    return {
      check,
      isWell: false,
      found: reason ?? "it has not answered in ten seconds",
      advice: "Correct its entry in the file, or start it. A server starts without it; its tools come when it comes."
    } satisfies Finding
  },
  // What connections log would stand between the findings.
  (checked, { layer }) => Effect.provide(checked, Layer.provide(layer, Logger.layer([])))
)
