/**
 * The folder of a spill store on the disk.
 *
 * ```text
 * <folder>/<SHA-256 of the session's id>/<SHA-256 of the content>          the bytes
 *                                       /<SHA-256 of the content>.lines    ends of line before each block
 *         /half/<host>.<process>.<name>                                    what is being written
 * ```
 *
 * Owns: names, modes and the order in which files come and go. Does not own: what is written, or when it is swept
 * (`SpillFiles`).
 *
 * - D1. The lines are there before the bytes, and go after them: who finds the bytes finds the lines.
 * - D2. A half-written file is swept when the process that wrote it is gone, or after a day: another host's processes are not
 *   seen, and a number may be another process's by then.
 * - D3. What is written anew while it is swept stays: a file is moved aside, looked at again, and put back when it is young.
 */
import * as Canonical from "@turnstep/core/Canonical"
import type { SessionId, SpillId } from "@turnstep/core/Ids"
import * as SpillStore from "@turnstep/core/SpillStore"
import { chmodSync, constants } from "node:fs"
import * as fs from "node:fs/promises"
import * as os from "node:os"
import * as path from "node:path"
import * as PrivateFolder from "../PrivateFolder.ts"
import type { Measured } from "./SpillRoom.ts"

/** How a file is opened that must not be there yet. */
export const newFile = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | (constants.O_NOFOLLOW ?? 0)

const oldFile = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0)

export interface SpillFolder {
  /** Makes the folder where it is missing, and closes it to others; throws `PrivateFolder.FolderProblem`. */
  readonly prepare: () => void
  /** The folder of a session. */
  readonly homeOf: (sessionId: SessionId) => string
  /** A path for a file that is being written; `name` is new. */
  readonly temporary: (name: string) => string
  /** Puts a written file in its place. */
  readonly settle: (home: string, kept: SpillStore.Kept, temporary: string) => Promise<void>
  /** What is known of a spill; throws when it is not there. */
  readonly find: (home: string, spill: SpillId) => Promise<SpillStore.Kept>
  /** Opens a spill's bytes; throws when they are not there. */
  readonly open: (home: string, spill: SpillId) => Promise<fs.FileHandle>
  /** Removes spills written before a time (milliseconds since the epoch), half-written files of the dead, empty folders. */
  readonly sweep: (before: number) => Promise<Measured>
}

export const make = (root: string): SpillFolder => {
  const half = path.join(root, "half")
  const host = Canonical.digestText(os.hostname()).slice(0, 12)
  const settled = async (home: string, kept: SpillStore.Kept, temporary: string): Promise<void> => {
    await fs.mkdir(home, { recursive: true, mode: 0o700 })
    const lines = `${temporary}.lines`
    try {
      await writeNew(lines, linesText(kept))
      await fs.rename(lines, path.join(home, `${kept.id}.lines`))
    } catch (error) {
      await fs.rm(lines, { force: true })
      throw error
    }
    await fs.rename(temporary, path.join(home, kept.id)) // D1
    await flush(home)
  }
  const find = async (home: string, spill: SpillId): Promise<SpillStore.Kept> => {
    const file = await fs.open(path.join(home, spill), oldFile)
    const { size } = await file.stat().finally(() => file.close())
    const index = await fs.open(path.join(home, `${spill}.lines`), oldFile)
    const text = await index.readFile("utf8").finally(() => index.close())
    const [lines = 0, ...marks] = text.trimEnd().split("\n").map(Number)
    return { id: spill, bytes: size, lines, marks }
  }
  return {
    prepare: () => {
      if (PrivateFolder.isLink(root)) throw new PrivateFolder.FolderProblem("it is a link. Name the folder itself.")
      PrivateFolder.make(root)
      PrivateFolder.make(half)
      try {
        chmodSync(root, 0o700)
      } catch (error) {
        throw new PrivateFolder.FolderProblem(PrivateFolder.wordsOf(error))
      }
    },
    homeOf: (sessionId) => path.join(root, Canonical.digestText(sessionId)),
    temporary: (name) => path.join(half, `${host}.${process.pid}.${name}`),
    settle: async (home, kept, temporary) => {
      // A sweep may have taken the empty folder away in between.
      await settled(home, kept, temporary).catch((error: unknown) => {
        if (codeOf(error) !== "ENOENT") throw error
        return settled(home, kept, temporary)
      })
    },
    find,
    open: (home, spill) => fs.open(path.join(home, spill), oldFile),
    sweep: async (before) => {
      for (const name of await fs.readdir(half)) {
        const file = path.join(half, name)
        if (await isForgotten(file, name, host)) await fs.rm(file, { force: true })
      }
      const found = new Map<string, Map<string, number>>()
      for (const folder of await fs.readdir(root, { withFileTypes: true })) {
        if (!folder.isDirectory() || !SpillStore.isSpillId(folder.name)) continue
        const home = path.join(root, folder.name)
        const aside = path.join(half, `${host}.${process.pid}.swept.${folder.name}`)
        const spills = await sweepHome(home, before, aside)
        if (spills.size > 0) found.set(home, spills)
        else await fs.rmdir(home).catch(() => {})
      }
      return found
    }
  }
}

const sweepHome = async (home: string, before: number, aside: string): Promise<Map<string, number>> => {
  const spills = new Map<string, number>()
  const names = await fs.readdir(home)
  for (const name of names) {
    const file = path.join(home, name)
    const [id = "", ending] = name.split(".")
    const info = await fs.lstat(file).catch(() => undefined)
    if (info === undefined) continue
    if (ending === undefined) {
      if (info.mtimeMs >= before || !(await removeOld(file, before, aside))) spills.set(name, info.size)
      else await removeOld(`${file}.lines`, before, aside)
    } else if (info.mtimeMs < before && !names.includes(id)) await removeOld(file, before, aside)
  }
  return spills
}

/** Removes a file written before a time; false when it is a younger one (D3). */
const removeOld = async (file: string, before: number, aside: string): Promise<boolean> => {
  const moved = await fs.rename(file, aside).then(
    () => fs.lstat(aside),
    () => undefined
  )
  if (moved === undefined) return true
  if (moved.mtimeMs >= before) await fs.rename(aside, file)
  else await fs.rm(aside, { force: true })
  return moved.mtimeMs < before
}

/** D2 */
const isForgotten = async (file: string, name: string, host: string): Promise<boolean> => {
  const [of, pid = "0"] = name.split(".")
  const info = await fs.lstat(file).catch(() => undefined)
  if (info === undefined) return false
  if (info.mtimeMs < performance.timeOrigin + performance.now() - dayMillis) return true
  if (of !== host) return false
  // A process before this one may have had its number.
  if (Number(pid) === process.pid) return info.mtimeMs < performance.timeOrigin
  return !isAlive(Number(pid))
}

const dayMillis = 24 * 60 * 60 * 1000

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return codeOf(error) === "EPERM"
  }
}

const linesText = ({ lines, marks }: SpillStore.Kept): string => `${[lines, ...Array.from(marks)].join("\n")}\n`

const writeNew = async (file: string, text: string): Promise<void> => {
  await fs.rm(file, { force: true })
  const handle = await fs.open(file, newFile, 0o600)
  try {
    await handle.writeFile(text)
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** Makes renames in a folder durable, where folders can be flushed. */
const flush = async (folder: string): Promise<void> => {
  const handle = await fs.open(folder, constants.O_RDONLY).catch(() => undefined)
  if (handle === undefined) return
  await handle
    .sync()
    .catch(() => {})
    .finally(() => handle.close())
}

const codeOf = (error: unknown): string | undefined =>
  error instanceof Error && "code" in error ? String(error.code) : undefined
