/**
 * A file's text, as much of it as an answer should carry.
 *
 * Owns: size limits, the test for binary content, the cutting by lines. Does not
 * own: which files may be read (`WorkspacePath`).
 */
import * as ToolOutput from "@turnstep/core/ToolOutput"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Schema from "effect/Schema"
import { linesOf } from "./TextPattern.ts"
import { type Located, PathRefused, RefusalReason, type WorkspacePath } from "./WorkspacePath.ts"

/** The lines of one file that were asked for, or as many of them as fit. */
export const FileText = Schema.Struct({
  path: Schema.String,
  text: Schema.String,
  startLine: Schema.Int,
  endLine: Schema.Int.annotate({ description: "Last line given" }),
  lines: Schema.Int.annotate({ description: "Lines in the whole file" }),
  truncated: Schema.Boolean.annotate({ description: "True if lines asked for are missing: continue at endLine + 1" })
})
export type FileText = typeof FileText.Type

/** Why one file's text is not given. */
export const FileProblem = Schema.Struct({
  path: Schema.String,
  reason: Schema.Union([RefusalReason, Schema.Literals(["binary", "too-large", "no-such-line", "answer-full"])]),
  error: Schema.String
})
export type FileProblem = typeof FileProblem.Type

/** Which lines are wanted, counted from 1, both ends included. */
export interface LineRange {
  readonly startLine?: number | undefined
  readonly endLine?: number | undefined
}

/** A file with more bytes than this is not read at all. */
export const maxFileBytes = 4 * 1024 * 1024

/** Characters given of one file. */
export const maxFileText = 60_000

/** Characters given in one answer, over all files. */
export const maxAnswerText = 240_000

/** Reads one file of the workspace; what is wrong with it is part of the answer. */
export const read = Effect.fnUntraced(
  function* (fs: FileSystem.FileSystem, workspace: WorkspacePath, path: string, range: LineRange) {
    const located = yield* workspace.file(path)
    if (located.size > maxFileBytes) return tooLarge(located)
    const bytes = yield* fs
      .readFile(located.real)
      .pipe(
        Effect.mapError(() => new PathRefused({ path, reason: "unreadable", message: "This file cannot be read." }))
      )
    const text = decode(bytes)
    if (text === undefined) {
      return problem(located.path, "binary", `This file is binary (${located.size} bytes); its content is not text.`)
    }
    return cut(located.path, linesOf(text), range)
  },
  Effect.catch((refused) => Effect.succeed(problem(refused.path, refused.reason, refused.message)))
)

/** The text of some bytes, or undefined if they are binary: text has no NUL. */
export const decode = (bytes: Uint8Array): string | undefined => (bytes.includes(0) ? undefined : decoder.decode(bytes))

/** The text of some bytes, exactly: writing it gives the same bytes. Undefined if they are not text in UTF-8. */
export const decodeExact = (bytes: Uint8Array): string | undefined => {
  if (bytes.includes(0)) return undefined
  try {
    return exactDecoder.decode(bytes)
  } catch {
    return undefined
  }
}

/** Leaves out the files that would make the whole answer longer than `maxAnswerText`. */
export const fit = (files: ReadonlyArray<FileText | FileProblem>): ReadonlyArray<FileText | FileProblem> => {
  let room = maxAnswerText
  return files.map((file) => {
    if (!("text" in file)) return file
    if (file.text.length > room) {
      return problem(file.path, "answer-full", "Left out: the answer is full. Ask for this file again, alone.")
    }
    room -= file.text.length
    return file
  })
}

const decoder = new TextDecoder()
const exactDecoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })

const cut = (path: string, lines: ReadonlyArray<string>, range: LineRange): FileText | FileProblem => {
  const startLine = range.startLine ?? 1
  const wanted = Math.min(range.endLine ?? lines.length, lines.length)
  if (lines.length === 0 && startLine === 1) {
    return { path, text: "", startLine, endLine: 0, lines: 0, truncated: false }
  }
  if (startLine > wanted) {
    return problem(
      path,
      "no-such-line",
      `There are no lines ${startLine} to ${range.endLine ?? "the end"}: the file has ${lines.length}.`
    )
  }
  let length = 0
  let endLine = startLine - 1
  while (endLine < wanted) {
    length += (lines[endLine] ?? "").length + 1
    if (length > maxFileText && endLine >= startLine) break
    endLine++
  }
  const text = lines.slice(startLine - 1, endLine).join("\n")
  return {
    path,
    // a single line longer than the limit is the only text cut inside a line
    text: text.length > maxFileText ? `${ToolOutput.part(text, 0, maxFileText)}… [line cut]` : text,
    startLine,
    endLine,
    lines: lines.length,
    truncated: endLine < wanted
  }
}

const tooLarge = (located: Located): FileProblem =>
  problem(located.path, "too-large", `This file has ${located.size} bytes; the limit is ${maxFileBytes}. Use grep.`)

const problem = (path: string, reason: FileProblem["reason"], error: string): FileProblem => ({ path, reason, error })
