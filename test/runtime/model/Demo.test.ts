import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, layer } from "@effect/vitest"
import * as Budget from "@turnstep/core/Budget"
import * as Receipt from "@turnstep/core/Receipt"
import * as Synthetic from "@turnstep/core/history/Synthetic"
import * as Demo from "@turnstep/runtime/model/Demo"
import * as DemoTools from "@turnstep/runtime/tools/DemoTools"
import * as Workspace from "@turnstep/runtime/tools/Workspace"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Ref from "effect/Ref"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Prompt from "effect/ai/Prompt"
import * as Toolkit from "effect/ai/Toolkit"
import * as TestClock from "effect/testing/TestClock"
import { readdirSync, readFileSync } from "node:fs"
import * as path from "node:path"
import * as Folder from "../../fixtures/Folder.ts"

const toolkit = Toolkit.merge(Workspace.toolkit, DemoTools.toolkit)

/** One request: the response's text, calls and finish. */
const ask = Effect.fn(function* (messages: ReadonlyArray<Prompt.Message>, toolChoice: "auto" | "none" = "auto") {
  const parts = yield* LanguageModel.streamText({
    prompt: Prompt.fromMessages(messages),
    toolkit,
    toolChoice,
    disableToolCallResolution: true,
    toolCallValidation: "deferred"
  }).pipe(Stream.runCollect)
  const finish = parts.find((part) => part.type === "finish")
  return {
    parts,
    text: parts.flatMap((part) => (part.type === "text-delta" ? [part.delta] : [])).join(""),
    calls: parts.flatMap((part) => (part.type === "tool-call" ? [part] : [])),
    reason: finish?.reason,
    usage: finish?.usage
  }
})

/** Runs a Turn as a runtime does, at most `maxSteps` Steps; `steer` says what the user adds before a Step. */
const turn = Effect.fn(function* (
  before: ReadonlyArray<Prompt.Message>,
  text: string,
  options: { readonly maxSteps?: number; readonly steer?: (step: number) => ReadonlyArray<string> } = {}
) {
  const kit = yield* toolkit
  const messages = [...before, user(text)]
  const steps: Array<ReadonlyArray<string>> = []
  for (let step = 1; step <= (options.maxSteps ?? 10); step++) {
    for (const steering of options.steer?.(step) ?? []) messages.push(user(steering))
    const response = yield* ask(messages)
    messages.push(assistant(response.text, response.calls))
    steps.push(response.calls.map((call) => call.name))
    if (response.calls.length === 0) {
      assert.strictEqual(response.reason, "stop")
      return { messages, steps, answer: response.text }
    }
    assert.strictEqual(response.reason, "tool-calls")
    const results = yield* Effect.forEach(response.calls, (call) => {
      const name = call.name as keyof typeof kit.tools
      return Effect.map(Folder.call(kit, name, call.params as never), (result) =>
        answered(call, result.encodedResult, result.isFailure)
      )
    })
    messages.push(Prompt.toolMessage({ content: results }))
  }
  return { messages, steps, answer: undefined }
})

type Call = Pick<Prompt.ToolCallPart, "id" | "name"> & { readonly params: unknown }

const user = (text: string) => Prompt.userMessage({ content: [Prompt.textPart({ text })] })

const assistant = (text: string, calls: ReadonlyArray<Call>) =>
  Prompt.assistantMessage({
    content: [
      Prompt.textPart({ text }),
      ...calls.map(({ id, name, params }) => Prompt.toolCallPart({ id, name, params, providerExecuted: false }))
    ]
  })

const answered = (call: Pick<Call, "id" | "name">, result: unknown, isFailure = false) =>
  Prompt.toolResultPart({ id: call.id, name: call.name, result, isFailure, providerExecuted: false })

