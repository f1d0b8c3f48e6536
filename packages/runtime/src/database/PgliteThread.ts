/**
 * The database thread as seen from the main thread.
 *
 * Owns: starting and stopping the thread, and one `Duplex` per connection to it.
 * Does not own: the pool that opens them (`Pglite`).
 *
 * - T1. A thread that dies takes every open connection with it, with the reason;
 *   a later connection fails at once. No caller waits for a dead thread.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import { Duplex } from "node:stream"
import { Worker } from "node:worker_threads"
import { DataDirUnusable } from "./DirectoryLock.ts"
import type { Boot, FromThread, ToThread } from "./PgliteMessage.ts"

export interface PgliteThread {
  /** A connection speaking PostgreSQL's wire protocol. */
  readonly connect: () => Duplex
  /** Lets the hub notice a transaction that has gone silent; returns when it has looked. */
  readonly beat: Effect.Effect<void>
}

/** Starts PGlite; stops it, with a last checkpoint, when the scope closes. */
export const start: (options: Boot) => Effect.Effect<PgliteThread, DataDirUnusable, Scope.Scope> = Effect.fn(
  "PgliteThread.start"
)(function* (options: Boot) {
  const thread = yield* Effect.acquireRelease(boot(options), stop, { interruptible: true })
  return { connect: thread.connect, beat: thread.beat }
})

interface Running extends PgliteThread {
  readonly worker: Worker
  readonly requestStop: () => void
}

// `.ts` when run from source, `.js` when built: neither tsc nor Node rewrites a URL.
const entry = new URL(`./PgliteWorker${import.meta.url.endsWith(".ts") ? ".ts" : ".js"}`, import.meta.url)

const boot = (options: Boot): Effect.Effect<Running, DataDirUnusable> =>
  Effect.callback((resume) => {
    // No flags of the parent: its loaders and conditions are not for plain files.
    const worker = new Worker(entry, { workerData: options, execArgv: [], name: "pglite" })
    const connections = new Map<number, Connection>()
    let lastId = 0
    let death: Error | undefined
    let onBeat = (): void => {}

    const post = (message: ToThread, transfer: ReadonlyArray<ArrayBuffer> = []): void => {
      if (death === undefined) worker.postMessage(message, transfer)
    }
    const requestStop = (): void => post({ kind: "stop" })

    // T1
    const die = (detail: string): void => {
      if (death !== undefined) return
      death = new Error(`PGlite stopped: ${detail}`)
      for (const connection of connections.values()) connection.destroy(death)
      resume(Effect.fail(new DataDirUnusable({ dir: options.dataDir, detail })))
    }

    const connect = (): Duplex => {
      const connection: Connection = new Connection(++lastId, post, () => connections.delete(connection.id))
      if (death !== undefined) return connection.destroy(death)
      connections.set(connection.id, connection)
      post({ kind: "open", id: connection.id })
      return connection
    }

    const beat = Effect.callback<void>((resume) => {
      onBeat = () => resume(Effect.void)
      post({ kind: "beat" })
    })

    worker.on("message", (message: FromThread) => {
      switch (message.kind) {
        case "data":
          return void connections.get(message.id)?.push(message.bytes)
        case "end":
          return void connections.get(message.id)?.destroy()
        case "beat":
          return onBeat()
        case "ready":
          return resume(Effect.succeed({ connect, beat, worker, requestStop }))
        case "dead":
          return die(message.detail)
      }
    })
    worker.on("error", (cause) => die(cause instanceof Error ? cause.message : String(cause)))
    worker.on("exit", (code) => die(`its thread ended with code ${code}`))
    return Effect.promise(() => worker.terminate())
  })

const stop = ({ worker, requestStop }: Running): Effect.Effect<void> =>
  Effect.callback<void>((resume) => {
    if (worker.threadId === -1) return resume(Effect.void) // it has ended already
    worker.once("exit", () => resume(Effect.void))
    requestStop()
  }).pipe(
    Effect.interruptible,
    Effect.timeoutOption("30 seconds"),
    // What is acknowledged is on the disk already: the next start replays it.
    Effect.flatMap(Option.match({ onNone: () => Effect.promise(() => worker.terminate()), onSome: () => Effect.void }))
  )

class Connection extends Duplex {
  readonly id: number
  private readonly post: (message: ToThread, transfer?: ReadonlyArray<ArrayBuffer>) => void
  private readonly forget: () => void

  constructor(id: number, post: Connection["post"], forget: () => void) {
    super()
    this.id = id
    this.post = post
    this.forget = forget
  }

  override _read(): void {}

  override _write(chunk: Uint8Array, _encoding: string, done: (error?: Error | null) => void): void {
    // A copy, because Node's buffers share their memory with others.
    const bytes = new Uint8Array(chunk)
    this.post({ kind: "data", id: this.id, bytes }, [bytes.buffer])
    done()
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.forget()
    this.post({ kind: "close", id: this.id })
    done(error)
  }
}
