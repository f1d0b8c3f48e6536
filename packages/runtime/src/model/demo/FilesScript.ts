/**
 * `/files <question>`: look at the workspace in several Steps and answer with figures.
 *
 * Owns: the order of looking. Does not own: the understanding of the question
 * (`Question`) or the tools (`tools/Workspace`).
 *
 * - Q1. Every figure in the answer is taken from a tool's result, none from the text of the question.
 */
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { FileList, FileTexts, Found } from "../../tools/Workspace.ts"
import { callsOf, type DemoCall } from "./Conversation.ts"
import * as Question from "./Question.ts"
import { act, answer, count, type Reply, type Script, short, trouble, troubles, valueOf } from "./Reply.ts"

/** The tools this script needs. */
export const tools = ["list_files", "grep", "read_files"] as const

export const script: Script = (turn) => {
  const question = Question.read(turn.intent?.rest ?? "")
  const looks = turn.batches.filter((batch) => batch.some((call) => call.name === "list_files"))
  const look = looks.at(-1)
  if (look === undefined) {
    return lookAt(
      question,
      `Looking ${question.word === undefined ? "" : `for "${question.word}" `}${under(question.path)}.`
    )
  }
  const pathOfLook = looks.length === 1 ? question.path : "."
  if (
    look.every((call) => call.result?.isFailure === true && call.result.receipt === undefined) &&
    pathOfLook !== "."
  ) {
    return lookAt(
      { ...question, path: "." },
      `${short(look.flatMap((call) => trouble(call) ?? []).join(" "))} Looking at the whole workspace.`
    )
  }
  const sight: Sight = {
    question: { ...question, path: pathOfLook },
    list: decodeList(valueOf(look.find((call) => call.name === "list_files"))),
    found: decodeFound(valueOf(look.find((call) => call.name === "grep")))
  }
  const reads = callsOf(turn).filter((call) => call.name === "read_files")
  const paths = worthReading(sight)
  if (reads.length === 0 && paths.length > 0 && look.every((call) => call.result?.receipt === undefined)) {
    return act(`Reading the start of ${count(paths.length, "file")}.`, {
      name: "read_files",
      params: { paths, startLine: 1, endLine: 20 }
    })
  }
  return answer(turn, [...figures(sight), ...readings(reads), ...troubles(turn)].join(" "))
}

/** What the Turn has seen so far. */
interface Sight {
  readonly question: Question.Question
  readonly list: Option.Option<FileList>
  readonly found: Option.Option<Found>
}

const decodeList = Schema.decodeUnknownOption(FileList)
const decodeFound = Schema.decodeUnknownOption(Found)
const decodeTexts = Schema.decodeUnknownOption(FileTexts)

/** List and search in one batch; without a word, list everything and list the documents. */
const lookAt = ({ word, path }: Question.Question, text: string): Reply =>
  act(
    text,
    { name: "list_files", params: { path, limit: 50 } },
    word === undefined
      ? { name: "list_files", params: { path, pattern: "*.md", limit: 20 } }
      : { name: "grep", params: { pattern: word, literal: true, path, limit: 20 } }
  )

const worthReading = ({ question, list, found }: Sight): ReadonlyArray<string> => {
  const hits = Option.match(found, { onNone: () => [], onSome: ({ lines }) => lines.map(({ path }) => path) })
  const listed = Option.match(list, {
    onNone: () => [],
    onSome: ({ entries }) => entries.flatMap(({ kind, path }) => (kind === "file" ? [path] : []))
  })
  return [...new Set(question.word === undefined ? listed : hits)].slice(0, question.word === undefined ? 2 : 3)
}

const figures = ({ question: { word, path }, list, found }: Sight): ReadonlyArray<string> => [
  ...Option.match(found, {
    onNone: () => [word === undefined ? noWord : `I have no figures for "${word}".`],
    onSome: ({ files, lines, matches, searched }) => [
      `"${word}" occurs on ${count(matches, "line")} in ${count(files, "file")} ${under(path)} ` +
        `(${count(searched, "text file")} searched, upper and lower case as written).`,
      ...(lines.length === 0
        ? []
        : [
            `First: ${lines
              .slice(0, 3)
              .map((hit) => `${hit.path}:${hit.line}`)
              .join(", ")}.`
          ])
    ]
  }),
  ...Option.match(list, {
    onNone: () => [],
    onSome: ({ files, total }) => [`I listed ${count(total, "entry", "entries")}, ${count(files, "file")} of them.`]
  })
]

const readings = (reads: ReadonlyArray<DemoCall>): ReadonlyArray<string> =>
  reads.flatMap((call) =>
    Option.match(decodeTexts(valueOf(call)), {
      onNone: () => [],
      onSome: ({ files }) =>
        files.map((file) =>
          "text" in file
            ? `I read lines ${file.startLine} to ${file.endLine} of ${file.path} (${count(file.lines, "line")}).`
            : `I could not read ${file.path}: ${short(file.error)}`
        )
    })
  )

const under = (path: string): string => (path === "." ? "in the workspace" : `under ${path}`)

const noWord =
  'I found no search word in the question: quote it, write it in capitals, or ask "for" it. So I only looked around.'
