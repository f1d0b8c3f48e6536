/**
 * What providers issue beside text, ids, names and arguments comes back to them: for each preset a conversation of two Turns with
 * reasoning and calls, over a server that demands its own members and refuses all others, with a takeover in between.
 */
import { assert, describe } from "@effect/vitest"
import * as Agent from "@turnstep/runtime/Agent"
import * as ModelPreset from "@turnstep/runtime/model/ModelPreset"
import * as Models from "@turnstep/runtime/model/Models"
import * as OpenAiChat from "@turnstep/runtime/model/OpenAiChat"
import type * as ChatContract from "@turnstep/runtime/testing/ChatContract"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Sound from "../../fixtures/Sound.ts"
import * as Stores from "../../fixtures/Stores.ts"
import * as Tools from "../../fixtures/Tools.ts"
import * as World from "../../fixtures/World.ts"

type Provider = StrictProvider.StrictProvider

/** The preset, configured as a user does, with its address at the strict server. */
const preset =
  (name: string, variables: { readonly [name: string]: string } = {}) =>
  (provider: Provider): Provider["layer"] => {
    const { baseUrlVariable, keyVariables } = ModelPreset.find(name)!
    const environment = { [baseUrlVariable]: provider.baseUrl, [keyVariables[0]!]: "sk-of-the-test", ...variables }
    const config = ConfigProvider.layer(ConfigProvider.fromUnknown(environment))
    return Layer.orDie(Layer.provide(Models.layer(`${name}/m`), config))
  }

interface Behaviour {
  readonly what: string
  readonly model: (provider: Provider) => Provider["layer"]
  readonly members: ChatContract.MemberRule
  /** How the server tells reasoning and signatures with its answers. */
  readonly issues: Partial<StrictProvider.Answer>
  readonly issuesWithCall?: { readonly [name: string]: unknown }
  /** The members of its first answer that must be in all later requests. */
  readonly back: { readonly [name: string]: unknown }
}

const details = [
  { type: "reasoning.text", text: "I should", format: "anthropic-claude-v1", index: 0 },
  { type: "reasoning.encrypted", data: "ZW5jcnlwdGVk", id: "rs_1", format: "openai-responses-v1", index: 1 },
  { type: "reasoning.text", text: " look.", format: "anthropic-claude-v1", index: 0, signature: "c2ln" }
]
const wholeDetails = [
  { type: "reasoning.text", text: "I should look.", format: "anthropic-claude-v1", index: 0, signature: "c2ln" },
  details[1]
]
const signature = { google: { thought_signature: "c2lnbmF0dXJl" } }

const openRouter: Behaviour = {
  what: "openrouter, which tells reasoning and reasoning_details",
  model: preset("openrouter"),
  members: { demanded: { name: "reasoning_details", on: "rounds" }, taken: ["reasoning", "reasoning_details"] },
  issues: {
    reasoning: ["I should", " look."],
    reasoningField: "reasoning",
    members: details.map((item) => ({ reasoning_details: [item] }))
  },
  back: { reasoning: "I should look.", reasoning_details: wholeDetails }
}

const behaviours: ReadonlyArray<Behaviour> = [
  {
    what: "deepseek, which demands reasoning_content on every answer of a round with calls",
    model: preset("deepseek"),
    members: { demanded: { name: "reasoning_content", on: "rounds" }, taken: ["reasoning_content"] },
    issues: { reasoning: ["I should", " look."] },
    back: { reasoning_content: "I should look." }
  },
  {
    what: "deepseek, when the model has not reasoned",
    model: preset("deepseek"),
    members: { demanded: { name: "reasoning_content", on: "rounds" }, taken: ["reasoning_content"] },
    issues: {},
    back: { reasoning_content: "" }
  },
  openRouter,
  {
    ...openRouter,
    what: "openrouter, with encrypted reasoning alone",
    issues: { members: [{ reasoning_details: [details[1]] }] },
    back: { reasoning_details: [details[1]] }
  },
  {
    what: "openai, which tells none and takes none",
    model: preset("openai"),
    members: { taken: [] },
    issues: {},
    back: {}
  },
  ...["ollama", "lmstudio", "vllm"].map((name): Behaviour => ({
    what: `${name}, which tells reasoning`,
    model: preset(name),
    members: { demanded: { name: "reasoning", on: "rounds" }, taken: ["reasoning"] },
    issues: { reasoning: "I should look.", reasoningField: "reasoning" },
    back: { reasoning: "I should look." }
  })),
  {
    what: "custom: Kimi, which demands what it has told as reasoning_content",
    model: preset("custom"),
    members: { demanded: { name: "reasoning_content", on: "calls" }, taken: ["reasoning_content"] },
    issues: { reasoning: "I should look." },
    back: { reasoning_content: "I should look." }
  },
  {
    what: "custom: an empty reasoning_content, which is demanded as well",
    model: preset("custom"),
    members: { demanded: { name: "reasoning_content", on: "calls" }, taken: ["reasoning_content"] },
    issues: { members: [{ reasoning_content: "" }] },
    back: { reasoning_content: "" }
  },
  {
    what: "custom: Kimi without reasoning, by the setting",
    model: preset("custom", { TURNSTEP_REASONING: "reasoning_content" }),
    members: { demanded: { name: "reasoning_content", on: "calls" }, taken: ["reasoning_content"] },
    issues: {},
    back: { reasoning_content: "" }
  },
  {
    what: "custom: Gemini, which demands the signature of a call",
    model: preset("custom"),
    members: { demandedOfCalls: "extra_content", taken: ["extra_content"] },
    issues: {},
    issuesWithCall: { extra_content: signature },
    back: {}
  },
  {
    what: "custom: LiteLLM, with thinking blocks",
    model: preset("custom"),
    members: { demanded: { name: "thinking_blocks", on: "rounds" }, taken: ["thinking_blocks", "reasoning_content"] },
    issues: {
      members: [
        { thinking_blocks: [{ type: "thinking", thinking: "I should", signature: null }] },
        { thinking_blocks: [{ type: "thinking", thinking: " look.", signature: "c2ln" }] }
      ]
    },
    back: { thinking_blocks: [{ type: "thinking", thinking: "I should look.", signature: "c2ln" }] }
  },
  {
    what: "custom: a server that refuses what it tells, by the setting",
    model: preset("custom", { TURNSTEP_REASONING: "none" }),
    members: { taken: [] },
    issues: { reasoning: "I should look." },
    back: {}
  }
]

