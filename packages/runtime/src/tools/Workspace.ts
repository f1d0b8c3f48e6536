/**
 * The built-in tools for looking at one folder: `list_files`, `read_files`, `grep`.
 *
 * Owns: what the tools are called, take and answer. Does not own: confinement
 * (`WorkspacePath`), walking (`WorkspaceTree`), matching (`TextPattern`), cutting
 * of texts (`TextFile`).
 *
 * - W1. Nothing outside the root is read or told (`WorkspacePath` P1-P3).
 * - W2. Figures (`total`, `matches`, `files`) are those of the whole tree, also
 *   when the list beside them is cut; `truncated` says that it is.
 * - W3. Every tool only reads: running one again is harmless.
 */
import * as ToolPolicy from "@turnstep/core/ToolPolicy"
import * as ByteSize from "effect/ByteSize"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as ProtectedPath from "../ProtectedPath.ts"
import * as TextFile from "./TextFile.ts"
import * as TextPattern from "./TextPattern.ts"
import * as WorkspacePath from "./WorkspacePath.ts"
import * as WorkspaceTree from "./WorkspaceTree.ts"

/** A search pattern that cannot be used; `message` is written for the model. */
export class PatternRefused extends Schema.TaggedError<PatternRefused>()("PatternRefused", {
  pattern: Schema.String,
  message: Schema.String
}) {}

/** None of the files asked for could be read. */
export class NothingRead extends Schema.TaggedError<NothingRead>()("NothingRead", {
  files: Schema.Array(TextFile.FileProblem),
  message: Schema.String
}) {}

const skippedNames = [...WorkspaceTree.skippedFolders].join(", ")

const Count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(1))

const globHint =
  "Glob such as *.ts (the name, at any depth) or src/**/*.test.ts (the path, from `path` or from the workspace root)."

/** What `list_files` answers. */
export const FileList = Schema.Struct({
  path: Schema.String,
  entries: Schema.Array(
    Schema.Struct({
      path: Schema.String,
      kind: Schema.Literals(["file", "folder", "link", "other"]),
      size: Schema.optionalKey(Schema.Int.annotate({ description: "Bytes; files only" }))
    })
  ),
  total: Schema.Int.annotate({ description: "Entries in the whole tree" }),
  files: Schema.Int.annotate({ description: "Files among them" }),
  truncated: Schema.Boolean,
  unreadable: Schema.Int.annotate({ description: "Folders that could not be listed" })
})
export type FileList = typeof FileList.Type

/** Lists a folder recursively. */
export const ListFiles = Tool.make("list_files", {
  description:
    "List the files and folders of the workspace below a folder, recursively and sorted by path, with sizes in bytes. " +
    `Skips ${skippedNames}. Links are listed, not followed. Paths are relative to the workspace root.`,
  parameters: Schema.Struct({
    path: Schema.optionalKey(Schema.String.annotate({ description: "Folder to list; default: the whole workspace." })),
    pattern: Schema.optionalKey(
      Schema.String.check(Schema.isNonEmpty(), Schema.isMaxLength(200)).annotate({ description: globHint })
    ),
    limit: Schema.optionalKey(Count.annotate({ description: "Entries to return; default 500, at most 5000." }))
  }),
  success: FileList,
  failure: WorkspacePath.PathRefused,
  failureMode: "return"
}).annotate(Tool.Readonly, true) // W3

/** What `read_files` answers. */
export const FileTexts = Schema.Struct({
  files: Schema.Array(Schema.Union([TextFile.FileText, TextFile.FileProblem]))
})
export type FileTexts = typeof FileTexts.Type

/** Reads text files. */
export const ReadFiles = Tool.make("read_files", {
  description:
    "Read text files of the workspace, several in one call. Each file comes with its text or with the reason why not " +
    `(missing, outside the workspace, binary, too large). At most ${TextFile.maxFileText} characters per file are ` +
    "given; `truncated` tells when lines are missing. startLine and endLine (counted from 1, both included) apply to every file.",
  parameters: Schema.Struct({
    paths: Schema.Array(Schema.String)
      .check(Schema.isMinLength(1), Schema.isMaxLength(50))
      .annotate({ description: "Files to read, at most 50." }),
    startLine: Schema.optionalKey(Count.annotate({ description: "First line to return; default 1." })),
    endLine: Schema.optionalKey(Count.annotate({ description: "Last line to return; default: the last of the file." }))
  }),
  success: FileTexts,
  failure: NothingRead,
  failureMode: "return"
})
  .annotate(Tool.Readonly, true)
  .annotate(ToolPolicy.Output, "exempt")

