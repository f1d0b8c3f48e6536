/**
 * Many virtual connections on the one session PGlite has.
 *
 * Owns: whose turn it is, and what a connection's end must undo. Does not own:
 * the session itself (`Backend`, in the worker) or the way bytes travel (`Outlet`).
 *
 * - H1. A batch is everything up to a `Sync` or `Query`; batches never interleave.
 * - H2. While a transaction is open its connection owns the session; all others wait,
 *   first come first served.
 * - H3. A connection that ends inside its transaction rolls it back at once, and
 *   takes its queued batches and its prepared statements with it.
 * - H4. Every connection hears every notification, so `UNLISTEN` of one must not
 *   silence another: it is carried out as a repeated `LISTEN`.
 * - H5. After a FATAL or PANIC, or an answer without `ReadyForQuery`, the session is
 *   dead: PGlite would spin forever on the next batch, so none is sent.
 * - H6. An owner that is silent for two beats loses its transaction, as
 *   `idle_in_transaction_session_timeout` would have it: nobody waits forever.
 *
 * Session state (`SET`, temporary tables, session advisory locks) is shared by
 * all connections. `Flush` without `Sync` is not supported.
 */
import * as Frames from "./PgliteFrames.ts"

/** Runs one batch to its end and returns the whole answer. */
export type Backend = (batch: Uint8Array) => Uint8Array<ArrayBuffer>

export interface Outlet {
  readonly send: (id: number, bytes: Uint8Array<ArrayBuffer>) => void
  /** The connection is over; nothing is sent to it after this. */
  readonly end: (id: number) => void
  /** The session is dead (H5); the hub answers nobody any more. */
  readonly died: () => void
  /** Runs a task after the messages that have already arrived. */
  readonly defer: (task: () => void) => void
}

export interface PgliteHub {
  readonly open: (id: number) => void
  readonly write: (id: number, bytes: Uint8Array) => void
  readonly close: (id: number) => void
  readonly beat: () => void
}

interface Connection {
  readonly id: number
  readonly statements: Set<string>
  started: boolean
  unread: Uint8Array
  silentBeats: number
}

interface Job {
  readonly from: Connection
  readonly batch: Uint8Array
}

/** `greeting` is the session's answer to a startup packet; every connection gets it with a key of its own. */
export const make = (backend: Backend, greeting: Uint8Array, outlet: Outlet): PgliteHub => {
  const connections = new Map<number, Connection>()
  const queue: Array<Job> = []
  let owner: Connection | undefined
  let deferred = false
  let dead = false

  const open = (id: number): void => {
    connections.set(id, { id, statements: new Set(), started: false, unread: empty, silentBeats: 0 })
  }

  const write = (id: number, bytes: Uint8Array): void => {
    const connection = connections.get(id)
    if (connection === undefined) return
    connection.unread = connection.unread.length === 0 ? bytes : Frames.concat([connection.unread, bytes])
    if (!connection.started && !start(connection)) return
    const { batch, terminated } = takeBatch(connection)
    if (batch !== undefined) queue.push({ from: connection, batch })
    pump()
    if (terminated) end(connection)
  }

  const start = (connection: Connection): boolean => {
    const packet = connection.unread
    const size = packet.length < 8 ? undefined : Frames.int32(packet, 0)
    if (size === undefined || packet.length < size) return false
    connection.unread = packet.subarray(size)
    switch (Frames.int32(packet, 4)) {
      case Frames.Startup.v3:
        connection.started = true
        outlet.send(connection.id, greetingFor(greeting, connection.id))
        return true
      case Frames.Startup.cancel:
        cancel(Frames.int32(packet, 8))
        end(connection)
        return false
      case Frames.Startup.ssl:
      case Frames.Startup.gss:
        outlet.send(connection.id, Uint8Array.of(0x4e)) // "N": not here, go on in the clear
        return false
      default:
        end(connection)
        return false
    }
  }

  // A statement that runs cannot be stopped, one that waits can: the caller need not sit out another's transaction.
  const cancel = (id: number): void => {
    const at = queue.findIndex((job) => job.from.id === id && job.from !== owner)
    if (at < 0) return
    queue.splice(at, 1)
    outlet.send(id, Frames.concat([Frames.error("ERROR", "57014", "canceling statement due to user request"), idle]))
  }

  const pump = (): void => {
    const at = deferred || dead ? -1 : nextJob()
    const [job] = at < 0 ? [] : queue.splice(at, 1)
    if (job === undefined) return
    run(job)
    if (dead || nextJob() < 0) return
    // One batch per task: cancels and closes that arrived meanwhile are read before the next one starts.
    deferred = true
    outlet.defer(() => {
      deferred = false
      pump()
    })
  }

  const nextJob = (): number =>
    owner === undefined && queue.length > 0 ? 0 : queue.findIndex((job) => job.from === owner)

  const run = (job: Job): void => {
    const { notifications, own, status } = readAnswer(backend(job.batch))
    if (own.length > 0) outlet.send(job.from.id, own)
    for (const notification of notifications) {
      for (const id of connections.keys()) outlet.send(id, notification.slice())
    }
    if (status === undefined) return die()
    owner = status === Frames.IDLE ? undefined : job.from
    job.from.silentBeats = 0
  }

  // H3
  const close = (id: number): void => {
    const connection = connections.get(id)
    if (connection === undefined) return
    connections.delete(id)
    for (let at = queue.length - 1; at >= 0; at--) {
      if (queue[at]?.from === connection) queue.splice(at, 1)
    }
    if (owner === connection) {
      owner = undefined
      undo(Frames.query("ROLLBACK"))
    }
    if (connection.statements.size > 0) undo(Frames.closeStatements(connection.statements))
    pump()
  }

  const undo = (batch: Uint8Array): void => {
    if (!dead && readAnswer(backend(batch)).status === undefined) die()
  }

  const end = (connection: Connection): void => {
    close(connection.id)
    outlet.end(connection.id)
  }

  const die = (): void => {
    dead = true
    outlet.died()
  }

  // H6
  const beat = (): void => {
    if (owner === undefined || owner.silentBeats++ === 0) return
    const message = "terminating connection due to idle-in-transaction timeout"
    outlet.send(owner.id, Frames.error("FATAL", "25P03", message))
    end(owner)
  }

  return { open, write, close, beat }
}

