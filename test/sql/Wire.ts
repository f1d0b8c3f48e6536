/** A connection to a PostgreSQL server that a test can cut, before a question is sent or before its answer arrives. */
import * as PgClient from "@effect/sql-pg/PgClient"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import type { SqlClient } from "effect/sql/SqlClient"
import { connect, type NetConnectOpts, type Socket } from "node:net"
import { Duplex } from "node:stream"

export interface Wire {
  /** One connection at a time, over this wire. */
  readonly layer: Layer.Layer<SqlClient>
  /** Lets `pass` questions through, and cuts the wire at the next one, or when its answer is there, which then is lost. */
  readonly cutAt: (what: "question" | "answer", pass: number) => Effect.Effect<void>
  /** Completes when the wire was cut. */
  readonly isCut: Effect.Effect<void>
  /** Lets the next connection through. */
  readonly mend: Effect.Effect<void>
}

export const make = (url: Redacted.Redacted): Effect.Effect<Wire> =>
  Effect.gen(function* () {
    const address = addressOf(new URL(Redacted.value(url)))
    const isCut = yield* Latch.make(false)
    const isWhole = yield* Latch.make(true)
    const cut: Cut = { at: undefined, pass: 0 }
    const runPromise = Effect.runPromiseWith(yield* Effect.context<never>())
    const stream = () => {
      const ends = new Ends(cut, () => {
        isWhole.closeUnsafe()
        isCut.openUnsafe()
      })
      // A stream is asked for by code that is not an effect.
      void runPromise(isWhole.await).then(() => ends.join(connect(address)))
      return ends
    }
    return {
      layer: PgClient.layer({ url, stream, maxConnections: 1 }).pipe(Layer.orDie),
      cutAt: (what, pass) => Effect.sync(() => void Object.assign(cut, { at: what, pass })),
      isCut: isCut.await,
      mend: Effect.andThen(isCut.close, isWhole.open)
    }
  })

interface Cut {
  at: "question" | "answer" | undefined
  /** Questions to let through; below 0 when the one to cut at has been asked. */
  pass: number
}

/** The client's end of a connection. */
class Ends extends Duplex {
  readonly #cut: Cut
  readonly #onCut: () => void
  #socket: Socket | undefined
  #waiting: ReadonlyArray<() => void> = []

  constructor(cut: Cut, onCut: () => void) {
    super()
    this.#cut = cut
    this.#onCut = onCut
  }

  join(socket: Socket): void {
    this.#socket = socket
    socket.on("data", (chunk) => (this.#cut.at === "answer" && this.#cut.pass < 0 ? this.#sever() : this.push(chunk)))
    socket.on("close", () => this.destroy())
    socket.on("error", (error) => this.destroy(error))
    for (const write of this.#waiting) write()
    this.#waiting = []
  }

  override _read(): void {}

  override _write(chunk: Buffer, _: BufferEncoding, done: () => void): void {
    if (this.#socket === undefined) {
      this.#waiting = [...this.#waiting, () => this._write(chunk, _, done)]
      return
    }
    if (this.#cut.at !== undefined && this.#cut.pass-- === 0 && this.#cut.at === "question") return this.#sever()
    this.#socket.write(chunk, () => done())
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#socket?.destroy()
    done(error)
  }

  #sever(): void {
    this.#cut.at = undefined
    this.#onCut()
    this.destroy(new Error("the wire is cut"))
  }
}

const addressOf = (url: URL): NetConnectOpts => {
  const directory = url.searchParams.get("host")
  return directory === null
    ? { host: url.hostname, port: Number(url.port) }
    : { path: `${directory}/.s.PGSQL.${url.port === "" ? "5432" : url.port}` }
}
