import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, layer } from "@effect/vitest"
import * as Ids from "@turnstep/core/Ids"
import * as SpillStore from "@turnstep/core/SpillStore"
import * as RunCommand from "@turnstep/runtime/tools/RunCommand"
import * as ToolCall from "@turnstep/runtime/ToolCall"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import * as fs from "node:fs"
import * as path from "node:path"
import * as Folder from "../../fixtures/Folder.ts"
import { isAlive } from "../../fixtures/Processes.ts"

interface Told {
  readonly exitCode: number | null
  readonly timedOut: boolean
  readonly output: { readonly text: string; readonly bytes: number; readonly spill?: string }
}

const workspace = Effect.fn(function* (files: Readonly<Record<string, string>> = {}) {
  const base = yield* Folder.make({ "outside/x": "" })
  const root = path.join(base, "root")
  yield* Folder.write(root, { ".keep": "", ...files })
  const toolkit = yield* Effect.provide(RunCommand.toolkit, RunCommand.layer({ root }))
  const run = (command: string, rest: { readonly folder?: string; readonly timeoutSeconds?: number } = {}) =>
    Effect.map(Folder.call(toolkit, "run_command", { command, ...rest }), ({ encodedResult, isFailure }) => ({
      isFailure,
      ...(encodedResult as Told & { readonly message: string })
    }))
  const file = (name: string) => path.join(root, name)
  /** Waits for a file that a command writes. */
  const written = (name: string) =>
    Effect.repeat(
      Effect.promise(() => new Promise((resolve) => setImmediate(resolve))),
      {
        until: () => fs.existsSync(file(name)) && fs.readFileSync(file(name), "utf8").endsWith("\n")
      }
    )
  const pidIn = (name: string) => Number(fs.readFileSync(file(name), "utf8"))
  return { root, run, file, written, pidIn }
})

const gone = (pid: number) =>
  Effect.repeat(
    Effect.promise(() => new Promise((resolve) => setImmediate(resolve))),
    { until: () => !isAlive(pid) }
  )

