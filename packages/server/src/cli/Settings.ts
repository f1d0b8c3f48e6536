/**
 * The flags of the commands that serve. Their defaults are in `Config`, which also reads the variables.
 */
import * as Flag from "effect/cli/Flag"
import { defaults } from "../Config.ts"

const described =
  (text: string, variable: string, otherwise?: string | number) =>
  <A>(flag: Flag.Flag<A>): Flag.Flag<A> =>
    Flag.withDescription(flag, `${text} [${variable}${otherwise === undefined ? "" : `, default ${otherwise}`}]`)

export const flags = {
  host: Flag.String("host").pipe(described("Address to listen on", "TURNSTEP_HOST", defaults.host), Flag.optional),
  port: Flag.Int("port").pipe(
    Flag.withAlias("p"),
    described("Port to listen on; 0 takes any free one", "TURNSTEP_PORT", defaults.port),
    Flag.optional
  ),
  data: Flag.String("data").pipe(
    described("Folder for the token and the embedded database", "TURNSTEP_DATA", defaults.data),
    Flag.optional
  ),
  workspace: Flag.String("workspace").pipe(
    Flag.withAlias("w"),
    described("Folder the tools may look at", "TURNSTEP_WORKSPACE", defaults.workspace),
    Flag.optional
  ),
  model: Flag.String("model").pipe(
    Flag.withAlias("m"),
    described("`demo` (scripted, not an LLM) or provider/model", "TURNSTEP_MODEL", defaults.model),
    Flag.optional
  ),
  databaseUrl: Flag.Redacted("database-url").pipe(
    described("PostgreSQL instead of the embedded database", "DATABASE_URL"),
    Flag.optional
  ),
  schema: Flag.String("schema").pipe(
    described("PostgreSQL schema that holds the tables", "TURNSTEP_SCHEMA", defaults.schema),
    Flag.optional
  ),
  workers: Flag.Int("workers").pipe(
    described("Turns that may run at the same time; 0 only admits and reads", "TURNSTEP_WORKERS", "no limit"),
    Flag.optional
  ),
  drain: Flag.Int("drain").pipe(
    described("Seconds that running steps may take to end at a stop", "TURNSTEP_DRAIN", defaults.drain),
    Flag.optional
  ),
  allowWrites: Flag.Boolean("allow-writes").pipe(
    described("Let the agent write and edit files of the workspace", "TURNSTEP_ALLOW_WRITES"),
    Flag.withDefault(false)
  ),
  allowCommands: Flag.Boolean("allow-commands").pipe(
    described("Let the agent run shell commands, as the user of the server", "TURNSTEP_ALLOW_COMMANDS"),
    Flag.withDefault(false)
  ),
  mcp: Flag.String("mcp").pipe(
    described("File that names MCP servers, in the customary form", "TURNSTEP_MCP"),
    Flag.optional
  ),
  trustMcp: Flag.Boolean("trust-mcp").pipe(
    described("Approve the MCP servers and their tools as they are now", "TURNSTEP_TRUST_MCP"),
    Flag.withDefault(false)
  ),
  adopt: Flag.Boolean("adopt").pipe(
    described("Take over a data folder that was copied here or came with a repository", "TURNSTEP_ADOPT"),
    Flag.withDefault(false)
  ),
  allowHost: Flag.String("allow-host").pipe(
    described("Another name[:port] the server is called by; repeatable", "TURNSTEP_ALLOW_HOST"),
    Flag.atLeast(0)
  ),
  allowOrigin: Flag.String("allow-origin").pipe(
    described("Another origin whose pages may use the server; repeatable", "TURNSTEP_ALLOW_ORIGIN"),
    Flag.atLeast(0)
  ),
  allowRemote: Flag.Boolean("allow-remote").pipe(
    described("Allow an address that other machines can reach", "TURNSTEP_ALLOW_REMOTE"),
    Flag.withDefault(false)
  )
} as const
