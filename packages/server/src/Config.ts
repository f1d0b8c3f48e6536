/**
 * The settings of the server: flags, then environment, then defaults.
 *
 * Owns: the names, defaults and sources of all settings, and which combinations are refused. Does not own: what is done
 * with them (`Launch`), or the variables of model providers (`runtime/model/Models`).
 *
 * - C1. A flag wins over a variable, a variable over a default; every setting knows where it came from.
 * - C2. Secrets are `Redacted` from the moment they are read.
 */
import { defaultMaxSteps } from "@turnstep/core/Budget"
import * as Place from "@turnstep/runtime/sql/Place"
import type { Policy, Price } from "@turnstep/runtime/TurnConfig"
import * as EffectConfig from "effect/Config"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import * as RedactedValue from "effect/Redacted"
import * as Schema from "effect/Schema"
import { isLoopback } from "./http/Access.ts"

/** A setting cannot be used as it is. `advice` says what to do. */
export class SettingInvalid extends Schema.TaggedError<SettingInvalid>()("SettingInvalid", {
  setting: Schema.String,
  problem: Schema.String,
  advice: Schema.String
}) {
  override get message() {
    return `${this.setting}: ${this.problem} ${this.advice}`
  }
}

/** A value, and where it came from (C1). `name` is the flag or variable. */
export interface Setting<A> {
  readonly value: A
  readonly source: "flag" | "environment" | "default"
  readonly name: string
}

export interface Config {
  readonly host: Setting<string>
  /** 0 takes any free port. */
  readonly port: Setting<number>
  /** Folder for everything the server writes: token, embedded database. */
  readonly data: Setting<string>
  /** Folder the tools may look at. */
  readonly workspace: Setting<string>
  /** `demo`, or `provider/model`. */
  readonly model: Setting<string>
  /** Without one the database is embedded. */
  readonly databaseUrl: Setting<Redacted.Redacted | undefined>
  /** The PostgreSQL schema that holds the tables. */
  readonly schema: Setting<string>
  readonly token: Setting<Redacted.Redacted | undefined>
  /** Turns that may run at the same time here; 0 for a server that only admits and reads, `undefined` for no limit. */
  readonly workers: Setting<number | undefined>
  /** Seconds that running steps may take to end when the server is told to stop. */
  readonly drain: Setting<number>
  /** How often a Turn may make the same tool calls in a row; without one, the runtime's own limit. */
  readonly repeatedToolCallLimit: Setting<number | undefined>
  /** What one Turn may use: without a value steps have the runtime's own limit, and the others none. */
  readonly maxSteps: Setting<number | undefined>
  readonly maxTokens: Setting<number | undefined>
  /** Money, at `price`. */
  readonly maxCost: Setting<number | undefined>
  readonly price: Setting<Price | undefined>
  /** Seconds from the start of the Turn. */
  readonly maxSeconds: Setting<number | undefined>
  /** Calls of one response that are run. */
  readonly callLimit: Setting<number | undefined>
  /** Mebibytes that large outputs of tools may have together, and days they are kept. */
  readonly spillMebibytes: Setting<number>
  readonly spillDays: Setting<number>
  /** Whether the agent may change files of the workspace, and run commands as the user of the server. */
  readonly allowWrites: Setting<boolean>
  readonly allowCommands: Setting<boolean>
  /** The file that names MCP servers. */
  readonly mcp: Setting<string | undefined>
  /** Whether MCP servers, and their tools, are agreed to as they are found at this start. */
  readonly trustMcp: Setting<boolean>
  /** Whether a data folder that was made somewhere else is taken over. */
  readonly adopt: Setting<boolean>
  readonly allowHosts: Setting<ReadonlyArray<string>>
  readonly allowOrigins: Setting<ReadonlyArray<string>>
  readonly allowRemote: Setting<boolean>
}

/** The flags as they were parsed. */
export interface Flags {
  readonly host: Option.Option<string>
  readonly port: Option.Option<number>
  readonly data: Option.Option<string>
  readonly workspace: Option.Option<string>
  readonly model: Option.Option<string>
  readonly databaseUrl: Option.Option<Redacted.Redacted>
  readonly schema: Option.Option<string>
  readonly workers: Option.Option<number>
  readonly drain: Option.Option<number>
  readonly allowWrites: boolean
  readonly allowCommands: boolean
  readonly mcp: Option.Option<string>
  readonly adopt: boolean
  readonly trustMcp: boolean
  readonly allowHost: ReadonlyArray<string>
  readonly allowOrigin: ReadonlyArray<string>
  readonly allowRemote: boolean
}

