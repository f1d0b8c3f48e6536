/**
 * Entries below one folder of the workspace. Runs in a task process (`WorkspaceTask`), with blocking calls.
 *
 * Owns: which entries a walk sees, and in which order. Does not own: whether the
 * folder may be walked at all (`WorkspacePath`).
 *
 * - T1. A walk never follows a link, so it stays below its start and ends.
 * - T2. Folders named in `skippedFolders` are not entered or told, except when a
 *   walk starts inside one; no protected place is ever told (`WorkspacePath` P2).
 * - T3. Entries come in code-unit order of their whole path: the same tree gives
 *   the same list.
 * - T4. A glob costs time linear in the path, for at most `mostAlternatives` of its braces together.
 */
import * as Glob from "effect/Glob"
import * as fs from "node:fs"
import * as ProtectedPath from "../ProtectedPath.ts"
import type { Located } from "./WorkspacePath.ts"

/** The kind of an entry. `link` is never followed (T1); `other` is a socket, pipe or device. */
export type EntryKind = "file" | "folder" | "link" | "other"

export interface Entry {
  /** Relative to the workspace root, `/`-separated. */
  readonly path: string
  readonly real: string
  readonly kind: EntryKind
}

export interface Tree {
  readonly entries: ReadonlyArray<Entry>
  /** Folders that could not be listed. */
  readonly unreadable: number
  /** Whether the walk stopped at `maxEntries`. */
  readonly cut: boolean
}

/** The name no walk tells, in lower case. */
const privateName = ".turnstep"

/** Folders that hold no sources of the workspace's own. */
export const skippedFolders: ReadonlySet<string> = new Set([".git", "node_modules", "dist", privateName])

/** A walk of a larger tree stops here and says so. */
export const maxEntries = 200_000

/** Lists everything below `start` but what is hidden; a file is its own only entry. */
export const walk = (start: Located, hidden: ProtectedPath.Hidden): Tree => {
  if (start.kind !== "Directory") {
    const kind = start.kind === "File" ? "file" : start.kind === "SymbolicLink" ? "link" : "other"
    return { entries: [{ path: start.path, real: start.real, kind }], unreadable: 0, cut: false }
  }
  const entries: Array<Entry> = []
  let unreadable = 0
  let cut = false
  const folders: Array<Entry> = [{ path: start.path === "." ? "" : start.path, real: start.real, kind: "folder" }]
  // Grows while it is walked.
  for (const folder of folders) {
    try {
      cut = list(folder, hidden, (entry) => {
        if (entries.length === maxEntries) return false
        entries.push(entry)
        if (entry.kind === "folder") folders.push(entry)
        return true
      })
      if (cut) break
    } catch {
      unreadable++ // a folder that went away or may not be listed does not fail the walk
    }
  }
  entries.sort((a, b) => (a.path < b.path ? -1 : 1)) // T3
  return { entries, unreadable, cut }
}

/** Alternatives the braces of a glob may have together: `{a,b}{c,d}` has four (T4). */
export const mostAlternatives = 32

/** Whether a glob has more alternatives than are tried. */
export const isTooWide = (pattern: string): boolean => alternatives(pattern) > mostAlternatives

/**
 * Whether an entry is meant by a glob: a pattern without `/` means the name at any
 * depth, one with `/` means the path from `start` or from the workspace root.
 */
export const matcher = (pattern: string | undefined, start: string): ((entry: Entry) => boolean) => {
  if (pattern === undefined) return () => true
  const glob = Glob.make(pattern.includes("/") ? pattern.replace(/^\.?\//, "") : `**/${pattern}`, { dot: true })
  const prefix = start === "." ? "" : `${start}/`
  return (entry) =>
    Glob.match(glob, entry.path) || (entry.path.startsWith(prefix) && Glob.match(glob, entry.path.slice(prefix.length)))
}

/** Shows the entries of a folder until `look` says false; true when it did. */
const list = (folder: Entry, hidden: ProtectedPath.Hidden, look: (entry: Entry) => boolean): boolean => {
  // The folder may be a hidden one under another path, as a bind mount is.
  if (hidden.ids.size > 0 && hidden.ids.has(ProtectedPath.idOf(folder.real) ?? "")) return false
  const open = fs.opendirSync(folder.real, { bufferSize: 1024 })
  try {
    for (let entry = open.readSync(); entry !== null; entry = open.readSync()) {
      const { name } = entry
      const real = `${folder.real === "/" ? "" : folder.real}/${name}`
      if (hidden.paths.has(real)) continue
      const kind = kindOf(isKnown(entry) ? entry : fs.lstatSync(real))
      if (kind === "folder" && skippedFolders.has(name)) continue // T2
      if (name.toLowerCase() === privateName) continue
      if (!look({ path: folder.path === "" ? name : `${folder.path}/${name}`, real, kind })) return true
    }
    return false
  } finally {
    open.closeSync()
  }
}

type Kinds = Pick<fs.Stats, "isFile" | "isDirectory" | "isSymbolicLink">

/** Some file systems do not tell the kind with the name. */
const isKnown = (entry: fs.Dirent): boolean =>
  entry.isFile() ||
  entry.isDirectory() ||
  entry.isSymbolicLink() ||
  entry.isFIFO() ||
  entry.isSocket() ||
  entry.isCharacterDevice() ||
  entry.isBlockDevice()

const kindOf = (info: Kinds): EntryKind =>
  info.isFile() ? "file" : info.isDirectory() ? "folder" : info.isSymbolicLink() ? "link" : "other"

/** The number of patterns that the braces of a glob stand for, or more (a brace inside `[…]` counts too). */
const alternatives = (pattern: string): number => {
  // For each open brace: what its earlier alternatives add up to, and the product of the present one.
  const open: Array<{ sum: number; product: number }> = [{ sum: 0, product: 1 }]
  for (let index = 0; index < pattern.length; index++) {
    const top = open.at(-1)
    if (top === undefined) break
    const character = pattern[index]
    if (character === "\\") index++
    else if (character === "{") open.push({ sum: 0, product: 1 })
    else if (character === "," && open.length > 1) {
      top.sum += top.product
      top.product = 1
    } else if (character === "}" && open.length > 1) {
      open.pop()
      const outer = open.at(-1)
      if (outer !== undefined) outer.product *= top.sum + top.product
    }
  }
  // A brace that is never closed is no brace: what stands in it counts for itself.
  return open.reduce((product, level) => product * (level.sum + level.product), 1)
}
