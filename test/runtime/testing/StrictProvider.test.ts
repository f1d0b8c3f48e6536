import { assert, describe, it } from "@effect/vitest"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"
import * as Prompt from "effect/ai/Prompt"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Ref from "effect/Ref"
import * as Stream from "effect/Stream"
import { answered, callsOf, finishOf, parts, partsAndError, stream, textOf } from "../../fixtures/modelCalls.ts"

/** Sends a body as it is; the answer's status and decoded error. */
const post = (provider: StrictProvider.StrictProvider, body: object, headers: Record<string, string> = {}) =>
  Effect.promise(async () => {
    const response = await fetch(`${provider.baseUrl}/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify({ model: "m", stream: true, ...body })
    })
    return { status: response.status, text: await response.text() }
  })

const user = { role: "user", content: "hi" }
const call = (id: unknown, name: unknown = "read") => ({ id, type: "function", function: { name, arguments: "{}" } })
const asks = (...ids: ReadonlyArray<unknown>) => ({
  role: "assistant",
  content: null,
  tool_calls: ids.map((id) => call(id))
})
const answers = (id: string) => ({ role: "tool", tool_call_id: id, content: "done" })

const illegal: ReadonlyArray<readonly [string, string, ReadonlyArray<unknown>]> = [
  ["a call without an answer at the end", "O1", [user, asks("a")]],
  ["a call without an answer before the next message", "O1", [user, asks("a", "b"), answers("a"), user]],
  ["an answer without a call", "O2", [user, answers("a")]],
  ["an answer to a call of an earlier message", "O2", [user, asks("a"), answers("a"), asks("b"), answers("a")]],
  ["a second answer", "O3", [user, asks("a"), answers("a"), answers("a")]],
  ["an assistant message with null and no calls", "O5", [user, { role: "assistant", content: null }]],
  ["an assistant message with an empty text", "O5", [user, { role: "assistant", content: "" }]],
  ["an assistant message with an empty list of calls", "O5", [user, { role: "assistant", tool_calls: [] }]],
  ["an answer without an id", "O6", [user, asks("a"), { role: "tool", content: "x" }]],
  ["an answer without content", "O6", [user, asks("a"), { role: "tool", tool_call_id: "a" }]],
  [
    "an image in an answer",
    "O6",
    [user, asks("a"), { role: "tool", tool_call_id: "a", content: [{ type: "image_url", image_url: { url: "x" } }] }]
  ],
  ["an illegal function name", "O7", [user, { role: "assistant", tool_calls: [call("a", "fs.read")] }, answers("a")]],
  ["an empty id", "O8", [user, asks(""), answers("")]],
  ["an id of 65 characters", "O8", [user, asks("x".repeat(65)), answers("x".repeat(65))]],
  ["one id twice in a message", "O8", [user, asks("a", "a"), answers("a"), answers("a")]],
  ["a lone surrogate", "O11", [{ role: "user", content: "\uD83D" }]],
  ["no message", "body", []],
  ["an unknown role", "body", [{ role: "robot", content: "x" }]]
]

describe("StrictProvider", () => {
  for (const [what, rule, messages] of illegal) {
    it.live(`refuses ${what}`, () =>
      Effect.gen(function* () {
        const provider = yield* StrictProvider.make({ respond: () => StrictProvider.text("never") })
        const { status, text } = yield* post(provider, { messages })
        assert.strictEqual(status, 400)
        assert.strictEqual(JSON.parse(text).error.type, "invalid_request_error")
        assert.strictEqual(provider.refusals[0]?.violation?.rule, rule)
        assert.lengthOf(provider.requests, 0)
      })
    )
  }

  it.live("accepts answers in any order, content beside calls and a history that ends with the assistant", () =>
    Effect.gen(function* () {
      const provider = yield* StrictProvider.make({ respond: () => StrictProvider.text("ok") })
      const messages = [
        { role: "system", content: "s" },
        user,
        { ...asks("a", "b"), content: "I look" },
        answers("b"),
        answers("a"),
        { role: "assistant", content: "done" }
      ]
      assert.strictEqual((yield* post(provider, { messages })).status, 200)
      assert.deepStrictEqual(
        provider.requests[0]?.messages.map((message) => message.role),
        ["system", "user", "assistant", "tool", "tool", "assistant"]
      )
    })
  )

  it.live("refuses illegal tool names, a wrong key and an unknown path", () =>
    Effect.gen(function* () {
      const provider = yield* StrictProvider.make({ respond: () => StrictProvider.text("ok"), apiKey: "sk-right" })
      const key = { authorization: "Bearer sk-right" }
      const tools = [{ type: "function", function: { name: "a b" } }]
      assert.strictEqual((yield* post(provider, { messages: [user], tools }, key)).status, 400)
      assert.strictEqual((yield* post(provider, { messages: [user] })).status, 401)
      assert.strictEqual((yield* post(provider, { messages: [user] }, key)).status, 200)
      const lost = yield* Effect.promise(() => fetch(`${provider.baseUrl}/models`))
      assert.strictEqual(lost.status, 404)
      assert.deepStrictEqual(
        provider.refusals.map((refusal) => refusal.status),
        [400, 401, 404]
      )
    })
  )

  it.live("plays a script of calls and text and shows what the model saw", () =>
    Effect.gen(function* () {
      const provider = yield* StrictProvider.make({
        respond: StrictProvider.script([
          StrictProvider.calls([
            { name: "read", arguments: { path: "a" } },
            { name: "add", arguments: ['{"a":1,', '"b":2}'] }
          ]),
          StrictProvider.text(["An", "swer"])
        ])
      })
      const turn = Effect.gen(function* () {
        const history = [...Prompt.make([{ role: "user", content: "go" }]).content]
        const first = yield* parts(Prompt.fromMessages(history))
        history.push(...answered(first, (name) => `${name} done`))
        return { first, second: yield* parts(Prompt.fromMessages(history)) }
      })
      const { first, second } = yield* Effect.provide(turn, provider.layer)
      assert.deepStrictEqual(callsOf(first), [
        { id: "call_0_0", name: "read", params: { path: "a" } },
        { id: "call_0_1", name: "add", params: { a: 1, b: 2 } }
      ])
      assert.strictEqual(textOf(second), "Answer")
      assert.deepStrictEqual(provider.requests[0]?.toolNames, ["read", "add"])
      assert.deepStrictEqual(provider.requests[1]?.messages.slice(2), [
        { role: "tool", tool_call_id: "call_0_0", content: "read done" },
        { role: "tool", tool_call_id: "call_0_1", content: "add done" }
      ])
      assert.lengthOf(provider.refusals, 0)
    })
  )

  it.live("refuses the request after the last reply of a script, and a respond that throws", () =>
    Effect.gen(function* () {
      const provider = yield* StrictProvider.make({
        respond: ({ index }) => {
          if (index === 1) throw new Error("no idea")
          return undefined
        }
      })
      const { error } = yield* Effect.provide(partsAndError("a"), provider.layer)
      assert.include(error.message, "the script has run out")
      const { error: second } = yield* Effect.provide(partsAndError("b"), provider.layer)
      assert.include(second.message, "no idea")
      assert.lengthOf(provider.refusals, 2)
    })
  )

  it.live("answers by rules from what it sees", () =>
    Effect.gen(function* () {
      const provider = yield* StrictProvider.make({
        respond: ({ messages }) =>
          messages.at(-1)?.role === "tool"
            ? StrictProvider.text(`saw ${String(messages.at(-1)?.content)}`)
            : StrictProvider.calls([{ name: "read", arguments: { path: "p" } }])
      })
      const turn = Effect.gen(function* () {
        const history = [...Prompt.make([{ role: "user", content: "go" }]).content]
        history.push(...answered(yield* parts(Prompt.fromMessages(history)), () => "it"))
        return textOf(yield* parts(Prompt.fromMessages(history)))
      })
      assert.strictEqual(yield* Effect.provide(turn, provider.layer), "saw it")
    })
  )

  it.live("holds the stream at a gate until the test opens it", () =>
    Effect.gen(function* () {
      const reached = yield* Deferred.make<void>()
      const go = yield* Deferred.make<void>()
      const gate = Effect.andThen(Deferred.succeed(reached, undefined), Deferred.await(go))
      const provider = yield* StrictProvider.make({ respond: () => StrictProvider.text(["one", gate, "two"]) })
      const seen = yield* Ref.make("")
      const firstSeen = yield* Deferred.make<void>()
      const fiber = yield* stream("x").pipe(
        Stream.runForEach((part) =>
          part.type === "text-delta"
            ? Effect.andThen(
                Ref.update(seen, (text) => text + part.delta),
                Deferred.succeed(firstSeen, undefined)
              )
            : Effect.void
        ),
        Effect.provide(provider.layer),
        Effect.forkChild
      )
      yield* Deferred.await(reached)
      yield* Deferred.await(firstSeen)
      assert.strictEqual(yield* Ref.get(seen), "one")
      yield* Deferred.succeed(go, undefined)
      yield* Fiber.join(fiber)
      assert.strictEqual(yield* Ref.get(seen), "onetwo")
    })
  )

  it.live("tells a test that the client has gone away", () =>
    Effect.gen(function* () {
      const reached = yield* Deferred.make<void>()
      const gate = Effect.andThen(Deferred.succeed(reached, undefined), Effect.never)
      const provider = yield* StrictProvider.make({ respond: () => StrictProvider.text(["one", gate]) })
      const fiber = yield* Effect.forkChild(Effect.provide(parts("x"), provider.layer))
      yield* Deferred.await(reached)
      yield* Fiber.interrupt(fiber)
      yield* provider.requests[0]?.aborted ?? Effect.die("no request")
    })
  )

  it.live(
    "sends reasoning, finish reason and usage as told, and a whole answer to a request that does not stream",
    () =>
      Effect.gen(function* () {
        const provider = yield* StrictProvider.make({
          respond: () =>
            StrictProvider.text("cut of", {
              reasoning: "hm",
              finish: "length",
              usage: { prompt_tokens: 7, completion_tokens: 3 }
            })
        })
        const finish = finishOf(yield* Effect.provide(parts("x"), provider.layer))
        assert.strictEqual(finish?.reason, "length")
        assert.strictEqual(finish?.usage.inputTokens.total, 7)
        const whole = JSON.parse((yield* post(provider, { messages: [user], stream: false })).text)
        assert.deepStrictEqual(whole.choices[0], {
          index: 0,
          finish_reason: "length",
          message: { role: "assistant", content: "cut of", reasoning_content: "hm" }
        })
      })
  )

  it.live("cuts the socket after the given number of chunks", () =>
    Effect.gen(function* () {
      const provider = yield* StrictProvider.make({
        respond: ({ index }) => StrictProvider.text(["one", "two"], { cut: index === 0 ? 0 : 2 })
      })
      const { error, seen } = yield* Effect.provide(partsAndError("x"), provider.layer)
      assert.strictEqual(error.reason._tag, "NetworkError")
      assert.lengthOf(seen, 0)
      const second = yield* Effect.provide(partsAndError("x"), provider.layer)
      assert.strictEqual(second.error.reason._tag, "NetworkError")
      assert.strictEqual(textOf(second.seen), "one")
    })
  )
})
