/** What is sent regardless of the server: a field that it refuses is left out, and no schema holds what grammars cannot. */
import { assert, describe, it } from "@effect/vitest"
import * as Concessions from "@turnstep/runtime/model/openai/Concessions"
import * as OpenAiChat from "@turnstep/runtime/model/OpenAiChat"
import * as ToolSchema from "@turnstep/runtime/model/ToolSchema"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as RunCommand from "@turnstep/runtime/tools/RunCommand"
import * as SpillTools from "@turnstep/runtime/tools/SpillTools"
import * as Workspace from "@turnstep/runtime/tools/Workspace"
import * as WorkspaceWrite from "@turnstep/runtime/tools/WorkspaceWrite"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { partsAndError, parts } from "../../fixtures/modelCalls.ts"

const settings = {
  parallel_tool_calls: false,
  max_completion_tokens: 100,
  reasoning_effort: "low",
  temperature: 0.5,
  seed: 1,
  metadata: { a: "b" }
}

const layerFor = (provider: StrictProvider.StrictProvider) =>
  OpenAiChat.layer({ baseUrl: provider.baseUrl, model: "m", settings })

/** Refusals of a field in the words of several servers. */
const words: ReadonlyArray<readonly [number, (field: string) => string | object]> = [
  [
    400,
    (field) => ({
      error: { message: `Unsupported parameter: '${field}' is not supported with this model.`, param: field }
    })
  ],
  [400, (field) => ({ error: { message: `property '${field}' is unsupported`, type: "invalid_request_error" } })],
  [
    422,
    (field) => ({ detail: [{ type: "extra_forbidden", loc: ["body", field], msg: "Extra inputs are not permitted" }] })
  ],
  [
    404,
    (field) => ({ error: { message: `No endpoints found that support the provided '${field}' value`, code: 404 } })
  ],
  [400, (field) => `Unknown field: \`${field}\``],
  [
    400,
    (field) => ({
      error: {
        message: "Provider returned error",
        metadata: { raw: `{"error":{"message":"Unrecognized request argument supplied: \\"${field}\\""}}` }
      }
    })
  ]
]

describe("optional fields of a request", () => {
  for (const field of ["stream_options", "tool_choice", ...Object.keys(settings)]) {
    it.live(`leaves out ${field} when the server refuses it, once`, () =>
      Effect.gen(function* () {
        const provider = yield* StrictProvider.make({
          respond: () => StrictProvider.text("ok"),
          refused: [field, ...(field === "max_completion_tokens" ? ["max_tokens"] : [])]
        })
        yield* Effect.gen(function* () {
          yield* parts("one", "required")
          yield* parts("two", "required")
        }).pipe(Effect.provide(layerFor(provider)))
        assert.lengthOf(provider.refusals, field === "max_completion_tokens" ? 2 : 1)
        assert.lengthOf(provider.requests, 2)
        for (const { body, messages } of provider.requests) {
          assert.notProperty(body, field)
          assert.lengthOf(messages, 1)
          assert.lengthOf(body.tools ?? [], 2)
        }
      })
    )
  }

  it.live("gives a limit its other name before it is left out", () =>
    Effect.gen(function* () {
      const refused = ["max_completion_tokens"]
      const provider = yield* StrictProvider.make({ respond: () => StrictProvider.text("ok"), refused })
      yield* Effect.provide(parts("one"), layerFor(provider))
      assert.strictEqual(provider.requests[0]?.body["max_tokens"], 100)
    })
  )

  it.live("leaves out all that is refused, one after the other, and gives up on what is no field of its own", () =>
    Effect.gen(function* () {
      const refused = ["stream_options", "parallel_tool_calls", "temperature", "seed"]
      const provider = yield* StrictProvider.make({ respond: () => StrictProvider.text("ok"), refused })
      yield* Effect.provide(parts("one"), layerFor(provider))
      assert.lengthOf(provider.refusals, refused.length)
      for (const field of ["tools", "messages", "model", "stream"]) {
        const strict = yield* StrictProvider.make({ respond: () => StrictProvider.text("ok"), refused: [field] })
        const { error } = yield* Effect.provide(partsAndError("one"), layerFor(strict))
        assert.strictEqual(error.reason._tag, "InvalidRequestError")
        assert.lengthOf(strict.refusals, 1)
      }
    })
  )

  it("knows a refusal of a field in the words of many servers, and no other", () => {
    const learnt = (status: number, body: string | object, sent: object = { seed: 1, tool_choice: "auto" }) => {
      const concessions = Concessions.make({ policy: "as-issued", issuer: "x/m" })
      const text = typeof body === "string" ? body : JSON.stringify(body)
      const isWorth = concessions.learn({ status, body: text }, JSON.stringify({ model: "m", messages: [], ...sent }))
      return isWorth ? [...concessions.current().refused] : undefined
    }
    for (const [status, say] of words) {
      for (const field of ["seed", "tool_choice"]) assert.deepStrictEqual(learnt(status, say(field)), [field])
      assert.isUndefined(learnt(status, say("top_k")))
      assert.isUndefined(learnt(500, say("seed")))
      assert.isUndefined(learnt(401, say("seed")))
    }
    assert.isUndefined(learnt(400, { error: { message: "'seed' must be between 0 and 9", param: "seed" } }))
    assert.isUndefined(learnt(400, "unsupported image in message 3: reseeded"))
  })

  it.live("asks for an object all the same", () =>
    Effect.gen(function* () {
      const provider = yield* StrictProvider.make({
        respond: () => StrictProvider.text('{"sum":3}'),
        refused: ["stream_options"]
      })
      const asked = LanguageModel.generateObject({ prompt: "x", schema: Schema.Struct({ sum: Schema.Finite }) })
      assert.deepStrictEqual((yield* Effect.provide(asked, layerFor(provider))).value, { sum: 3 })
    })
  )
})

