/**
 * The built-in tools for looking at one folder: `list_files`, `read_files`, `grep`.
 *
 * Owns: what the tools are called, take and answer. Does not own: confinement
 * (`WorkspacePath`), the work itself (`WorkspaceTask`).
 *
 * - W1. Nothing outside the root is read or told (`WorkspacePath` P1-P3).
 * - W2. Figures (`total`, `matches`, `files`) are those of the whole tree, also
 *   when the list beside them is cut; `truncated` says that it is.
 * - W3. Every tool only reads: running one again is harmless.
 * - W4. Trees, texts and patterns are looked at in a task process: the serving thread gets the bounded answer.
 */
import * as ToolPolicy from "@turnstep/core/ToolPolicy"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as OffThread from "../offthread/OffThread.ts"
import * as TextFile from "./TextFile.ts"
import * as WorkspacePath from "./WorkspacePath.ts"
import type * as WorkspaceTask from "./WorkspaceTask.ts"
import * as WorkspaceTree from "./WorkspaceTree.ts"

/** A search pattern that cannot be used; `message` is written for the model. */
export class PatternRefused extends Schema.TaggedError<PatternRefused>()("PatternRefused", {
  pattern: Schema.String,
  message: Schema.String
}) {}

/** The lines of one file that were asked for, or as many of them as fit. */
export const FileText = Schema.Struct({
  path: Schema.String,
  text: Schema.String,
  startLine: Schema.Int,
  endLine: Schema.Int.annotate({ description: "Last line given" }),
  lines: Schema.Int.annotate({ description: "Lines in the whole file" }),
  truncated: Schema.Boolean.annotate({ description: "True if lines asked for are missing: continue at endLine + 1" }),
  version: Schema.String.annotate({ description: "Names the content of the whole file, for write_file" })
})

/** Why one file's text is not given. */
export const FileProblem = Schema.Struct({
  path: Schema.String,
  reason: Schema.Union([
    WorkspacePath.RefusalReason,
    Schema.Literals(["binary", "too-large", "no-such-line", "answer-full"])
  ]),
  error: Schema.String
})

/** None of the files asked for could be read. */
export class NothingRead extends Schema.TaggedError<NothingRead>()("NothingRead", {
  files: Schema.Array(FileProblem),
  message: Schema.String
}) {}

const skippedNames = [...WorkspaceTree.skippedFolders].join(", ")

const Count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(1))

const globHint =
  "Glob such as *.ts (the name, at any depth) or src/**/*.test.ts (the path, from `path` or from the workspace root); " +
  `{a,b} with at most ${WorkspaceTree.mostAlternatives} alternatives.`

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
  failure: Schema.Union([WorkspacePath.PathRefused, PatternRefused, OffThread.WorkStopped]),
  failureMode: "return"
}).annotate(Tool.Readonly, true) // W3

/** What `read_files` answers. */
export const FileTexts = Schema.Struct({
  files: Schema.Array(Schema.Union([FileText, FileProblem]))
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
  failure: Schema.Union([NothingRead, OffThread.WorkStopped]),
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
  failure: Schema.Union([WorkspacePath.PathRefused, PatternRefused, OffThread.WorkStopped]),
  failureMode: "return"
}).annotate(Tool.Readonly, true)

/** `list_files`, `read_files` and `grep`. */
export const toolkit = Toolkit.make(ListFiles, ReadFiles, Grep)

const task = {
  list: OffThread.task<typeof WorkspaceTask.list>(import.meta.url, "./WorkspaceTask", "list"),
  read: OffThread.task<typeof WorkspaceTask.read>(import.meta.url, "./WorkspaceTask", "read"),
  grep: OffThread.task<typeof WorkspaceTask.grep>(import.meta.url, "./WorkspaceTask", "grep")
}

const make = Effect.fnUntraced(function* (root: string) {
  const workspace = yield* WorkspacePath.make(root)

  const listFiles = Effect.fn("Workspace.listFiles")(function* (params: Tool.Parameters<typeof ListFiles>) {
    const start = yield* workspace.locate(params.path ?? ".")
    if (start.kind !== "Directory") return yield* WorkspacePath.refuse(start.path, "not-a-folder")
    const limit = Math.min(params.limit ?? 500, 5000)
    return yield* usable(
      yield* OffThread.run(task.list, { start, hidden: yield* workspace.hidden, pattern: params.pattern, limit })
    )
  })

  const readFiles = Effect.fn("Workspace.readFiles")(function* ({
    paths,
    ...range
  }: Tool.Parameters<typeof ReadFiles>) {
    const located = yield* Effect.forEach(
      paths,
      (path) =>
        Effect.catch(workspace.file(path), ({ message, path, reason }) =>
          Effect.succeed({ path, reason, error: message })
        ),
      { concurrency: 8 }
    )
    const files = yield* OffThread.run(task.read, { files: located, range })
    const problems = files.filter((file) => "error" in file)
    if (problems.length < files.length) return { files }
    return yield* new NothingRead({ files: problems, message: problems.map((file) => file.error).join("\n") })
  })

  const grep = Effect.fn("Workspace.grep")(function* (params: Tool.Parameters<typeof Grep>) {
    const start = yield* workspace.locate(params.path ?? ".")
    const { caseSensitive, glob, literal, pattern } = params
    const limit = Math.min(params.limit ?? 100, 1000)
    const input = { start, hidden: yield* workspace.hidden, pattern, options: { caseSensitive, literal }, glob, limit }
    return yield* usable(yield* OffThread.run(task.grep, input))
  })

  return toolkit.of({ list_files: listFiles, read_files: readFiles, grep })
})

/** What a task found, unless its pattern or glob cannot be used. */
const usable = <A extends object>(
  found: A | WorkspaceTask.Unusable
): Effect.Effect<Exclude<A, WorkspaceTask.Unusable>, PatternRefused> =>
  "fault" in found
    ? Effect.fail(new PatternRefused({ pattern: found.pattern, message: found.fault }))
    : Effect.succeed(found as Exclude<A, WorkspaceTask.Unusable>)

/** The handlers of `toolkit`, confined to `root`; fails with `WorkspaceMissing` if that is no folder. */
export const layer = (options: { readonly root: string }) => toolkit.toLayer(make(options.root))
