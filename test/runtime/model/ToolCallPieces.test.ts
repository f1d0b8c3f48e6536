/**
 * Tool calls in every form in which servers stream them.
 *
 * A table is generated: calls that a model has made, times the ways in which a server may write their pieces. The judge knows
 * the calls and nothing of how they were put together again.
 *
 * - A call that can run is one that was made, with its own name and arguments, and no call runs twice.
 * - A call that does not come out is missed by nobody: another one is told that cannot run, so the model reads of it.
 * - Written as the protocol says, or with one known deviation, every call comes out.
 */
import { assert, describe, it } from "@effect/vitest"
import type { ChatPart } from "@turnstep/runtime/model/openai/ChatPart"
import * as ChatDecoder from "@turnstep/runtime/model/openai/ChatDecoder"

interface Made {
  readonly name: string
  readonly args: { readonly [name: string]: unknown }
}

const tools = new Set(["list_files", "run_command", "read"])

const batches: ReadonlyArray<readonly [string, ReadonlyArray<Made>]> = [
  ["one call", [{ name: "read", args: { path: "a" } }]],
  ["one call without arguments", [{ name: "list_files", args: {} }]],
  [
    "two tools, the first without arguments",
    [
      { name: "list_files", args: {} },
      { name: "run_command", args: { line: "rm -r {a}" } }
    ]
  ],
  [
    "one tool twice",
    [
      { name: "read", args: { path: "a" } },
      { name: "read", args: { path: 'b"}' } }
    ]
  ],
  [
    "one tool twice, the first time without arguments",
    [
      { name: "read", args: {} },
      { name: "read", args: { path: "b" } }
    ]
  ],
  [
    "three calls",
    [
      { name: "run_command", args: { line: "ls" } },
      { name: "list_files", args: {} },
      { name: "read", args: { path: "a", lines: [1, { to: 2 }] } }
    ]
  ]
]

const callsIn = (batch: string): ReadonlyArray<Made> => batches.find(([name]) => name === batch)?.[1] ?? []

type Style<A> = { readonly [name: string]: A }

/** Index of a piece: `call` and `piece` count from 0, `chunk` counts all pieces. */
const indexes: Style<(at: { call: number; piece: number; chunk: number; last: number }) => number | undefined> = {
  "as it should be": ({ call }) => call,
  missing: () => undefined,
  "always 0": () => 0,
  "in the first piece alone": ({ call, piece }) => (piece === 0 ? call : undefined),
  "counting pieces": ({ chunk }) => chunk,
  "from the last to the first": ({ call, last }) => last - call
}

const ids: Style<(at: { call: number; piece: number; pieces: number; chunk: number }) => string | undefined> = {
  once: ({ call, piece }) => (piece === 0 ? `id${call}` : undefined),
  "with every piece": ({ call }) => `id${call}`,
  missing: () => undefined,
  late: ({ call, piece, pieces }) => (piece === pieces - 1 ? `id${call}` : undefined),
  "another with every piece": ({ chunk }) => `id${chunk}`,
  "the same for all": () => "id",
  "empty after the first": ({ call, piece }) => (piece === 0 ? `id${call}` : "")
}

/** Names of the pieces of a call. */
const names: Style<(name: string, pieces: number) => ReadonlyArray<string>> = {
  once: (name, pieces) => at(pieces, 0, name),
  "with every piece": (name, pieces) => Array.from({ length: pieces }, () => name),
  "in pieces": (name, pieces) =>
    pieces < 3 ? at(pieces, 0, name) : [name.slice(0, 3), name.slice(3), ...at(pieces - 2, -1, "")],
  late: (name, pieces) => at(pieces, pieces - 1, name),
  missing: (_, pieces) => at(pieces, 0, "")
}

/** Arguments of the pieces of a call. */
const args: Style<(text: string) => ReadonlyArray<unknown>> = {
  whole: (text) => [text],
  "in pieces, the first empty": (text) => ["", text.slice(0, 4), text.slice(4)],
  "in pieces": (text) => [text.slice(0, 1), text.slice(1, 5), text.slice(5)],
  "whole, then empty": (text) => [text, "", ""],
  "whole, twice": (text) => [text, text],
  "an object": (text) => [JSON.parse(text)],
  "an empty object first": (text) => [{}, text],
  "nothing where there are none": (text) => (text === "{}" ? ["", "", ""] : ["", text.slice(0, 3), text.slice(3)])
}