layer(NodeServices.layer, { excludeTestServices: true })("RunCommand", (it) => {
  it.effect("runs a shell command in the workspace and gives its exit code and both outputs", () =>
    Effect.gen(function* () {
      const { root, run } = yield* workspace({ "sub/a.txt": "" })
      const told = yield* run("pwd; echo problem >&2; exit 3")
      assert.deepInclude(told, { isFailure: false, exitCode: 3, timedOut: false })
      assert.sameMembers(told.output.text.trim().split("\n"), [root, "problem"])
      assert.strictEqual((yield* run("ls", { folder: "sub" })).output.text, "a.txt\n")
      assert.strictEqual((yield* run("cat")).exitCode, 0, "there is no input")
    })
  )

  it.effect("starts in the workspace only", () =>
    Effect.gen(function* () {
      const { run } = yield* workspace({ "a.txt": "" })
      for (const folder of ["..", "../outside", "none", "a.txt", ".turnstep"]) {
        assert.isTrue((yield* run("true", { folder })).isFailure, folder)
      }
    })
  )

  it.effect("does not show a command the server's secrets", () =>
    Effect.gen(function* () {
      const { run } = yield* workspace()
      process.env["OPENAI_API_KEY"] = "sk-canary"
      process.env["TURNSTEP_TOKEN"] = "canary-token"
      const { output } = yield* Effect.ensuring(
        run("env"),
        Effect.sync(() => {
          delete process.env["OPENAI_API_KEY"]
          delete process.env["TURNSTEP_TOKEN"]
        })
      )
      assert.notInclude(output.text, "canary")
      assert.include(output.text, "PATH=")
    })
  )

  it.effect("stops a command that takes too long with everything it has started, TERM first and then KILL", () =>
    Effect.gen(function* () {
      const { pidIn, run, written } = yield* workspace()
      const command = `
        (trap '' TERM; sh -c 'echo $$ > stubborn; exec sleep 1000') &
        (trap 'echo told > told; exit' TERM; echo $$ > leader; while :; do sleep 0.05; done)`
      const running = yield* Effect.forkChild(run(command, { timeoutSeconds: 1 }), { startImmediately: true })
      yield* written("stubborn")
      const told = yield* Fiber.join(running)
      assert.deepInclude(told, { isFailure: false, exitCode: null, timedOut: true })
      yield* written("told")
      yield* gone(pidIn("stubborn"))
      yield* gone(pidIn("leader"))
    })
  )

  it.effect("stops the whole group when it is interrupted", () =>
    Effect.gen(function* () {
      const { pidIn, run, written } = yield* workspace()
      const running = yield* Effect.forkChild(run("sleep 1000 & echo $! > child; wait"), { startImmediately: true })
      yield* written("child")
      const child = pidIn("child")
      assert.isTrue(isAlive(child))
      yield* Fiber.interrupt(running)
      yield* gone(child)
    })
  )

  it.effect("does not wait for what a command leaves running, and stops it", () =>
    Effect.gen(function* () {
      const { pidIn, run } = yield* workspace()
      const told = yield* run("sleep 1000 & echo $! > child; echo started")
      assert.deepInclude(told, { exitCode: 0, timedOut: false })
      assert.strictEqual(told.output.text, "started\n")
      yield* gone(pidIn("child"))
    })
  )

  it.effect("keeps an output that floods, and says where", () =>
    Effect.gen(function* () {
      const { run } = yield* workspace()
      const sessionId = Ids.SessionId.make("s")
      const store = yield* SpillStore.SpillStore
      const call = { sessionId, callId: Ids.callId(1, 1, 0), attempt: 1, progress: () => Effect.void }
      const keep: ToolCall.Current["keep"] = (content) =>
        store === undefined ? Effect.die("no store") : store.write(sessionId, content)
      const told = yield* Effect.provideService(run("seq 1 500000; echo the end"), ToolCall.ToolCall, {
        ...call,
        keep,
        recorded: () => Effect.undefined
      })
      assert.strictEqual(told.exitCode, 0)
      assert.strictEqual(told.output.bytes, 3_388_895 + 8)
      assert.match(told.output.text, /500001 lines/)
      assert.isTrue(told.output.text.endsWith("500000\nthe end\n"))
      assert.strictEqual(
        (yield* store?.find(sessionId, told.output.spill ?? "") ?? Effect.die("")).bytes,
        told.output.bytes
      )
    }).pipe(Effect.provide(SpillStore.layerMemory()))
  )

  it.effect("keeps all that was written before the end, however slowly it is taken", () =>
    Effect.gen(function* () {
      const { run } = yield* workspace()
      const sessionId = Ids.SessionId.make("s")
      const store = yield* SpillStore.SpillStore
      const call = { sessionId, callId: Ids.callId(1, 1, 0), attempt: 1, progress: () => Effect.void }
      // A disk that needs longer for a block than what is left running may still write.
      const slowly = Stream.tap<Uint8Array, void, never, never>(() => Effect.sleep("150 millis"))
      const keep: ToolCall.Current["keep"] = (content) =>
        store === undefined ? Effect.die("no store") : store.write(sessionId, slowly(content))
      const told = yield* Effect.provideService(run("seq 1 250000; echo the end"), ToolCall.ToolCall, {
        ...call,
        keep,
        recorded: () => Effect.undefined
      })
      assert.isTrue(told.output.text.endsWith("250000\nthe end\n"))
    }).pipe(Effect.provide(SpillStore.layerMemory()))
  )

  it.effect("does not listen for ever to what has left the group and goes on writing", () =>
    Effect.gen(function* () {
      const { pidIn, run } = yield* workspace()
      const told = yield* run(
        "setsid sh -c 'echo $$ > away; while :; do echo on; sleep 0.02; done' & sleep 0.2; exit 0"
      )
      yield* Effect.sync(() => process.kill(pidIn("away"), "SIGKILL"))
      assert.deepInclude(told, { exitCode: 0, timedOut: false })
    })
  )

  it.effect("ends a command whose output finds no room", () =>
    Effect.gen(function* () {
      const { pidIn, run } = yield* workspace()
      const told = yield* run("echo $$ > flood; yes")
      assert.isTrue(told.isFailure)
      assert.match(told.message, /could not be kept/)
      yield* gone(pidIn("flood"))
    })
  )
})
