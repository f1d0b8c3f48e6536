/** Answers of a hostile model: each asks for more than a process can give, in number, size, depth or time. */
import type * as ChatReply from "@turnstep/runtime/testing/ChatReply"
import * as StrictProvider from "@turnstep/runtime/testing/StrictProvider"

const { calls, text } = StrictProvider

export interface Attack {
  readonly name: string
  readonly reply: (scale: number) => ChatReply.Reply
}

const times = <A>(count: number, make: (n: number) => A): ReadonlyArray<A> =>
  Array.from({ length: Math.max(1, Math.round(count)) }, (_, n) => make(n))

const mebibyte = 1024 * 1024
const piece = "flood ".repeat(8_192)

/** One chunk of the Chat wire. */
const chunk = (delta: object, finish_reason: string | null = null): string =>
  `data: ${JSON.stringify({
    id: "chatcmpl-hostile",
    object: "chat.completion.chunk",
    created: 1,
    model: "hostile",
    choices: [{ index: 0, delta, finish_reason }]
  })}\n\n`

const ending = (finish: string) => [chunk({}, finish), "data: [DONE]\n\n"]

/** A stream of `mib` mebibytes whose pieces are one string, so that the flood costs its sender nothing. */
const flood = (mib: number, delta: (text: string) => object, before: ReadonlyArray<string> = [], finish = "stop") => {
  const one = chunk(delta(piece))
  return {
    raw: [
      chunk({ role: "assistant" }),
      ...before,
      ...times((mib * mebibyte) / one.length, () => one),
      ...ending(finish)
    ]
  }
}

const nested = (depth: number): string => `${'{"a":'.repeat(depth)}1${"}".repeat(depth)}`

/** Expressions that a backtracking matcher needs exponential or polynomial time for, on a line of `a` and a last `X`. */
export const expressions = [
  "(a+)+$",
  "(a|a)*$",
  "(a|aa)+$",
  "(.*a){20}$",
  "(\\w+\\s?)*$",
  "^(([a-z])+.)+[A-Z]([a-z])+$",
  "(a*)*b",
  "(?:a?){30}a{30}b"
]

/** Globs that grow when their braces are written out, or that a backtracking matcher does not come to an end with. */
export const globs = [
  `*${"{a,b}".repeat(13)}`,
  `${"*{a,b}".repeat(10)}`,
  `${"{a,{b,{c,".repeat(20)}d${"}}}".repeat(20)}`,
  `${"*a".repeat(40)}b`,
  `${"**/".repeat(60)}x`,
  `${"@(a|b|*)".repeat(12)}`
]

export const attacks: ReadonlyArray<Attack> = [
  { name: "5,000 calls that list", reply: (scale) => calls(times(5_000 * scale, () => ({ name: "list_files" }))) },
  {
    name: "5,000 calls of tools that do not exist",
    reply: (scale) => calls(times(5_000 * scale, (n) => ({ name: `missing_${n}`, arguments: { n } })))
  },
  { name: "400 MiB of text", reply: (scale) => flood(400 * scale, (content) => ({ content })) },
  {
    name: "400 MiB of reasoning",
    reply: (scale) => flood(400 * scale, (reasoning_content) => ({ reasoning_content }))
  },
  {
    name: "400 MiB of arguments",
    reply: (scale) =>
      flood(
        400 * scale,
        (argument) => ({ tool_calls: [{ index: 0, function: { arguments: argument } }] }),
        [
          chunk({
            tool_calls: [
              { index: 0, id: "call_flood", type: "function", function: { name: "list_files", arguments: "" } }
            ]
          })
        ],
        "tool_calls"
      )
  },
  {
    name: "400 MiB in one line",
    reply: (scale) => ({
      raw: ['data: {"x":"', ...times((400 * scale * mebibyte) / piece.length, () => piece), '"}\n\n']
    })
  },
  {
    name: "a million empty pieces",
    reply: (scale) => {
      const many = chunk({ content: "" }).repeat(1_000)
      return { raw: [...times(1_000 * scale, () => many), ...ending("stop")] }
    }
  },
  {
    name: "a million comments",
    reply: (scale) => ({ raw: [...times(1_000 * scale, () => ": keep-alive\n\n".repeat(1_000)), ...ending("stop")] })
  },
  {
    name: "arguments nested 100,000 deep",
    reply: (scale) => calls(times(4, () => ({ name: "list_files", arguments: nested(100_000 * scale) })))
  },
  {
    name: "expressions that kill",
    reply: (scale) =>
      calls(times(200 * scale, (n) => ({ name: "grep", arguments: { pattern: expressions[n % expressions.length] } })))
  },
  {
    name: "globs that kill",
    reply: (scale) =>
      calls(
        times(60 * scale, (n) =>
          n % 2 === 0
            ? { name: "list_files", arguments: { path: "many", pattern: globs[(n / 2) % globs.length] } }
            : { name: "grep", arguments: { pattern: "never", glob: globs[((n - 1) / 2) % globs.length] } }
        )
      )
  },
  {
    name: "300 reads of 50 files",
    reply: (scale) =>
      calls(
        times(300 * scale, () => ({ name: "read_files", arguments: { paths: times(50, (n) => `large/${n}.txt`) } }))
      )
  },
  {
    name: "2,000 walks over the tree",
    reply: (scale) => calls(times(2_000 * scale, () => ({ name: "list_files", arguments: { path: "many" } })))
  },
  { name: "an answer and then nothing usable", reply: () => text("x".repeat(3 * mebibyte)) }
]

/** A workspace that makes the attacks costly: many files, a long line, large files. */
export const workspace = (files: number): Readonly<Record<string, string>> => ({
  "line.txt": `${"a".repeat(60)}X\n`.repeat(200),
  ...Object.fromEntries(times(files, (n) => [`many/${n % 100}/ab${n}.txt`, "a"])),
  ...Object.fromEntries(times(50, (n) => [`large/${n}.txt`, `${"line of a large file\n".repeat(16_000)}`]))
})