const orders: Style<<A>(calls: ReadonlyArray<ReadonlyArray<A>>) => ReadonlyArray<A>> = {
  "one after the other": (calls) => calls.flat(),
  interleaved: (calls) =>
    Array.from({ length: Math.max(...calls.map((pieces) => pieces.length)) }, (_, piece) =>
      calls.flatMap((pieces) => pieces.slice(piece, piece + 1))
    ).flat()
}

const finishes: Style<"tool_calls" | "stop" | "early" | "missing" | "length"> = {
  tool_calls: "tool_calls",
  stop: "stop",
  "with the first piece": "early",
  "null and [DONE]": "missing",
  length: "length"
}

const at = (length: number, index: number, name: string): ReadonlyArray<string> =>
  Array.from({ length }, (_, piece) => (piece === index ? name : ""))

interface Case {
  readonly batch: string
  readonly index: string
  readonly id: string
  readonly name: string
  readonly args: string
  readonly order: string
  readonly finish: string
  readonly hasReasoning: boolean
}

/** Pieces with a name and a place of their own, or whole calls with ids of their own: nothing tells them from calls. */
const areCalls = ({ args, id, index, name }: Case): boolean =>
  name === "with every piece" &&
  (index === "counting pieces" || (args === "whole, twice" && id === "another with every piece" && !placed.has(index)))

/** A tool called without arguments and again under the same id and place: the second call is the rest of the first. */
const isOneCall = ({ batch, id, index }: Case): boolean =>
  batch === "one tool twice, the first time without arguments" &&
  index !== "as it should be" &&
  index !== "from the last to the first" &&
  (id === "the same for all" || (index === "always 0" && (id === "missing" || id === "late")))

/** Pieces of several calls, in turns or with their names last, without anything that says whose they are: nobody could read them. */
const isUnreadable = ({ batch, id, index, name, order }: Case): boolean =>
  callsIn(batch).length > 1 &&
  ((order === "interleaved" && id !== "with every piece") || name === "late") &&
  index !== "as it should be" &&
  index !== "from the last to the first"

/** A call without name, id and arguments is none. */
const isNothing = ({ args, batch, id, name }: Case): boolean =>
  name === "missing" &&
  id === "missing" &&
  args.startsWith("nothing") &&
  callsIn(batch).some((call) => isBare(call.args))

const isBare = (value: object): boolean => Object.keys(value).length === 0

const placed: ReadonlySet<string> = new Set(["as it should be", "always 0", "from the last to the first"])

/** Every form with the usual end; every end with some forms. */
const cases: ReadonlyArray<Case> = batches
  .flatMap(([batch]) =>
    Object.keys(indexes).flatMap((index) =>
      Object.keys(ids).flatMap((id) =>
        Object.keys(names).flatMap((name) =>
          Object.keys(args).flatMap((written, nth) =>
            Object.keys(orders).flatMap((order, turn) => [
              {
                batch,
                index,
                id,
                name,
                args: written,
                order,
                finish: "tool_calls",
                hasReasoning: (nth + turn) % 2 === 0
              },
              ...(name === "once" && (id === "once" || id === "missing")
                ? Object.keys(finishes)
                    .slice(1)
                    .map((finish) => ({
                      batch,
                      index,
                      id,
                      name,
                      args: written,
                      order,
                      finish,
                      hasReasoning: nth % 2 === 0
                    }))
                : [])
            ])
          )
        )
      )
    )
  )
  .filter((form) => !areCalls(form) && !isOneCall(form) && !isNothing(form) && !isUnreadable(form))

