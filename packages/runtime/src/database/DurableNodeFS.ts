/**
 * PGlite's Node file system with an `fsync` that reaches the disk.
 *
 * Owns: that what PostgreSQL believes to be synced is synced. Does not own: when
 * it syncs (`startParams`) or what it does when a sync fails (it stops: PANIC).
 *
 * PGlite's own file system has no `fsync` operation and starts PostgreSQL with
 * `-F`: a commit then survives a killed process but not a power cut.
 */
import { PGlite } from "@electric-sql/pglite"
import { NodeFS } from "@electric-sql/pglite/nodefs"
import * as fs from "node:fs"
import * as path from "node:path"

/**
 * PostgreSQL's arguments without `-F`. `wal_sync_method` is set because PGlite's
 * default, `fdatasync`, is a system call it leaves empty; `fsync` comes through.
 */
export const startParams: Array<string> = [
  ...PGlite.defaultStartParams.filter((parameter) => parameter !== "-F"),
  "-c",
  "wal_sync_method=fsync"
]

type ModuleOptions = Parameters<NodeFS["init"]>[1]

/** The part of an Emscripten module that is patched. */
interface SyncableModule {
  readonly FS: { readonly ErrnoError: new (errno: number) => Error; readonly isDir: (mode: number) => boolean }
  readonly NODEFS: { readonly stream_ops: { fsync?: (stream: OpenFile) => number } }
}

interface OpenFile {
  readonly nfd: number
  readonly node: { readonly mode: number }
}

export class DurableNodeFS extends NodeFS {
  override async init(pg: PGlite, options: ModuleOptions): Promise<{ emscriptenOpts: ModuleOptions }> {
    const { emscriptenOpts } = await super.init(pg, options)
    const addFsync = (module: SyncableModule): void => {
      module.NODEFS.stream_ops.fsync = (stream) => {
        try {
          // Content and size are what PostgreSQL needs of a file; of a folder it needs the entries.
          if (module.FS.isDir(stream.node.mode)) fs.fsyncSync(stream.nfd)
          else fs.fdatasyncSync(stream.nfd)
          return 0
        } catch (cause) {
          throw new module.FS.ErrnoError(errnoOf(cause))
        }
      }
    }
    return { emscriptenOpts: { ...emscriptenOpts, preRun: [...(emscriptenOpts.preRun ?? []), addFsync] } }
  }
}

/** Syncs every file and folder below `dir`: a new database is written by tools that do not. */
export const syncTree = (dir: string): void => {
  for (const entry of fs.readdirSync(dir, { withFileTypes: true })) {
    const child = path.join(dir, entry.name)
    if (entry.isDirectory()) syncTree(child)
    else if (entry.isFile()) syncPath(child)
  }
  syncPath(dir)
}

/** Syncs one file or folder, so that its content or its entries survive a power cut. */
export const syncPath = (file: string): void => {
  // Windows has no open folders; its file systems keep their entries in order themselves.
  if (process.platform === "win32" && fs.statSync(file).isDirectory()) return
  const descriptor = fs.openSync(file, process.platform === "win32" ? "r+" : "r")
  try {
    fs.fsyncSync(descriptor)
  } finally {
    fs.closeSync(descriptor)
  }
}

// Numbers of WASI, in which PostgreSQL reads them. Folders may refuse with the first two, which it forgives.
const errnoOf = (cause: unknown): number => {
  const code = cause instanceof Error && "code" in cause ? cause.code : undefined
  return code === "EBADF" ? 8 : code === "EINVAL" ? 28 : code === "ENOSPC" ? 51 : 29
}