/** What holds when nothing is said. */
export const defaults = {
  host: "127.0.0.1",
  port: 4199,
  data: ".turnstep",
  workspace: ".",
  model: "demo",
  schema: "turnstep",
  drain: 1,
  spillMebibytes: 10_240,
  spillDays: 7
} as const

/** No flags. */
export const noFlags: Flags = {
  host: Option.none(),
  port: Option.none(),
  data: Option.none(),
  workspace: Option.none(),
  model: Option.none(),
  databaseUrl: Option.none(),
  schema: Option.none(),
  workers: Option.none(),
  drain: Option.none(),
  allowWrites: false,
  allowCommands: false,
  mcp: Option.none(),
  adopt: false,
  trustMcp: false,
  allowHost: [],
  allowOrigin: [],
  allowRemote: false
}

/** The policy of agents that say nothing of their own. */
export const policyOf = (config: Config): Policy => ({
  repeatedToolCallLimit: config.repeatedToolCallLimit.value,
  maxSteps: config.maxSteps.value,
  maxTokens: config.maxTokens.value,
  callLimit: config.callLimit.value,
  ...(config.price.value === undefined ? {} : { cost: { max: config.maxCost.value, price: config.price.value } }),
  ...(config.maxSeconds.value === undefined ? {} : { maxDuration: Duration.seconds(config.maxSeconds.value) })
})

/** The budget of a Turn in words. */
export const budgetOf = ({ callLimit, maxCost, maxSeconds, maxSteps, maxTokens }: Config): string =>
  [
    `${maxSteps.value ?? defaultMaxSteps} steps`,
    `${maxTokens.value ?? "any number of"} tokens`,
    maxCost.value === undefined ? "no limit of cost" : `a cost of ${maxCost.value}`,
    maxSeconds.value === undefined ? "no limit of time" : `${maxSeconds.value} seconds`,
    ...(callLimit.value === undefined ? [] : [`${callLimit.value} calls of a response`])
  ].join(", ")

/** Resolves the settings (C1). */
export const resolve = Effect.fn("Config.resolve")(function* (flags: Flags) {
  const listFlag = (list: ReadonlyArray<string>) => (list.length === 0 ? Option.none() : Option.some(list))
  const switchFlag = (flag: boolean) => (flag ? Option.some(true) : Option.none())
  const config: Config = {
    host: yield* setting("host", flags.host, text("TURNSTEP_HOST"), defaults.host),
    port: yield* setting("port", flags.port, count("TURNSTEP_PORT", "a port"), defaults.port),
    data: yield* setting("data", flags.data, text("TURNSTEP_DATA"), defaults.data),
    workspace: yield* setting("workspace", flags.workspace, text("TURNSTEP_WORKSPACE"), defaults.workspace),
    model: yield* setting("model", flags.model, text("TURNSTEP_MODEL"), defaults.model),
    databaseUrl: yield* setting("database-url", flags.databaseUrl, secret("DATABASE_URL"), undefined),
    schema: yield* setting("schema", flags.schema, text("TURNSTEP_SCHEMA"), defaults.schema),
    workers: yield* setting("workers", flags.workers, count("TURNSTEP_WORKERS", "a number of workers"), undefined),
    drain: yield* setting("drain", flags.drain, count("TURNSTEP_DRAIN", "a number of seconds"), defaults.drain),
    repeatedToolCallLimit: yield* budget(
      "repeated-tool-call-limit",
      count("REPEATED_TOOL_CALL_LIMIT", "a number of calls")
    ),
    maxSteps: yield* budget("max-steps", count("TURNSTEP_MAX_STEPS", "a number of steps")),
    maxTokens: yield* budget("max-tokens", count("TURNSTEP_MAX_TOKENS", "a number of tokens")),
    maxCost: yield* budget("max-cost", amount("TURNSTEP_MAX_COST")),
    price: yield* budget("price", price("TURNSTEP_PRICE")),
    maxSeconds: yield* budget("max-seconds", count("TURNSTEP_MAX_SECONDS", "a number of seconds")),
    callLimit: yield* budget("call-limit", count("TURNSTEP_CALL_LIMIT", "a number of calls")),
    mcp: yield* setting("mcp", flags.mcp, text("TURNSTEP_MCP"), undefined),
    trustMcp: yield* setting("trust-mcp", switchFlag(flags.trustMcp), yes("TURNSTEP_TRUST_MCP"), false),
    adopt: yield* setting("adopt", switchFlag(flags.adopt), yes("TURNSTEP_ADOPT"), false),
    token: yield* setting("token", Option.none(), secret("TURNSTEP_TOKEN"), undefined),
    allowHosts: yield* setting("allow-host", listFlag(flags.allowHost), list("TURNSTEP_ALLOW_HOST"), []),
    allowOrigins: yield* setting("allow-origin", listFlag(flags.allowOrigin), list("TURNSTEP_ALLOW_ORIGIN"), []),
    allowRemote: yield* setting("allow-remote", switchFlag(flags.allowRemote), yes("TURNSTEP_ALLOW_REMOTE"), false),
    allowWrites: yield* setting("allow-writes", switchFlag(flags.allowWrites), yes("TURNSTEP_ALLOW_WRITES"), false),
    allowCommands: yield* setting(
      "allow-commands",
      switchFlag(flags.allowCommands),
      yes("TURNSTEP_ALLOW_COMMANDS"),
      false
    ),
    spillMebibytes: yield* setting(
      "spill-mib",
      Option.none(),
      count("TURNSTEP_SPILL_MIB", "a number of mebibytes"),
      defaults.spillMebibytes
    ),
    spillDays: yield* setting(
      "spill-days",
      Option.none(),
      count("TURNSTEP_SPILL_DAYS", "a number of days"),
      defaults.spillDays
    )
  }
  return yield* check(config)
})

