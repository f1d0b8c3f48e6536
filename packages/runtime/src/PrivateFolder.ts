/**
 * A folder that belongs to this user alone.
 *
 * Owns: making one, and the words for why one cannot be made or trusted. Does not own: what lies inside it.
 *
 * - F1. A folder is made with mode 0700, one level at a time: a recursive call of Node never ends where a file system takes no
 *   folders (`/proc`).
 * - F2. A folder that other users may write is refused: what they put there would be read, or run, as ours.
 * - F3. A file that is written anew replaces what has its name; a link is never followed.
 */
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"

/** A folder cannot be used. `message` is for people: the problem and what to do about it, without a path. */
export class FolderProblem extends Error {}

/** Makes a folder, and those above it that are missing (F1). Throws `FolderProblem`, also for one that others may write (F2). */
export const make = (folder: string): void => {
  try {
    makeMissing(path.resolve(folder))
    const problem = problemOf(folder)
    if (problem !== undefined) throw new FolderProblem(problem)
    fs.accessSync(folder, fs.constants.W_OK | fs.constants.X_OK)
  } catch (error) {
    throw new FolderProblem(wordsOf(error))
  }
}

/** Why an existing folder cannot be trusted, or undefined (F2). A link to a folder is judged by that folder. */
export const problemOf = (folder: string): string | undefined => {
  const info = fs.statSync(folder, { throwIfNoEntry: false })
  if (info === undefined) return undefined
  if (!info.isDirectory()) return "something that is no folder is in its place. Move that away."
  return info.mode & 0o002 && hasModes
    ? "every user of this machine may write there. Check what lies in it, then run `chmod 700` on it."
    : undefined
}

/** Whether a path is itself a link, wherever it leads. */
export const isLink = (file: string): boolean => {
  try {
    return fs.lstatSync(file).isSymbolicLink()
  } catch {
    return false
  }
}

/** Writes a file with mode 0600 in place of whatever has its name (F3). */
export const replace = (file: string, text: string): void => {
  fs.rmSync(file, { force: true })
  fs.writeFileSync(file, text, { flag: "wx", mode: 0o600 })
}

/** What the system says about a path, for people. */
export const wordsOf = (error: unknown): string => {
  const code = error instanceof Error && "code" in error ? String(error.code) : undefined
  return (code === undefined ? undefined : words.get(code)) ?? (error instanceof Error ? error.message : String(error))
}

const words: ReadonlyMap<string, string> = new Map([
  ["EACCES", "this user may not write there. Give it to the user of this process."],
  ["EPERM", "this user may not write there. Give it to the user of this process."],
  ["EROFS", "its file system is read-only. Mount it for writing."],
  ["ENOSPC", "there is no room left on the disk. Make room."],
  ["EDQUOT", "the quota of the disk is used up. Make room."],
  ["EFBIG", "a file may not grow any further there. Raise the limit of file sizes."],
  ["ENOENT", "its file system takes no folders."],
  ["ENOTDIR", "a file is in the place of a folder above it. Move that away."],
  ["EEXIST", "something that is no folder is in its place. Move that away."],
  ["ELOOP", "a link in its path leads back to itself. Remove that link."],
  ["ENAMETOOLONG", "its path is too long."],
  ["EIO", "the disk reports an error. Check it."]
])

const makeMissing = (folder: string): void => {
  if (fs.statSync(folder, { throwIfNoEntry: false }) !== undefined) return
  const above = path.dirname(folder)
  if (above !== folder) makeMissing(above)
  try {
    fs.mkdirSync(folder, { mode: 0o700 })
  } catch (error) {
    // Another process may have made it meanwhile. Anything else in its place is reported by `problemOf`.
    if (fs.statSync(folder, { throwIfNoEntry: false }) === undefined) throw error
  }
}

const hasModes = os.platform() !== "win32"
