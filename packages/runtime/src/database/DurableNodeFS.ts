/**
 * PGlite's Node file system with an `fsync` that reaches the disk.
 *
 * Owns: that what PostgreSQL believes to be synced is synced. Does not own: when
 * it syncs (`PgliteWorker`) or what it does when a sync fails (it stops: PANIC).
 *
 * PGlite's own file system has no `fsync` operation: with it a commit survives a
 * killed process but not a power cut.
 */
import type { PGlite } from "@electric-sql/pglite"
import { NodeFS } from "@electric-sql/pglite/nodefs"
import * as fs from "node:fs"
import * as path from "node:path"

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
export const syncTree = async (dir: string): Promise<void> => {
  const rest = treeOf(dir)
  // Side by side, because a file system answers many syncs with one write to its journal: 8 times as fast.
  const lane = async (): Promise<void> => {
    for (let next = rest.pop(); next !== undefined; next = rest.pop()) await syncPath(next)
  }
  await Promise.all(Array.from({ length: 16 }, lane))
}

/** Syncs one file or folder, so that its content or its entries survive a power cut. */
export const syncPath = async (file: string): Promise<void> => {
  // Windows has no open folders; its file systems keep their entries in order themselves.
  if (isWindows && fs.statSync(file).isDirectory()) return
  const handle = await fs.promises.open(file, isWindows ? "r+" : "r")
  await handle.sync().finally(() => handle.close())
}

const isWindows = process.platform === "win32"

const treeOf = (dir: string): Array<string> => [
  dir,
  ...fs.readdirSync(dir, { withFileTypes: true }).flatMap((entry) => {
    const child = path.join(dir, entry.name)
    return entry.isDirectory() ? treeOf(child) : [child]
  })
]

// Numbers of WASI, in which PostgreSQL reads them. Folders may refuse with the first two, which it forgives.
const errnoOf = (cause: unknown): number => {
  const code = cause instanceof Error && "code" in cause ? cause.code : undefined
  return code === "EBADF" ? 8 : code === "EINVAL" ? 28 : code === "ENOSPC" ? 51 : 29
}