const empty = new Uint8Array(0)
const idle = Frames.ready(Frames.IDLE)

/** Removes and returns what can be run, noting the statements it prepares and blunting `UNLISTEN` (H4). */
const takeBatch = (
  connection: Connection
): { readonly batch: Uint8Array | undefined; readonly terminated: boolean } => {
  const bytes = connection.unread
  let at = 0
  let end = 0
  let terminated = false
  for (let size = Frames.frameSize(bytes, 0); size !== undefined; size = Frames.frameSize(bytes, at)) {
    const type = bytes[at]
    if (type === Frames.Frontend.Terminate) {
      terminated = true
      break
    }
    if (type === Frames.Frontend.Parse) readParse(connection, bytes, at + 5)
    else if (type === Frames.Frontend.Query) keepListening(bytes, at + 5)
    else if (type === Frames.Frontend.Close && bytes[at + 5] === STATEMENT) {
      connection.statements.delete(Frames.text(bytes, at + 6))
    }
    at += size
    if (type === Frames.Frontend.Sync || type === Frames.Frontend.Query) end = at
  }
  connection.unread = bytes.subarray(end)
  return { batch: end === 0 ? undefined : bytes.subarray(0, end), terminated }
}

const STATEMENT = 0x53

const readParse = (connection: Connection, bytes: Uint8Array, at: number): void => {
  const nameEnd = bytes.indexOf(0, at)
  if (nameEnd > at) connection.statements.add(Frames.text(bytes, at))
  keepListening(bytes, nameEnd + 1)
}

/** Turns `UNLISTEN channel` into `  LISTEN channel`: the same length, and it changes nothing (H4). */
const keepListening = (bytes: Uint8Array, at: number): void => {
  if (UNLISTEN.some((letter, index) => ((bytes[at + index] ?? 0) & ~0x20) !== letter)) return
  bytes.fill(0x20, at, at + 2)
}

const UNLISTEN = Array.from("UNLISTEN", (letter) => letter.charCodeAt(0))

interface Answer {
  readonly own: Uint8Array<ArrayBuffer>
  readonly notifications: ReadonlyArray<Uint8Array<ArrayBuffer>>
  /** Of the last frame; `undefined` when the session is dead (H5). */
  readonly status: number | undefined
}

const readAnswer = (bytes: Uint8Array<ArrayBuffer>): Answer => {
  const notifications: Array<Uint8Array<ArrayBuffer>> = []
  const parts: Array<Uint8Array> = []
  let status: number | undefined
  let dead = false
  let from = 0
  let at = 0
  for (let size = Frames.frameSize(bytes, 0); size !== undefined; size = Frames.frameSize(bytes, at)) {
    status = bytes[at] === Frames.Backend.ReadyForQuery ? bytes[at + 5] : undefined
    if (bytes[at] === Frames.Backend.Error && Frames.isFatal(bytes, at)) dead = true
    if (bytes[at] === Frames.Backend.Notification) {
      parts.push(bytes.subarray(from, at))
      notifications.push(bytes.slice(at, at + size))
      from = at + size
    }
    at += size
  }
  const own = notifications.length === 0 ? bytes : Frames.concat([...parts, bytes.subarray(from)])
  return { own, notifications, status: dead ? undefined : status }
}

const greetingFor = (greeting: Uint8Array, id: number): Uint8Array<ArrayBuffer> => {
  const parts: Array<Uint8Array> = []
  let at = 0
  for (let size = Frames.frameSize(greeting, 0); size !== undefined; size = Frames.frameSize(greeting, at)) {
    const isKey = greeting[at] === Frames.Backend.BackendKeyData
    parts.push(isKey ? Frames.keyData(id, 0) : greeting.subarray(at, at + size))
    at += size
  }
  return Frames.concat(parts)
}
