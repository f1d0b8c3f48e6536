/**
 * What `turnstep verify` and `turnstep repair` work on: the histories of a file or of stdin, each with its format and context.
 *
 * Owns: the flags of both commands, what an input that cannot be used is told, and its exit code. Does not own: how texts
 * are cut (`HistoryText`), where messages stand in them (`HistoryDocument`), or what is wrong with them (`core/history`).
 *
 * - I1. Input that cannot be read exits 1, a question that is not clear exits 2; each says so in one line.
 * - I2. What a flag says wins over the context file, and that over the body around the messages.
 * - I3. A format that is not named is recognised. Where several formats write alike, the body around the messages decides,
 *   then the format of the line before; a guess is never made.
 */
import * as NodeStream from "@effect/platform-node/NodeStream"
import { Context, FormatName, Profile } from "@turnstep/core/history/Contract"
import { detect } from "@turnstep/core/history/Detect"
import * as Argument from "effect/cli/Argument"
import * as Flag from "effect/cli/Flag"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import type * as PlatformError from "effect/PlatformError"
import * as Schema from "effect/Schema"
import * as Stdio from "effect/Stdio"
import * as Stream from "effect/Stream"
import { createReadStream } from "node:fs"
import { CommandFailed } from "./Connection.ts"
import * as HistoryDocument from "./HistoryDocument.ts"
import * as HistoryText from "./HistoryText.ts"
import { clean } from "./Transcript.ts"

/** The input holds no history that can be read. */
export class InputUnreadable extends Schema.TaggedError<InputUnreadable>()("InputUnreadable", {
  place: Schema.String,
  problem: Schema.String
}) {
  override get message() {
    return `${clean(this.place)} ${this.problem}`
  }
}

/** Several formats write such messages alike. */
export class FormatUnclear extends Schema.TaggedError<FormatUnclear>()("FormatUnclear", {
  place: Schema.String,
  candidates: Schema.Array(FormatName)
}) {
  override get message() {
    return `${clean(this.place)} could be written in several formats; name one with --format: ${this.candidates.join(", ")}.`
  }
}

/** The context file does not say what a context can say. */
export class ContextInvalid extends Schema.TaggedError<ContextInvalid>()("ContextInvalid", {
  file: Schema.String,
  problem: Schema.String
}) {
  override get message() {
    return `${clean(this.file)} is not a context: ${this.problem.replaceAll(/\s+/g, " ")}.`
  }
}

/** The words of both commands. */
export const flags = {
  format: Flag.Literals("format", FormatName.literals).pipe(
    Flag.withDescription("how the messages are written; recognised if not named"),
    Flag.optional
  ),
  profile: Flag.Literals("profile", Profile.literals).pipe(
    Flag.withDescription("who will read them, where that is stricter or laxer; may be repeated"),
    Flag.atLeast(0)
  ),
  turn: Flag.Literals("turn", ["terminated", "suspended"]).pipe(
    Flag.withDescription("whether calls at the end that wait for their result will never get one; default suspended"),
    Flag.optional
  ),
  context: Flag.String("context").pipe(
    Flag.withDescription(
      "JSON file with what else is known of the request: tools, thinking, record, … (docs/history.md)"
    ),
    Flag.withMetavar("ctx.json"),
    Flag.optional
  ),
  json: Flag.Boolean("json").pipe(
    Flag.withDescription("print JSON, one line for each history"),
    Flag.withDefault(false)
  ),
  file: Argument.String("file").pipe(
    Argument.withDescription("JSON of one history (messages, or a request body), or JSONL of many; - is stdin")
  )
} as const

/** What the words of a command line come to. */
export interface Options {
  readonly format: Option.Option<FormatName>
  readonly profile: ReadonlyArray<Profile>
  readonly turn: Option.Option<"terminated" | "suspended">
  readonly context: Option.Option<string>
  readonly file: string
}

/** One history of the input. */
export interface History {
  /** Where it stands, for people: the file, and the line if there are several. */
  readonly place: string
  /** Whether it is a line of JSONL. */
  readonly isLine: boolean
  readonly document: HistoryDocument.HistoryDocument
  readonly format: FormatName
  readonly context: Context
}

/** The histories of the input, in their order. */
export const histories = (
  options: Options
): Stream.Stream<History, InputUnreadable | FormatUnclear | ContextInvalid, FileSystem.FileSystem | Stdio.Stdio> =>
  Stream.suspend(() => {
    let before: FormatName | undefined
    return Stream.mapEffect(
      documents(options),
      Effect.fnUntraced(function* (history) {
        const { document, place } = history
        const format = Option.isSome(options.format) ? options.format.value : yield* formatOf(place, document, before)
        before = format
        return { ...history, format }
      })
    )
  })

/** The same, of formats that are for others to find out. */
export const documents = (
  options: Options
): Stream.Stream<Omit<History, "format">, InputUnreadable | ContextInvalid, FileSystem.FileSystem | Stdio.Stdio> =>
  Stream.unwrap(
    Effect.map(contextFor(options), (given) =>
      Stream.mapEffect(
        pieces(options.file),
        Effect.fnUntraced(function* (piece) {
          const place = piece.line === undefined ? nameOf(options.file) : `${nameOf(options.file)}:${piece.line}`
          const document = yield* documentOf(place, piece)
          const context = { ...HistoryDocument.contextOf(document), ...given }
          return { place, isLine: piece.line !== undefined, document, context }
        })
      )
    )
  )