const payloads = (form: Case): ReadonlyArray<string> => {
  let chunk = 0
  const made = callsIn(form.batch)
  const calls = made.map((call, number) => {
    const texts = args[form.args]!(JSON.stringify(call.args))
    const told = names[form.name]!(call.name, texts.length)
    return texts.map((text, piece) => ({ text, name: told[piece] ?? "", call: number, piece, pieces: texts.length }))
  })
  const deltas = orders[form.order]!(calls).map(({ call, name, piece, pieces, text }) => {
    const index = indexes[form.index]!({ call, piece, chunk, last: made.length - 1 })
    const id = ids[form.id]!({ call, piece, pieces, chunk })
    chunk++
    return {
      tool_calls: [
        {
          ...(index === undefined ? {} : { index }),
          ...(id === undefined ? {} : { id }),
          function: { name, arguments: text }
        }
      ]
    }
  })
  const thought = form.hasReasoning ? [{ reasoning_content: "hm" }] : []
  const finish = finishes[form.finish]!
  const reasonOf = (position: number): string | null => (finish === "early" && position === 0 ? "tool_calls" : null)
  return [
    ...[...thought, ...deltas].map((delta, position) =>
      JSON.stringify({ choices: [{ index: 0, delta, finish_reason: reasonOf(position) }] })
    ),
    ...(finish === "early" || finish === "missing"
      ? []
      : [JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: finish }] })]),
    "[DONE]"
  ]
}

const decode = (form: Case): ReadonlyArray<ChatPart> => {
  const decoder = ChatDecoder.make({ issuer: "test/m", tellsFinish: false })
  const out: Array<ChatPart> = []
  for (const payload of payloads(form)) assert.isUndefined(decoder.push(payload, out), show(form))
  assert.isUndefined(decoder.end(out), show(form))
  return out
}

/** A call that the runtime would run: a tool that exists, and arguments that are an object. */
const canRun = ({ name, params }: { readonly name: string; readonly params: unknown }): boolean =>
  tools.has(name) && typeof params === "object" && params !== null && !Array.isArray(params)

const show = (form: Case): string => JSON.stringify(form)

const textOf = (calls: ReadonlyArray<{ readonly name: string; readonly args: unknown }>): ReadonlyArray<string> =>
  calls.map(({ args, name }) => `${name} ${JSON.stringify(args)}`).toSorted()

const beginsEmpty: ReadonlySet<string> = new Set(["in pieces, the first empty", "nothing where there are none"])

/** As the protocol says, or with one deviation that leaves one reading. */
const isClear = ({ args, batch, finish, id, index, name }: Case): boolean => {
  if (finish === "length" || finish === "null and [DONE]") return false
  // Part of a name behind the first arguments would be another call.
  const isNamedAhead = name === "once" || (name === "in pieces" && beginsEmpty.has(args))
  if (!isNamedAhead || args === "whole, twice") return false
  const hasOwnIndex = index === "as it should be" || index === "from the last to the first"
  if (id === "another with every piece" && name !== "once") return false
  if (hasOwnIndex) return id !== "the same for all"
  return (
    index === "missing" && id === "with every piece" && batch !== "one tool twice, the first time without arguments"
  )
}

describe("pieces of tool calls", () => {
  it(`holds for all ${cases.length} forms`, () => {
    assert.isAtLeast(cases.length, 300)
    let clear = 0
    for (const form of cases) {
      const made = callsIn(form.batch)
      const told = decode(form).flatMap((part) => (part.type === "tool-call" ? [part] : []))
      const run = textOf(told.filter(canRun).map(({ name, params }) => ({ name, args: params })))
      const wanted = textOf(made)
      const left = [...wanted]
      for (const call of run) {
        const place = left.indexOf(call)
        assert.isAtLeast(place, 0, `${call} was never made: ${show(form)}`)
        left.splice(place, 1)
      }
      if (left.length > 0)
        assert.isTrue(
          told.some((call) => !canRun(call)),
          `${left.join()} is lost: ${show(form)}`
        )
      assert.strictEqual(new Set(told.map(({ id }) => id)).size, told.length, `ids are not unique: ${show(form)}`)
      if (isClear(form)) {
        clear++
        assert.deepStrictEqual(run, wanted, `all are clear: ${show(form)}`)
      }
    }
    assert.isAtLeast(clear, 300)
  })

  it("takes a call without arguments and one of another tool at the same index as two", () => {
    const form = { batch: "two tools, the first without arguments", index: "always 0", id: "once", name: "once" }
    const told = decode({
      ...form,
      args: "nothing where there are none",
      order: "one after the other",
      finish: "tool_calls",
      hasReasoning: false
    })
    assert.deepStrictEqual(
      told.flatMap((part) => (part.type === "tool-call" ? [[part.id, part.name, part.params]] : [])),
      [
        ["id0", "list_files", {}],
        ["id1", "run_command", { line: "rm -r {a}" }]
      ]
    )
  })
})