const sources = {
  "packages/a/one.ts": "// TODO first\nconst todo = 'TODO TODO'\n",
  "packages/a/two.md": "nothing\nTODO here\r\nmore\n",
  "packages/b/deep/three.ts": "x\n".repeat(30) + "TODO\nTODO\n\nTODO",
  "packages/b/four.txt": "to-do\n",
  "packages/node_modules/dep/index.js": "TODO\n",
  "packages/b/dist/out.js": "TODO\n",
  "docs/five.md": "TODO outside of packages\n",
  "README.md": "# Read me\nfooBar\n"
}

/** The lines with a text below a folder, counted without any code of ours. */
const plainCount = (root: string, word: string): { readonly lines: number; readonly files: number } => {
  let lines = 0
  let files = 0
  for (const entry of readdirSync(root, { recursive: true, withFileTypes: true })) {
    const file = path.join(entry.parentPath, entry.name)
    if (!entry.isFile() || /(^|\/)(\.git|node_modules|dist|\.turnstep)\//.test(path.relative(root, file))) continue
    const hits = readFileSync(file, "utf8")
      .split("\n")
      .filter((line) => line.includes(word)).length
    lines += hits
    if (hits > 0) files++
  }
  return { lines, files }
}

class Root extends Context.Service<Root, string>()("test/Root") {}

const environment = Layer.mergeAll(
  Demo.layerInstant,
  DemoTools.layer,
  Layer.unwrap(Effect.map(Root, (root) => Workspace.layer({ root })))
).pipe(Layer.provideMerge(Layer.effect(Root, Folder.make(sources))), Layer.provideMerge(NodeServices.layer))

const label = /^\[scripted demo, not an LLM\] /

layer(environment)("Demo", (it) => {
  it.effect("says of itself that it is scripted, in every text and in the metadata", () =>
    Effect.gen(function* () {
      for (const text of ["hello", "/time", "/files x", "/slow", "/steps", "/fail", "/nonsense", "", "/constructor"]) {
        for (const toolChoice of ["auto", "none"] as const) {
          const response = yield* ask([user(text)], toolChoice)
          assert.match(response.text, label)
          assert.deepInclude(response.parts[0], { type: "response-metadata", modelId: "demo" })
        }
      }
    })
  )

  it.effect("answers plain text and unknown words with what it can show", () =>
    Effect.gen(function* () {
      const plain = yield* ask([user("hello there")])
      assert.include(plain.text, '"hello there"')
      const unknown = yield* ask([user("/nonsense please")])
      assert.include(unknown.text, "There is no /nonsense")
      for (const response of [plain, unknown]) {
        assert.strictEqual(response.reason, "stop")
        for (const word of ["/time", "/files", "/slow", "/steps", "/fail"]) assert.include(response.text, word)
      }
    })
  )

  it.effect("gives the same response to the same prompt, with countable usage", () =>
    Effect.gen(function* () {
      const { messages } = yield* turn([], "/fail")
      for (let length = 1; length < messages.length; length++) {
        const prompt = messages.slice(0, length)
        assert.deepStrictEqual(yield* ask(prompt), yield* ask(prompt))
      }
      const { text, usage } = yield* ask([user("12345678")])
      assert.strictEqual(usage?.inputTokens.total, 2)
      assert.strictEqual(usage?.outputTokens.total, Math.ceil((text.length + 2) / 4))
    })
  )

  it.effect("tells the time that the tool told", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(Date.UTC(2024, 6, 1, 12))
      const utc = yield* turn([], "/time")
      assert.deepStrictEqual(utc.steps, [["current_time"], []])
      assert.include(utc.answer, "2024-07-01T12:00:00.000+00:00[UTC]")
      assert.include((yield* turn([], "/time Asia/Tokyo")).answer, "2024-07-01T21:00:00.000+09:00[Asia/Tokyo]")
      assert.include((yield* turn([], "/time Mars")).answer, "current_time failed: There is no time zone Mars")
    })
  )

  it.effect("answers /files with the very figures of a plain count over the files", () =>
    Effect.gen(function* () {
      const root = yield* Root
      const { answer, steps } = yield* turn([], "/files how many TODO comments are under packages?")
      assert.deepStrictEqual(steps, [["list_files", "grep"], ["read_files"], []])
      const plain = plainCount(path.join(root, "packages"), "TODO")
      assert.deepStrictEqual(plain, { lines: 6, files: 3 }) // the fixture, so that the two counts cannot both be wrong
      assert.include(answer, `"TODO" occurs on ${plain.lines} lines in ${plain.files} files under packages`)
      assert.include(answer, "I read lines 1 to 2 of packages/a/one.ts (2 lines)")
    })
  )

  it.effect("understands what a question is about", () =>
    Effect.gen(function* () {
      for (const [question, call] of [
        ["where do we say 'todo =' in packages/a?", { pattern: "todo =", path: "packages/a" }],
        ["what's TODO in `docs`, isn't it", { pattern: "TODO", path: "docs" }],
        ["look for nothing in the docs", { pattern: "nothing", path: "docs" }],
        ["search for the word first", { pattern: "first", path: "." }],
        ["count TODO in total in files under packages/b.", { pattern: "TODO", path: "packages/b" }],
        ["is fooBar used anywhere?", { pattern: "fooBar", path: "." }],
        ["how many Effect.fn( calls are under packages?", { pattern: "Effect.fn(", path: "packages" }],
        ["who calls fail() in packages/b?", { pattern: "fail(", path: "packages/b" }],
        ["is Effect.gen used?", { pattern: "Effect.gen", path: "." }],
        ["TODO in README.md?", { pattern: "TODO", path: "README.md" }]
      ] as const) {
        const { calls } = yield* ask([user(`/files ${question}`)])
        assert.deepInclude(calls.find(({ name }) => name === "grep")?.params, call, question)
      }
      const { calls } = yield* ask([user("/files what is in packages?")])
      assert.deepStrictEqual(
        calls.map(({ name }) => name),
        ["list_files", "list_files"]
      )
    })
  )

  it.effect("looks at the whole workspace when the folder of the question does not exist", () =>
    Effect.gen(function* () {
      const { answer, steps } = yield* turn([], "/files how many TODO are under nowhere?")
      assert.deepStrictEqual(steps, [["list_files", "grep"], ["list_files", "grep"], ["read_files"], []])
      const plain = plainCount(yield* Root, "TODO")
      assert.include(answer, `occurs on ${plain.lines} lines in ${plain.files} files in the workspace`)
      assert.include(answer, "There is no such path in the workspace. Path: nowhere")
    })
  )

  it.effect("recovers from a tool that fails, with another argument", () =>
    Effect.gen(function* () {
      const { answer, messages, steps } = yield* turn([], "/fail")
      assert.deepStrictEqual(steps, [["unreliable"], ["unreliable"], []])
      const params = messages.flatMap((message) =>
        message.role === "assistant"
          ? message.content.flatMap((part) => (part.type === "tool-call" ? [part.params] : []))
          : []
      )
      assert.deepStrictEqual(params, [{ attempt: 1 }, { attempt: 2 }])
      assert.include(answer, "Recovered at attempt 2")
      assert.include(answer, "unreliable failed: The first attempt fails")
    })
  )

  it.effect("takes a step after the other for ever, each call different and newly named", () =>
    Effect.gen(function* () {
      const { answer, messages, steps } = yield* turn([], "/steps", { maxSteps: 40 })
      assert.isUndefined(answer)
      assert.isTrue(steps.every((calls) => calls.length === 1))
      const calls = messages.flatMap((message) =>
        message.role === "assistant" ? message.content.filter((part) => part.type === "tool-call") : []
      )
      assert.strictEqual(new Set(calls.map(({ id }) => id)).size, 40)
      assert.strictEqual(new Set(calls.map(({ params }) => JSON.stringify(params))).size, 40)
      const last = messages.at(-1)
      assert.deepInclude(last?.role === "tool" ? last.content[0] : undefined, { result: { n: 40, next: 41 } })
    })
  )

  it.effect("makes the same call for ever when it is asked to", () =>
    Effect.gen(function* () {
      const { answer, messages } = yield* turn([], "/loop", { maxSteps: 5 })
      assert.isUndefined(answer)
      const calls = messages.flatMap((message) =>
        message.role === "assistant" ? message.content.filter((part) => part.type === "tool-call") : []
      )
      assert.deepStrictEqual(
        calls.map(({ name, params }) => [name, params]),
        Array.from({ length: 5 }, () => ["count_step", { n: 1 }])
      )
      const why = "This turn asked 4 times in a row for the same calls (count_step) and learned nothing new"
      const { text } = yield* ask([...messages, user(Budget.handBackPrompt(why))], "none")
      assert.include(text, '"/loop": 5 steps, 5 tool calls')
      assert.notInclude(text, "You also wrote")
    })
  )

  it.effect("asks for a job until it is done", () =>
    Effect.gen(function* () {
      const { answer, steps } = yield* turn([], "/poll 0")
      assert.deepStrictEqual(steps, [["start_job"], ["job_status"], []])
      assert.include(answer, "The job is done (100 %). I asked 1 time with the same call")
    })
  )

  it.effect("hands back honestly when tools are switched off", () =>
    Effect.gen(function* () {
      const earlier = yield* turn([], "/fail")
      const { messages } = yield* turn(earlier.messages, "/steps", { maxSteps: 15 })
      const { calls, text } = yield* ask(
        [...messages, user(Budget.handBackPrompt(Budget.reason({ maxSteps: 15 }, "steps")))],
        "none"
      )
      assert.deepStrictEqual(calls, [])
      assert.include(text, '"/steps": 15 steps, 15 tool calls (count_step ×15); 15 succeeded, 0 failed, 0 without')
      assert.include(text, "I do not claim that the work is finished")
      assert.notInclude(text, "You also wrote") // what the runtime asks is no message of the user's
      assert.include((yield* ask([user("/time")], "none")).text, "Nothing was done")
    })
  )

  it.effect("acknowledges every message that steered it, in its final answer", () =>
    Effect.gen(function* () {
      const steer = (step: number) => (step === 2 ? ["only .ts files", "/etc is no intent"] : [])
      const { answer, steps } = yield* turn([], "/slow 0", { steer })
      assert.deepStrictEqual(steps, [["slow_task"], []])
      assert.include(answer, "The task finished after 0 seconds.")
      assert.include(answer, '"only .ts files". Noted.')
      assert.include(answer, '"/etc is no intent". Noted.')
      const late = yield* turn([], "/files TODO under packages", { steer: (step) => (step === 3 ? ["thanks"] : []) })
      assert.include(late.answer, '"thanks". Noted.')
      assert.include(late.answer, "occurs on 6 lines")
    })
  )

  it.effect("lets the last known intent drive, and forgets a Turn that was answered", () =>
    Effect.gen(function* () {
      const first = yield* turn([], "/slow 0")
      const second = yield* turn(first.messages, "what now?")
      assert.deepStrictEqual(second.steps, [[]])
      assert.notInclude(second.answer, "You also wrote")
      const changed = yield* turn([], "/slow 0", { steer: (step) => (step === 2 ? ["/time"] : []) })
      assert.deepStrictEqual(changed.steps, [["slow_task"], ["current_time"], []])
    })
  )

  it.effect("takes no message for steering that follows on work which a repair had to close", () =>
    Effect.gen(function* () {
      const call = { id: "toolu_1", name: "Bash", params: { command: "git status" } }
      const made = Prompt.toolMessage({ content: [answered(call, Synthetic.outcomeUnknown, true)] })
      const imported = [user("Is it clean?"), assistant("", [call]), made]
      const { calls, text } = yield* ask([...imported, user("go on")])
      assert.deepStrictEqual(calls, [])
      assert.include(text, "The work before was broken off. Bash gave no result of its own")
      assert.include(text, 'cannot understand "go on"')
      assert.notInclude(text, "hand back")
      const { text: next } = yield* ask([...imported, user("continue"), user("and now?")])
      assert.include(next, "The work before was broken off. Bash gave no result of its own")
      assert.include(next, 'cannot understand "and now?"')
      assert.notInclude(next, "You also wrote")
    })
  )

  it.effect("says so when a call was cancelled or its outcome is unknown", () =>
    Effect.gen(function* () {
      const started = yield* ask([user("/slow 30")])
      const [call] = started.calls
      assert.isDefined(call)
      if (call === undefined) return
      assert.deepInclude(call, { name: "slow_task", params: { seconds: 30, label: "demo" } })
      const upTo = (outcome: Receipt.Outcome) => [
        user("/slow 30"),
        assistant(started.text, started.calls),
        Prompt.toolMessage({ content: [answered(call, Receipt.textFor("slow_task", outcome), true)] })
      ]
      const unknown = yield* ask([...upTo("outcome-unknown"), user("and?")])
      assert.include(unknown.text, "It may or may not have taken effect")
      assert.include(unknown.text, '"and?". Noted.')
      const cancelled = yield* ask([...upTo("cancelled"), user("never mind")])
      assert.include(cancelled.text, "The work before was cancelled. slow_task gave no result of its own")
      assert.include(cancelled.text, 'cannot understand "never mind"')
      assert.deepStrictEqual(cancelled.calls, [])
    })
  )

  it.effect("reads results that come as JSON text", () =>
    Effect.gen(function* () {
      const { calls, text } = yield* ask([user("/time")])
      const result = JSON.stringify({ iso: "2024-01-01T00:00:00.000+00:00[UTC]", timeZone: "UTC" })
      const content = calls.map((call) => answered(call, result))
      const answer = yield* ask([user("/time"), assistant(text, calls), Prompt.toolMessage({ content })])
      assert.include(answer.text, "2024-01-01T00:00:00.000+00:00[UTC]")
    })
  )

  it.effect("says which tool is missing when an agent does not offer it", () =>
    Effect.gen(function* () {
      const response = yield* LanguageModel.generateText({ prompt: "/time", toolkit: Workspace.toolkit })
      assert.match(response.text, label)
      assert.include(response.text, "needs current_time")
    })
  )

  it.effect("resolves its calls through a plain toolkit in one generated response", () =>
    Effect.gen(function* () {
      const response = yield* LanguageModel.generateText({ prompt: "/fail", toolkit })
      assert.deepStrictEqual(
        response.toolResults.map(({ isFailure, name }) => [name, isFailure]),
        [["unreliable", true]]
      )
    })
  )

  it.effect("refuses to invent structured output", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(
        LanguageModel.generateObject({ prompt: "x", schema: Schema.Struct({ a: Schema.String }) })
      )
      assert.strictEqual(error.reason._tag, "UnsupportedSchemaError")
    })
  )

  it.effect("streams piece by piece, a whole answer in less than a second", () =>
    Effect.gen(function* () {
      const seen = yield* Ref.make(0)
      const fiber = yield* LanguageModel.streamText({ prompt: "hello" }).pipe(
        Stream.runForEach((part) => Ref.update(seen, (n) => (part.type === "text-delta" ? n + 1 : n))),
        Effect.provide(Demo.layer),
        Effect.forkChild
      )
      yield* TestClock.adjust("30 millis")
      const early = yield* Ref.get(seen)
      assert.isAbove(early, 0)
      yield* TestClock.adjust("600 millis")
      yield* Fiber.join(fiber)
      assert.isAbove(yield* Ref.get(seen), early + 10)
    })
  )
})