const bound = (value: unknown): ReadonlyArray<string> =>
  typeof value !== "object" || value === null
    ? []
    : Object.entries(value).flatMap(([name, member]) =>
        /^(?:min|max)(?:Length|Items|Properties|Contains)$/.test(name) && typeof member === "number" && member >= 2_000
          ? [name]
          : bound(member)
      )

describe("schemas of tools", () => {
  it("hold no bound of 2,000 or more: the tools of this package", () => {
    const kits = [Workspace.toolkit, WorkspaceWrite.toolkit, RunCommand.toolkit, SpillTools.toolkit]
    const schemas = kits.flatMap((kit) => Object.values<Tool.Any>(kit.tools).map((tool) => Tool.getJsonSchema(tool)))
    assert.isNotEmpty(schemas.flatMap(bound))
    assert.isEmpty(schemas.map((schema) => ToolSchema.bounded(schema)).flatMap(bound))
  })

  it.live("hold none on the wire, wherever the bound stands in a foreign schema", () =>
    Effect.gen(function* () {
      const text = { type: "string", maxLength: 1_048_576, minLength: 1 }
      const schema = {
        type: "object",
        properties: {
          maxLength: { type: "number", maximum: 1_000_000 },
          nested: { type: "object", properties: { deep: text }, maxProperties: 5_000 },
          list: { type: "array", items: { anyOf: [text, { $ref: "#/$defs/it" }] }, maxItems: 2_000, minItems: 1_999 }
        },
        $defs: { it: text },
        default: { maxLength: 9_999 }
      }
      const tool = Tool.dynamic("foreign", { description: "x", parameters: schema })
      const provider = yield* StrictProvider.make({ respond: () => StrictProvider.text("ok") })
      const kit = { tools: { foreign: tool }, handle: () => Effect.die("never called") }
      yield* LanguageModel.generateText({ prompt: "x", toolkit: kit as never, disableToolCallResolution: true }).pipe(
        Effect.provide(provider.layer)
      )
      const sent = provider.requests[0]?.body.tools?.[0]?.function.parameters
      const small = { type: "string", minLength: 1 }
      assert.deepStrictEqual<unknown>(sent, {
        type: "object",
        properties: {
          maxLength: { type: "number", maximum: 1_000_000 },
          nested: { type: "object", properties: { deep: small } },
          list: { type: "array", items: { anyOf: [small, { $ref: "#/$defs/it" }] }, minItems: 1_999 }
        },
        $defs: { it: small },
        default: { maxLength: 9_999 }
      })
    })
  )
})