/** Refuses what would start, and should not. */
const check = Effect.fnUntraced(function* (config: Config) {
  const refuse = (setting: Setting<unknown>, problem: string, advice: string) =>
    new SettingInvalid({ setting: setting.name, problem, advice })
  const { host, token } = config
  const { value: port } = config.port
  if (!Number.isInteger(port) || port < 0 || port > 65_535) {
    return yield* refuse(config.port, `${port} is not a port.`, "Choose one from 1 to 65535, or 0 for any free port.")
  }
  if (!Place.isName(config.schema.value)) {
    return yield* refuse(
      config.schema,
      `"${config.schema.value}" cannot be a schema of its own.`,
      `Choose another: ${Place.rule}.`
    )
  }
  for (const amount of [config.workers, config.drain]) {
    if (amount.value === undefined || (Number.isInteger(amount.value) && amount.value >= 0)) continue
    return yield* refuse(amount, `${amount.value} is not a whole number from 0 on.`, "Use one, such as 4.")
  }
  const { repeatedToolCallLimit } = config
  if (repeatedToolCallLimit.value !== undefined && repeatedToolCallLimit.value < 2) {
    return yield* refuse(
      repeatedToolCallLimit,
      `${repeatedToolCallLimit.value} would refuse calls that were never made before.`,
      "Use a number from 2 on, or unset it for 3."
    )
  }
  for (const least of [config.maxSteps, config.maxTokens, config.maxCost, config.maxSeconds, config.callLimit]) {
    if (least.value === undefined || least.value > 0) continue
    return yield* refuse(least, `A Turn with ${least.value} of it could do nothing.`, "Use more, or unset it.")
  }
  if (config.maxCost.value !== undefined && config.price.value === undefined) {
    return yield* refuse(
      config.maxCost,
      "Without a price nothing costs anything, and the limit would never be reached.",
      "Set TURNSTEP_PRICE to the price of a million tokens, such as 3/15 for input and output."
    )
  }
  if (!isLoopback(host.value) && !config.allowRemote.value) {
    return yield* refuse(
      host,
      `${host.value} can be reached from other machines, and the server speaks plain HTTP.`,
      "Bind to 127.0.0.1, or put a TLS proxy in front and start with --allow-remote and --allow-host <name:port>."
    )
  }
  if (token.value !== undefined && !/^[\x21-\x7e]{32,}$/.test(RedactedValue.value(token.value))) {
    return yield* refuse(
      token,
      "The token is too short or has characters a header cannot hold.",
      "Use at least 32 random characters, such as the output of `openssl rand -base64 32`, or unset it: one is made."
    )
  }
  for (const origin of config.allowOrigins.value) {
    if (URL.parse(origin)?.origin === origin) continue
    return yield* refuse(config.allowOrigins, `"${origin}" is not an origin.`, "Write it as https://example.com:8443.")
  }
  return config
})

