/**
 * What lies below one folder of the workspace.
 *
 * Owns: which entries a walk sees, and in which order. Does not own: whether the
 * folder may be walked at all (`WorkspacePath`).
 *
 * - T1. A walk never follows a link, so it stays below its start and ends.
 * - T2. Folders named in `skippedFolders` are not entered or told, except when a
 *   walk starts inside one; no protected place is ever told (`WorkspacePath` P2).
 * - T3. Entries come in code-unit order of their whole path: the same tree gives
 *   the same list.
 */
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Glob from "effect/Glob"
import * as ProtectedPath from "../ProtectedPath.ts"
import { type Located, privateName } from "./WorkspacePath.ts"

/** What an entry is. `link` is never followed (T1); `other` is a socket, pipe or device. */
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

/** Folders that hold no sources of the workspace's own. */
export const skippedFolders: ReadonlySet<string> = new Set([".git", "node_modules", "dist", privateName])

/** A walk of a larger tree stops here and says so. */
export const maxEntries = 200_000

/** Lists everything below `start` but what is hidden; a file is its own only entry. */
export const walk = Effect.fnUntraced(function* (
  fs: FileSystem.FileSystem,
  start: Located,
  hidden: ProtectedPath.Hidden
) {
  if (start.kind !== "Directory") {
    const alone: Entry = { path: start.path, real: start.real, kind: kindOf(start.kind) }
    return { entries: [alone], unreadable: 0, cut: false } satisfies Tree
  }
  const entries: Array<Entry> = []
  let unreadable = 0
  let level: ReadonlyArray<Entry> = [{ path: start.path === "." ? "" : start.path, real: start.real, kind: "folder" }]
  while (level.length > 0 && entries.length < maxEntries) {
    const listings = yield* Effect.forEach(level, (folder) => list(fs, folder, hidden), { concurrency: 16 })
    const next: Array<Entry> = []
    for (const listing of listings) {
      if (listing === undefined) {
        unreadable++
        continue
      }
      for (const entry of listing) {
        entries.push(entry)
        if (entry.kind === "folder") next.push(entry)
      }
    }
    level = next
  }
  const cut = level.length > 0
  entries.sort((a, b) => (a.path < b.path ? -1 : 1)) // T3
  return { entries, unreadable, cut } satisfies Tree
})

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

const list = Effect.fnUntraced(
  function* (fs: FileSystem.FileSystem, folder: Entry, hidden: ProtectedPath.Hidden) {
    const found: Array<Entry> = []
    // The folder may be a hidden one under another path, as a bind mount is.
    if (hidden.ids.size > 0 && hidden.ids.has(ProtectedPath.idOf(folder.real) ?? "")) return found
    for (const { name, type } of yield* fs.readDirectoryEntries(folder.real)) {
      if (type === "Directory" && skippedFolders.has(name)) continue // T2
      if (name.toLowerCase() === privateName) continue
      const real = `${folder.real === "/" ? "" : folder.real}/${name}`
      if (hidden.paths.has(real)) continue
      const known = type === "Unknown" ? (yield* fs.lstat(real)).type : type
      found.push({ path: folder.path === "" ? name : `${folder.path}/${name}`, real, kind: kindOf(known) })
    }
    return found
  },
  // a folder that went away or may not be listed is counted, it does not fail the walk
  Effect.orElseSucceed(() => undefined)
)

const kindOf = (type: FileSystem.File.Type): EntryKind =>
  type === "File" ? "file" : type === "Directory" ? "folder" : type === "SymbolicLink" ? "link" : "other"
