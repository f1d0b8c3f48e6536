/**
 * Spills as files: one folder for each session, one file for each spill, and beside it where its lines are.
 *
 * Owns: writing, finding, reading. Does not own: names of files and what is swept (`SpillFolder`), quotas (`SpillRoom`).
 *
 * - F1. A spill is written beside its place, flushed to the disk, and then renamed into it: after a crash it is there whole or
 *   not at all, and what was left half-written is swept at the next start.
 * - F2. Folders are the owner's alone (0700), files too (0600); no link is followed, and no part of a path comes from outside.
 * - F3. Memory does not grow with the size of a spill.
 */
import type { SessionId, SpillId } from "@turnstep/core/Ids"
import * as SpillStore from "@turnstep/core/SpillStore"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as fs from "node:fs/promises"
import * as PrivateFolder from "../PrivateFolder.ts"
import * as ProtectedPath from "../ProtectedPath.ts"
import * as SpillFolder from "./SpillFolder.ts"
import * as SpillRoom from "./SpillRoom.ts"

export interface Options {
  /** The folder; it is made when it is not there. */
  readonly folder: string
  /** Bytes all spills together may have; default 10 GiB. */
  readonly quota?: number | undefined
  /** Bytes the spills of one session may have; default half of `quota`. */
  readonly sessionQuota?: number | undefined
  /** How long a spill is kept after it was written; default seven days. */
  readonly keep?: Duration.Input | undefined
}

/** Bytes all spills may have unless it is said otherwise. */
export const defaultQuota = 10 * 1024 * 1024 * 1024

/** How long spills are kept unless it is said otherwise. */
export const defaultKeep = Duration.days(7)

const sweepEvery = Duration.hours(1)

/** The folder cannot be made, written or trusted. */
export class SpillFolderUnusable extends Schema.TaggedError<SpillFolderUnusable>()("SpillFolderUnusable", {
  folder: Schema.String,
  problem: Schema.String
}) {
  override get message(): string {
    return `The folder for large outputs, ${this.folder}, cannot be used: ${this.problem}`
  }
}

/** The store in a folder; its old files are swept when it is built, and every hour. */
export const layer = (options: Options): Layer.Layer<never, SpillFolderUnusable> =>
  Layer.effect(
    SpillStore.SpillStore,
    Effect.gen(function* () {
      yield* ProtectedPath.protect(options.folder)
      const folder = SpillFolder.make(options.folder)
      const quota = options.quota ?? defaultQuota
      const room = SpillRoom.make({ quota, sessionQuota: options.sessionQuota ?? Math.ceil(quota / 2) })
      const keep = Duration.fromInputUnsafe(options.keep ?? defaultKeep)
      const sweep = Effect.gen(function* () {
        const before = (yield* Clock.currentTimeMillis) - Duration.toMillis(keep)
        const measured = room.measure()
        measured(yield* Effect.promise(() => folder.sweep(before)))
      })
      yield* Effect.try({
        try: () => folder.prepare(),
        catch: (error) => new SpillFolderUnusable({ folder: options.folder, problem: PrivateFolder.wordsOf(error) })
      })
      yield* sweep
      yield* sweep.pipe(
        Effect.catchDefect((defect) => Effect.logWarning("old spills could not be swept", defect)),
        Effect.delay(sweepEvery),
        Effect.forever,
        Effect.forkScoped
      )
      const random = yield* SecureRandom.SecureRandom
      return make(folder, room, random.uuidV7())
    })
  ).pipe(Layer.provide(SecureRandom.layerWebCrypto))