/** Prints why the input could not be used (I1). A reader that stopped reading our output is no news. */
export const report = <A, R>(
  effect: Effect.Effect<
    A,
    InputUnreadable | FormatUnclear | ContextInvalid | CommandFailed | PlatformError.PlatformError,
    R
  >
) =>
  Effect.catch(effect, (error) => {
    if (error._tag === "CommandFailed") return Effect.fail(error)
    if (error._tag === "PlatformError") return new CommandFailed({ exitCode: 1 })
    const failed = new CommandFailed({ exitCode: error._tag === "InputUnreadable" ? 1 : 2 })
    return Effect.andThen(Console.error(`turnstep: ${error.message}`), Effect.fail(failed))
  })

/** The input, for people. */
export const nameOf = (file: string): string => (file === "-" ? "stdin" : file)

/** The texts of a file as they come. */
const pieces = (file: string) =>
  Stream.suspend(() => {
    const splitter = HistoryText.make()
    const name = nameOf(file)
    const cut = (take: () => ReadonlyArray<HistoryText.Piece>) =>
      Stream.fromIterableEffect(Effect.try({ try: take, catch: (error) => uncut(name, error) }))
    return bytes(file).pipe(
      Stream.flatMap((chunk) => cut(() => splitter.push(chunk))),
      Stream.concat(cut(splitter.end))
    )
  })

/** Read from the beginning on, not by place: `<(command)` is a pipe. */
const bytes = (file: string): Stream.Stream<Uint8Array, InputUnreadable, FileSystem.FileSystem | Stdio.Stdio> =>
  file === "-"
    ? Stream.unwrap(
        Effect.map(Stdio.Stdio, ({ stdin }) => Stream.mapError(stdin, ({ reason }) => unread(file, reason)))
      )
    : NodeStream.fromReadable({ evaluate: () => createReadStream(file), onError: (error) => unread(file, error) })

/** Why a file could not be read, by Node's code or the platform's tag. */
const unread = (file: string, error: unknown): InputUnreadable => {
  const known = reasons.find(([names]) => names.some((name) => hasName(error, name)))
  return new InputUnreadable({ place: nameOf(file), problem: known?.[1] ?? "cannot be read." })
}

const hasName = (error: unknown, name: string): boolean =>
  typeof error === "object" &&
  error !== null &&
  (("code" in error && error.code === name) || ("_tag" in error && error._tag === name))

const reasons = [
  [["ENOENT", "NotFound"], "does not exist."],
  [["EACCES", "EPERM", "PermissionDenied"], "may not be read."],
  [["EISDIR", "ENOTDIR", "BadResource"], "is not a file."]
] as const

const uncut = (place: string, error: unknown): InputUnreadable => {
  if (error instanceof HistoryText.NotUtf8) return new InputUnreadable({ place, problem: "is not text in UTF-8." })
  if (!(error instanceof HistoryText.TooLong)) throw error
  const mebibytes = HistoryText.mostCharacters / 1024 / 1024
  return new InputUnreadable({ place, problem: `holds a history of more than ${mebibytes} MiB.` })
}

const documentOf = Effect.fnUntraced(function* (place: string, { line, text }: HistoryText.Piece) {
  const value = yield* jsonOf(place, text, line)
  if (isDeeper(value, mostLevels)) {
    return yield* new InputUnreadable({ place, problem: `is nested more than ${mostLevels} levels deep.` })
  }
  const document = HistoryDocument.find(text, value)
  if (document !== undefined) return document
  const problem = HistoryDocument.isMessage(value)
    ? "is a single message. Give an array of messages; `jq -s .` makes one of a file with a message on each line."
    : "is JSON, but holds no history. Give an array of messages, or an object with `messages`, `contents` or `input`."
  return yield* new InputUnreadable({ place, problem })
})

/** Levels of a history at the most: the readers of its parts go down one call for each. */
const mostLevels = 1000

const isDeeper = (value: unknown, most: number): boolean => {
  let level = [value]
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > most) return true
    level = level.flatMap((entry) =>
      typeof entry === "object" && entry !== null ? Object.values(entry).filter((part) => typeof part === "object") : []
    )
  }
  return false
}

const jsonOf = (place: string, text: string, line?: number): Effect.Effect<unknown, InputUnreadable> =>
  Effect.try({
    try: (): unknown => JSON.parse(text),
    catch: () => {
      const problem =
        text.trim() === ""
          ? "is empty."
          : line === undefined
            ? `is not JSON: see line ${HistoryDocument.faultLine(text)}.`
            : "is not JSON."
      return new InputUnreadable({ place, problem })
    }
  })

/** I3 */
const formatOf = (
  place: string,
  document: HistoryDocument.HistoryDocument,
  before: FormatName | undefined
): Effect.Effect<FormatName, FormatUnclear> => {
  const found = detect(document.messages)
  if (found._tag === "Detected") return Effect.succeed(found.format)
  const hints = [HistoryDocument.formatOfBody(document), before]
  const hint = hints.find((format) => format !== undefined && found.candidates.includes(format))
  return hint === undefined ? new FormatUnclear({ place, candidates: found.candidates }) : Effect.succeed(hint)
}

/** What the flags and the context file say (I2). */
const contextFor = Effect.fnUntraced(function* (options: Options) {
  const base = Option.isSome(options.context) ? yield* contextOf(options.context.value) : {}
  return {
    ...base,
    ...(options.profile.length > 0 ? { profile: options.profile } : {}),
    ...(Option.isSome(options.turn) ? { turn: options.turn.value } : {})
  }
})

const decodeContext = Schema.decodeUnknownEffect(Context, { onExcessProperty: "error" })

const contextOf = Effect.fnUntraced(function* (file: string) {
  const fs = yield* FileSystem.FileSystem
  const text = yield* Effect.mapError(fs.readFileString(file), ({ reason }) => unread(file, reason))
  const value = yield* jsonOf(file, text)
  return yield* Effect.mapError(decodeContext(value), ({ message }) => new ContextInvalid({ file, problem: message }))
})
