/**
 * One process, one data directory: PGlite does not lock its files, and a second
 * opener would silently lose commits.
 *
 * Owns: who may use a data directory, and that the directory exists. Does not
 * own: what lies inside it (`Pglite`).
 *
 * - K1. The lock is the kernel's, held through SQLite on an empty file. It ends
 *   with the process, however that ends: there are no stale locks to judge, no
 *   recycled process ids to mistake for an owner, no race between two reapers.
 * - K2. The process id beside it only explains a refusal; nothing depends on it.
 * - K3. Nobody else opens `turnstep.lock`: POSIX drops a process's locks on a
 *   file as soon as that process closes any descriptor of it.
 * - K4. A held lock is reachable from this module: SQLite closes what is garbage,
 *   and a fiber that only waits, with its scope, may be garbage.
 * - K5. No file is written through a link, and a directory that other users may write is refused.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as fs from "node:fs"
import * as path from "node:path"
import { DatabaseSync } from "node:sqlite"
import * as PrivateFolder from "../PrivateFolder.ts"

/** Another process (or this one, twice) uses the directory. `pid` is 0 when its owner has not written it yet. */
export class DataDirLocked extends Schema.TaggedError<DataDirLocked>()("DataDirLocked", {
  dir: Schema.String,
  pid: Schema.Int
}) {
  override get message(): string {
    const owner = this.pid === 0 ? "another process" : this.pid === process.pid ? "this process" : `process ${this.pid}`
    return (
      `${this.dir} is already open in ${owner}. An embedded database has one owner: ` +
      "stop that process, use another data directory, or use a PostgreSQL server."
    )
  }
}

/** The directory cannot be created, or its database cannot be opened. `detail` is the reason given by the system. */
export class DataDirUnusable extends Schema.TaggedError<DataDirUnusable>()("DataDirUnusable", {
  dir: Schema.String,
  detail: Schema.String
}) {
  override get message(): string {
    // the only folders of a database that are empty and needed
    const isFromGit = /could not open directory "[^"]+": No such file/.test(this.detail)
    return (
      `The embedded database in ${this.dir} does not open: ${this.detail.replace(/\.$/, "")}. ` +
      (isFromGit ? "Folders are missing, as in a copy that git has made, which leaves empty ones out. " : "") +
      "Repair the cause or restore the directory from a backup; another data directory starts empty."
    )
  }
}

/** Creates `dir` (mode 0700) where missing and holds it until the scope closes. */
export const acquire: (dir: string) => Effect.Effect<void, DataDirLocked | DataDirUnusable, Scope.Scope> = Effect.fn(
  "DirectoryLock.acquire"
)(function* (dir: string) {
  yield* Effect.acquireRelease(Effect.try({ try: () => lock(dir), catch: (cause) => refusal(dir, cause) }), (held) =>
    Effect.sync(() => release(dir, held))
  )
})

const heldLocks = new Set<DatabaseSync>() // K4

const lock = (dir: string): DatabaseSync => {
  PrivateFolder.make(dir)
  const file = path.join(dir, "turnstep.lock")
  if (PrivateFolder.isLink(file)) throw new PrivateFolder.FolderProblem("its turnstep.lock is a link. Remove the link.")
  const held = new DatabaseSync(file, { timeout: 0 })
  try {
    held.exec("PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE") // K1: kept open, never committed; no journal file
    PrivateFolder.replace(pidFile(dir), `${process.pid}\n`) // K5
    heldLocks.add(held)
    return held
  } catch (cause) {
    held.close()
    throw cause
  }
}

const release = (dir: string, held: DatabaseSync): void => {
  fs.rmSync(pidFile(dir), { force: true })
  heldLocks.delete(held)
  held.close()
}

const refusal = (dir: string, cause: unknown): DataDirLocked | DataDirUnusable =>
  isBusy(cause)
    ? new DataDirLocked({ dir, pid: ownerOf(dir) })
    : new DataDirUnusable({ dir, detail: PrivateFolder.wordsOf(cause) })

const SQLITE_BUSY = 5

const isBusy = (cause: unknown): boolean =>
  cause instanceof Error && "errcode" in cause && cause.errcode === SQLITE_BUSY

const pidFile = (dir: string): string => path.join(dir, "turnstep.pid")

const ownerOf = (dir: string): number => {
  try {
    if (!fs.lstatSync(pidFile(dir)).isFile()) return 0
    const pid = Number.parseInt(fs.readFileSync(pidFile(dir), "utf8"), 10)
    return Number.isInteger(pid) ? pid : 0
  } catch {
    return 0
  }
}
