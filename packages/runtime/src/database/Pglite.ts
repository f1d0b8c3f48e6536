/**
 * The embedded database: PGlite in a thread of its own, behind the same client as a PostgreSQL server.
 *
 * Owns: the order in which lock, thread and pool are opened and closed. Does not
 * own: the schema (`sql/`).
 *
 * One session serves all connections: transactions run one after the other, so
 * 40001 never happens, and waiting inside a transaction for another fiber's SQL
 * ends that transaction after 10 to 20 seconds. A running statement cannot be
 * cancelled, and its whole result passes through memory, also of a stream.
 * A database that dies (a full disk) stays dead, with connection errors, until its layer is built anew.
 */
import * as PgClient from "@effect/sql-pg/PgClient"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import type * as SqlClient from "effect/sql/SqlClient"
import type * as SqlError from "effect/sql/SqlError"
import * as fs from "node:fs"
import * as path from "node:path"
import * as ProtectedPath from "../ProtectedPath.ts"
import type { DataDirLocked, DataDirUnusable } from "./DirectoryLock.ts"
import * as DirectoryLock from "./DirectoryLock.ts"
import type { Boot } from "./PgliteMessage.ts"
import * as PgliteThread from "./PgliteThread.ts"

export interface Options {
  /** Created (mode 0700) where missing. */
  readonly dataDir: string
  /** Virtual connections; a listener keeps one for itself. Default 16. */
  readonly maxConnections?: number | undefined
  /**
   * Whether a commit waits for the disk. Without it a killed process still loses
   * nothing, but a power cut may: for tests. Default true.
   */
  readonly sync?: boolean | undefined
}

/** What every database layer provides. */
export type Services = PgClient.PgClient | SqlClient.SqlClient

/**
 * A durable database in `dataDir`: an acknowledged commit is on the disk.
 * The first start creates it, which takes a few seconds.
 */
export const layer = (options: Options): Layer.Layer<Services, DataDirLocked | DataDirUnusable | SqlError.SqlError> => {
  const dataDir = path.resolve(options.dataDir)
  return PgClient.layerFrom(
    Effect.gen(function* () {
      yield* ProtectedPath.protect(dataDir)
      yield* DirectoryLock.acquire(dataDir)
      if (!fs.existsSync(path.join(dataDir, "pg"))) yield* Effect.logInfo(`Creating a database in ${dataDir}`)
      const client = yield* connect({ dataDir, sync: options.sync ?? true }, options.maxConnections)
      yield* client.unsafe(endLeases)
      return client
    })
  )
}

/**
 * Whoever has a lease in a folder whose lock was free is dead: its sessions are free at once, not when the lease is over.
 * A database that was only just made has no such table yet.
 */
const endLeases = `do $$
  declare
    leases regclass;
  begin
    for leases in
      select c.oid from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'incarnation'
      where c.relname = 'runners' and c.relkind = 'r'
    loop
      execute format('delete from %s', leases);
    end loop;
  end $$`

// The last opened is the first closed: pool, thread, and outside of both the lock.
const connect = Effect.fnUntraced(function* (boot: Boot, maxConnections = 16) {
  const thread = yield* PgliteThread.start(boot)
  yield* thread.beat.pipe(Effect.repeat(Schedule.spaced("10 seconds")), Effect.forkScoped)
  const client = yield* PgClient.make({
    stream: thread.connect,
    username: "postgres",
    database: "postgres",
    applicationName: "turnstep",
    // The largest body that is taken has 16 MiB, and may grow when it is stored.
    maxMessageSize: 64 * 1024 * 1024,
    maxConnections
  })
  // Its connections are virtual: who uses it must know that there is one session behind them.
  return Object.assign(client, { driver: "pglite" })
})