/** What `grep` answers. */
export const Found = Schema.Struct({
  pattern: Schema.String,
  path: Schema.String,
  matches: Schema.Int.annotate({ description: "Matching lines in the whole tree" }),
  files: Schema.Int.annotate({ description: "Files with at least one matching line" }),
  searched: Schema.Int.annotate({ description: "Text files searched" }),
  lines: Schema.Array(Schema.Struct({ path: Schema.String, line: Schema.Int, text: Schema.String })),
  truncated: Schema.Boolean.annotate({ description: "True if `lines` does not hold all matching lines" }),
  skipped: Schema.Struct({ binary: Schema.Int, large: Schema.Int, unreadable: Schema.Int })
})
export type Found = typeof Found.Type

/** Searches the text files of the workspace line by line. */
export const Grep = Tool.make("grep", {
  description:
    "Search the text files of the workspace line by line for a regular expression (JavaScript syntax) or, with literal: true, " +
    "for a fixed text. Gives the matching lines with path and line number, and the total counts over the whole tree " +
    `even when the list is cut. Skips ${skippedNames}, links, binary files and files over ${TextFile.maxFileBytes} bytes.`,
  parameters: Schema.Struct({
    pattern: Schema.String.check(Schema.isNonEmpty(), Schema.isMaxLength(1000)),
    literal: Schema.optionalKey(
      Schema.Boolean.annotate({ description: "Take the pattern as fixed text; default false." })
    ),
    path: Schema.optionalKey(Schema.String.annotate({ description: "Folder or file; default: the whole workspace." })),
    glob: Schema.optionalKey(
      Schema.String.check(Schema.isNonEmpty(), Schema.isMaxLength(200)).annotate({ description: globHint })
    ),
    caseSensitive: Schema.optionalKey(Schema.Boolean.annotate({ description: "Default true." })),
    limit: Schema.optionalKey(Count.annotate({ description: "Matching lines to return; default 100, at most 1000." }))
  }),
  success: Found,
  failure: Schema.Union([WorkspacePath.PathRefused, PatternRefused]),
  failureMode: "return"
}).annotate(Tool.Readonly, true)

/** `list_files`, `read_files` and `grep`. */
export const toolkit = Toolkit.make(ListFiles, ReadFiles, Grep)