/** Refuses to serve from where nobody said to serve from. */
export const checkStorageChosen = (config: Config): Effect.Effect<Config, SettingInvalid> =>
  config.databaseUrl.value === undefined && config.data.source === "default"
    ? Effect.fail(
        new SettingInvalid({
          setting: "storage",
          problem: "`turnstep serve` does not choose where sessions are kept.",
          advice:
            "Set DATABASE_URL to a PostgreSQL database, or give a folder with --data; `turnstep dev` uses .turnstep."
        })
      )
    : Effect.succeed(config)

const setting = Effect.fnUntraced(function* <A>(
  name: string,
  flag: Option.Option<A>,
  variable: { readonly name: string; readonly read: Effect.Effect<A | undefined, SettingInvalid> },
  otherwise: A
) {
  if (Option.isSome(flag)) return { value: flag.value, source: "flag", name: `--${name}` } satisfies Setting<A>
  const value = yield* variable.read
  return (
    value === undefined
      ? { value: otherwise, source: "default", name: `--${name}` }
      : { value, source: "environment", name: variable.name }
  ) satisfies Setting<A>
})

/** A budget is set by a variable alone. */
const budget = <A>(
  name: string,
  variable: { readonly name: string; readonly read: Effect.Effect<A | undefined, SettingInvalid> }
) => setting<A | undefined>(name, Option.none(), variable, undefined)

/** A variable that is empty is not set. */
const text = (name: string) => ({
  name,
  read: Effect.map(Effect.orDie(EffectConfig.option(EffectConfig.String(name))), (found) => {
    const value = Option.getOrElse(found, () => "").trim()
    return value === "" ? undefined : value
  })
})

const secret = (name: string) => ({
  name,
  read: Effect.map(text(name).read, (value): Redacted.Redacted | undefined =>
    value === undefined ? undefined : RedactedValue.make(value)
  )
})

const list = (name: string) => ({
  name,
  read: Effect.map(text(name).read, (value) =>
    value?.split(",").flatMap((entry) => (entry.trim() === "" ? [] : [entry.trim()]))
  )
})

const count = (name: string, what: string) => ({
  name,
  read: Effect.flatMap(text(name).read, (value) =>
    value === undefined || /^\d+$/.test(value)
      ? Effect.succeed(value === undefined ? undefined : Number(value))
      : Effect.fail(
          new SettingInvalid({ setting: name, problem: `"${value}" is not ${what}.`, advice: "Use a whole number." })
        )
  )
})

/** A variable that is a number in the form of a pattern; `example` shows it. */
const written = <A>(name: string, form: RegExp, example: string, read: (value: string) => A) => ({
  name,
  read: Effect.flatMap(text(name).read, (value) =>
    value === undefined || form.test(value)
      ? Effect.succeed(value === undefined ? undefined : read(value))
      : Effect.fail(
          new SettingInvalid({ setting: name, problem: `"${value}" has another form.`, advice: `Write ${example}.` })
        )
  )
})

const amount = (name: string) =>
  written(name, /^\d{1,9}(\.\d{1,9})?$/, "an amount of money in the currency of the price, such as 0.5", Number)

const price = (name: string) =>
  written(
    name,
    /^\d{1,9}(\.\d{1,9})?(\/\d{1,9}(\.\d{1,9})?){1,2}$/,
    "the prices of a million tokens as input/output or input/output/cached input, such as 3/15/0.3",
    (value): Price => {
      const [input = 0, output = 0, cachedInput] = value.split("/").map(Number)
      return { input, output, ...(cachedInput === undefined ? {} : { cachedInput }) }
    }
  )

const yes = (name: string) => ({
  name,
  read: Effect.flatMap(text(name).read, (value) =>
    value === undefined || /^(1|0|true|false)$/.test(value)
      ? Effect.succeed(value === undefined ? undefined : value === "1" || value === "true")
      : Effect.fail(
          new SettingInvalid({
            setting: name,
            problem: `"${value}" is neither true nor false.`,
            advice: "Use true or false."
          })
        )
  )
})
