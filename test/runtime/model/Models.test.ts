import { LLMock } from "@copilotkit/aimock"
import { assert, describe, it } from "@effect/vitest"
import * as ModelPreset from "@turnstep/runtime/model/ModelPreset"
import * as Models from "@turnstep/runtime/model/Models"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Model from "effect/ai/Model"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { execFileSync } from "node:child_process"
import { createServer, type RequestListener } from "node:http"

type Variables = { readonly [name: string]: string }

const environment = (variables: Variables) => ConfigProvider.layer(ConfigProvider.fromUnknown(variables))

/** Asks the named model for a text. */
const ask = (spec: string, variables: Variables) =>
  LanguageModel.generateText({ prompt: "hi" }).pipe(
    Effect.map((response) => response.text),
    Effect.provide(Layer.provide(Models.layer(spec), environment(variables)))
  )

/** The address of a real server with this handler. */
const serving = (handler: RequestListener) =>
  Effect.acquireRelease(
    Effect.callback<{ readonly url: string; readonly close: () => void }>((resume) => {
      const server = createServer(handler).listen(0, "127.0.0.1", () => {
        const address = server.address()
        const port = typeof address === "object" && address !== null ? address.port : 0
        resume(Effect.succeed({ url: `http://127.0.0.1:${port}`, close: () => server.close().closeAllConnections() }))
      })
    }),
    ({ close }) => Effect.sync(close)
  ).pipe(Effect.map(({ url }) => url))

const baseUrl = (name: string, value: string) => {
  const preset = ModelPreset.find(name)
  return preset === undefined ? undefined : ModelPreset.baseUrl(preset, value)
}