const make = Effect.fnUntraced(function* (root: string) {
  const fs = yield* FileSystem.FileSystem
  const workspace = yield* WorkspacePath.make(root)
  const timeLimit = TextPattern.makeTimeLimit()

  const listFiles = Effect.fn("Workspace.listFiles")(function* (params: Tool.Parameters<typeof ListFiles>) {
    const start = yield* workspace.locate(params.path ?? ".")
    if (start.kind !== "Directory") return yield* WorkspacePath.refuse(start.path, "not-a-folder")
    const tree = yield* WorkspaceTree.walk(fs, start, yield* workspace.hidden)
    const wanted = tree.entries.filter(WorkspaceTree.matcher(params.pattern, start.path))
    const shown = wanted.slice(0, Math.min(params.limit ?? 500, 5000))
    return {
      path: start.path,
      entries: yield* Effect.forEach(shown, withSize, { concurrency }),
      total: wanted.length,
      files: wanted.filter((entry) => entry.kind === "file").length,
      truncated: tree.cut || shown.length < wanted.length,
      unreadable: tree.unreadable
    } satisfies FileList
  })

  const withSize = Effect.fnUntraced(function* ({ path, kind, real }: WorkspaceTree.Entry) {
    const size = kind === "file" ? yield* Effect.option(fs.lstat(real)) : Option.none()
    const entry: FileList["entries"][number] = Option.isNone(size)
      ? { path, kind }
      : { path, kind, size: ByteSize.toNumberUnsafe(size.value.size) }
    return entry
  })

  const readFiles = Effect.fn("Workspace.readFiles")(function* (params: Tool.Parameters<typeof ReadFiles>) {
    const files = TextFile.fit(
      yield* Effect.forEach(params.paths, (path) => TextFile.read(fs, workspace, path, params), { concurrency: 8 })
    )
    const problems = files.filter((file) => "error" in file)
    if (problems.length < files.length) return { files } satisfies FileTexts
    return yield* new NothingRead({ files: problems, message: problems.map((file) => file.error).join("\n") })
  })

  /** The text of a tree's file, or what kept it from being searched. */
  const textOf = Effect.fnUntraced(
    function* (entry: WorkspaceTree.Entry, hidden: ProtectedPath.Hidden) {
      // A hard link of a hidden file has a path of its own.
      if (hidden.ids.has(ProtectedPath.idOf(entry.real) ?? "")) return "unreadable"
      const info = yield* fs.lstat(entry.real) // not `stat`: a link may have taken the file's place (W1)
      if (info.type !== "File") return "unreadable"
      if (ByteSize.toNumberUnsafe(info.size) > TextFile.maxFileBytes) return "large"
      const text = TextFile.decode(yield* fs.readFile(entry.real))
      return text === undefined ? "binary" : { path: entry.path, text }
    },
    Effect.orElseSucceed(() => "unreadable" as const)
  )

  const grep = Effect.fn("Workspace.grep")(function* (params: Tool.Parameters<typeof Grep>) {
    const compiled = TextPattern.compile(params.pattern, params)
    if (Result.isFailure(compiled)) {
      return yield* new PatternRefused({ pattern: params.pattern, message: compiled.failure })
    }
    const pattern = compiled.success
    const start = yield* workspace.locate(params.path ?? ".")
    const hidden = yield* workspace.hidden
    const tree = yield* WorkspaceTree.walk(fs, start, hidden)
    const meant = WorkspaceTree.matcher(params.glob, start.path)
    const candidates = tree.entries.filter((entry) => entry.kind === "file" && meant(entry))
    const limit = Math.min(params.limit ?? 100, 1000)
    const skipped = { binary: 0, large: 0, unreadable: 0 }
    const lines: Array<Found["lines"][number]> = []
    const patience = TextPattern.makePatience({ limit: timeLimit })
    let matches = 0
    let files = 0
    // a batch at a time: bounded memory, and a place to be interrupted between two of them
    for (let from = 0; from < candidates.length; from += batchSize) {
      const batch = yield* Effect.forEach(candidates.slice(from, from + batchSize), (entry) => textOf(entry, hidden), {
        concurrency
      })
      const texts: Array<Text> = []
      for (const item of batch) {
        if (typeof item === "string") skipped[item]++
        else texts.push(item)
      }
      const keep = limit - lines.length
      for (const group of portions(texts)) {
        const searchAll = () =>
          group.map(({ path, text }) => ({ path, found: TextPattern.search(pattern, text, keep) }))
        const characters = group.reduce((sum, { text }) => sum + text.length, 0)
        const searched = pattern.backtracks ? patience(characters, searchAll) : searchAll()
        if (searched === undefined) {
          return yield* new PatternRefused({
            pattern: params.pattern,
            message:
              "This regular expression backtracks too much on the files here. Use a simpler one, or literal: true."
          })
        }
        for (const { path, found } of searched) {
          matches += found.count
          if (found.count > 0) files++
          for (const match of found.first.slice(0, limit - lines.length)) lines.push({ path, ...match })
        }
      }
    }
    return {
      pattern: params.pattern,
      path: start.path,
      matches,
      files,
      searched: candidates.length - skipped.binary - skipped.large - skipped.unreadable,
      lines,
      truncated: tree.cut || lines.length < matches,
      skipped: { ...skipped, unreadable: skipped.unreadable + tree.unreadable }
    } satisfies Found
  })

  return toolkit.of({ list_files: listFiles, read_files: readFiles, grep })
})

/** The handlers of `toolkit`, confined to `root`; fails with `WorkspaceMissing` if that is no folder. */
export const layer = (options: { readonly root: string }) => toolkit.toLayer(make(options.root))

interface Text {
  readonly path: string
  readonly text: string
}

const concurrency = 16
const batchSize = 32
/** Characters that are searched at once (`TextPattern` S2). */
const portionText = 1024 * 1024

/** Splits texts into groups of about `portionText` characters; order is kept. */
const portions = (texts: ReadonlyArray<Text>): ReadonlyArray<ReadonlyArray<Text>> => {
  const groups: Array<Array<Text>> = []
  let room = 0
  for (const text of texts) {
    const group = groups.at(-1)
    if (group === undefined || text.text.length > room) {
      groups.push([text])
      room = portionText
    } else group.push(text)
    room -= text.text.length
  }
  return groups
}