const answers = ({ issues, issuesWithCall }: Behaviour): ReadonlyArray<StrictProvider.Answer> => {
  const look = (act: string) => ({ ...Tools.call("look", act), members: issuesWithCall })
  return [
    { ...issues, calls: [look("a")] },
    { ...issues, text: "The first answer." },
    { ...issues, calls: [look("b"), Tools.call("look", "c")] },
    { ...issues, text: "The second answer." }
  ]
}

const world = (options: Pick<World.Options<never>, "respond" | "members" | "model">) => {
  const agent = Agent.make("hand", { instructions: "Use the tools.", toolkit: Tools.toolkit })
  return World.make({ ...options, agents: [agent], services: Tools.make().handlers })
}

const suite: Parameters<typeof Stores.run>[1][number] = (it) => {
  describe("what a provider issues comes back", () => {
    for (const behaviour of behaviours) {
      it.effect(`to ${behaviour.what}`, () =>
        Effect.gen(function* () {
          const { provider, sessions, start, stop } = yield* world({
            ...behaviour,
            respond: StrictProvider.script(answers(behaviour))
          })
          const session = yield* sessions.open()
          assert.strictEqual((yield* session.run("one"))._tag, "Answered")
          yield* stop
          const next = yield* (yield* start).sessions.get(session.id)
          const outcome = yield* next.run("two")
          assert.strictEqual(outcome._tag, "Answered")
          assert.isEmpty(provider.refusals)
          assert.lengthOf(provider.requests, 4)
          for (const { messages } of provider.requests.slice(1)) {
            const said = messages.filter(({ role }) => role === "assistant")
            for (const message of said) assert.deepInclude(message, behaviour.back)
            const first = said[0]?.tool_calls?.[0]
            if (behaviour.issuesWithCall !== undefined) assert.deepInclude(first, behaviour.issuesWithCall)
          }
          assert.isEmpty(yield* Sound.complaints(next, provider))
        })
      )
    }

    it.effect("to nobody else when another model takes over, and under the name it demands", () =>
      Effect.gen(function* () {
        const members = { demanded: openRouter.members.demanded, taken: openRouter.members.taken }
        const custom = (reasoning?: OpenAiChat.Options["reasoning"]) => (provider: Provider) =>
          OpenAiChat.layer({ baseUrl: provider.baseUrl, model: "other", provider: "custom", reasoning })
        let model = openRouter.model
        const { provider, sessions, start, stop } = yield* world({
          respond: StrictProvider.script([
            ...answers(openRouter).slice(0, 2),
            StrictProvider.text("a"),
            StrictProvider.text("b")
          ]),
          members,
          model: (provider) => Layer.unwrap(Effect.sync(() => model(provider)))
        })
        const session = yield* sessions.open()
        yield* session.run("one")
        yield* stop
        model = custom()
        Object.assign(members, { demanded: undefined, taken: [] })
        const plain = yield* start
        yield* (yield* plain.sessions.get(session.id)).run("two")
        yield* plain.stop
        model = custom("reasoning_content")
        Object.assign(members, { demanded: { name: "reasoning_content", on: "rounds" }, taken: ["reasoning_content"] })
        yield* (yield* (yield* start).sessions.get(session.id)).run("three")
        assert.isEmpty(provider.refusals)
        assert.strictEqual(provider.requests[3]?.messages[2]?.reasoning_content, "I should look.")
        assert.strictEqual(provider.requests[3]?.messages.at(-2)?.reasoning_content, "")
      })
    )

    it.effect("to a server that demands it unforeseen, and not again to one that refuses it", () =>
      Effect.gen(function* () {
        const respond = StrictProvider.script(answers({ ...openRouter, issues: {} }))
        const model = (provider: Provider) => OpenAiChat.layer({ baseUrl: provider.baseUrl, model: "m" })
        const demanding: ChatContract.MemberRule = {
          demanded: { name: "reasoning_content", on: "calls" },
          taken: ["reasoning_content"]
        }
        const demanded = yield* world({ respond, members: demanding, model })
        const session = yield* demanded.sessions.open()
        assert.strictEqual((yield* session.run("one"))._tag, "Answered")
        assert.strictEqual((yield* session.run("two"))._tag, "Answered")
        assert.lengthOf(demanded.provider.refusals, 1)
        const refusing = yield* world({
          respond: StrictProvider.script(answers({ ...openRouter, issues: { reasoning: "hm" } })),
          members: { taken: [] },
          model
        })
        const other = yield* refusing.sessions.open()
        assert.strictEqual((yield* other.run("one"))._tag, "Answered")
        assert.strictEqual((yield* other.run("two"))._tag, "Answered")
        assert.lengthOf(refusing.provider.refusals, 1)
      })
    )
  })
}

Stores.run("memory", [suite])
