/**
 * The work of `list_files`, `read_files` and `grep`, in a task process.
 *
 * Owns: the figures and lists of their answers. Does not own: the tools (`Workspace`), confinement (`WorkspacePath`), walking
 * (`WorkspaceTree`), matching (`TextPattern`), cutting of texts (`TextFile`).
 *
 * - K1. An output is bounded in entries and in characters, whatever the tree holds.
 */
import { lstatSync } from "node:fs"
import { OutOfTime } from "../offthread/TaskMessage.ts"
import type { Hidden } from "../ProtectedPath.ts"
import * as TextFile from "./TextFile.ts"
import * as TextPattern from "./TextPattern.ts"
import type { Located } from "./WorkspacePath.ts"
import * as WorkspaceTree from "./WorkspaceTree.ts"

/** Characters of paths and lines in one answer (K1). */
const maxText = 1024 * 1024

/** A pattern or a glob that cannot be used; `fault` is written for the model. */
export interface Unusable {
  readonly pattern: string
  readonly fault: string
}

export interface ListInput {
  readonly start: Located
  readonly hidden: Hidden
  readonly pattern?: string | undefined
  readonly limit: number
}

export interface Listed {
  readonly path: string
  readonly entries: ReadonlyArray<Pick<WorkspaceTree.Entry, "path" | "kind"> & { readonly size?: number }>
  readonly total: number
  readonly files: number
  readonly truncated: boolean
  readonly unreadable: number
}

/** Lists a folder. */
export const list = ({ hidden, limit, pattern, start }: ListInput): Unusable | Listed => {
  if (pattern !== undefined && WorkspaceTree.isTooWide(pattern)) return tooWide(pattern)
  const tree = WorkspaceTree.walk(start, hidden)
  const wanted = tree.entries.filter(WorkspaceTree.matcher(pattern, start.path))
  let room = maxText
  const entries = wanted.slice(0, limit).flatMap((entry) => {
    room -= entry.path.length
    return room < 0 ? [] : [withSize(entry)]
  })
  return {
    path: start.path,
    entries,
    total: wanted.length,
    files: wanted.filter((entry) => entry.kind === "file").length,
    truncated: tree.cut || entries.length < wanted.length,
    unreadable: tree.unreadable
  }
}

const tooWide = (pattern: string): Unusable => ({
  pattern,
  fault: `This glob has more than ${WorkspaceTree.mostAlternatives} alternatives in its braces. Use fewer, or several calls.`
})

const withSize = ({ kind, path, real }: WorkspaceTree.Entry) => {
  try {
    return kind === "file" ? { path, kind, size: lstatSync(real).size } : { path, kind }
  } catch {
    return { path, kind } // it went away
  }
}

export interface ReadInput {
  /** Files that were found, and problems with others. */
  readonly files: ReadonlyArray<Located | TextFile.FileProblem>
  readonly range: TextFile.LineRange
}

/** Reads files. */
export const read = ({ files, range }: ReadInput) => TextFile.readAll(files, range)

export interface GrepInput {
  readonly start: Located
  readonly hidden: Hidden
  readonly pattern: string
  readonly options: TextPattern.PatternOptions
  readonly glob?: string | undefined
  readonly limit: number
}

export interface Searched {
  readonly pattern: string
  readonly path: string
  readonly matches: number
  readonly files: number
  readonly searched: number
  readonly lines: ReadonlyArray<{ readonly path: string; readonly line: number; readonly text: string }>
  readonly truncated: boolean
  readonly skipped: { readonly binary: number; readonly large: number; readonly unreadable: number }
}

/** Searches the files of a tree; throws `OutOfTime` for a pattern that backtracks too much. */
export const grep = ({ glob, hidden, limit, options, pattern, start }: GrepInput): Unusable | Searched => {
  const compiled = TextPattern.compile(pattern, options)
  if ("fault" in compiled) return { pattern, ...compiled }
  if (glob !== undefined && WorkspaceTree.isTooWide(glob)) return tooWide(glob)
  const tree = WorkspaceTree.walk(start, hidden)
  const meant = WorkspaceTree.matcher(glob, start.path)
  const candidates = tree.entries.filter((entry) => entry.kind === "file" && meant(entry))
  const skipped = { binary: 0, large: 0, unreadable: 0 }
  const lines: Array<{ readonly path: string; readonly line: number; readonly text: string }> = []
  const patience = TextPattern.makePatience()
  let matches = 0
  let files = 0
  let room = maxText
  /** Texts that are read and not searched: starting a time limit costs more than searching a small file. */
  let portion: Array<{ readonly path: string; readonly text: string }> = []
  let characters = 0
  const searchPortion = () => {
    const searchAll = () =>
      portion.map(({ path, text }) => ({ path, found: TextPattern.search(compiled, text, limit - lines.length) }))
    const searched = compiled.backtracks ? patience.search(characters, searchAll) : searchAll()
    if (searched === undefined) throw new OutOfTime(backtracks)
    for (const { found, path } of searched) {
      matches += found.count
      if (found.count > 0) files++
      for (const match of found.first.slice(0, limit - lines.length)) {
        room -= path.length + match.text.length
        if (room >= 0) lines.push({ path, ...match })
      }
    }
    portion = []
    characters = 0
  }
  for (const { path, real } of candidates) {
    const text = textOf(real, hidden)
    if (typeof text !== "string") {
      skipped[text.skipped]++
      continue
    }
    portion.push({ path, text })
    characters += text.length
    if (characters >= portionText) searchPortion()
  }
  searchPortion()
  return {
    pattern,
    path: start.path,
    matches,
    files,
    searched: candidates.length - skipped.binary - skipped.large - skipped.unreadable,
    lines,
    truncated: tree.cut || lines.length < matches,
    skipped: { ...skipped, unreadable: skipped.unreadable + tree.unreadable }
  }
}

/** Characters that are searched under one time limit (`TextPattern` S2). */
const portionText = 1024 * 1024

const backtracks = "This regular expression backtracks too much on the files here. Use a simpler one, or literal: true."

/** The text of a tree's file, or why it is not searched. A hard link of a hidden file has a path of its own; a link may have taken the file's place: it is not followed. */
export const textOf = (
  real: string,
  hidden: Hidden
): string | { readonly skipped: "binary" | "large" | "unreadable" } => {
  try {
    const bytes = TextFile.bytesOf(real, hidden)
    if (bytes === "large") return { skipped: "large" }
    return TextFile.decode(bytes) ?? { skipped: "binary" }
  } catch {
    return { skipped: "unreadable" }
  }
}