describe("Models", () => {
  it.effect("splits a name at its first slash", () =>
    Effect.gen(function* () {
      const { model, preset } = yield* Models.parse("openrouter/anthropic/claude-sonnet-4.5")
      assert.strictEqual(preset.name, "openrouter")
      assert.strictEqual(model, "anthropic/claude-sonnet-4.5")
      assert.strictEqual((yield* Models.parse("OpenAI/gpt-5")).preset.name, "openai")
    })
  )

  it.effect("refuses what is no name, and lists the providers", () =>
    Effect.gen(function* () {
      for (const spec of ["gpt-5", "nobody/gpt-5", "openai/", "/gpt-5", "", "demo"]) {
        const error = yield* Effect.flip(Models.parse(spec))
        assert.strictEqual(error._tag, "ModelNotKnown")
        assert.include(error.message, "openai, anthropic, openrouter, deepseek, gemini, ollama, lmstudio, vllm, custom")
      }
    })
  )

  it.effect("says which variable is missing", () =>
    Effect.gen(function* () {
      const missing = (spec: string, variables: Variables = {}) =>
        Effect.map(Effect.flip(ask(spec, variables)), (error) =>
          error._tag === "ModelKeyMissing" ? [error.provider, error.variable] : error._tag
        )
      assert.deepStrictEqual(yield* missing("openai/x"), ["openai", "OPENAI_API_KEY"])
      assert.deepStrictEqual(yield* missing("openai/x", { OPENAI_API_KEY: " " }), ["openai", "OPENAI_API_KEY"])
      assert.deepStrictEqual(yield* missing("anthropic/x"), ["anthropic", "ANTHROPIC_API_KEY"])
      assert.deepStrictEqual(yield* missing("gemini/x"), ["gemini", "GEMINI_API_KEY"])
      assert.deepStrictEqual(yield* missing("custom/x", { TURNSTEP_API_KEY: "k" }), ["custom", "TURNSTEP_BASE_URL"])
      assert.deepStrictEqual(yield* missing("nobody/x"), "ModelNotKnown")
      const odd = yield* Effect.flip(ask("custom/x", { TURNSTEP_BASE_URL: "http://x", TURNSTEP_REASONING: "all" }))
      assert.include(odd.message, "TURNSTEP_REASONING cannot be 'all'. Set it to one of as-issued, reasoning_content")
    })
  )

  it.effect("announces the keys that are set, by name only", () =>
    Effect.gen(function* () {
      const variables = { OPENAI_API_KEY: "sk-a", GOOGLE_API_KEY: "g", DEEPSEEK_API_KEY: "", HOME: "/root" }
      const keys = yield* Effect.provide(Models.announced, environment(variables))
      assert.deepStrictEqual(keys, [
        { provider: "openai", variable: "OPENAI_API_KEY" },
        { provider: "gemini", variable: "GOOGLE_API_KEY" }
      ])
    })
  )

  it("reads addresses as their owners write them", () => {
    const ollama = "http://127.0.0.1:11434/v1"
    for (const value of [
      "",
      "0.0.0.0",
      "127.0.0.1:11434",
      ":11434",
      "http://127.0.0.1:11434/",
      "http://127.0.0.1:11434/v1"
    ]) {
      assert.strictEqual(baseUrl("ollama", value), ollama, value)
    }
    assert.strictEqual(baseUrl("ollama", "https://box.example/ollama"), "https://box.example/ollama/v1")
    assert.strictEqual(baseUrl("anthropic", "https://proxy.example"), "https://proxy.example/v1")
    assert.strictEqual(baseUrl("anthropic", "https://proxy.example/v1/"), "https://proxy.example/v1")
    assert.strictEqual(baseUrl("openai", "https://proxy.example/openai/v1/"), "https://proxy.example/openai/v1")
    assert.strictEqual(baseUrl("deepseek", ""), "https://api.deepseek.com/v1")
  })

  it.live("speaks the OpenAI Chat wire to openai, custom and ollama at their addresses", () =>
    Effect.gen(function* () {
      const provider = yield* StrictProvider.make({ respond: ({ body }) => StrictProvider.text(`I am ${body.model}`) })
      const url = provider.baseUrl
      assert.strictEqual(yield* ask("openai/gpt-x", { OPENAI_API_KEY: "sk-1", OPENAI_BASE_URL: url }), "I am gpt-x")
      assert.strictEqual(yield* ask("custom/a/b", { TURNSTEP_BASE_URL: url, TURNSTEP_API_KEY: "t" }), "I am a/b")
      assert.strictEqual(yield* ask("ollama/q:8b", { OLLAMA_HOST: new URL(url).host }), "I am q:8b")
      assert.deepStrictEqual(
        provider.requests.map(({ headers }) => headers.authorization),
        ["Bearer sk-1", "Bearer t", undefined]
      )
    })
  )

  it.live("sends keys and prompts nowhere but to the configured address", () =>
    Effect.gen(function* () {
      const received: Array<string | undefined> = []
      const other = yield* serving((request, response) => {
        received.push(request.url)
        response.end()
      })
      const redirecting = (status: number) =>
        serving((_request, response) => void response.writeHead(status, { location: `${other}/v1?stolen=1` }).end())
      for (const status of [301, 302, 303, 307, 308]) {
        const url = yield* redirecting(status)
        for (const [spec, variables] of [
          ["anthropic/m", { ANTHROPIC_API_KEY: "canary", ANTHROPIC_BASE_URL: url }],
          ["gemini/m", { GEMINI_API_KEY: "canary", GEMINI_BASE_URL: url }],
          ["custom/m", { TURNSTEP_API_KEY: "canary", TURNSTEP_BASE_URL: url }]
        ] as const) {
          const error = yield* Effect.flip(ask(spec, variables))
          assert.strictEqual(error._tag, "AiError", spec)
          assert.notInclude(error.message, "stolen")
          if (!spec.startsWith("custom")) assert.include(error.message, `redirects (HTTP ${status}) to ${other}`)
        }
      }
      assert.deepStrictEqual(received, [])
    })
  )

  it.live("speaks Anthropic's and Google's wires through their packages", () =>
    Effect.gen(function* () {
      const mock = yield* Effect.acquireRelease(
        Effect.promise(() => LLMock.create({ port: 0, host: "127.0.0.1" })),
        (mock) => Effect.promise(() => mock.stop())
      )
      mock.onMessage("hi", { content: "hello there" })
      const claude = { ANTHROPIC_API_KEY: "k", ANTHROPIC_BASE_URL: mock.url }
      assert.strictEqual(yield* ask("anthropic/claude-sonnet-4-5", claude), "hello there")
      const gemini = { GEMINI_API_KEY: "k", GEMINI_BASE_URL: `${mock.url}/v1beta` }
      assert.strictEqual(yield* ask("gemini/gemini-2.5-flash", gemini), "hello there")
      assert.deepStrictEqual(
        mock.getRequests().map(({ path }) => path.split("?")[0]),
        ["/v1/messages", "/v1beta/models/gemini-2.5-flash:streamGenerateContent"]
      )
    })
  )

  it.effect("tells the provider's and the model's name", () =>
    Effect.gen(function* () {
      const names = yield* Effect.all([Model.ProviderName, Model.ModelName]).pipe(
        Effect.provide(Layer.provide(Models.layer("vllm/qwen"), environment({})))
      )
      assert.deepStrictEqual(names, ["vllm", "qwen"])
    })
  )

  it("loads no provider package before it is asked for one", () => {
    const script = `
      import { registerHooks } from "node:module"
      const loaded = []
      registerHooks({ load: (url, context, next) => (loaded.push(url), next(url, context)) })
      await import("@turnstep/runtime/model/Models")
      console.log(loaded.filter((url) => url.includes("@ai-sdk")).length, loaded.length > 10)`
    const args = ["-C", "@turnstep/source", "--no-warnings", "--input-type=module", "-e", script]
    assert.strictEqual(execFileSync(process.execPath, args, { encoding: "utf8" }).trim(), "0 true")
  })
})