const make = (
  folder: SpillFolder.SpillFolder,
  room: SpillRoom.SpillRoom,
  newName: Effect.Effect<string>
): SpillStore.Service => {
  const write: SpillStore.Service["write"] = (sessionId, content) => {
    const home = folder.homeOf(sessionId)
    return Effect.scoped(
      Effect.gen(function* () {
        const reserved = yield* Effect.acquireRelease(
          Effect.sync(() => room.reserve(home)),
          (reserved) => Effect.sync(reserved.release)
        )
        const temporary = yield* temporaryFile(folder.temporary(yield* newName))
        const measured = SpillStore.meter()
        yield* Stream.runForEach(content, (piece) => {
          const refused = reserved.take(piece.length)
          if (refused !== undefined) return Effect.fail(refused)
          measured.add(piece)
          return disk(() => temporary.writeFile(piece))
        })
        yield* disk(() => temporary.sync())
        const kept = measured.end()
        yield* disk(() => folder.settle(home, kept, temporary.path)).pipe(Effect.uninterruptible)
        reserved.keep(kept.id)
        return { id: kept.id, bytes: kept.bytes, lines: kept.lines }
      })
    )
  }
  const find: SpillStore.Service["find"] = (sessionId, spill) =>
    SpillStore.isSpillId(spill)
      ? Effect.mapError(
          Effect.tryPromise(() => folder.find(folder.homeOf(sessionId), spill)),
          () => SpillStore.notFound(spill)
        )
      : Effect.fail(SpillStore.notFound(spill))
  const opened = (sessionId: SessionId, spill: SpillId) =>
    Effect.acquireRelease(
      Effect.tryPromise({
        try: () => folder.open(folder.homeOf(sessionId), spill),
        catch: () => SpillStore.notFound(spill)
      }),
      (file) => Effect.promise(() => file.close())
    )
  const scan: SpillStore.Service["scan"] = (sessionId, spill, start, look) =>
    Effect.scoped(
      Effect.gen(function* () {
        const file = yield* opened(sessionId, spill)
        const space = Buffer.allocUnsafe(SpillStore.scanSize)
        for (let from = start; ; from += SpillStore.scanSize) {
          const filled = yield* Effect.promise(() => fill(file, space, from))
          if (filled === 0 || !(yield* look(space.subarray(0, filled))) || filled < space.length) return
        }
      })
    )
  const read: SpillStore.Service["read"] = (sessionId, spill, range) =>
    Stream.unwrap(
      Effect.gen(function* () {
        const { bytes } = yield* find(sessionId, spill)
        const file = yield* opened(sessionId, spill)
        const blocks = SpillStore.blocks({ start: range?.start ?? 0, end: Math.min(range?.end ?? bytes, bytes) })
        return Stream.unfold(blocks, (left) =>
          Effect.suspend(() => {
            const next = left.next()
            if (next.done === true) return Effect.undefined
            return Effect.map(
              Effect.promise(() => block(file, next.value)),
              (piece) => [piece, left] as const
            )
          })
        )
      })
    )
  return { write, find, read, scan }
}

/** A file of its own, closed and gone when its scope closes, unless it was renamed. */
const temporaryFile = (path: string) =>
  Effect.acquireRelease(
    Effect.map(
      disk(() => fs.open(path, SpillFolder.newFile, 0o600)),
      (handle) => ({
        path,
        writeFile: (bytes: Uint8Array) => handle.writeFile(bytes),
        sync: () => handle.sync(),
        handle
      })
    ),
    ({ handle }) =>
      Effect.promise(async () => {
        await handle.close()
        await fs.rm(path, { force: true })
      })
  )

/** The bytes of a range, all of them. */
const block = async (file: fs.FileHandle, { end, start }: SpillStore.Range): Promise<Uint8Array> => {
  const bytes = Buffer.allocUnsafe(end - start)
  if ((await fill(file, bytes, start)) < bytes.length) throw new Error("a spill is shorter than it was")
  return bytes
}

/** Reads until the space is full or the file ends; gives the bytes read. */
const fill = async (file: fs.FileHandle, space: Buffer, start: number): Promise<number> => {
  let filled = 0
  while (filled < space.length) {
    const { bytesRead } = await file.read(space, filled, space.length - filled, start + filled)
    if (bytesRead === 0) break
    filled += bytesRead
  }
  return filled
}

/** What the disk refuses is told without a path (F2). */
const disk = <A>(work: () => Promise<A>): Effect.Effect<A, SpillStore.SpillRefused> =>
  Effect.tryPromise({
    try: work,
    catch: (error) => {
      const code = error instanceof Error && "code" in error ? String(error.code) : "unknown"
      return fullCodes.has(code)
        ? new SpillStore.SpillRefused({ reason: "disk-full", message: "There is no room left on the disk to keep it." })
        : new SpillStore.SpillRefused({ reason: "unavailable", message: `The disk refuses to keep it (${code}).` })
    }
  })

const fullCodes: ReadonlySet<string> = new Set(["ENOSPC", "EDQUOT", "EFBIG"])
