/**
 * The file that names the MCP servers: `{ "mcpServers": { name: { command, args, env } | { url, headers } } }`, the form other
 * clients use as well (docs/mcp.md).
 *
 * Owns: its form, and variables in it. Does not own: what is done with the servers (`runtime/tools/Mcp`).
 *
 * - F1. A file that cannot be used as it stands is refused with the server and the word that is wrong; no value of it is told.
 * - F2. What other clients write into it and nobody here reads is named, not refused.
 */
import * as Mcp from "@turnstep/runtime/tools/Mcp"
import * as EffectConfig from "effect/Config"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { type Setting, SettingInvalid } from "./Config.ts"

const Texts = Schema.Record(Schema.String, Schema.String)

/** A server as the file has it. */
const Entry = Schema.Struct({
  type: Schema.optionalKey(Schema.String),
  command: Schema.optionalKey(Schema.String),
  args: Schema.optionalKey(Schema.Array(Schema.String)),
  env: Schema.optionalKey(Texts),
  cwd: Schema.optionalKey(Schema.String),
  url: Schema.optionalKey(Schema.String),
  headers: Schema.optionalKey(Texts),
  tools: Schema.optionalKey(Schema.Array(Schema.String)),
  trust: Schema.optionalKey(Schema.Boolean),
  effects: Schema.optionalKey(
    Schema.Record(Schema.String, Schema.Literals(["pure", "idempotent", "queryable", "once"]))
  ),
  timeoutSeconds: Schema.optionalKey(Schema.Finite.check(Schema.isGreaterThan(0))),
  disabled: Schema.optionalKey(Schema.Boolean)
})
type Entry = typeof Entry.Type

const decodeFile = Schema.decodeUnknownEffect(
  Schema.Struct({ mcpServers: Schema.Record(Schema.String, Schema.Unknown) })
)
const decodeEntry = Schema.decodeUnknownEffect(Entry)

/** The servers of a file. */
export interface McpFile {
  readonly toolkits: ReadonlyArray<Mcp.McpToolkit<string>>
  /** Keeps all of them in reach. */
  readonly layer: Layer.Layer<Mcp.Server<string>>
  /** Words that nothing here reads, as `server.word` (F2). */
  readonly ignored: ReadonlyArray<string>
  /** The entries in use, as they are written: variables unfilled. */
  readonly entries: Readonly<Record<string, unknown>>
}

/** Reads the file a setting names. */
export const read = Effect.fn("McpFile.read")(function* (
  { name, value: path }: Setting<string>,
  approveTools?: (server: string, digest: string) => Effect.Effect<boolean>
): Effect.fn.Return<McpFile, SettingInvalid, FileSystem.FileSystem> {
  const refuse = (problem: string, advice: string) => new SettingInvalid({ setting: name, problem, advice })
  const text = yield* FileSystem.FileSystem.use((fs) => fs.readFileString(path)).pipe(
    Effect.mapError(() => refuse(`${path} cannot be read.`, "Name a file that is there."))
  )
  const json = yield* Effect.try({
    try: (): unknown => JSON.parse(text),
    catch: () => refuse(`${path} is not JSON.`, "Correct it; comments and trailing commas are not allowed.")
  })
  const { mcpServers } = yield* decodeFile(json).pipe(
    Effect.mapError(() =>
      refuse(`${path} has no "mcpServers".`, 'Write { "mcpServers": { "name": { "command": "…" } } }.')
    )
  )
  const toolkits: Array<Mcp.McpToolkit<string>> = []
  const ignored: Array<string> = []
  const entries: Record<string, unknown> = {}
  for (const [server, value] of Object.entries(mcpServers)) {
    const entry = yield* decodeEntry(value).pipe(
      // The path is told, not the value that stands there (F1).
      Effect.mapError((error) =>
        refuse(`${path}: server ${server}: ${wordsOf(error)}`, "See docs/mcp.md for its form.")
      )
    )
    ignored.push(...Object.keys(value as object).flatMap((key) => (key in Entry.fields ? [] : [`${server}.${key}`])))
    if (entry.disabled === true) continue
    const endpoint = yield* endpointOf(entry).pipe(
      Effect.mapError(({ advice, problem }) => refuse(`${path}: server ${server}: ${problem}`, advice))
    )
    const problem = Mcp.problemOf(server, endpoint)
    if (problem !== undefined) return yield* refuse(`${path}: server ${server}: ${problem}`, "Correct it.")
    const approve = approveTools === undefined ? undefined : (digest: string) => approveTools(server, digest)
    toolkits.push(Mcp.toolkit(server, endpoint, { ...optionsOf(entry), approve }))
    entries[server] = value
  }
  const layers = toolkits.map(({ layer }) => layer)
  return { toolkits, ignored, entries, layer: layers.reduce((all, layer) => Layer.merge(all, layer), none) }
})

/** Of no server; none is asked for. */
const none = Layer.empty as Layer.Layer<unknown> as McpFile["layer"]

const optionsOf = ({ effects, timeoutSeconds, tools, trust }: Entry): Mcp.Options => ({
  effects,
  tools,
  trust,
  timeout: timeoutSeconds === undefined ? undefined : Duration.seconds(timeoutSeconds)
})

interface Problem {
  readonly problem: string
  readonly advice: string
}

const endpointOf = Effect.fnUntraced(function* (entry: Entry): Effect.fn.Return<Mcp.Endpoint, Problem> {
  const { args = [], command, cwd, env = {}, headers = {}, type, url } = entry
  if (type === "sse") {
    return yield* Effect.fail({
      problem: 'The transport "sse" of the revision of 2024 is not supported.',
      advice: 'Use the server\'s Streamable HTTP address, with "type": "http".'
    })
  }
  if ((command === undefined) === (url === undefined)) {
    return yield* Effect.fail({
      problem: command === undefined ? "It has neither a command nor a url." : "It has a command and a url.",
      advice: "Give one: a command for a server that is started here, a url for one that is called."
    })
  }
  if (command !== undefined) {
    return {
      command: yield* expanded(command),
      args: yield* Effect.forEach(args, expanded),
      env: yield* secrets(env),
      cwd: cwd === undefined ? undefined : yield* expanded(cwd)
    }
  }
  return { url: yield* expanded(url ?? ""), headers: yield* secrets(headers) }
})

const secrets = (values: Readonly<Record<string, string>>) =>
  Effect.map(
    Effect.forEach(Object.entries(values), ([key, value]) =>
      Effect.map(expanded(value), (text) => [key, Redacted.make(text)] as const)
    ),
    (entries) => Object.fromEntries(entries)
  )

/** A text with its `${NAME}` and `${NAME:-otherwise}` filled in from the environment. */
const expanded = Effect.fnUntraced(function* (text: string): Effect.fn.Return<string, Problem> {
  let filled = ""
  let end = 0
  for (const found of text.matchAll(/\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}/g)) {
    const [whole, name = "", otherwise] = found
    const value = Option.getOrElse(yield* Effect.orDie(EffectConfig.option(EffectConfig.String(name))), () => otherwise)
    if (value === undefined) {
      return yield* Effect.fail({
        problem: `The variable ${name} is not set.`,
        advice: `Set it, or write \${${name}:-something} in the file.`
      })
    }
    filled += text.slice(end, found.index) + value
    end = found.index + whole.length
  }
  return filled + text.slice(end)
})

/** Where an entry is wrong, without what is written there. */
const wordsOf = (error: Schema.SchemaError): string => {
  const place = /at (\[.*\])/.exec(error.message)?.[1]
  return place === undefined ? "It is not an object." : `What stands at ${place} is not of the right kind.`
}
