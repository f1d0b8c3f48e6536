/**
 * A file's text, as much of it as an answer should carry. Runs in a task process (`WorkspaceTask`), with blocking calls.
 *
 * Owns: size limits, the test for binary content, the cutting by lines. Does not
 * own: which files may be read (`WorkspacePath`).
 *
 * - F1. One file at a time is in memory, and none is read that finds no room in the answer.
 */
import * as ToolOutput from "@turnstep/core/ToolOutput"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import type { Hidden } from "../ProtectedPath.ts"
import { linesOf } from "./TextPattern.ts"
import type { Located, RefusalReason } from "./WorkspacePath.ts"

/** The lines of one file that were asked for, or as many of them as fit (`Workspace.FileTexts` has the schema). */
export interface FileText {
  readonly path: string
  readonly text: string
  readonly startLine: number
  readonly endLine: number
  readonly lines: number
  readonly truncated: boolean
  readonly version: string
}

/** Why one file's text is not given. */
export interface FileProblem {
  readonly path: string
  readonly reason: RefusalReason | "binary" | "too-large" | "no-such-line" | "answer-full"
  readonly error: string
}

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

/** The bytes of a regular file; "large" when it has more than `maxFileBytes`. A link in its place is not followed, a hidden file not read. */
export const bytesOf = (real: string, hidden?: Hidden): Uint8Array | "large" => {
  // Not blocking: a pipe in the file's place would wait for a writer.
  const file = fs.openSync(
    real,
    fs.constants.O_RDONLY | (fs.constants.O_NOFOLLOW ?? 0) | (fs.constants.O_NONBLOCK ?? 0)
  )
  try {
    const info = fs.fstatSync(file, { bigint: true })
    if (!info.isFile()) throw new Error("not a regular file")
    if (hidden?.ids.has(`${info.dev}:${info.ino}`) === true) throw new Error("hidden")
    const size = Number(info.size)
    if (size > maxFileBytes) return "large"
    const space = Buffer.allocUnsafe(Math.max(size + 1, 4096))
    let filled = 0
    for (;;) {
      const read = fs.readSync(file, space, filled, space.length - filled, filled)
      filled += read
      if (read === 0) return space.subarray(0, filled)
      if (filled === space.length) return "large" // it grows while it is read
    }
  } finally {
    fs.closeSync(file)
  }
}

/** What a version of a file is known by: the beginning of the SHA-256 of its bytes. */
export const versionOf = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex").slice(0, 16)

/** Reads files in their order, as far as the answer has room (F1); problems that are known pass through. */
export const readAll = (
  files: ReadonlyArray<Located | FileProblem>,
  range: LineRange
): ReadonlyArray<FileText | FileProblem> => {
  let room = maxAnswerText
  return files.map((file) => {
    if ("error" in file) return file
    const read = room > 0 ? readOne(file, range) : full(file.path)
    if (!("text" in read)) return read
    if (read.text.length > room) {
      room = 0
      return full(file.path)
    }
    room -= read.text.length
    return read
  })
}

const readOne = (located: Located, range: LineRange): FileText | FileProblem => {
  try {
    const bytes = bytesOf(located.real)
    if (bytes === "large") return tooLarge(located)
    const text = decode(bytes)
    if (text !== undefined) return cut(located.path, text, versionOf(bytes), range)
    return problem(located.path, "binary", `This file is binary (${located.size} bytes); its content is not text.`)
  } catch {
    return problem(located.path, "unreadable", "This file cannot be read.")
  }
}

/** The text of some bytes without a byte order mark, or undefined if they are binary: text has no NUL. */
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

const decoder = new TextDecoder()
const exactDecoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })

const cut = (path: string, whole: string, version: string, range: LineRange): FileText | FileProblem => {
  const lines = linesOf(whole)
  const startLine = range.startLine ?? 1
  const wanted = Math.min(range.endLine ?? lines.length, lines.length)
  if (lines.length === 0 && startLine === 1) {
    return { path, text: "", startLine, endLine: 0, lines: 0, truncated: false, version }
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
    truncated: endLine < wanted,
    version
  }
}

const tooLarge = (located: Located): FileProblem =>
  problem(located.path, "too-large", `This file has ${located.size} bytes; the limit is ${maxFileBytes}. Use grep.`)

const full = (path: string): FileProblem =>
  problem(path, "answer-full", "Left out: the answer is full. Ask for this file again, alone.")

const problem = (path: string, reason: FileProblem["reason"], error: string): FileProblem => ({ path, reason, error })
