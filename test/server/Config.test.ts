import { assert, describe, it } from "@effect/vitest"
import * as Config from "@turnstep/server/Config"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"

const resolve = (flags: Partial<Config.Flags>, env: Readonly<Record<string, string>> = {}) =>
  Config.resolve({ ...Config.noFlags, ...flags }).pipe(
    Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromEnv({ env: { ...env } }))
  )

const refused = (flags: Partial<Config.Flags>, env: Readonly<Record<string, string>> = {}) =>
  Effect.map(Effect.flip(resolve(flags, env)), (error) => error.message)

describe("Config", () => {
  it.effect("has defaults that keep everything on this machine", () =>
    Effect.gen(function* () {
      const config = yield* resolve({})
      const values = Object.fromEntries(Object.entries(config).map(([name, setting]) => [name, setting.value]))
      assert.deepStrictEqual<unknown>(values, {
        drain: 1,
        workers: undefined,
        repeatedToolCallLimit: undefined,
        maxSteps: undefined,
        maxTokens: undefined,
        maxCost: undefined,
        price: undefined,
        maxSeconds: undefined,
        callLimit: undefined,
        host: "127.0.0.1",
        port: 4199,
        data: ".turnstep",
        workspace: ".",
        model: "demo",
        databaseUrl: undefined,
        schema: "turnstep",
        mcp: undefined,
        token: undefined,
        allowHosts: [],
        allowOrigins: [],
        adopt: false,
        trustMcp: false,
        allowRemote: false,
        allowWrites: false,
        allowCommands: false,
        spillMebibytes: 10_240,
        spillDays: 7
      })
      for (const setting of Object.values(config)) assert.strictEqual(setting.source, "default")
    })
  )

  it.effect("refuses a schema that could not be one of its own", () =>
    Effect.gen(function* () {
      const refused = yield* Effect.flip(resolve({}, { TURNSTEP_SCHEMA: "pg_catalog" }))
      assert.match(refused.message, /^TURNSTEP_SCHEMA: "pg_catalog" cannot be a schema of its own\. Choose another: /)
      assert.strictEqual((yield* resolve({}, { TURNSTEP_SCHEMA: "bots" })).schema.value, "bots")
    })
  )

  it.effect("takes a flag before a variable, and a variable before a default, and says which it was", () =>
    Effect.gen(function* () {
      const env = {
        TURNSTEP_PORT: "4300",
        TURNSTEP_MODEL: "openai/a",
        TURNSTEP_HOST: "",
        REPEATED_TOOL_CALL_LIMIT: "5"
      }
      const { host, model, port, repeatedToolCallLimit } = yield* resolve({ port: Option.some(4400) }, env)
      assert.deepStrictEqual(port, { value: 4400, source: "flag", name: "--port" })
      assert.strictEqual(repeatedToolCallLimit.value, 5)
      assert.deepStrictEqual(model, { value: "openai/a", source: "environment", name: "TURNSTEP_MODEL" })
      assert.deepStrictEqual(host, { value: "127.0.0.1", source: "default", name: "--host" })
    })
  )

  it.effect("makes the policy of a Turn from its budgets, and refuses one that means nothing", () =>
    Effect.gen(function* () {
      const config = yield* resolve(
        {},
        {
          TURNSTEP_MAX_STEPS: "4",
          TURNSTEP_MAX_TOKENS: "9000",
          TURNSTEP_MAX_COST: "0.5",
          TURNSTEP_PRICE: "3/15/0.3",
          TURNSTEP_MAX_SECONDS: "60",
          TURNSTEP_CALL_LIMIT: "8"
        }
      )
      assert.deepStrictEqual(Config.policyOf(config), {
        repeatedToolCallLimit: undefined,
        maxSteps: 4,
        maxTokens: 9000,
        callLimit: 8,
        cost: { max: 0.5, price: { input: 3, output: 15, cachedInput: 0.3 } },
        maxDuration: Duration.seconds(60)
      })
      assert.strictEqual(
        Config.budgetOf(config),
        "4 steps, 9000 tokens, a cost of 0.5, 60 seconds, 8 calls of a response"
      )
      assert.match(
        yield* refused({}, { TURNSTEP_MAX_COST: "1" }),
        /^TURNSTEP_MAX_COST: Without a price .*TURNSTEP_PRICE/
      )
      for (const name of ["STEPS", "TOKENS", "COST", "SECONDS"]) {
        const variables = { [`TURNSTEP_MAX_${name}`]: "0", TURNSTEP_PRICE: "1/1" }
        assert.match(yield* refused({}, variables), new RegExp(`^TURNSTEP_MAX_${name}: .* could do nothing`))
      }
      for (const price of ["3", "3/", "a/b", "3/15/1/1", "-1/2"]) {
        assert.match(yield* refused({}, { TURNSTEP_PRICE: price }), /^TURNSTEP_PRICE: .*such as 3\/15/)
      }
    })
  )

  it.effect("reads lists and switches from variables", () =>
    Effect.gen(function* () {
      const env = {
        TURNSTEP_ALLOW_HOST: "a.example:443, b.example",
        TURNSTEP_ALLOW_ORIGIN: "https://a.example",
        TURNSTEP_ALLOW_REMOTE: "1"
      }
      const config = yield* resolve({}, env)
      assert.deepStrictEqual(config.allowHosts.value, ["a.example:443", "b.example"])
      assert.deepStrictEqual(config.allowOrigins.value, ["https://a.example"])
      assert.isTrue(config.allowRemote.value)
      const flagged = yield* resolve({ allowHost: ["c.example"] }, env)
      assert.deepStrictEqual(flagged.allowHosts.value, ["c.example"])
    })
  )

  it.effect("never shows a secret", () =>
    Effect.gen(function* () {
      const secret = "s3cret-".repeat(6)
      const config = yield* resolve({}, { TURNSTEP_TOKEN: secret, DATABASE_URL: `postgres://u:${secret}@h/d` })
      assert.notInclude(JSON.stringify(config), secret)
      assert.strictEqual(Redacted.value(config.token.value ?? Redacted.make("")), secret)
      assert.notInclude(yield* refused({}, { TURNSTEP_TOKEN: "short-secret" }), "short-secret")
    })
  )

  it.effect("refuses an address that others can reach, unless that is allowed", () =>
    Effect.gen(function* () {
      for (const host of ["0.0.0.0", "::", "192.168.1.5"]) {
        assert.match(yield* refused({ host: Option.some(host) }), /--allow-remote/)
        yield* resolve({ host: Option.some(host), allowRemote: true })
      }
      yield* resolve({ host: Option.some("::1") })
    })
  )

  it.effect("refuses settings that cannot be meant, each in one line that says what to do", () =>
    Effect.gen(function* () {
      const messages = [
        yield* refused({ port: Option.some(70_000) }),
        yield* refused({ port: Option.some(-1) }),
        yield* refused({}, { TURNSTEP_PORT: "http" }),
        yield* refused({}, { TURNSTEP_ALLOW_REMOTE: "maybe" }),
        yield* refused({}, { TURNSTEP_TOKEN: "short" }),
        yield* refused({}, { TURNSTEP_TOKEN: "a b".repeat(20) }),
        yield* refused({}, { REPEATED_TOOL_CALL_LIMIT: "1" }),
        yield* refused({}, { REPEATED_TOOL_CALL_LIMIT: "often" }),
        yield* refused({ allowOrigin: ["https://a.example/"] }),
        yield* refused({ allowOrigin: ["*"] })
      ]
      for (const message of messages) {
        assert.notInclude(message, "\n")
        assert.match(message, /(Choose|Use|Write) /)
      }
      assert.match(messages[2] ?? "", /^TURNSTEP_PORT: /)
    })
  )

  it.effect("serves only from a place that was named", () =>
    Effect.gen(function* () {
      const chosen = (flags: Partial<Config.Flags>, env = {}) =>
        Effect.flatMap(resolve(flags, env), Config.checkStorageChosen)
      assert.match((yield* Effect.flip(chosen({}))).message, /DATABASE_URL/)
      yield* chosen({ data: Option.some("here") })
      yield* chosen({}, { TURNSTEP_DATA: "here" })
      yield* chosen({}, { DATABASE_URL: "postgres://h/d" })
    })
  )
})
