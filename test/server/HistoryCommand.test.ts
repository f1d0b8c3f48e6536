import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, layer } from "@effect/vitest"
import * as HistoryInput from "@turnstep/server/cli/HistoryInput"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { spawnSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import * as Command from "../fixtures/Command.ts"
import * as Folder from "../fixtures/Folder.ts"

const root = path.join(import.meta.dirname, "../..")

interface Case {
  readonly format: string
  readonly context: unknown
  readonly input: ReadonlyArray<unknown>
  readonly expect: { readonly repaired: ReadonlyArray<unknown> }
}

const pathOf = (name: string): string => path.join(root, `test/corpus/history/${name}.json`)
const caseOf = (name: string) => JSON.parse(fs.readFileSync(pathOf(name), "utf8")) as Case

/** Runs a command to its end. */
const run = Effect.fnUntraced(function* (args: ReadonlyArray<string>, cwd: string, stdin = "") {
  const command = yield* Command.start(args, { cwd, stdin })
  const code = yield* command.exit
  return { code, stdout: command.stdout(), stderr: command.stderr() }
}, Effect.scoped)

/** Reads a history as both commands do, in this process. */
const read = (given: Partial<HistoryInput.Options>) =>
  Stream.runCollect(
    HistoryInput.histories({
      format: Option.none(),
      profile: [],
      turn: Option.none(),
      context: Option.none(),
      file: "-",
      ...given
    })
  )

const answered = [
  { role: "user", content: "hi" },
  { role: "assistant", tool_calls: [{ id: "a", type: "function", function: { name: "f", arguments: "{}" } }] },
  { role: "tool", tool_call_id: "a", content: "done" }
]
const dangling = [...answered.slice(0, 2), { role: "user", content: "go on" }]
const plain = [{ role: "user", content: "hi" }]

const options = { timeout: 60_000 }

/** A history whose last call has arguments so many levels deep. */
const nested = (levels: number): string =>
  `[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"x","input":${'{"a":'.repeat(levels)}1${"}".repeat(levels)}}]}]`

layer(NodeServices.layer, { excludeTestServices: true })("turnstep verify and repair", (it) => {
  it.effect(
    "heal a poisoned file from a bug report with one command",
    () =>
      Effect.gen(function* () {
        const file = pathOf("55-anth-reminder-before-result")
        const [found, mended] = yield* Effect.all([run(["verify", file], root), run(["repair", file], root)], {
          concurrency: 2
        })
        assert.strictEqual(found.code, 3, found.stderr)
        assert.match(
          found.stdout,
          /message 2 \(user\)\n +error RESULT_NOT_FIRST at \/2\/content\/1\n.+\n +│ \{"type":"tool_res/
        )
        assert.strictEqual(mended.code, 0, mended.stderr)
        assert.match(mended.stderr, /1 change\n +move +RESULT_NOT_FIRST at \/2\/content\/1/)
        const { expect, ...rest } = caseOf("55-anth-reminder-before-result")
        assert.deepStrictEqual(JSON.parse(mended.stdout), { ...rest, expect, input: expect.repaired })
        const again = yield* run(["verify", "-"], root, mended.stdout)
        assert.deepStrictEqual([again.code, again.stderr], [0, ""])
        assert.match(again.stdout, /^✓ stdin: anthropic, 3 messages: clean\n$/)
      }),
    options
  )

  it.effect(
    "keep the body around the messages and its layout, as the example of the README shows",
    () =>
      Effect.gen(function* () {
        const file = path.join(root, "examples/poisoned.json")
        const before = JSON.parse(fs.readFileSync(file, "utf8")) as Record<string, unknown>
        const { code, stderr, stdout } = yield* run(["repair", file], root)
        assert.strictEqual(code, 0, stderr)
        const after = JSON.parse(stdout) as Record<string, unknown>
        assert.deepStrictEqual({ ...after, messages: undefined }, { ...before, messages: undefined })
        assert.notDeepEqual(after["messages"], before["messages"])
        assert.match(stdout, /^\{\n {2}"model"[^]*\}\n$/)
      }),
    options
  )

  it.effect(
    "go through JSONL line by line, and leave a line without findings as it is",
    () =>
      Effect.gen(function* () {
        const odd = JSON.stringify(answered).replace('"hi"', '"h\\u0069"').replaceAll(",", " ,")
        // The second line has no sign of its format: it goes with the line before.
        const lines = [odd, JSON.stringify({ messages: plain }), JSON.stringify({ id: 7, messages: dangling })]
        const cwd = yield* Folder.make({ "many.jsonl": `${lines.join("\n")}\n` })
        const [found, mended] = yield* Effect.all(
          [run(["verify", "--json", "many.jsonl"], cwd), run(["repair", "many.jsonl"], cwd)],
          { concurrency: 2 }
        )
        const verdicts = found.stdout
          .trimEnd()
          .split("\n")
          .map((line) => JSON.parse(line))
        assert.deepStrictEqual(
          verdicts.map(({ findings, format }) => [format, findings.map((finding: { at: string }) => finding.at)]),
          [
            ["openai-chat", []],
            ["openai-chat", []],
            ["openai-chat", ["/1/tool_calls/0"]]
          ]
        )
        assert.deepStrictEqual([found.code, mended.code], [3, 0])
        assert.match(mended.stderr, /^✓ many\.jsonl:3: openai-chat[^]*\n3 histories: 3 clean, 0 not\n$/)
        const [first, second, third = ""] = mended.stdout.split("\n")
        assert.deepStrictEqual([first, second], [lines[0], lines[1]])
        const healed = JSON.parse(third) as { readonly id: number; readonly messages: ReadonlyArray<unknown> }
        assert.deepStrictEqual([healed.id, healed.messages.length], [7, 4])
      }),
    options
  )

  it.effect(
    "go by flags over the context file",
    () =>
      Effect.gen(function* () {
        const { context, input } = caseOf("24-chat-user-after-tool-mistral")
        const cwd = yield* Folder.make({
          "h.json": JSON.stringify(input),
          "open.json": JSON.stringify(answered.slice(0, 2)),
          "ctx.json": JSON.stringify(context)
        })
        const [strict, lax] = yield* Effect.all(
          [
            run(["verify", "--context", "ctx.json", "h.json"], cwd),
            run(
              "repair --json --context ctx.json --profile openai --profile vllm --turn terminated open.json".split(" "),
              cwd
            )
          ],
          { concurrency: 2 }
        )
        assert.deepStrictEqual([strict.code, lax.code], [3, 0])
        const { changes, format } = JSON.parse(lax.stdout)
        assert.deepStrictEqual(
          [format, changes.map(({ code }: { code: string }) => code)],
          ["openai-chat", ["DANGLING_CALL"]]
        )
      }),
    options
  )

  it.effect(
    "exit 3 when there is something to mend for other providers, and 0 for a remark",
    () =>
      Effect.gen(function* () {
        const elsewhere = caseOf("12-chat-ids-restart-each-turn").input
        const cwd = yield* Folder.make({
          "elsewhere.json": JSON.stringify(elsewhere),
          "waiting.json": JSON.stringify(answered.slice(0, 2))
        })
        const [portable, remark] = yield* Effect.all(
          [run(["verify", "elsewhere.json"], cwd), run(["verify", "waiting.json"], cwd)],
          { concurrency: 2 }
        )
        assert.deepStrictEqual([portable.code, remark.code], [3, 0])
        assert.match(portable.stdout, /^✗ elsewhere\.json: openai-chat, \d+ messages: 1 portability finding\n/)
        assert.match(remark.stdout, /^✓ waiting\.json: openai-chat, 2 messages: 1 remark\n/)
      }),
    options
  )

  it.effect(
    "exit 3 when a repair leaves something to decide",
    () =>
      Effect.gen(function* () {
        const { context, input } = caseOf("70-anth-tools-not-declared")
        const cwd = yield* Folder.make({ "h.json": JSON.stringify(input), "ctx.json": JSON.stringify(context) })
        const { code, stderr, stdout } = yield* run(["repair", "--context", "ctx.json", "h.json"], cwd)
        assert.strictEqual(code, 3)
        assert.match(stderr, /TOOLS_UNDECLARED[^]*choose: .*declare-tools/)
        assert.deepStrictEqual(JSON.parse(stdout), input)
      }),
    options
  )

  // `/dev/full` is a disk without room.
  it.effect(
    "read what another program writes, and say when nothing can be written",
    () =>
      Effect.gen(function* () {
        const cwd = yield* Folder.make({ "dangling.json": JSON.stringify(dangling) })
        const shell = (script: string) => spawnSync("sh", ["-c", script], { cwd, encoding: "utf8" })
        const command = `"${process.execPath}" "${path.join(root, "packages/server/bin/turnstep.mjs")}"`
        const piped = shell(`mkfifo pipe && { cat dangling.json > pipe & ${command} repair pipe; }`)
        assert.strictEqual(piped.status, 0, piped.stderr)
        assert.strictEqual(JSON.parse(piped.stdout).length, dangling.length + 1)
        const full = shell(`${command} repair dangling.json > /dev/full`)
        assert.strictEqual(full.status, 1)
        assert.match(full.stderr, /\nturnstep: the output cannot be written \(ENOSPC\)\.\n$/)
      }),
    options
  )

  it.effect(
    "say in one line why an input cannot be used",
    () =>
      Effect.gen(function* () {
        const cwd = yield* Folder.make({
          "broken.json": '[\n  {"role": "user"},\n  {"role": oops}\n]\n',
          "cut.json": '[\n  {"role": "user"},\n',
          "lines.jsonl": `${JSON.stringify(answered)}\n${JSON.stringify(answered)}\n{"role":\n`,
          "message.jsonl": `${JSON.stringify(plain[0])}\n${JSON.stringify(plain[0])}\n`,
          "other.json": '{"name":"turnstep"}',
          "latin.json": Uint8Array.of(0x5b, 0x22, 0xe4, 0x22, 0x5d),
          "plain.json": JSON.stringify(plain),
          "wrong.json": '{"profil":"mistral"}',
          "empty.json": "",
          "deep.json": nested(200_000),
          "nested.json": nested(900),
          "folder/file": ""
        })
        const table: ReadonlyArray<readonly [file: string, code: number, said: RegExp]> = [
          ["nowhere.json", 1, /^nowhere\.json does not exist\.$/],
          ["folder", 1, /^folder is not a file\.$/],
          ["broken.json", 1, /^broken\.json is not JSON: see line 3\.$/],
          ["cut.json", 1, /^cut\.json is not JSON: see line 3\.$/],
          ["lines.jsonl", 1, /^lines\.jsonl:3 is not JSON\.$/],
          ["message.jsonl", 1, /^message\.jsonl:1 is a single message\. .*jq -s.*$/],
          ["other.json", 1, /^other\.json is JSON, but holds no history\. .*$/],
          ["latin.json", 1, /^latin\.json is not text in UTF-8\.$/],
          ["deep.json", 1, /^deep\.json is nested more than 1000 levels deep\.$/],
          ["empty.json", 1, /^empty\.json is empty\.$/],
          ["plain.json", 2, /^plain\.json could be .* name one with --format: openai-chat, .*anthropic.*\.$/]
        ]
        for (const [file, code, said] of table) {
          const error = yield* Effect.flip(read({ file: path.join(cwd, file) }))
          assert.strictEqual(error._tag, code === 1 ? "InputUnreadable" : "FormatUnclear", file)
          assert.match(error.message.replace(`${cwd}/`, ""), said)
        }
        const context = Option.some(path.join(cwd, "wrong.json"))
        const wrong = yield* Effect.flip(read({ file: path.join(cwd, "plain.json"), context }))
        assert.match(wrong.message, /wrong\.json is not a context: .*profil/)
        const deep = yield* run(["verify", "--format", "anthropic", "nested.json"], cwd)
        assert.strictEqual(deep.code, 0, deep.stderr)
        const [broken, unclear, misused] = yield* Effect.all(
          [
            run(["verify", "broken.json"], cwd),
            run(["repair", "plain.json"], cwd),
            run(["verify", "--format", "cobol", "plain.json"], cwd)
          ],
          { concurrency: 3 }
        )
        assert.deepStrictEqual([broken.code, unclear.code, misused.code], [1, 2, 2])
        assert.strictEqual(broken.stderr, "turnstep: broken.json is not JSON: see line 3.\n")
        assert.match(unclear.stderr, /^turnstep: plain\.json could be .*\n$/)
        assert.strictEqual(broken.stdout + unclear.stdout, "")
      }),
    options
  )
})
