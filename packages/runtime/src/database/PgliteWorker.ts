/**
 * The database thread: PGlite and its hub, away from the main event loop.
 *
 * Owns: opening, feeding and closing the embedded database. Does not own: who may
 * open the directory (`DirectoryLock`). Started by `PgliteThread` as plain Node,
 * from source as well as from the build, so it imports Node, PGlite and its
 * siblings only, and no Effect.
 *
 * - W1. A new database is complete or absent: until its files are on the disk a
 *   marker lies beside it, and a start that finds the marker begins again.
 * - W2. The thread ends after `dead`. Nothing is answered on a session that lost
 *   its footing, least of all a commit.
 */
import { PGlite } from "@electric-sql/pglite"
import { NodeFS } from "@electric-sql/pglite/nodefs"
import * as fs from "node:fs"
import * as path from "node:path"
import { parentPort, workerData } from "node:worker_threads"
import * as PrivateFolder from "../PrivateFolder.ts"
import { DurableNodeFS, syncPath, syncTree } from "./DurableNodeFS.ts"
import * as Frames from "./PgliteFrames.ts"
import * as PgliteHub from "./PgliteHub.ts"
import type { Boot, FromThread, ToThread } from "./PgliteMessage.ts"

if (parentPort === null) throw new Error("PgliteWorker runs as a worker thread")
const port = parentPort

const post = (message: FromThread, transfer: ReadonlyArray<ArrayBuffer> = []): void =>
  port.postMessage(message, transfer)

// PostgreSQL's own words, kept for the report of a failure; it is silent while all is well.
const complaints: Array<string> = []
const note = (line: string): boolean => {
  complaints.push(line)
  if (complaints.length > 20) complaints.shift()
  return false
}

const die = (detail: string): never => {
  post({ kind: "dead", detail })
  return process.exit(1) // of this thread (W2)
}

const reasonFor = (cause: unknown): string => {
  const last = complaints.filter((line) => /\b(FATAL|PANIC|DETAIL):/.test(line)).slice(-2)
  const spoken = last.map((line) => line.replace(/^.*?\b(FATAL|PANIC|DETAIL):\s*/, "")).join(" ")
  return spoken === "" ? PrivateFolder.wordsOf(systemError(cause)) : spoken
}

/** PGlite's file system throws plain objects with the error numbers of WASI. */
const systemError = (cause: unknown): unknown => {
  const errno = typeof cause === "object" && cause !== null && "errno" in cause ? Number(cause.errno) : undefined
  if (errno === undefined || cause instanceof Error) return cause
  return Object.assign(new Error(`the file system reports error ${errno}`), { code: wasiCodes.get(errno) })
}

const wasiCodes: ReadonlyMap<number, string> = new Map([
  [2, "EACCES"],
  [19, "EDQUOT"],
  [20, "EEXIST"],
  [22, "EFBIG"],
  [29, "EIO"],
  [51, "ENOSPC"],
  [54, "ENOTDIR"],
  [63, "EPERM"],
  [69, "EROFS"]
])

const { dataDir, sync } = workerData as Boot

// PGlite's own, with "-F" (no fsync) exchanged. Its default way to sync the log, fdatasync, is a system call that
// it leaves empty; fsync comes through to the file system.
const startParams = [
  ...PGlite.defaultStartParams.filter((parameter) => parameter !== "-F" || !sync),
  ...["timezone=UTC", "application_name=turnstep", ...(sync ? ["wal_sync_method=fsync"] : [])].flatMap((setting) => [
    "-c",
    setting
  ])
]

const openDirectory = async (directory: string): Promise<PGlite> => {
  const files = path.join(directory, "pg")
  const marker = path.join(directory, "pg.incomplete")
  if (fs.existsSync(marker)) fs.rmSync(files, { recursive: true, force: true })
  const isNew = !fs.existsSync(files)
  if (isNew) {
    fs.writeFileSync(marker, "")
    await syncPath(directory)
    fs.mkdirSync(files, { mode: 0o700 })
  }
  const db = await PGlite.create({
    fs: sync ? new DurableNodeFS(files) : new NodeFS(files),
    startParams,
    onStderr: note
  })
  if (isNew) {
    if (sync) await syncTree(files)
    fs.rmSync(marker)
    await syncPath(directory)
  }
  return db
}

const execute = (db: PGlite, batch: Uint8Array): Uint8Array<ArrayBuffer> => {
  const answer: Array<Uint8Array<ArrayBuffer>> = []
  // The other raw calls of PGlite also parse every answer and keep the result for good. This one runs to its
  // end before it returns; its promise is about a sync that a file system of files does not need.
  db.execProtocolRawStream(batch, { syncToFs: false, onRawData: (bytes) => answer.push(bytes.slice()) }).catch(
    (cause) => note(`PANIC:  ${String(cause)}`)
  )
  return answer.length === 1 && answer[0] !== undefined ? answer[0] : Frames.concat(answer)
}

const serve = (db: PGlite): void => {
  const hub = PgliteHub.make((batch) => execute(db, batch), execute(db, Frames.startup({ user: "postgres" })), {
    send: (id, bytes) => post({ kind: "data", id, bytes }, [bytes.buffer]),
    end: (id) => post({ kind: "end", id }),
    died: () => die(reasonFor("the database session ended without an answer")),
    defer: setImmediate
  })
  port.on("message", (message: ToThread) => {
    switch (message.kind) {
      case "data":
        return hub.write(message.id, message.bytes)
      case "open":
        return hub.open(message.id)
      case "close":
        return hub.close(message.id)
      case "beat":
        hub.beat()
        return post({ kind: "beat" })
      case "stop":
        // close() writes the last checkpoint and syncs it
        return void db.close().finally(() => process.exit(0))
    }
  })
}

try {
  serve(await openDirectory(dataDir))
  post({ kind: "ready" })
} catch (cause) {
  die(reasonFor(cause))
}
